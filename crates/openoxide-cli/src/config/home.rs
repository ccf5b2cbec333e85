//! The home of OpenOxide as a place that nobody else gets at: made for its owner alone, and judged as ssh judges its own. Anyone
//! who can write in it decides what the agent may do; anyone who can read it has the keys.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Who besides the owner may do what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Privacy {
    /// Others may read it.
    WriteAlone,
    /// Others may do nothing with it.
    Alone,
}

/// Files of the home and who may get at them.
const FILES: [(&str, Privacy); 3] =
    [("config.toml", Privacy::WriteAlone), ("auth.json", Privacy::Alone), ("state.key", Privacy::Alone)];

/// Something that others can get at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    path: PathBuf,
    /// What is wrong, as words that follow the path.
    why: String,
    /// The command that fixes it.
    pub(crate) fix: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}; run `{}`", self.path.display(), self.why, self.fix)
    }
}

/// Makes the home where it is missing, with mode 0700, and checks it. It has to come before a sandbox policy is computed: only what
/// exists can be hidden from commands.
///
/// # Errors
/// It cannot be made, or others can get at it or at a file in it.
pub(crate) fn prepare(home: &Path) -> anyhow::Result<()> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(home);
    made.with_context(|| {
        format!("cannot make the home {}; set OPENOXIDE_HOME to a directory of yours", home.display())
    })?;
    check(home)
}

/// The same for what runs without a home: where it cannot be made, no command can make it either, since none may do more than this
/// program.
///
/// # Errors
/// Others can get at it.
pub(crate) fn prepare_if_possible(home: &Path) -> anyhow::Result<()> {
    match prepare(home) {
        Err(error) if !home.exists() => {
            tracing::warn!("{error:#}");
            Ok(())
        }
        done => done,
    }
}

/// Checks a home, which may be missing.
///
/// # Errors
/// The first thing that others can get at, with the command that fixes it.
pub(crate) fn check(home: &Path) -> anyhow::Result<()> {
    match faults(home).into_iter().next() {
        Some(fault) => bail!("{fault}"),
        None => Ok(()),
    }
}

/// All that others can get at.
pub(crate) fn faults(home: &Path) -> Vec<Fault> {
    let files = FILES.map(|(name, privacy)| (home.join(name), privacy));
    let all = std::iter::once((home.to_path_buf(), Privacy::WriteAlone)).chain(files);
    all.filter_map(|(path, privacy)| fault_of(&path, &path.metadata().ok()?, privacy)).collect()
}

/// Whether others can list the home, which gives away the names of what is in it.
pub(crate) fn is_listable(home: &Path) -> bool {
    home.metadata().is_ok_and(|metadata| metadata.mode() & 0o077 != 0)
}

/// What others can do with one of these.
pub(crate) fn fault_of(path: &Path, metadata: &Metadata, privacy: Privacy) -> Option<Fault> {
    judge(path, metadata.uid(), metadata.mode() & 0o7777, privacy, rustix::process::geteuid().as_raw())
}

fn judge(path: &Path, owner: u32, mode: u32, privacy: Privacy, user: u32) -> Option<Fault> {
    const OTHERS_WRITE: u32 = 0o022;
    const OTHERS: u32 = 0o077;
    let fault = |why: String, fix: String| {
        let path = path.to_path_buf();
        Some(Fault { fix: format!("{fix} {}", quoted(&path)), path, why })
    };
    if owner != user && owner != 0 {
        let why = format!(
            "belongs to user {owner}; it must be yours (user {user}) or root's, as it decides what the agent may do"
        );
        return fault(why, format!("chown {user}"));
    }
    match privacy {
        Privacy::Alone if mode & OTHERS != 0 => fault(
            format!("has mode {mode:04o}: others can get at the keys in it; they must not"),
            "chmod 600".to_owned(),
        ),
        Privacy::WriteAlone if mode & OTHERS_WRITE != 0 => {
            fault(format!("has mode {mode:04o}: others can change what the agent may do"), "chmod go-w".to_owned())
        }
        Privacy::Alone | Privacy::WriteAlone => None,
    }
}

/// A path as a word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    if text.chars().all(is_plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_home_is_made_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("a/b");
        prepare(&home).unwrap();
        assert_eq!(home.metadata().unwrap().mode() & 0o777, 0o700);
        assert!(!is_listable(&home));
        prepare(&home).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let inside_a_file = dir.path().join("file/home");
        assert!(format!("{:#}", prepare(&inside_a_file).unwrap_err()).contains("OPENOXIDE_HOME"));
        prepare_if_possible(&inside_a_file).unwrap();
    }

    #[test]
    fn what_others_can_get_at_is_named_with_the_fix() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        let at = |name: &str| if name.is_empty() { home.to_path_buf() } else { home.join(name) };
        let set = |name: &str, mode: u32| {
            let path = at(name);
            if name.is_empty() || std::fs::write(&path, "").is_ok() {
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            }
        };
        for (name, good, bad, fix) in [
            ("", 0o755, 0o777, "chmod go-w"),
            ("config.toml", 0o644, 0o664, "chmod go-w"),
            ("auth.json", 0o600, 0o644, "chmod 600"),
            ("state.key", 0o600, 0o640, "chmod 600"),
        ] {
            set(name, good);
            assert_eq!(faults(home), [], "{name}");
            set(name, bad);
            let told = format!("{:#}", check(home).unwrap_err());
            let fix = format!("`{fix} {}`", at(name).display());
            assert!(told.contains(&fix), "{told}");
            assert!(told.contains(&format!("{bad:04o}")), "{told}");
            set(name, good);
        }
    }

    #[test]
    fn another_users_files_are_refused_and_roots_are_not() {
        let path = Path::new("/x y/config.toml");
        let judged = |owner| judge(path, owner, 0o600, Privacy::WriteAlone, 1000);
        assert_eq!((judged(1000), judged(0)), (None, None));
        assert_eq!(judged(1001).unwrap().fix, "chown 1000 '/x y/config.toml'");
        assert!(judge(path, 1000, 0o600, Privacy::Alone, 0).is_some(), "root obeys no other user's files");
    }
}
