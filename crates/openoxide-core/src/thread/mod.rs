//! One thread: its queue, its state, its rollout and its events, and the handle that callers hold.

mod changes;
mod directory;
mod disk_side;
mod event_log;
#[cfg(test)]
mod event_tests;
mod events;
mod handle;
mod kept_diffs;
mod places;
mod restore;
mod results;
mod room;
mod shared;
mod state;
mod submit;
mod temporary;
mod tool_side;
mod turn_side;
mod turns;

pub(crate) use self::changes::Changes;
pub use self::changes::{ThreadChange, ThreadChanges};
pub(crate) use self::directory::ThreadDirectory;
pub(crate) use self::disk_side::{Claim, damage_sentence, failure, unreadable};
pub use self::event_log::OpenItem;
pub use self::events::{Cursor, EventReceiver};
pub(crate) use self::handle::Registry;
pub use self::handle::{Attachment, Resumed, Snapshot, Thread};
pub(crate) use self::kept_diffs::KeptDiffs;
pub(crate) use self::places::check_place_offline;
pub(crate) use self::restore::{Restored, restore, salvaged_meta, up_to};
pub(crate) use self::shared::Core;
pub(crate) use self::state::State;
pub(crate) use self::submit::SHUTDOWN_LIMIT;
pub(crate) use self::temporary::left::sweep as sweep_left;
pub use self::temporary::remove_temporary;
