//! This program again, inside of the sandbox: between the server and one command (`run.rs`), or as the worker that changes
//! files (`files.rs`).
//!
//! The sandbox crate's launcher gives a command one stream for all it writes, as text, and nothing to read. A relay gives it
//! three streams of bytes: it takes lines from a named pipe that the server holds, and writes lines to that one stream
//! (`frames.rs`). It has the command's own confinement, one thread, and no configuration. Its end is the sandbox's part, as
//! that of any command.

mod files;
pub(crate) mod frames;
mod run;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::fs::{Mode, OFlags};

pub(crate) use files::{Answer, Order};

/// The hidden first argument under which the program is a relay.
pub(crate) const RELAY_ARG: &str = "exec-relay";

/// What it is to be, in the argument after [`RELAY_ARG`].
pub(crate) mod role {
    /// `INPUT ARG0 PROGRAM ARGUMENT...`: between the server and a command, whose input is `pipe` or `null`.
    pub(crate) const RUN: &str = "run";
    /// `ARG0 PROGRAM ARGUMENT...`: becomes the command, under another name.
    pub(crate) const EXEC: &str = "exec";
    /// Changes files.
    pub(crate) const FILES: &str = "files";
}

/// Holds the name of the pipe from the server. A command does not get it.
pub(crate) const PIPE_VARIABLE: &str = "OPENOXIDE_EXEC_PIPE";

/// The exit code of a relay that was not started by a server.
const MISUSED: i32 = 125;

/// Becomes a relay where the program was started as one, and otherwise does nothing. `main` calls it right after the sandbox
/// crate's `dispatch_helper`.
pub fn dispatch_relay() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != RELAY_ARG) {
        return;
    }
    let rest: Vec<OsString> = arguments.collect();
    let code = match rest.split_first() {
        Some((first, [input, arg0, program, arguments @ ..])) if first == role::RUN => {
            let mut command = command(arg0, program, arguments);
            command.env_remove(PIPE_VARIABLE);
            run::run(&pipe(), command, input == "pipe")
        }
        Some((first, [arg0, program, arguments @ ..])) if first == role::EXEC => {
            let error = command(arg0, program, arguments).exec();
            let _ = writeln!(io::stderr(), "{}: {error}", program.to_string_lossy());
            127
        }
        Some((first, [])) if first == role::FILES => files::serve(&pipe()),
        _ => {
            let _ = writeln!(io::stderr(), "{RELAY_ARG} is started by the server itself, not by hand");
            MISUSED
        }
    };
    std::process::exit(code)
}

/// The command, with the relay's own environment and directory, which are the command's.
fn command(arg0: &OsString, program: &OsString, arguments: &[OsString]) -> Command {
    #[expect(clippy::disallowed_methods, reason = "the relay is in the sandbox, and so is what it starts")]
    let mut command = Command::new(program);
    command.args(arguments);
    if !arg0.is_empty() {
        command.arg0(arg0);
    }
    command
}

/// The name of the pipe from the server; empty where nobody gave one.
fn pipe() -> OsString {
    #[expect(clippy::disallowed_methods, reason = "what the server gives to a relay")]
    std::env::var_os(PIPE_VARIABLE).unwrap_or_default()
}

/// The server's end of the link.
fn open_pipe(path: &OsString) -> io::Result<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Tells the server.
fn tell(frame: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(frame.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}
