//! What stands, while a command runs, for protected names that do not exist, so that something read-only can be mounted on
//! it. Made and taken away by the supervisor, outside of the namespaces.
//!
//! It must not change what other programs find: `.git`, and every name in a directory of temporary files, is a link to where
//! nothing can ever be made, so that whoever asks for a repository or settings is told that there are none. The other
//! names in a workspace are empty directories, which git does not list as links are. Bubblewrap cannot mount on links:
//! there all are directories, and none stands for a `.git` that lies in a repository.
//!
//! A repository's own directory, which a command of git may write, has other names that must not be made
//! ([`HELD`]): what stands for one is what changes nothing for git. What such a command leaves there is swept (`sweep.rs`),
//! for which the ledger says what was there before.
//!
//! A ledger for each directory, beneath the home of OpenOxide, names the directories that were made; it is written before
//! they are. It names links only where the directory could not be locked.
//! Commands that rely on them hold a shared lock on it. The last one out gets the lock alone and removes them, also those
//! of a supervisor that was killed, and only what is still as it was made. Others, with ledgers of their own, may work in the
//! same directory, above all in one of temporary files: so the lock is on the directory too, and the last one removes every
//! link of the kind that it may remove.

use std::ffi::{CStr, OsStr};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, flock, openat, statat, unlinkat};
use rustix::io::Errno;

use super::super::failure::{Failure, errno_of};
use super::sweep::{Before, sweep};
use super::view::at;
use crate::link::Request;
use crate::policy::PROTECTED_NAMES;
use crate::writable_git::{HELD, Missing};
use crate::{WritableRoot, repository};

/// Where a link leads that stands for nothing. Nobody can make a name in `/proc`.
const NOWHERE: &CStr = c"/proc/openoxide-keeps-this-name-free";

/// How often, and after which pause, a directory is locked that somebody else has locked. Who takes placeholders away has it
/// for a moment; whoever has it for longer is not waited for.
const LOCK_TRIES: usize = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// What a placeholder is where a link would serve best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Link,
    Directory,
    /// With this in it.
    File(&'static str),
}

/// Begins what the ledger of a git directory says of the time before the command. Paths begin with a slash.
const BEGUN: &[u8] = b"B";

/// What one command relies on.
pub(in crate::supervisor) struct Placeholders {
    kept: Vec<Kept>,
    relied_on: Vec<PathBuf>,
}

/// The names of one directory.
struct Kept {
    path: PathBuf,
    is_git: bool,
    directory: OwnedFd,
    ledger: File,
    /// The same directory, locked as the ledger is, for whoever has another ledger; none where it cannot be.
    shared: Option<OwnedFd>,
}

impl Placeholders {
    /// Makes those that are missing. The descriptors are those of the writable roots. For a question, which runs nothing,
    /// none are made, and for a reader, which cannot write: nobody is kept from anything, and the caller's directory stays as
    /// it is.
    pub(super) fn make(request: &Request, roots: &[OwnedFd], kind: Kind) -> Result<Self, Failure> {
        let mut placeholders = Self { kept: Vec::new(), relied_on: Vec::new() };
        if request.probe || request.reader {
            return Ok(placeholders);
        }
        let ledgers = request.confinement.ledgers.as_deref();
        for (root, directory) in request.confinement.writable.iter().zip(roots) {
            if let Err(failure) = placeholders.make_in(root, directory.as_fd(), ledgers, kind) {
                placeholders.remove();
                return Err(failure);
            }
        }
        Ok(placeholders)
    }

    /// The places that are there now and must be there when they are covered.
    pub(super) fn relied_on(&self) -> &[PathBuf] {
        &self.relied_on
    }

    fn make_in(
        &mut self,
        root: &WritableRoot,
        directory: BorrowedFd<'_>,
        ledgers: Option<&Path>,
        kind: Kind,
    ) -> Result<(), Failure> {
        let Some(ledgers) = ledgers else {
            let what =
                "keeping count of protected names without a home directory; set OPENOXIDE_HOME to a writable one";
            return Err(Failure::confine(what, Errno::NOENT));
        };
        // Also where nothing is missing now: another command's placeholder may be what is there.
        let ledger = open(ledgers, &root.path).map_err(|error| {
            let what = format!(
                "keeping count of protected names in {} (set OPENOXIDE_HOME to a writable directory)",
                ledgers.display()
            );
            Failure::confine(what, errno_of(&error))
        })?;
        let opened = directory.try_clone_to_owned().map_err(|error| Failure::confine("", errno_of(&error)))?;
        let mut kept = Kept { path: root.path.clone(), is_git: root.is_git, directory: opened, ledger, shared: None };
        if root.is_git && flock(&kept.ledger, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Of a supervisor that was killed. Nobody else is at work here.
            kept.sweep();
            kept.clear().map_err(|error| at("clearing the ledger of", &root.path)(errno_of(&error)))?;
        }
        flock(&kept.ledger, FlockOperation::LockShared).map_err(at("locking the ledger of", &root.path))?;
        kept.shared = lock_shared(directory);
        self.kept.push(kept);
        let kept = self.kept.last_mut().expect("one was just added");
        if root.is_git {
            kept.note_before().map_err(|error| at("looking through", &root.path)(errno_of(&error)))?;
        }
        let wanted = wanted(root, kind);
        let wanted: Vec<_> = wanted.into_iter().map(|(name, kind)| (name, kind, kept.has(name))).collect();
        kept.note(&wanted).map_err(at("keeping count of protected names in", &root.path))?;
        for (name, kind, is_there) in wanted {
            match if is_there { Ok(()) } else { kept.make(name, kind) } {
                Ok(()) => self.relied_on.push(root.path.join(name)),
                // Where this user may make nothing, the command may not either.
                Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) if !root.is_workspace => {}
                Err(errno) => return Err(at("making a placeholder in", &root.path)(errno)),
            }
        }
        Ok(())
    }

    /// Takes them away, unless another command relies on them.
    pub(in crate::supervisor) fn remove(self) {
        for mut kept in self.kept {
            kept.sweep();
            let alone = FlockOperation::NonBlockingLockExclusive;
            let is_last = flock(&kept.ledger, alone).is_ok()
                && kept.shared.as_ref().is_none_or(|directory| flock(directory, alone).is_ok());
            if is_last {
                // What is left is taken away after the next command.
                let _ = kept.clear();
            }
            if is_last && kept.shared.is_some() && !kept.is_git {
                // And those of whoever was not the last and has another ledger. A link says of itself what it is.
                PROTECTED_NAMES.iter().for_each(|name| kept.remove_link(OsStr::new(name)));
            }
        }
    }
}

/// The names that must be there in a directory, and what stands for each that is not.
fn wanted(root: &WritableRoot, kind: Kind) -> Vec<(&'static str, Kind)> {
    if root.is_git {
        let kind = |missing| match missing {
            Missing::Directory => Kind::Directory,
            Missing::File(text) => Kind::File(text),
        };
        let is_apt = |name: &str| Path::new(name).parent().is_some_and(|parent| root.path.join(parent).is_dir());
        return HELD
            .into_iter()
            .filter(|(name, _)| is_apt(name))
            .map(|(name, missing)| (name, kind(missing)))
            .collect();
    }
    let wanted = PROTECTED_NAMES.into_iter().filter_map(|name| {
        let is_git = name == ".git";
        match kind {
            // Other programs would take the directory for the root of the repository.
            Kind::Directory if is_git && repository::lies_in_repository(&root.path) => None,
            Kind::Link if is_git || !root.is_workspace => Some((name, Kind::Link)),
            Kind::Link | Kind::Directory | Kind::File(_) => Some((name, Kind::Directory)),
        }
    });
    wanted.collect()
}

impl Kept {
    /// What the ledger says.
    fn lines(&self) -> std::io::Result<Vec<Vec<u8>>> {
        let mut text = Vec::new();
        let mut ledger = &self.ledger;
        ledger.rewind()?;
        ledger.read_to_end(&mut text)?;
        Ok(text.split(|byte| *byte == 0).filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect())
    }

    /// Writes down what a git directory holds before the command, unless the first of those that run has.
    fn note_before(&mut self) -> std::io::Result<()> {
        if self.lines()?.iter().any(|line| line == BEGUN) {
            return Ok(());
        }
        let before = Before::look(self.directory.as_fd());
        let lines = std::iter::once(BEGUN).chain(before.lines());
        self.ledger.write_all(&lines.flat_map(|line| [line, &[0]].concat()).collect::<Vec<u8>>())
    }

    /// Takes away what a command has left in a git directory and must not.
    fn sweep(&self) {
        let Some(lines) = self.lines().ok().filter(|lines| self.is_git && lines.iter().any(|line| line == BEGUN))
        else {
            return;
        };
        sweep(self.directory.as_fd(), &Before::of(lines.iter().map(Vec::as_slice)));
    }

    fn has(&self, name: &str) -> bool {
        statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Writes down what is about to be made. A link says of itself what it is, to whoever has the lock of the directory.
    fn note(&mut self, wanted: &[(&str, Kind, bool)]) -> Result<(), Errno> {
        let is_noted = |kind| kind != Kind::Link || self.shared.is_none();
        let mut lines = Vec::new();
        for (name, _, _) in wanted.iter().filter(|(_, kind, is_there)| !is_there && is_noted(*kind)) {
            lines.extend_from_slice(self.path.join(name).as_os_str().as_bytes());
            lines.push(0);
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.ledger.write_all(&lines).map_err(|error| errno_of(&error))
    }

    fn make(&self, name: &str, kind: Kind) -> Result<(), Errno> {
        let made = match kind {
            Kind::Link => rustix::fs::symlinkat(NOWHERE, &self.directory, name),
            Kind::Directory => rustix::fs::mkdirat(&self.directory, name, Mode::from_raw_mode(0o755)),
            Kind::File(text) => self.make_file(name, text),
        };
        match made {
            // Another command was quicker.
            Err(Errno::EXIST) => Ok(()),
            other => other,
        }
    }

    /// Makes a file that has its text from the first moment, because other programs read it.
    fn make_file(&self, name: &str, text: &str) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(0o644);
        let write = |file: OwnedFd| File::from(file).write_all(text.as_bytes()).map_err(|error| errno_of(&error));
        match openat(&self.directory, c".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode) {
            Ok(file) => {
                write(file.try_clone().map_err(|error| errno_of(&error))?)?;
                let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                rustix::fs::linkat(rustix::fs::CWD, path, &self.directory, name, AtFlags::SYMLINK_FOLLOW)
            }
            // A file system without nameless files.
            Err(_) => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                write(openat(&self.directory, name, flags, mode)?)
            }
        }
    }

    fn clear(&mut self) -> std::io::Result<()> {
        let lines = self.lines()?;
        if lines.is_empty() {
            return Ok(());
        }
        for path in lines.into_iter().filter(|line| line.starts_with(b"/")) {
            let path = PathBuf::from(std::ffi::OsString::from_vec(path));
            // Two directories may share a ledger, if hardly ever; each clears its own.
            if let Ok(name) = path.strip_prefix(&self.path) {
                self.remove(name.as_os_str());
            }
        }
        self.ledger.set_len(0)
    }

    /// Removes a placeholder, if it still is one. What the user has made use of in the meantime is the user's.
    fn remove(&self, name: &OsStr) {
        let stat = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Symlink) => self.remove_link(name),
            // It fails for one that is not empty.
            Ok(FileType::Directory) => drop(unlinkat(&self.directory, name, AtFlags::REMOVEDIR)),
            Ok(FileType::RegularFile) if self.is_git => self.remove_file(name),
            _ => {}
        }
    }

    /// Removes a file that says what it was made with.
    fn remove_file(&self, name: &OsStr) {
        let made = HELD.into_iter().find_map(|(held, missing)| match missing {
            Missing::File(text) if name == held => Some(text),
            _ => None,
        });
        let Some(made) = made else { return };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut text = Vec::new();
        let opened = openat(&self.directory, name, flags, Mode::empty());
        let read = opened.map(|file| File::from(file).take(made.len() as u64 + 1).read_to_end(&mut text));
        if matches!(read, Ok(Ok(_))) && text == made.as_bytes() {
            let _ = unlinkat(&self.directory, name, AtFlags::empty());
        }
    }

    /// Removes a link that stands for nothing. It fails for one of another user.
    fn remove_link(&self, name: &OsStr) {
        let target = rustix::fs::readlinkat(&self.directory, name, Vec::new());
        if target.is_ok_and(|target| target.as_c_str() == NOWHERE) {
            let _ = unlinkat(&self.directory, name, AtFlags::empty());
        }
    }
}

/// Locks a directory together with whoever else relies on what stands in it; none where it cannot be.
fn lock_shared(directory: BorrowedFd<'_>) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(directory, c".", flags, Mode::empty()).ok()?;
    for _ in 0..LOCK_TRIES {
        if flock(&opened, FlockOperation::NonBlockingLockShared).is_ok() {
            return Some(opened);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    None
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

    struct House {
        _dir: tempfile::TempDir,
        ledgers: PathBuf,
        workspace: PathBuf,
    }

    fn house() -> House {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("w");
        std::fs::create_dir_all(workspace.join(".codex")).unwrap();
        House { ledgers: dir.path().join("home/run"), workspace, _dir: dir }
    }

    fn names(workspace: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(workspace)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    impl House {
        fn try_make(&self, is_workspace: bool, kind: Kind, ledgers: Option<&Path>) -> Result<Placeholders, Failure> {
            let root = WritableRoot { path: self.workspace.clone(), is_workspace, is_git: false, id: None };
            let directory = File::open(&self.workspace).unwrap();
            let mut placeholders = Placeholders { kept: Vec::new(), relied_on: Vec::new() };
            placeholders.make_in(&root, directory.as_fd(), ledgers, kind)?;
            Ok(placeholders)
        }

        fn make(&self, is_workspace: bool, kind: Kind) -> Placeholders {
            self.try_make(is_workspace, kind, Some(&self.ledgers)).unwrap_or_else(|failure| panic!("{failure:?}"))
        }
    }

    const ALL: [&str; 4] = [".agents", ".codex", ".git", ".openoxide"];

    #[test]
    fn what_is_missing_is_there_while_any_command_runs() {
        for (is_workspace, kind) in [(true, Kind::Link), (false, Kind::Link), (true, Kind::Directory)] {
            let house = house();
            let (first, second) = (house.make(is_workspace, kind), house.make(is_workspace, kind));
            assert_eq!(names(&house.workspace), ALL);
            assert_eq!(first.relied_on().len(), 4);
            first.remove();
            assert_eq!(names(&house.workspace), ALL);
            second.remove();
            assert_eq!(names(&house.workspace), [".codex"]);
        }
    }

    #[test]
    fn nobody_finds_a_repository_in_a_placeholder() {
        let house = house();
        let placeholders = house.make(true, Kind::Link);
        let git = house.workspace.join(".git");
        assert!(git.symlink_metadata().unwrap().is_symlink() && !git.exists());
        assert!(house.workspace.join(".agents").is_dir());
        assert!(std::fs::create_dir(&git).is_err() && File::create(&git).is_err());
        placeholders.remove();
        let placeholders = house.make(false, Kind::Link);
        assert!(ALL.iter().all(|name| *name == ".codex" || !house.workspace.join(name).exists()));
        placeholders.remove();
    }

    #[test]
    fn no_directory_stands_for_a_repository_within_one() {
        let house = house();
        std::fs::create_dir(house._dir.path().join(".git")).unwrap();
        std::fs::write(house._dir.path().join(".git/HEAD"), "ref: x\n").unwrap();
        let placeholders = house.make(true, Kind::Directory);
        assert_eq!(names(&house.workspace), [".agents", ".codex", ".openoxide"]);
        placeholders.remove();
    }

    #[test]
    fn those_of_another_ledger_stay_while_they_are_relied_on() {
        for is_workspace in [false, true] {
            let house = house();
            let ledgers = house._dir.path().join("other/run");
            let other = house.try_make(is_workspace, Kind::Link, Some(&ledgers)).unwrap();
            let own = house.make(is_workspace, Kind::Link);
            // They made them; this one relies on them.
            other.remove();
            assert_eq!(names(&house.workspace), ALL);
            own.remove();
            // The last one knows links without the ledger; the directories go with the next command of theirs.
            assert!(house.workspace.join(".git").symlink_metadata().is_err());
            house.try_make(is_workspace, Kind::Link, Some(&ledgers)).unwrap().remove();
            assert_eq!(names(&house.workspace), [".codex"]);
        }
    }

    #[test]
    fn a_lock_that_somebody_keeps_stops_nobody() {
        let house = house();
        let held = File::open(&house.workspace).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        house.make(false, Kind::Link).remove();
    }

    #[test]
    fn what_a_killed_supervisor_left_goes_with_the_next_command() {
        let house = house();
        // Dropping closes the ledger and lets go of the lock, as the kernel does for the dead.
        drop(house.make(true, Kind::Link));
        assert_eq!(names(&house.workspace).len(), 4);
        house.make(true, Kind::Link).remove();
        assert_eq!(names(&house.workspace), [".codex"]);
    }

    #[test]
    fn what_the_user_made_stays() {
        let house = house();
        let placeholders = house.make(true, Kind::Link);
        std::fs::write(house.workspace.join(".agents/mine"), "x").unwrap();
        std::fs::remove_file(house.workspace.join(".git")).unwrap();
        std::os::unix::fs::symlink("mine", house.workspace.join(".git")).unwrap();
        placeholders.remove();
        assert_eq!(names(&house.workspace), [".agents", ".codex", ".git"]);
    }

    #[test]
    fn without_a_place_for_the_ledger_nothing_is_made() {
        let house = house();
        let failure = house.try_make(true, Kind::Link, None).err().unwrap();
        assert!(failure.detail.contains("OPENOXIDE_HOME"), "{failure:?}");
        assert_eq!(names(&house.workspace), [".codex"]);
    }
}
