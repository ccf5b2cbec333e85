//! The tools given to the model: what each is called, what it takes, and how a call of it is done.
//!
//! Every tool is one file; [`toolbox`] names them all. A call is understood without IO, prepared, perhaps asked about, and
//! then run. What a tool may use is its [`ToolEnv`]; the thread is out of its reach. Whatever goes wrong reaches the model
//! as a sentence that names the field and says what to do.

mod apply_patch;
mod args;
pub(crate) mod before;
mod blocking;
pub(crate) mod call;
pub(crate) mod commands;
mod edit;
mod env;
mod exec_command;
mod families;
pub(crate) mod files;
mod fixed_programs;
mod grep;
mod host;
mod list_dir;
mod look;
pub(crate) mod obeyed;
pub(crate) mod output;
mod pictures;
mod read_file;
mod reading;
pub(crate) mod reads;
mod request_user_input;
pub(crate) mod runner;
mod serve;
mod shell;
mod tool;
mod toolbox;
pub(crate) mod turn_diff;
mod update_plan;
mod view_image;
mod widening;
mod write_file;
mod write_stdin;

pub(crate) use self::blocking::{MAX_READS, MAX_READS_OF_ONE};
pub(crate) use self::call::{CallOutcome, Prepared, ToolCall};
pub(crate) use self::env::{ToolEnv, TurnEnv};
pub(crate) use self::families::EditStyle;
pub(crate) use self::host::{Reader, ToolHost};
pub(crate) use self::pictures::{PictureRoom, without_oldest as without_oldest_pictures};
pub use self::serve::serve_reads;
pub(crate) use self::shell::Shell;
pub(crate) use self::tool::{PreparedCall, ToolAccess, refused};
pub(crate) use self::toolbox::{Kind as ToolKind, Toolbox, Toolboxes};
