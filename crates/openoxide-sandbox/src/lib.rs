//! Decides and enforces what a command may touch, runs it, and makes sure it ends.
//!
//! ```text
//! server  Launcher ──spawn──> RunningCommand      supervisor (this binary, re-executed)        command
//!         request, then control ─── socket ─────> reads it, forks ────────────────────────────> own session
//!         started, exited, gone <── socket ────── reaps, reports                                    │
//!         capture <───────────────── pipe or terminal ── stdout and stderr, in order ───────────────┘
//! ```
//!
//! Invariants:
//! - A command and all it starts live below one supervisor, a child subreaper; what loses its parent falls to it.
//! - The server's end of the socket is the lifeline. Closed by a dropped handle or by the server's death in any way,
//!   it makes the supervisor end everything below it, and then itself.
//! - A mode that cannot be enforced is refused, by the launcher and again by the supervisor.
//! - The command gets no descriptor but its standard three, and no environment but the one it was given.
//!
//! The crate reads no environment, home or current directory; approvals and the choice of mode live above it.

#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "a part of what confines is for Linux alone"))]

mod attached;
mod backend;
mod capture;
mod cgroup;
mod confinement;
mod descriptors;
mod env_policy;
mod error;
mod files;
mod hidden;
mod launcher;
mod ledger;
#[cfg(target_os = "linux")]
mod leftovers;
mod link;
mod listings;
mod login_path;
mod mode;
mod own_end;
mod own_process;
mod pins;
mod policy;
mod processes;
mod protected;
mod pump;
mod refusal;
mod repository;
mod running;
mod spec;
mod supervisor;
mod terminal;
mod workspace;

pub use attached::Survey;
pub use backend::Backend;
pub use capture::Output;
pub use confinement::{Confinement, WritableRoot};
pub use descriptors::{OUT_OF_DESCRIPTORS, is_out_of_descriptors, raise_descriptor_limit};
pub use env_policy::{EnvPolicy, Inherit};
pub use error::{ErrorKind, SandboxError};
pub use files::{Entry, EntryKind, FileView, Links, OpenError, Opened, OpenedDirectory, OpenedFile};
pub use hidden::names_credentials;
pub use launcher::Launcher;
pub use ledger::run_directory;
#[cfg(target_os = "linux")]
pub use leftovers::Leftovers;
pub use login_path::{LOGIN_SHELL_TIMEOUT, LoginPath};
pub use mode::SandboxMode;
pub use own_end::{end_now, ending_signals};
pub use own_process::hide_own_process;
pub use policy::{HostPaths, PROTECTED_NAMES, SandboxPolicy, WorkspaceWrite};
pub use processes::{Life, ProcessId};
pub use refusal::{Tried, fix};
pub use repository::is_repository_root;
pub use running::{ExitStatus, RunningCommand, WaitOutcome};
pub use spec::{CommandSpec, DEFAULT_OUTPUT_LIMIT};
pub use workspace::{DirectoryId, Workspace, WorkspaceError};

/// The hidden first argument under which the binary is the supervisor of one command.
pub const HELPER_ARG: &str = "sandbox-exec";

/// What follows [`HELPER_ARG`] where the program is the stage inside of bubblewrap's namespaces. No thread is named so.
pub(crate) const INSIDE_ARG: &str = "--inside";

/// The version of Landlock that the kernel has; 0 where there is none.
#[must_use]
pub fn landlock_version() -> i64 {
    supervisor::landlock_version()
}

/// Becomes the supervisor where the program was started as one, and otherwise does nothing.
///
/// It has to be the first thing `main` does: whatever runs before it is paid for by every command, and the supervisor
/// must have one thread. It does not return where the first argument is [`HELPER_ARG`].
pub fn dispatch_helper() {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == HELPER_ARG) {
        let rest: Vec<_> = args.collect();
        match rest.split_first() {
            Some((first, descriptors)) if first == INSIDE_ARG => supervisor::run_inside(descriptors),
            other => {
                if let Some((first, _)) = other {
                    descriptors::obey(first);
                }
                supervisor::run()
            }
        }
    }
}
