//! How text, commands and paths are shown to people: one shell quoter ([`visible`], [`command_line`]), one sanitizer ([`visible_text`], [`visible_lines`]), one
//! way to write a path ([`quote_path`]). Only text is made here; what is done with it is the caller's.

mod command;
mod lines;
mod path;

pub use command::{command_line, is_deceptive, visible, visible_text};
pub use lines::visible_lines;
pub use path::{quote_bytes, quote_path, unquote_path};
