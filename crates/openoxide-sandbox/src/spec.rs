//! What a command is: its words, place, environment and limits. It is checked here and written for the supervisor in
//! `link.rs`; nothing here starts anything.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::confinement::SLASH_TMP;
use crate::{Confinement, SandboxError, SandboxPolicy};

/// Bytes of output that are kept where nothing else is asked for: 1 MiB.
pub const DEFAULT_OUTPUT_LIMIT: usize = 1 << 20;

/// Names the thread in the environment of its commands.
const MARKER: &str = "OPENOXIDE_THREAD_ID";

/// A command to run.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// The program and its arguments. A program without `/` is looked for in the `PATH` of `env`.
    pub argv: Vec<String>,
    /// The directory it starts in. In full access it is absolute and without links, or the command is refused.
    pub cwd: PathBuf,
    /// Its whole environment, as [`crate::EnvPolicy::apply`] made it.
    pub env: BTreeMap<OsString, OsString>,
    /// Whether it gets a terminal (24 rows of 80). Otherwise its stdin is empty, and stdout and stderr are one pipe.
    pub tty: bool,
    /// How far it may reach.
    pub policy: SandboxPolicy,
    /// Where git starts, absolute, for a command that is nothing but git with commands that commit, check out and merge:
    /// whoever sets it has read every word. It may then write to the repositories that the directories lie in, but not to
    /// what git takes orders from, where the policy says `git = "commit"`. Empty for every other command.
    pub git_from: Vec<PathBuf>,
    /// Bytes of output kept between two takings, half of them from the beginning and half from the end.
    pub output_limit: usize,
    /// The thread it runs for; the command finds it as `OPENOXIDE_THREAD_ID`, a person in the process list.
    pub thread_marker: Option<String>,
}

impl CommandSpec {
    /// Adds the marker to the environment.
    pub(crate) fn mark(&mut self) {
        if let Some(marker) = &self.thread_marker {
            self.env.insert(MARKER.into(), marker.into());
        }
    }

    /// Has programs look for temporary files where the command sees them.
    pub(crate) fn settle(&mut self, confinement: &Confinement) {
        self.settle_git(confinement);
        let Some(private) = &confinement.private_tmp else { return };
        for name in ["TMPDIR", "TMP", "TEMP"] {
            if let Some(value) = self.env.get_mut(OsStr::new(name)).filter(|value| *value == private.as_os_str()) {
                *value = SLASH_TMP.into();
            }
        }
    }

    /// Keeps git from what its sealed configuration refuses: writing down which branch another follows, and cleaning up.
    fn settle_git(&mut self, confinement: &Confinement) {
        const SETTINGS: [(&str, &str); 3] =
            [("branch.autoSetupMerge", "false"), ("gc.auto", "0"), ("maintenance.auto", "false")];
        if !confinement.writable.iter().any(|root| root.is_git) {
            return;
        }
        let count = self.env.get(OsStr::new("GIT_CONFIG_COUNT")).and_then(|text| text.to_str()?.parse().ok());
        let first: usize = count.unwrap_or(0);
        for (number, (key, value)) in (first..).zip(SETTINGS) {
            self.env.insert(format!("GIT_CONFIG_KEY_{number}").into(), key.into());
            self.env.insert(format!("GIT_CONFIG_VALUE_{number}").into(), value.into());
        }
        self.env.insert("GIT_CONFIG_COUNT".into(), (first + SETTINGS.len()).to_string().into());
    }

    /// Whether the system can be given this at all.
    pub(crate) fn check(&self) -> Result<(), SandboxError> {
        if self.argv.first().is_none_or(String::is_empty) {
            return Err(SandboxError::EmptyCommand);
        }
        let has_nul = |bytes: &[u8]| bytes.contains(&0);
        if let Some(position) = self.argv.iter().position(|word| has_nul(word.as_bytes())) {
            return Err(SandboxError::NulByte { what: format!("word {position} of the command") });
        }
        if has_nul(self.cwd.as_os_str().as_bytes()) {
            return Err(SandboxError::NulByte { what: "the working directory".to_owned() });
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.as_bytes().contains(&b'=') {
                return Err(SandboxError::EnvName { name: name.to_string_lossy().into_owned() });
            }
            if has_nul(name.as_bytes()) || has_nul(value.as_bytes()) {
                let what = format!("environment entry `{}`", name.to_string_lossy().replace('\0', "\\0"));
                return Err(SandboxError::NulByte { what });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn spec(argv: &[&str]) -> CommandSpec {
        CommandSpec {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            cwd: "/".into(),
            env: BTreeMap::new(),
            tty: false,
            policy: SandboxPolicy::full_access(),
            git_from: Vec::new(),
            output_limit: DEFAULT_OUTPUT_LIMIT,
            thread_marker: None,
        }
    }

    #[test]
    fn what_cannot_be_given_to_the_system_is_refused_by_name() {
        assert!(matches!(spec(&[]).check(), Err(SandboxError::EmptyCommand)));
        assert!(matches!(spec(&[""]).check(), Err(SandboxError::EmptyCommand)));
        let error = spec(&["echo", "a\0b"]).check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "word 1 of the command has a NUL byte in it, which no command can be given; leave it out"
        );
        assert_eq!(error.kind(), ErrorKind::Input);
        let mut bad = spec(&["true"]);
        bad.env.insert("A=B".into(), "1".into());
        assert!(matches!(bad.check(), Err(SandboxError::EnvName { name }) if name == "A=B"));
    }

    #[test]
    fn the_thread_is_marked() {
        let mut marked = spec(&["true"]);
        marked.thread_marker = Some("t1".to_owned());
        marked.mark();
        assert_eq!(marked.env.get(OsStr::new("OPENOXIDE_THREAD_ID")), Some(&"t1".into()));
    }
}
