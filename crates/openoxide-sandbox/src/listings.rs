//! What directories hold that the search for protected places (`protected.rs`) asks for: read once, and remembered for as
//! long as the directory says of itself that nothing in it has changed.
//!
//! A directory's time of change is set by the kernel whenever an entry of it is made, removed or renamed, and by no program.
//! A listing is remembered only where it tells: on file systems of this machine that are known to keep it, and where the
//! last change is long enough ago that another would get another time. Who is asked for a directory compares it, its inode
//! and its device; where one differs, the directory is read.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustix::fs::Stat;

/// The most trees that are remembered: a thread has its workspace and its temporary directory, and all share `/tmp`.
const MAX_TREES: usize = 64;

/// How long ago the last change of a directory must be. The kernel's clock for files moves in steps of 10 ms at most.
const SETTLED: i128 = 100_000_000;

/// Trees by their path. One process has one; it is locked for a look into the table.
#[derive(Debug, Default)]
pub(crate) struct Listings(Mutex<BTreeMap<PathBuf, Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// The number of the last use, so that the one that was not used for longest goes first.
    used: u64,
    /// The names that it was looked through for, beside those that are always protected.
    guarded: Vec<String>,
    tree: Arc<Mutex<Tree>>,
}

/// What is known of one tree, by the path of each directory below its root.
pub(crate) type Tree = HashMap<PathBuf, Listing>;

/// One directory.
#[derive(Debug)]
pub(crate) struct Listing {
    state: State,
    /// How many entries it has.
    pub(crate) entries: usize,
    /// Those that are directories, of an unknown kind, or protected, each with its place among all.
    pub(crate) names: Vec<(usize, CString)>,
}

/// What changes when a directory does, or another stands in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    device: u64,
    inode: u64,
    changed: i128,
}

impl Listings {
    /// Gives what is known of a tree to `act`, and keeps what it makes of it. Where somebody else has it at this moment,
    /// nothing is known: nobody waits for another's disk.
    pub(crate) fn with<T>(&self, root: &Path, guarded: &[String], act: impl FnOnce(&mut Tree) -> T) -> T {
        let tree = self.tree(root, guarded);
        match tree.try_lock() {
            Ok(mut tree) => act(&mut tree),
            Err(_) => act(&mut Tree::new()),
        }
    }

    fn tree(&self, root: &Path, guarded: &[String]) -> Arc<Mutex<Tree>> {
        let mut trees = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let used = trees.values().map(|kept| kept.used).max().unwrap_or(0) + 1;
        if trees.len() >= MAX_TREES && !trees.contains_key(root) {
            let oldest = trees.iter().min_by_key(|(_, kept)| kept.used).map(|(path, _)| path.clone());
            oldest.map(|path| trees.remove(&path));
        }
        let kept = trees.entry(root.into()).or_default();
        kept.used = used;
        if kept.guarded != guarded {
            (kept.guarded, kept.tree) = (guarded.to_vec(), Arc::default());
        }
        Arc::clone(&kept.tree)
    }
}

impl Listing {
    /// One that was read after the directory was in this state.
    pub(crate) fn new(state: State, entries: usize, names: Vec<(usize, CString)>) -> Self {
        Self { state, entries, names }
    }

    /// Whether the directory is as it was read.
    pub(crate) fn holds(&self, stat: &Stat) -> bool {
        self.state == State::of(stat)
    }
}

impl State {
    /// The state of a directory.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_sign_loss,
        clippy::useless_conversion,
        reason = "the types differ between systems"
    )]
    pub(crate) fn of(stat: &Stat) -> Self {
        let changed = i128::from(stat.st_ctime) * 1_000_000_000 + stat.st_ctime_nsec as i128;
        Self { device: stat.st_dev as u64, inode: stat.st_ino as u64, changed }
    }
}

/// What is remembered of a tree that is read from now on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remembered {
    /// The file system, where it is known to tell of changes.
    device: Option<u64>,
    /// When the reading began.
    since: i128,
}

impl Remembered {
    /// Of the tree of this directory.
    pub(crate) fn of(directory: BorrowedFd<'_>) -> Self {
        let state = rustix::fs::fstat(directory).map(|stat| State::of(&stat)).ok();
        let device = state.filter(|_| keeps_times(directory)).map(|state| state.device);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { device, since: i128::try_from(since.as_nanos()).unwrap_or(0) }
    }

    /// Whether any change of a directory that comes after the reading began gives it another state than this.
    pub(crate) fn includes(&self, state: &State) -> bool {
        self.device == Some(state.device) && self.since - state.changed >= SETTLED
    }
}

/// Whether the file system of a directory keeps the time of a change as is needed here: the common ones of this machine's own
/// disks and memory. One over a network is told of another machine's changes late.
#[cfg(target_os = "linux")]
fn keeps_times(directory: BorrowedFd<'_>) -> bool {
    const KNOWN: [u64; 7] = [
        0xef53,      // ext2, ext3, ext4
        0x5846_5342, // xfs
        0x9123_683e, // btrfs
        0xf2f5_2010, // f2fs
        0x2fc1_2fc1, // zfs
        0x0102_1994, // tmpfs
        0x794c_7630, // overlayfs
    ];
    // The type's width differs between machines; the numbers are 32 bits wide.
    rustix::fs::fstatfs(directory).is_ok_and(|stat| KNOWN.contains(&(stat.f_type as u64 & 0xffff_ffff)))
}

#[cfg(not(target_os = "linux"))]
fn keeps_times(_: BorrowedFd<'_>) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing() -> Listing {
        Listing::new(State { device: 1, inode: 2, changed: 3 }, 0, Vec::new())
    }

    #[test]
    fn the_tree_that_was_not_used_for_longest_is_forgotten() {
        let listings = Listings::default();
        let path = |number: usize| PathBuf::from(format!("/{number}"));
        for number in 0..MAX_TREES {
            listings.with(&path(number), &[], |tree| drop(tree.insert(PathBuf::new(), listing())));
        }
        let is_known = |number| listings.with(&path(number), &[], |tree| !tree.is_empty());
        assert!(is_known(0));
        listings.with(&path(MAX_TREES), &[], |tree| assert!(tree.is_empty()));
        assert!(is_known(0) && !is_known(1));
    }

    #[test]
    fn nobody_waits_for_a_tree() {
        let listings = Listings::default();
        listings.with(Path::new("/"), &[], |tree| {
            tree.insert(PathBuf::new(), listing());
            listings.with(Path::new("/"), &[], |tree| assert!(tree.is_empty()));
        });
        listings.with(Path::new("/"), &[], |tree| assert_eq!(tree.len(), 1));
    }
}
