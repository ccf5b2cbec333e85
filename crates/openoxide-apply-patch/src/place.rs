//! Names in open directories: how every file of a patch is reached.
//!
//! A [`Place`] is a descriptor of a directory and one name in it, so that whoever swaps a directory for a link between
//! the check and the write changes nothing: the descriptor stays with the directory that was found, and finding it never
//! follows a link. The kernel walks the whole path where it can (`openat2`); elsewhere each component is opened for itself
//! and no link is followed either.
//!
//! Mount points on the way are passed: a directory mounted into a workspace belongs to it.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat},
    io::Errno,
};

/// A directory is opened to be walked from, not to be listed.
#[cfg(target_os = "linux")]
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Who walks a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walk {
    /// The kernel in one call, or this program where the kernel cannot.
    Kernel,
    /// This program.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests take the way of systems without the call"))]
    ByHand,
}

/// A directory to walk from.
#[derive(Debug, Clone)]
pub(crate) struct Anchor {
    directory: Arc<OwnedFd>,
    /// Where it is: absolute, without links.
    path: PathBuf,
    walk: Walk,
}

/// A name in an open directory.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    directory: Arc<OwnedFd>,
    name: OsString,
    /// For messages alone.
    path: PathBuf,
}

/// A directory that was made on the way to a place.
pub(crate) struct Made(Place);

/// Who is told of directories that are made.
pub(crate) trait Making {
    /// One is about to be made.
    fn about_to_make(&mut self, path: &Path) -> io::Result<()>;

    /// It was made. An error ends the way to the place; what was made has been taken over all the same.
    fn made(&mut self, made: Made) -> io::Result<()>;
}

impl Anchor {
    /// Opens a directory by its path, which is absolute and without links.
    pub(crate) fn open(path: &Path, walk: Walk) -> io::Result<Self> {
        let directory = rustix::fs::open(path, DIRECTORY, Mode::empty())?;
        Ok(Self { directory: Arc::new(directory), path: path.into(), walk })
    }

    /// A directory that is open already.
    pub(crate) fn held(directory: OwnedFd, path: PathBuf, walk: Walk) -> Self {
        Self { directory: Arc::new(directory), path, walk }
    }

    /// A directory further down, by its absolute path; no link is followed on the way.
    pub(crate) fn below(&self, path: &Path) -> io::Result<Self> {
        let below = path.strip_prefix(&self.path).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self { directory: self.descend(below)?, path: path.into(), walk: self.walk })
    }

    /// How it walks.
    pub(crate) fn walk(&self) -> Walk {
        self.walk
    }

    /// The place of a path below this directory; none where a directory on the way does not exist.
    ///
    /// # Errors
    /// Something on the way is no directory, or a link.
    pub(crate) fn place(&self, path: &Path) -> io::Result<Option<Place>> {
        let (parents, name) = self.split(path)?;
        match self.descend(&parents) {
            Ok(directory) => Ok(Some(Place { directory, name, path: path.into() })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The same, making the directories that are missing, outermost first.
    pub(crate) fn make_place(&self, path: &Path, making: &mut dyn Making) -> io::Result<Place> {
        let (parents, name) = self.split(path)?;
        let mut directory = Arc::clone(&self.directory);
        let mut so_far = self.path.clone();
        for part in &parents {
            so_far.push(part);
            let next = match step(&directory, part) {
                Err(Errno::NOENT) => {
                    making.about_to_make(&so_far)?;
                    #[cfg(test)]
                    crate::kills::point();
                    rustix::fs::mkdirat(&directory, part, Mode::from_raw_mode(0o777))?;
                    let place = Place { directory: Arc::clone(&directory), name: part.into(), path: so_far.clone() };
                    making.made(Made(place))?;
                    step(&directory, part)
                }
                other => other,
            };
            directory = Arc::new(next?);
        }
        Ok(Place { directory, name, path: path.into() })
    }

    /// The parents and the name of a path below this directory.
    fn split(&self, path: &Path) -> io::Result<(PathBuf, OsString)> {
        let below = path.strip_prefix(&self.path).ok();
        let plain = below.filter(|below| below.components().all(|part| matches!(part, Component::Normal(_))));
        match plain.and_then(|below| Some((below.parent()?.to_path_buf(), below.file_name()?.to_owned()))) {
            Some(split) => Ok(split),
            None => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a path below the directory")),
        }
    }

    fn descend(&self, parents: &Path) -> Result<Arc<OwnedFd>, Errno> {
        if parents.as_os_str().is_empty() {
            return Ok(Arc::clone(&self.directory));
        }
        if self.walk == Walk::Kernel {
            match at_once(&self.directory, parents) {
                // No such call here, or a filter that does not know it.
                Err(Errno::NOSYS | Errno::PERM) => {}
                other => return other.map(Arc::new),
            }
        }
        let mut directory = Arc::clone(&self.directory);
        for part in parents {
            directory = Arc::new(step(&directory, part)?);
        }
        Ok(directory)
    }
}

/// Opens a directory further down in one call.
#[cfg(target_os = "linux")]
fn at_once(directory: &OwnedFd, parents: &Path) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(directory, parents, DIRECTORY, Mode::empty(), resolve)
}

#[cfg(not(target_os = "linux"))]
fn at_once(_: &OwnedFd, _: &Path) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Opens the directory of one name. With `NOFOLLOW` a link is no directory, and one name climbs nowhere.
fn step(directory: &OwnedFd, part: &OsStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(directory, part, DIRECTORY, Mode::empty())
}

impl Made {
    /// Which one it is.
    pub(crate) fn place(&self) -> &Place {
        &self.0
    }

    /// Takes the directory away again, if it is empty.
    pub(crate) fn remove(&self) {
        self.0.remove_directory();
    }
}

impl Place {
    /// As to show.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Another name in the same directory.
    pub(crate) fn sibling(&self, name: &str) -> Self {
        Self { directory: Arc::clone(&self.directory), name: name.into(), path: self.path.with_file_name(name) }
    }

    /// What stands there, not following a link; none where nothing does.
    pub(crate) fn stat(&self) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(self.directory.as_fd(), &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether this process may write the file there.
    pub(crate) fn check_writable(&self) -> io::Result<()> {
        let access = rustix::fs::Access::WRITE_OK;
        Ok(rustix::fs::accessat(self.directory.as_fd(), &self.name, access, AtFlags::empty())?)
    }

    /// Opens the file for reading. A pipe that has taken its place does not make it wait.
    pub(crate) fn open(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(self.directory.as_fd(), &self.name, flags, Mode::empty())?.into())
    }

    /// Makes a file of a name that must be free.
    pub(crate) fn create(&self, mode: u32) -> io::Result<File> {
        #[cfg(test)]
        crate::kills::point();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_bits_truncate(mode as rustix::fs::RawMode);
        Ok(rustix::fs::openat(self.directory.as_fd(), &self.name, flags, mode)?.into())
    }

    /// Renames over whatever stands at the other place.
    pub(crate) fn rename(&self, to: &Self) -> io::Result<()> {
        #[cfg(test)]
        crate::kills::point();
        Ok(rustix::fs::renameat(self.directory.as_fd(), &self.name, to.directory.as_fd(), &to.name)?)
    }

    /// Lets the two places swap what stands there.
    pub(crate) fn exchange(&self, with: &Self) -> Result<(), Errno> {
        #[cfg(test)]
        crate::kills::point();
        #[cfg(test)]
        if crate::kills::lacks_exchange() {
            return Err(Errno::INVAL);
        }
        let (from, to) = (self.directory.as_fd(), with.directory.as_fd());
        rustix::fs::renameat_with(from, &self.name, to, &with.name, RenameFlags::EXCHANGE)
    }

    /// Renames to a place that must be free, in one step where the file system can.
    pub(crate) fn rename_new(&self, to: &Self) -> io::Result<()> {
        #[cfg(test)]
        crate::kills::point();
        let (from, into) = (self.directory.as_fd(), to.directory.as_fd());
        match rustix::fs::renameat_with(from, &self.name, into, &to.name, RenameFlags::NOREPLACE) {
            Err(errno) if is_unsupported(errno) => {
                // A hard link fails on a taken name just as well.
                rustix::fs::linkat(from, &self.name, into, &to.name, AtFlags::empty())?;
                self.remove()
            }
            result => Ok(result?),
        }
    }

    /// Removes the directory there, if it is empty.
    pub(crate) fn remove_directory(&self) {
        #[cfg(test)]
        crate::kills::point();
        // One that is not empty belongs to someone else by now.
        let _ = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::REMOVEDIR);
    }

    /// Removes the file.
    pub(crate) fn remove(&self) -> io::Result<()> {
        #[cfg(test)]
        crate::kills::point();
        Ok(rustix::fs::unlinkat(self.directory.as_fd(), &self.name, AtFlags::empty())?)
    }

    /// What a link there points to, as to show.
    pub(crate) fn points_to(&self) -> String {
        let target = rustix::fs::readlinkat(self.directory.as_fd(), &self.name, Vec::new());
        target.map_or_else(|_| "?".into(), |to| to.to_string_lossy().into_owned())
    }
}

/// Whether the kernel or the file system lacks the kind of rename asked for.
pub(crate) fn is_unsupported(errno: Errno) -> bool {
    [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::OPNOTSUPP].contains(&errno)
}

/// What kind of file it is.
pub(crate) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Device and inode: which file it is, whatever it is called.
#[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "the types differ between systems")]
pub(crate) fn id(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    impl Making for Vec<Made> {
        fn about_to_make(&mut self, _: &Path) -> io::Result<()> {
            Ok(())
        }

        fn made(&mut self, made: Made) -> io::Result<()> {
            self.push(made);
            Ok(())
        }
    }

    #[test]
    fn no_link_is_followed_on_the_way() {
        for walk in [Walk::Kernel, Walk::ByHand] {
            let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let root = inside.path().canonicalize().unwrap();
            std::fs::create_dir_all(root.join("a/b")).unwrap();
            symlink(outside.path(), root.join("a/out")).unwrap();
            symlink("b", root.join("a/in")).unwrap();
            let anchor = Anchor::open(&root, walk).unwrap();
            let place = anchor.place(&root.join("a/b/new")).unwrap().unwrap();
            place.create(0o666).unwrap();
            assert!(root.join("a/b/new").exists());
            for link in ["a/out/new", "a/in/new"] {
                assert!(anchor.place(&root.join(link)).is_err(), "{link} by {walk:?}");
                assert!(anchor.make_place(&root.join(link), &mut Vec::<Made>::new()).is_err(), "{link} by {walk:?}");
            }
            assert!(anchor.place(&root.join("a/no/new")).unwrap().is_none());
            for foreign in ["/elsewhere/new", "a/b/new"] {
                assert!(anchor.place(Path::new(foreign)).is_err(), "{foreign}");
            }
            assert!(anchor.place(&root.join("a/../../x")).is_err());
        }
    }

    #[test]
    fn a_place_stays_with_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("a")).unwrap();
        let anchor = Anchor::open(&root, Walk::Kernel).unwrap();
        let place = anchor.place(&root.join("a/new")).unwrap().unwrap();
        std::fs::rename(root.join("a"), root.join("b")).unwrap();
        symlink("/", root.join("a")).unwrap();
        place.create(0o666).unwrap();
        assert!(root.join("b/new").exists());
    }

    #[test]
    fn directories_that_were_made_can_be_taken_away() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let anchor = Anchor::open(&root, Walk::Kernel).unwrap();
        let mut made: Vec<Made> = Vec::new();
        anchor.make_place(&root.join("x/y/new"), &mut made).unwrap();
        assert!(root.join("x/y").is_dir() && made.len() == 2);
        made.iter().rev().for_each(Made::remove);
        assert!(!root.join("x").exists());
    }
}
