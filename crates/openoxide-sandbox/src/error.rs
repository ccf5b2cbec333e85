//! What can go wrong before a command runs or while it is typed into. How a command ends is an outcome
//! ([`crate::ExitStatus`]), not an error.

use std::io;
use std::path::PathBuf;

use crate::refusal::Tried;
use crate::{SandboxMode, WorkspaceError};

/// Why a command could not be started or reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// Nothing here can hold a command to the mode, and a mode that cannot be enforced is refused.
    #[error(
        "sandbox mode `{}` cannot be enforced here ({}); {}",
        mode.as_str(), crate::refusal::tried_line(tried), crate::refusal::fix()
    )]
    Unavailable {
        /// The mode asked for.
        mode: SandboxMode,
        /// Each means that was tried, and why it did not work.
        tried: Vec<Tried>,
    },
    /// The confinement cannot be set up for this command, which is therefore not run.
    #[error("the sandbox could not be set up: {what}: {source}")]
    Confine {
        /// What was being done, and to which path.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// A directory that was to be writable cannot be resolved.
    #[error("writable directory {} cannot be used: {source}; name an existing directory", path.display())]
    WritableRoot {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The whole file system would be writable.
    #[error(
        "{} cannot be a writable directory of `workspace-write`: nothing would be protected; work in a project's \
         directory, or use `danger-full-access`",
        path.display()
    )]
    RootIsWritable {
        /// The directory as it was given.
        path: PathBuf,
    },
    /// A directory is not the one it was.
    #[error("{source}; put the directory back, or work in the one that is there now by a new thread")]
    Moved {
        /// Which one, and what was found in its place.
        source: WorkspaceError,
    },
    /// The directory lies in a place that commands never see.
    #[error(
        "{} lies in {}, which is kept from commands; work in another directory",
        path.display(), hidden.display()
    )]
    HiddenPlace {
        /// The directory as it was given.
        path: PathBuf,
        /// The place.
        hidden: PathBuf,
    },
    /// A `/tmp` of the thread's own is asked for, and the thread has no temporary directory.
    #[error(
        "`private_tmp` needs a temporary directory of the thread's own, and there is none; leave `private_tmp` out, or \
         have TMPDIR name a writable directory"
    )]
    NoPrivateTmp,
    /// There is no program to run.
    #[error("the command is empty; name a program")]
    EmptyCommand,
    /// A string that the system takes up to its first NUL byte has one inside.
    #[error("{what} has a NUL byte in it, which no command can be given; leave it out")]
    NulByte {
        /// What holds it, as a person would say it.
        what: String,
    },
    /// A name of the environment that cannot be told from its value.
    #[error("environment name {name:?} is empty or has `=` in it; use another name")]
    EnvName {
        /// The name.
        name: String,
    },
    /// The command line and its environment are larger than any system takes.
    #[error("command line and environment have {bytes} bytes, at most {limit} are allowed; pass large data in a file")]
    TooLarge {
        /// Bytes of both.
        bytes: usize,
        /// The most that is taken.
        limit: usize,
    },
    /// The working directory cannot be entered.
    #[error("working directory {} cannot be entered: {source}; name an existing directory", path.display())]
    Cwd {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// No program has the name.
    #[error("command `{program}` was not found; name a program in PATH or give its path")]
    CommandNotFound {
        /// The first word of the command.
        program: String,
    },
    /// The program is there, but the system does not run it.
    #[error("command `{program}` cannot be run: {source}")]
    Exec {
        /// The first word of the command.
        program: String,
        /// What the system says.
        source: io::Error,
    },
    /// Nothing reads in the place of a command here: commands of the thread share no box.
    #[error("nothing can be read in the thread's box here: its commands run without one of their own namespaces")]
    NoReader,
    /// The supervisor's program could not be started.
    #[error("the supervisor {} could not be started: {source}", helper.display())]
    HelperStart {
        /// The path given to the launcher.
        helper: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The supervisor was started, and ended without a word.
    #[error(
        "the supervisor {} ended before the command started; if the program was replaced, start the server again",
        helper.display()
    )]
    HelperLost {
        /// The path given to the launcher.
        helper: PathBuf,
    },
    /// The supervisor does not say whether the command started.
    #[error("the supervisor did not start the command within {seconds} s")]
    HelperTimeout {
        /// How long was waited.
        seconds: u64,
    },
    /// A step between fork and exec failed.
    #[error("the supervisor could not {step}: {source}")]
    Setup {
        /// The step, as a verb.
        step: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// There is nothing to type into.
    #[error("stdin is closed: the command runs without a terminal; start it with `tty` to type into it")]
    StdinClosed,
    /// There is nobody to type for any more.
    #[error("stdin is closed: the command has exited")]
    Exited,
    /// The terminal's buffer stays full.
    #[error("the command has not read its input for {seconds} s; {written} bytes were taken")]
    StdinStalled {
        /// How long was waited.
        seconds: u64,
        /// Bytes that were taken before.
        written: usize,
    },
    /// Pipes, sockets or terminals could not be made or used.
    #[error("{what} failed: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

/// What kind of failure a [`SandboxError`] is; a protocol maps it to its wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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

impl SandboxError {
    /// The kind of the failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable { .. }
            | Self::Confine { .. }
            | Self::RootIsWritable { .. }
            | Self::Moved { .. }
            | Self::HiddenPlace { .. }
            | Self::NoPrivateTmp => ErrorKind::Denied,
            Self::EmptyCommand
            | Self::NulByte { .. }
            | Self::EnvName { .. }
            | Self::TooLarge { .. }
            | Self::Cwd { .. }
            | Self::WritableRoot { .. }
            | Self::CommandNotFound { .. }
            | Self::Exec { .. }
            | Self::StdinClosed
            | Self::Exited => ErrorKind::Input,
            Self::StdinStalled { .. } | Self::HelperTimeout { .. } | Self::NoReader | Self::Io { .. } => {
                ErrorKind::Unavailable
            }
            Self::HelperStart { .. } | Self::HelperLost { .. } | Self::Setup { .. } => ErrorKind::Internal,
        }
    }
}
