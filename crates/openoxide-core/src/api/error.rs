//! The one error type of this crate. What a turn runs into is not an error here but the turn's result; what a person
//! denies is an outcome.

use openoxide_sandbox::{OUT_OF_DESCRIPTORS, is_out_of_descriptors};
use std::path::PathBuf;

use openoxide_sandbox::SandboxMode;

use crate::{ApprovalId, Exceeded, Holder, ThreadId};

/// Why something asked of core was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// No thread of this id is in memory.
    #[error("thread {id} is not known")]
    ThreadNotFound {
        /// The id asked for.
        id: ThreadId,
    },
    /// Somebody else uses the thread at this moment.
    #[error("thread {id} is in use by {}", holder.as_ref().map_or_else(|| "another process".to_owned(), ToString::to_string))]
    ThreadBusy {
        /// The thread.
        id: ThreadId,
        /// Who, where it is known.
        holder: Option<Holder>,
    },
    /// The thread was put aside.
    #[error("thread {id} is archived")]
    ThreadArchived {
        /// The thread.
        id: ThreadId,
    },
    /// The thread was kept in memory alone and is gone.
    #[error("thread {id} has expired: it was kept in memory alone and nobody used it, or its place was needed")]
    ThreadExpired {
        /// The thread.
        id: ThreadId,
    },
    /// More has to be read to load the thread than may be.
    #[error("thread {id} takes {bytes} bytes, and at most {max} are read (history.max_load_bytes)")]
    ThreadTooLarge {
        /// The thread.
        id: ThreadId,
        /// Bytes of its rollout.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The first line of the rollout cannot be read.
    #[error(
        "the first line of the rollout of thread {id} is damaged, so that its directory, limits and owner are not known"
    )]
    ThreadDamaged {
        /// The thread.
        id: ThreadId,
    },
    /// The thread was written by a later version of this program.
    #[error("thread {id} was written in format {format}; this program reads up to {known}")]
    ThreadTooNew {
        /// The thread.
        id: ThreadId,
        /// Its format.
        format: u32,
        /// The latest that is understood.
        known: u32,
    },
    /// The turn is none of the thread's.
    #[error("thread {id} has no ended turn {turn_id}")]
    TurnNotFound {
        /// The thread.
        id: ThreadId,
        /// The turn asked for.
        turn_id: crate::TurnId,
    },
    /// The thread was shut down.
    #[error("thread {id} is closed")]
    ThreadClosed {
        /// The thread.
        id: ThreadId,
    },
    /// The question does not exist, or is settled already.
    #[error("approval {id} is not pending")]
    ApprovalNotPending {
        /// The question named.
        id: ApprovalId,
    },
    /// A prompt without a visible character.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A prompt over [`crate::Limits::max_prompt_bytes`].
    #[error("the prompt has {bytes} bytes; at most {max} are allowed")]
    PromptTooLong {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// As many turns or bytes as may wait on one thread do.
    #[error("thread {id} has {waiting} prompts waiting, which is all it may queue")]
    QueueFull {
        /// The thread.
        id: ThreadId,
        /// How many prompts wait.
        waiting: usize,
    },
    /// [`crate::Limits::max_threads`] threads are in memory, or an owner's share of them, and none of them is idle.
    #[error("as many threads are open as {exceeded}")]
    TooManyThreads {
        /// Which bound it is.
        exceeded: Exceeded,
    },
    /// [`crate::Limits::max_open_turns`] turns run, or an owner's share of them.
    #[error("as many turns run at this moment as {exceeded}")]
    TooManyTurns {
        /// Which bound it is.
        exceeded: Exceeded,
    },
    /// [`crate::Limits::max_open_prompt_bytes`], or an owner's share of it, are held by prompts.
    #[error("prompts of turns that wait or run hold as many bytes as {exceeded}")]
    TooManyPromptBytes {
        /// Which bound it is.
        exceeded: Exceeded,
    },
    /// The directory of a new thread does not exist or cannot be reached.
    #[error("cwd {} cannot be used: {source}", path.display())]
    CwdUnusable {
        /// The directory asked for.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The directory of a new thread is something else.
    #[error("cwd {} is not a directory", path.display())]
    CwdNotADirectory {
        /// The path asked for.
        path: PathBuf,
    },
    /// The operator allows no thread here.
    #[error("cwd {} is not allowed by {by}; allowed: {allowed}, and what lies below", path.display())]
    CwdNotAllowed {
        /// The directory asked for.
        path: PathBuf,
        /// Directories that are allowed.
        allowed: String,
        /// Who says so.
        by: String,
    },
    /// The server keeps its keys and threads there, or a confined thread asks for the user's credentials.
    #[error("cwd {} is not allowed: it holds credentials, or belongs to the agent itself", path.display())]
    CwdHidden {
        /// The directory asked for.
        path: PathBuf,
    },
    /// A thread's directory is not the one it was.
    #[error("the thread's directory cannot be used: {source}")]
    DirectoryChanged {
        /// What it is instead.
        source: openoxide_sandbox::WorkspaceError,
    },
    /// The directory for temporary files of a thread's commands cannot be had.
    #[error("the directory for temporary files {} cannot be used: {source}", path.display())]
    Temporary {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        source: std::io::Error,
    },
    /// More than the operator allows.
    #[error("{what} `{asked}` is not allowed by {by}; allowed: {allowed}")]
    BeyondCeiling {
        /// What kind of thing was asked for.
        what: &'static str,
        /// The value.
        asked: &'static str,
        /// The values that are allowed.
        allowed: String,
        /// Who says so.
        by: String,
    },
    /// It would reach the network of this machine.
    #[error("{what} would reach the network of this machine, and {why}")]
    HostNetworkRefused {
        /// What would.
        what: &'static str,
        /// Why it may not, and what to do.
        why: String,
    },
    /// The operator's limits leave nothing.
    #[error("{by} leaves no {what} that is allowed")]
    NothingAllowed {
        /// What kind of thing.
        what: &'static str,
        /// The last source that narrowed it.
        by: String,
    },
    /// No model is named.
    #[error("the model name is empty")]
    EmptyModel,
    /// A profile that a call names is not there, or is not a call's to choose.
    #[error("profile {name:?} cannot be chosen: {reason}")]
    ProfileUnusable {
        /// As it was named.
        name: String,
        /// What is wrong, and what there is.
        reason: String,
    },
    /// The sandbox mode cannot be enforced here, and a mode that is not enforced is not accepted.
    #[error("sandbox mode `{}` is refused: {reason}", mode.as_str())]
    SandboxRefused {
        /// The mode asked for.
        mode: SandboxMode,
        /// What was tried and what to do, from the sandbox.
        reason: String,
    },
    /// The rollout could not be written or read.
    #[error("the rollout of thread {id} cannot be used: {source}")]
    Rollout {
        /// The thread.
        id: ThreadId,
        /// What the system says.
        source: std::io::Error,
    },
    /// The rollouts of an owner take more than they may, and none of them can be deleted.
    #[error(
        "the threads of this caller take {used} bytes on disk, and {max} are allowed (history.max_bytes_per_principal)"
    )]
    HistoryFull {
        /// Bytes they take.
        used: u64,
        /// Bytes they may take.
        max: u64,
    },
    /// No turn of the thread, or not the one named, has changed anything.
    #[error("thread {id} has no such turn that changed files")]
    NothingToUndo {
        /// The thread.
        id: ThreadId,
    },
    /// Changes could not be taken back; none was.
    #[error("the changes of thread {id} were not taken back: {reason}")]
    Undo {
        /// The thread.
        id: ThreadId,
        /// What stood in the way.
        reason: String,
    },
    /// The threads cannot be listed.
    #[error("the threads cannot be listed: {source}")]
    Listing {
        /// What the system says.
        source: std::io::Error,
    },
    /// The program ends; see [`crate::ThreadManager::shutdown`].
    #[error("interrupted: the server is ending and takes nothing new")]
    Ending,
    /// A turn was submitted outside of a tokio runtime.
    #[error("no async runtime to run the turn on")]
    NoRuntime,
}

/// What kind of failure a [`CoreError`] is; a protocol maps it to its wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// What was asked is wrong; asking otherwise helps.
    Input,
    /// A policy says no.
    Denied,
    /// Something needed is not there now; asking later may help.
    Unavailable,
    /// A fault of this program.
    Internal,
}

impl CoreError {
    /// The kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            _ if is_out_of_descriptors(self) => ErrorKind::Unavailable,
            Self::ThreadNotFound { .. }
            | Self::ThreadArchived { .. }
            | Self::ThreadExpired { .. }
            | Self::ThreadClosed { .. }
            | Self::TurnNotFound { .. }
            | Self::NothingToUndo { .. }
            | Self::ApprovalNotPending { .. }
            | Self::EmptyPrompt
            | Self::PromptTooLong { .. }
            | Self::CwdUnusable { .. }
            | Self::CwdNotADirectory { .. }
            | Self::ProfileUnusable { .. }
            | Self::EmptyModel => ErrorKind::Input,
            Self::SandboxRefused { .. }
            | Self::CwdNotAllowed { .. }
            | Self::CwdHidden { .. }
            | Self::DirectoryChanged { .. }
            | Self::BeyondCeiling { .. }
            | Self::HostNetworkRefused { .. }
            | Self::NothingAllowed { .. } => ErrorKind::Denied,
            Self::ThreadBusy { .. }
            | Self::Temporary { .. }
            | Self::ThreadTooNew { .. }
            | Self::ThreadTooLarge { .. }
            | Self::ThreadDamaged { .. }
            | Self::Listing { .. }
            | Self::Undo { .. }
            | Self::QueueFull { .. }
            | Self::TooManyThreads { .. }
            | Self::TooManyTurns { .. }
            | Self::HistoryFull { .. }
            | Self::Ending
            | Self::TooManyPromptBytes { .. }
            | Self::Rollout { .. } => ErrorKind::Unavailable,
            Self::NoRuntime => ErrorKind::Internal,
        }
    }

    /// In a sentence for the model, without its end. Where no file can be opened it says so, and what helps.
    pub(crate) fn told(&self) -> String {
        if is_out_of_descriptors(self) { format!("{self}; {OUT_OF_DESCRIPTORS}") } else { self.to_string() }
    }

    /// What to do about it, where there is something to do.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            // Whatever could not be opened, there is nothing wrong with it.
            _ if is_out_of_descriptors(self) => OUT_OF_DESCRIPTORS,
            Self::ThreadNotFound { .. } => {
                "use the thread id of an earlier result, or start a new thread; `openoxide threads list` shows those that \
                 are kept"
            }
            Self::ThreadBusy { .. } => {
                "call again with wait_seconds to wait until it is free, or fork the thread: `openoxide threads fork ID`"
            }
            Self::ThreadArchived { .. } => "`openoxide threads archive --undo ID` takes it back",
            Self::ThreadExpired { .. } => {
                "start a new thread; with history.persistence = \"save-all\" threads are kept on disk"
            }
            Self::ThreadTooLarge { .. } => {
                "fork it from one of its turns, `openoxide threads fork ID --turn TURN`, or raise the limit"
            }
            Self::ThreadDamaged { .. } => "`openoxide threads fork ID` copies what can be read to a new thread",
            Self::ThreadTooNew { .. } => "use the version that wrote it, or a later one",
            Self::Undo { .. } => "fix what stands in the way, and try again",
            Self::TurnNotFound { .. } | Self::NothingToUndo { .. } => "`openoxide threads show ID` lists the turns",
            Self::ThreadClosed { .. } => "start a new thread",
            Self::ApprovalNotPending { .. } => "each question is settled once; it has been settled or its turn ended",
            Self::EmptyPrompt => "say what is to be done",
            Self::PromptTooLong { .. } => "put long material in a file and name the file in the prompt",
            Self::QueueFull { .. } => "wait for a turn of the thread to end, or interrupt it",
            Self::TooManyTurns { .. } | Self::TooManyPromptBytes { .. } => {
                "wait for one to end, and send the prompt again"
            }
            Self::HistoryFull { .. } => {
                "delete what is no longer needed (`openoxide threads delete ID`), or have the operator of this server allow \
                 more"
            }
            Self::TooManyThreads { .. } => "close a thread that is no longer needed",
            Self::CwdUnusable { .. } | Self::CwdNotADirectory { .. } => "name an existing directory",
            Self::CwdNotAllowed { .. } | Self::BeyondCeiling { .. } => {
                "ask for what is allowed, or have the operator of this server allow more"
            }
            Self::CwdHidden { .. } => "name a project's directory",
            Self::DirectoryChanged { .. } => {
                "put the directory back where it was, or go on in another: `openoxide threads fork ID --cwd DIR`"
            }
            Self::Temporary { .. } => "remove what stands there, or start the server with another TMPDIR",
            Self::NothingAllowed { .. } => "change one of the limits",
            Self::ProfileUnusable { .. } => {
                "leave the field out for the defaults, or name a profile that can be chosen"
            }
            Self::EmptyModel => "name a model, or leave the field out for the default",
            Self::SandboxRefused { .. } => "`openoxide doctor` tells what is missing and how to fix it",
            Self::Rollout { .. } | Self::Listing { .. } => {
                "check the free space and the permissions of the sessions directory"
            }
            Self::Ending => "send it again to a server that is started anew; what was kept is still there",
            Self::NoRuntime | Self::HostNetworkRefused { .. } => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_file_can_be_opened_nothing_is_said_of_the_one_that_was_meant() {
        let source = || std::io::Error::from_raw_os_error(24);
        let workspace = openoxide_sandbox::WorkspaceError::Unusable { path: "/w".into(), source: source() };
        let errors = [
            CoreError::CwdUnusable { path: "/w".into(), source: source() },
            CoreError::DirectoryChanged { source: workspace },
            CoreError::Listing { source: source() },
        ];
        for error in errors {
            assert_eq!((error.hint(), error.kind()), (Some(OUT_OF_DESCRIPTORS), ErrorKind::Unavailable), "{error}");
        }
        let missing = CoreError::CwdUnusable { path: "/w".into(), source: std::io::ErrorKind::NotFound.into() };
        assert_eq!(missing.hint(), Some("name an existing directory"));
    }
}
