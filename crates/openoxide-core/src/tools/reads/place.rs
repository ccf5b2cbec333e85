//! Where the reads of a thread are done: in the server, or by a helper in the thread's box. Either way they are bounded in
//! number for each principal, end by a deadline, and end with the call.

use std::sync::Arc;

use tokio::time::timeout;

use super::super::blocking::{GRACE, NoAnswer, READ_LIMIT, blocking};
use super::super::files::FileView;
use super::helper::{Asking, HelperError};
use super::pool::{ReadPool, Tried};
use super::work::ReadWork;
use crate::api::Owner;
use crate::{CoreError, Held, Shares};

/// See the module.
#[derive(Clone)]
pub(crate) struct ReadPlace {
    /// Files that are read at this moment, by principal.
    pub(crate) reads: Arc<Shares<Owner>>,
    /// Whose thread it is.
    pub(crate) owner: Owner,
    /// None where the thread has no box.
    pub(crate) pool: Option<Arc<ReadPool>>,
}

/// What came of a read, and who says so.
pub(crate) struct Told<T> {
    pub(crate) answer: Result<T, String>,
    /// A process in the thread's box, and not the server itself.
    pub(crate) by_helper: bool,
}

/// Why a read gave nothing, not even a sentence of its own.
#[derive(Debug)]
pub(crate) enum NoRead {
    /// The thread's directory is not what it was.
    NoView(CoreError),
    /// It panicked.
    Failed,
    /// It did not end in time.
    Late,
    /// The helper did not do its part.
    Helper(HelperError),
}

impl From<NoAnswer> for NoRead {
    fn from(none: NoAnswer) -> Self {
        match none {
            NoAnswer::Failed => Self::Failed,
            NoAnswer::Late => Self::Late,
        }
    }
}

impl ReadPlace {
    /// Does a read through a view, which is made where the disk may be waited for. Dropping the future ends it.
    pub(crate) async fn read<W: ReadWork>(
        &self,
        view: impl FnOnce() -> Result<FileView, CoreError> + Send + 'static,
        work: W,
    ) -> Result<Told<W::Found>, NoRead> {
        match &self.pool {
            None => self.in_server(view, work).await,
            Some(pool) => {
                let _turn = pool.turn_to_read().await;
                // Held by whichever lasts longer: a disk that does not answer keeps the thread that looks at the directory.
                let place = Arc::new(self.reads.wait(&self.owner).await);
                let in_box = self.in_box(pool, place, view, work);
                timeout(READ_LIMIT + GRACE, in_box).await.unwrap_or(Err(NoRead::Late))
            }
        }
    }

    /// Makes a view where the disk may be waited for.
    pub(crate) async fn view(
        &self,
        view: impl FnOnce() -> Result<FileView, CoreError> + Send + 'static,
    ) -> Result<FileView, NoRead> {
        blocking(&self.reads, &self.owner, move |_| view()).await?.map_err(NoRead::NoView)
    }

    async fn in_server<W: ReadWork>(
        &self,
        view: impl FnOnce() -> Result<FileView, CoreError> + Send + 'static,
        work: W,
    ) -> Result<Told<W::Found>, NoRead> {
        let done = move |stop: &_| view().map(|view| work.read(&view, stop));
        let answer = blocking(&self.reads, &self.owner, done).await?.map_err(NoRead::NoView)?;
        Ok(Told { answer, by_helper: false })
    }

    async fn in_box<W: ReadWork>(
        &self,
        pool: &ReadPool,
        place: Arc<Held<Owner>>,
        view: impl FnOnce() -> Result<FileView, CoreError> + Send + 'static,
        work: W,
    ) -> Result<Told<W::Found>, NoRead> {
        let held = Arc::clone(&place);
        let look = move || {
            let asking = view()
                .map_err(NoRead::NoView)
                .and_then(|view| Asking::new(view, work, READ_LIMIT).map_err(NoRead::Helper));
            drop(held);
            asking
        };
        let asking = tokio::task::spawn_blocking(look).await.map_err(|_| NoRead::Failed)??;
        match pool.read(asking).await.map_err(NoRead::Helper)? {
            Tried::Told(answer) => Ok(Told { answer, by_helper: true }),
            Tried::NoHelper(asking) => {
                drop(place);
                let (view, work) = asking.into_parts();
                self.in_server(move || Ok(view), work).await
            }
        }
    }
}

impl NoRead {
    /// What the model is told of a tool of this name.
    pub(crate) fn sentence(&self, name: &str) -> String {
        let seconds = READ_LIMIT.as_secs();
        match self {
            Self::NoView(error) => format!("{}.", error.told()),
            Self::Failed => format!("`{name}` failed inside; try it another way."),
            Self::Late => format!("`{name}` did not end within {seconds} s; the disk may not answer."),
            Self::Helper(error) => format!("`{name}` gave nothing: {error}."),
        }
    }
}
