//! The face of whatever keeps rollouts. Every method blocks for no longer than the storage does, so none is for an async
//! task that others wait for.

use std::io;

use super::{PatchLedger, PatchNote, Reading, RolloutItem, RolloutLine};
use crate::{Holder, ThreadId, TurnId};

/// A thread that a store holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredThread {
    /// The thread.
    pub id: ThreadId,
    /// Bytes it takes.
    pub bytes: u64,
    /// When it was last written.
    pub modified: std::time::SystemTime,
}

/// Which file a rollout is and how long. Two stamps are equal where nobody has written in between: lines are only added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The device that holds it.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Bytes.
    pub length: u64,
}

/// What became of a thread that is not where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Somebody asked for its deletion.
    Deleted,
    /// Somebody put it aside.
    Archived,
    /// Nobody asked for it: its file was removed or moved behind the store's back.
    Lost,
}

/// Keeps rollouts.
pub trait ThreadStore: Send + Sync {
    /// Takes the one writer's place of a thread, creating its rollout where there is none. Fails with
    /// [`io::ErrorKind::WouldBlock`] while somebody else holds it.
    fn lock(&self, id: ThreadId) -> io::Result<Box<dyn ThreadWriter>>;

    /// Takes the one writer's place of a thread that exists. Fails with [`io::ErrorKind::NotFound`] where there is no
    /// such thread, and as [`ThreadStore::lock`] does.
    fn claim(&self, id: ThreadId) -> io::Result<Box<dyn ThreadWriter>>;

    /// [`ThreadStore::claim`], and the lines as [`ThreadStore::load`] gives them.
    fn open(&self, id: ThreadId) -> io::Result<Opened> {
        let writer = self.claim(id)?;
        let lines = self.load(id)?;
        Ok((writer, lines))
    }

    /// Begins the ledger of a patch that is about to be applied for a thread that the caller uses; none where the store
    /// keeps none. [`ThreadStore::claim`] puts right what is left of a patch whose ledger was not removed.
    fn ledger(&self, _id: ThreadId, _note: &PatchNote) -> io::Result<Option<PatchLedger>> {
        Ok(None)
    }

    /// Whether a thread exists.
    fn contains(&self, id: ThreadId) -> bool;

    /// Who holds the writer's place, where that can be told.
    fn holder(&self, id: ThreadId) -> Option<Holder>;

    /// What the rollout is now, without taking a place.
    fn stamp(&self, id: ThreadId) -> io::Result<Stamp>;

    /// What became of a thread that does not exist.
    fn fate(&self, id: ThreadId) -> Fate;

    /// All whole lines of a thread, oldest first. A last line that was cut off is left out, and so are lines of a type
    /// that is not known; damaged lines are left out and logged.
    fn load(&self, id: ThreadId) -> io::Result<Vec<RolloutLine>> {
        Ok(self.read(id)?.logged(id).lines)
    }

    /// The same, with what is damaged.
    fn read(&self, id: ThreadId) -> io::Result<Reading>;

    /// Whose a thread is, as its first line says; none where it says nothing.
    fn owner(&self, id: ThreadId) -> io::Result<Option<String>>;

    /// The diff of a turn, from the record of its end, which is looked for at a place first where that is given. None
    /// where no record has it.
    fn diff_of(&self, id: ThreadId, turn: TurnId, at: Option<u64>) -> io::Result<Option<String>>;

    /// The threads there are, newest first.
    fn list(&self) -> io::Result<Vec<StoredThread>>;

    /// Removes a thread; [`io::ErrorKind::WouldBlock`] while a writer holds it.
    fn delete(&self, id: ThreadId) -> io::Result<()>;
}

/// What [`ThreadStore::open`] gives.
pub type Opened = (Box<dyn ThreadWriter>, Vec<RolloutLine>);

/// The one writer of a rollout. Dropping it gives the place up.
pub trait ThreadWriter: Send {
    /// Writes one line of this moment; see [`ThreadWriter::append_line`].
    fn append(&mut self, item: &RolloutItem) -> io::Result<()> {
        self.append_line(&RolloutLine::now(item.clone()))
    }

    /// Writes one line; on return the system has it. After an error nothing of it counts, whatever of it was written,
    /// and the next line stands on its own.
    fn append_line(&mut self, line: &RolloutLine) -> io::Result<()>;

    /// What the rollout is, with all that was appended.
    fn stamp(&self) -> Stamp;

    /// Reads what is needed to go on with the thread: its first line, and the rest from the last `compacted` on. Fails
    /// with [`io::ErrorKind::FileTooLarge`] where that is more than so many bytes.
    fn read_back(&self, max_bytes: u64) -> io::Result<Reading>;

    /// Begins the rollout anew, empty. What it held is kept under another name, which is returned.
    fn begin_anew(&mut self) -> io::Result<Option<std::path::PathBuf>>;

    /// Removes a rollout of which nothing was announced.
    fn discard(self: Box<Self>) -> io::Result<()>;

    /// Says who holds the place, for others who want it.
    fn note(&self, holder: &Holder);

    /// Something that makes all lines appended so far durable when called, on any thread.
    fn syncer(&self) -> io::Result<Syncer>;
}

/// Makes a rollout durable; see [`ThreadWriter::syncer`].
pub type Syncer = Box<dyn FnOnce() -> io::Result<()> + Send>;
