//! What is on disk: the records of a thread's lines, who keeps them, and who owns what is known of them while the thread is
//! in memory. Nothing here knows a turn that runs.
//!
//! A line is handed to the system with one `write(2)` before what it says is announced, so that whatever a client was
//! told survives the end of this process; [`ThreadWriter::syncer`] makes it survive the end of the machine.

mod expiry;
mod file_record;
mod index;
mod json;
mod jsonl;
mod ledger;
mod lock;
mod owner;
mod patches;
mod read;
mod record;
mod sync;
mod thread_store;
mod writer;

pub(crate) use self::expiry::DiskUse;
pub use self::file_record::FileRecord;
pub(crate) use self::file_record::{Patched, hash};
pub(crate) use self::index::{Listing, owner_of};
pub use self::index::{ThreadSummary, summaries};
#[cfg(test)]
pub(crate) use self::json::text_of;
pub use self::jsonl::JsonlStore;
pub use self::ledger::{PatchLedger, PatchNote};
pub(crate) use self::owner::Rollout;
pub use self::read::{Damage, Reading};
pub use self::record::{EventRecord, FORMAT, Overrides, Prefix, RolloutItem, RolloutLine, SessionMeta, TurnContext};
pub(crate) use self::sync::SyncQueue;
pub use self::thread_store::{Fate, Opened, Stamp, StoredThread, Syncer, ThreadStore, ThreadWriter};
pub(crate) use self::writer::{Disk, RealDisk};
