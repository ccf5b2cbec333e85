//! Who holds a command to its end: a supervisor of its own, or the keeper of its thread.

#[cfg(target_os = "linux")]
use std::sync::Arc;

#[cfg(target_os = "linux")]
use crate::keepers;
use crate::launcher::Reaper;
use crate::ledger::Entry;

/// By whom a command is held, for those who see that it ends.
#[derive(Debug, Clone)]
pub(crate) enum Hold {
    /// A supervisor of its own.
    Supervisor {
        supervisor: Reaper,
        entry: Option<Entry>,
        /// Why it is not in the ledger, where it should be.
        unlisted: Option<String>,
    },
    /// The keeper of its thread, and its number there.
    #[cfg(target_os = "linux")]
    Keeper(Arc<keepers::Keeper>, u64),
}

impl Hold {
    /// Continues a supervisor that somebody has stopped. A keeper sees to that itself.
    pub(crate) fn wake(&self) {
        match self {
            Self::Supervisor { supervisor, .. } => supervisor.wake(),
            #[cfg(target_os = "linux")]
            Self::Keeper(..) => {}
        }
    }

    /// Ends what is left where the supervisor cannot.
    pub(crate) async fn end(&self) {
        match self {
            Self::Supervisor { entry: Some(entry), .. } => entry.end().await,
            Self::Supervisor { entry: None, .. } => {}
            #[cfg(target_os = "linux")]
            Self::Keeper(keeper, id) => keeper.kill(*id),
        }
    }

    /// Whether there is anything beyond asking the supervisor.
    pub(crate) fn can_end(&self) -> bool {
        !matches!(self, Self::Supervisor { entry: None, .. })
    }

    /// Takes the exit of a supervisor that has ended.
    pub(crate) fn reap(&mut self) {
        match self {
            Self::Supervisor { supervisor, .. } => supervisor.reap(),
            #[cfg(target_os = "linux")]
            Self::Keeper(..) => {}
        }
    }
}
