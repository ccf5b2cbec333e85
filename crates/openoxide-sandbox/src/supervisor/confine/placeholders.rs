//! Empty directories that stand, while a command runs, for protected names that do not exist, so that something read-only
//! can be mounted on them. They are made and taken away by the supervisor, outside of the namespaces.
//!
//! A ledger for each workspace, beneath the home of OpenOxide, names those that were made; it is written before they are.
//! Commands that rely on them hold a shared lock on it. The last one out gets the lock alone and removes them, also those
//! of a supervisor that was killed, and only ever empty directories.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::super::failure::{Failure, errno_of};
use super::view::at;
use crate::Confinement;
use crate::policy::PROTECTED_NAMES;

/// What one command relies on.
pub(in crate::supervisor) struct Placeholders {
    ledgers: Vec<Ledger>,
}

struct Ledger {
    workspace: PathBuf,
    file: File,
}

impl Placeholders {
    /// Makes those that are missing.
    pub(super) fn make(confinement: &Confinement) -> Result<Self, Failure> {
        let mut placeholders = Self { ledgers: Vec::new() };
        for root in confinement.writable.iter().filter(|root| root.is_workspace) {
            match placeholders.make_in(&root.path, confinement.ledgers.as_deref()) {
                Ok(()) => {}
                Err(failure) => {
                    placeholders.remove();
                    return Err(failure);
                }
            }
        }
        Ok(placeholders)
    }

    fn make_in(&mut self, workspace: &Path, ledgers: Option<&Path>) -> Result<(), Failure> {
        let Some(ledgers) = ledgers else {
            let what =
                "keeping count of protected names without a home directory; set OPENOXIDE_HOME to a writable one";
            return Err(Failure::confine(what, Errno::NOENT));
        };
        // Also where nothing is missing now: another command's placeholder may be what is there.
        let file = open(ledgers, workspace).map_err(|error| {
            let what = format!(
                "keeping count of protected names in {} (set OPENOXIDE_HOME to a writable directory)",
                ledgers.display()
            );
            Failure::confine(what, errno_of(&error))
        })?;
        flock(&file, FlockOperation::LockShared).map_err(at("locking the ledger of", workspace))?;
        self.ledgers.push(Ledger { workspace: workspace.into(), file });
        let ledger = self.ledgers.last_mut().expect("one was just added");
        for name in PROTECTED_NAMES {
            ledger.make(name).map_err(|error| at("making a placeholder in", workspace)(errno_of(&error)))?;
        }
        Ok(())
    }

    /// Takes them away, unless another command relies on them.
    pub(in crate::supervisor) fn remove(self) {
        for mut ledger in self.ledgers {
            if flock(&ledger.file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                // What is left is taken away after the next command.
                let _ = ledger.clear();
            }
        }
    }
}

impl Ledger {
    fn make(&mut self, name: &str) -> std::io::Result<()> {
        let path = self.workspace.join(name);
        if path.symlink_metadata().is_ok() {
            return Ok(());
        }
        let mut line = path.as_os_str().as_bytes().to_vec();
        line.push(0);
        self.file.write_all(&line)?;
        match std::fs::DirBuilder::new().mode(0o755).create(&path) {
            // Another command was quicker.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn clear(&mut self) -> std::io::Result<()> {
        let mut text = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut text)?;
        for path in text.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            let path = PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()));
            // Two workspaces may share a ledger, if hardly ever; each clears its own.
            if path.parent() == Some(&self.workspace) {
                // It fails for one that the user has made use of in the meantime, which is then the user's.
                let _ = std::fs::remove_dir(path);
            }
        }
        self.file.set_len(0)
    }
}

fn open(ledgers: &Path, workspace: &Path) -> std::io::Result<File> {
    let path = ledgers.join(format!("{:016x}", fnv(workspace.as_os_str().as_bytes())));
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    match options.open(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(ledgers)?;
            options.open(&path)
        }
        other => other,
    }
}

/// The 64-bit FNV-1a hash: the same in every process and version.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SandboxMode, WritableRoot};

    struct House {
        _dir: tempfile::TempDir,
        confinement: Confinement,
        workspace: PathBuf,
    }

    fn house() -> House {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("w");
        std::fs::create_dir_all(workspace.join(".git")).unwrap();
        let confinement = Confinement {
            mode: SandboxMode::WorkspaceWrite,
            writable: vec![WritableRoot { path: workspace.clone(), is_workspace: true, id: None }],
            hidden: Vec::new(),
            network: false,
            ledgers: Some(dir.path().join("home/run")),
            private_tmp: None,
        };
        House { _dir: dir, confinement, workspace }
    }

    fn names(workspace: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(workspace)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn make(house: &House) -> Placeholders {
        Placeholders::make(&house.confinement).unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    #[test]
    fn what_is_missing_is_there_while_any_command_runs() {
        let house = house();
        let (first, second) = (make(&house), make(&house));
        assert_eq!(names(&house.workspace), [".agents", ".codex", ".git", ".openoxide"]);
        first.remove();
        assert_eq!(names(&house.workspace), [".agents", ".codex", ".git", ".openoxide"]);
        second.remove();
        assert_eq!(names(&house.workspace), [".git"]);
    }

    #[test]
    fn what_a_killed_supervisor_left_goes_with_the_next_command() {
        let house = house();
        // Dropping closes the ledger and lets go of the lock, as the kernel does for the dead.
        drop(make(&house));
        assert_eq!(names(&house.workspace).len(), 4);
        make(&house).remove();
        assert_eq!(names(&house.workspace), [".git"]);
    }

    #[test]
    fn what_the_user_made_stays() {
        let house = house();
        std::fs::create_dir(house.workspace.join(".codex")).unwrap();
        let placeholders = make(&house);
        std::fs::write(house.workspace.join(".agents/mine"), "x").unwrap();
        placeholders.remove();
        assert_eq!(names(&house.workspace), [".agents", ".codex", ".git"]);
    }

    #[test]
    fn without_a_place_for_the_ledger_nothing_is_made() {
        let mut house = house();
        house.confinement.ledgers = None;
        let failure = Placeholders::make(&house.confinement).err().unwrap();
        assert!(failure.detail.contains("OPENOXIDE_HOME"), "{failure:?}");
        assert_eq!(names(&house.workspace), [".git"]);
    }
}
