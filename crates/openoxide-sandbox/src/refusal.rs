//! What a supervisor said when it did not start a command, in words: for the person who asked, and for the operator who
//! can fix it.

use std::fmt::Write as _;
use std::io;

use crate::backend::Backend;
use crate::link::Step;
use crate::{CommandSpec, SandboxError};

/// A means of confinement that did not work here.
#[derive(Debug)]
#[non_exhaustive]
pub struct Tried {
    /// Which one.
    pub backend: Backend,
    /// What was being done.
    pub what: String,
    /// What the system says.
    pub source: io::Error,
}

/// Why a command was not started.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// For want of a means of confinement. Another may work.
    Unavailable { what: String, source: io::Error },
    /// For any other reason.
    Failed(SandboxError),
}

impl From<SandboxError> for Refusal {
    fn from(error: SandboxError) -> Self {
        Self::Failed(error)
    }
}

impl Refusal {
    /// Reads what a supervisor told. `detail` is text, padded with zeros.
    pub(crate) fn of(spec: &CommandSpec, step: Step, errno: i32, detail: &[u8]) -> Self {
        let source = io::Error::from_raw_os_error(errno);
        let text = || String::from_utf8_lossy(detail).trim_end_matches('\0').to_owned();
        let step = match step {
            Step::Unavailable => return Self::Unavailable { what: text(), source },
            Step::Confine => return Self::Failed(SandboxError::Confine { what: text(), source }),
            Step::Exec => {
                let program = spec.argv.first().cloned().unwrap_or_default();
                return Self::Failed(match source.kind() {
                    io::ErrorKind::NotFound => SandboxError::CommandNotFound { program },
                    _ => SandboxError::Exec { program, source },
                });
            }
            Step::Directory => return Self::Failed(SandboxError::Cwd { path: spec.cwd.clone(), source }),
            Step::Prepare => "prepare",
            Step::Fork => "start a process",
            Step::Session => "give the command its own session",
            Step::Terminal => "give the command its terminal or input",
        };
        Self::Failed(SandboxError::Setup { step, source })
    }
}

/// What was tried, on one line.
pub(crate) fn tried_line(tried: &[Tried]) -> String {
    let mut line = String::new();
    for (number, Tried { backend, what, source }) in tried.iter().enumerate() {
        let separator = if number == 0 { "" } else { "; " };
        // Writing to a string does not fail.
        let _ = write!(line, "{separator}{}: {what}: {source}", backend.as_str());
    }
    line
}

/// What an operator can do about it.
#[must_use]
pub fn fix() -> &'static str {
    if cfg!(target_os = "linux") {
        "allow user namespaces (sysctl user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 and \
         kernel.apparmor_restrict_unprivileged_userns=0 where they exist; in a container, a seccomp profile that lets \
         clone and unshare make them), or install bubblewrap"
    } else if cfg!(windows) {
        "run openoxide in WSL2, where the Linux sandbox works"
    } else {
        "run openoxide on Linux, in a container or a virtual machine"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, SandboxMode};

    #[test]
    fn a_mode_that_cannot_be_enforced_says_what_was_tried_and_what_to_do() {
        let source = || io::Error::from_raw_os_error(libc::EPERM);
        let tried = vec![
            Tried { backend: Backend::Namespaces, what: "making namespaces".into(), source: source() },
            Tried { backend: Backend::Bubblewrap, what: "finding it".into(), source: source() },
        ];
        let error = SandboxError::Unavailable { mode: SandboxMode::WorkspaceWrite, tried };
        assert_eq!(error.kind(), ErrorKind::Denied);
        let text = error.to_string();
        for part in ["`workspace-write`", "namespaces: making namespaces: ", "; bubblewrap: finding it: "] {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.contains(fix()), "{text}");
    }
}
