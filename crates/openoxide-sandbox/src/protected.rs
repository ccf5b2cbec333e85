//! Finds what git and agents take orders from, wherever it stands beneath a writable root: as a directory, as a file that
//! points to one, as a link, and in repositories further down. Only looks; what is found is covered by the supervisor
//! (`supervisor/confine/plan.rs`) and kept from patches by [`crate::Confinement::may_write`].
//!
//! What stands there may be the work of a command, so nothing that is found makes the search fail: what cannot be read is
//! passed over, what leads nowhere is a place without a target, and nothing is covered that contains what led to it.
//!
//! The launcher looks, while its supervisor starts, and hands over what it has found (`link.rs`): a server has looked before,
//! and reads again only what has changed since (`listings.rs`).

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;

use crate::confinement::WritableRoot;
use crate::listings::{Listing, Listings, Remembered, State, Tree};
use crate::policy::PROTECTED_NAMES;
use crate::repository;
use crate::workspace::open_without_links;

/// How far below a root repositories are looked for, and how many entries are looked at in all.
const DEPTH: usize = 3;
const ENTRIES: usize = 5000;

/// Directories that are large and hold no repository of the user's.
const SKIPPED: [&str; 2] = ["node_modules", "target"];

/// The most links that are followed to one target, as the kernel has it.
const MAX_LINKS: usize = 40;

/// Whether a name is one of [`PROTECTED_NAMES`], in any case of letters.
pub(crate) fn is_protected_name(name: &OsStr) -> bool {
    PROTECTED_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Whether a name is one of those that are protected where they exist, in any case of letters.
pub(crate) fn is_guarded_name(name: &OsStr, guarded: &[String]) -> bool {
    guarded.iter().any(|known| name.eq_ignore_ascii_case(known.as_str()))
}

/// The places beneath one of the roots that nobody but the user may change: absolute, without links but for the last name.
/// What `listings` knows of a directory that has not changed is not read again.
pub(crate) fn find(
    root: &WritableRoot,
    directory: BorrowedFd<'_>,
    roots: &[WritableRoot],
    guarded: &[String],
    listings: &Listings,
) -> BTreeSet<PathBuf> {
    let mut search = Search {
        roots,
        guarded,
        // In a directory that many users share only what is this user's can be an order to this user's programs.
        owner: (!root.is_workspace).then(|| rustix::process::geteuid().as_raw()),
        entries: ENTRIES,
        found: BTreeSet::new(),
    };
    for name in PROTECTED_NAMES.into_iter().chain(guarded.iter().map(String::as_str)) {
        // Found by name, so that no number of other entries cuts them off, nor a directory that cannot be listed.
        search.handle_entry(directory, &root.path, Path::new(name));
    }
    listings.with(&root.path, guarded, |known| search.descend(directory, &root.path, known));
    search.found
}

/// [`find`] for all of the writable directories of a confinement.
pub(crate) fn find_all(roots: &[WritableRoot], guarded: &[String], listings: &Listings) -> BTreeSet<PathBuf> {
    // In a repository's own directory other names count, which are held by themselves.
    let found = roots.iter().filter(|root| !root.is_git).filter_map(|root| {
        // One that is another by now is refused by the supervisor, which compares again.
        let directory = open_without_links(&root.path).ok()?;
        Some(find(root, directory.as_fd(), roots, guarded, listings))
    });
    found.flatten().collect()
}

/// What an entry of a protected name leads to, where it is one and a command could change what it leads to.
pub(crate) fn leads_to(entry: &Path, roots: &[WritableRoot]) -> BTreeSet<PathBuf> {
    let mut search = Search { roots, guarded: &[], owner: None, entries: 0, found: BTreeSet::new() };
    // An absolute path stands for itself wherever it is looked up.
    search.handle_entry(rustix::fs::CWD, Path::new("/"), entry);
    search.found
}

struct Search<'a> {
    roots: &'a [WritableRoot],
    guarded: &'a [String],
    /// Where set, what belongs to others is left alone.
    owner: Option<u32>,
    /// How many more are looked at.
    entries: usize,
    found: BTreeSet<PathBuf>,
}

impl Search<'_> {
    /// Looks into a directory and those below it, nearer ones first, so that the bound cuts off the farthest. Paths are
    /// those below the directory.
    fn descend(&mut self, directory: BorrowedFd<'_>, root: &Path, known: &mut Tree) {
        let remembered = Remembered::of(directory);
        let (mut before, mut level) = (std::mem::take(known), vec![PathBuf::new()]);
        for depth in 0..=DEPTH {
            let mut next = Vec::new();
            for below in level {
                let Some(read) = self.look(directory, &below, before.remove(&below)) else { continue };
                let most = self.entries;
                for (_, name) in read.listing.names.iter().take_while(|(place, _)| *place < most) {
                    let name = OsStr::from_bytes(name.to_bytes());
                    let inner = below.join(name);
                    if self.is_wanted(name) {
                        self.handle_entry(directory, root, &inner);
                    } else if depth < DEPTH
                        && !SKIPPED.iter().any(|skipped| name == *skipped)
                        // A root has a search of its own.
                        && !self.is_root(&root.join(&inner))
                    {
                        next.push(inner);
                    }
                }
                self.entries = self.entries.saturating_sub(read.listing.entries);
                if read.is_whole && remembered.includes(&read.state) {
                    known.insert(below, read.listing);
                }
            }
            level = next;
        }
    }

    /// What a directory holds, by what is known of it or by reading it; none for what is none, is another user's, or cannot be
    /// entered, which the command cannot either.
    fn look(&self, top: BorrowedFd<'_>, below: &Path, known: Option<Listing>) -> Option<Read> {
        let is_top = below.as_os_str().is_empty();
        let stat = if is_top { fstat(top) } else { statat(top, below, AtFlags::SYMLINK_NOFOLLOW) }.ok()?;
        if let Some(listing) = known.filter(|known| known.holds(&stat)) {
            let is_ours = is_top || self.is_ours(|| Ok(stat));
            return is_ours.then(|| Read { state: State::of(&stat), is_whole: true, listing });
        }
        if !FileType::from_raw_mode(stat.st_mode).is_dir() {
            return None;
        }
        let directory = open_below(top, below).ok()?;
        let stat = fstat(&directory).ok()?;
        if !is_top && !self.is_ours(|| Ok(stat)) {
            return None;
        }
        let (mut entries, mut names, mut is_whole) = (0, Vec::new(), true);
        let listed = each_entry(directory.as_fd(), |name, kind| {
            // Every directory has these two; they are no entries that anybody made.
            if name == c"." || name == c".." {
                return true;
            }
            if entries == self.entries {
                is_whole = false;
                return false;
            }
            let is_wanted = match kind {
                FileType::Directory | FileType::Unknown => true,
                _ => self.is_wanted(OsStr::from_bytes(name.to_bytes())),
            };
            if is_wanted {
                names.push((entries, name.to_owned()));
            }
            entries += 1;
            true
        });
        listed.ok()?;
        let state = State::of(&stat);
        Some(Read { state, is_whole, listing: Listing::new(state, entries, names) })
    }

    fn is_wanted(&self, name: &OsStr) -> bool {
        is_protected_name(name) || is_guarded_name(name, self.guarded)
    }

    fn is_root(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| root.path == path)
    }

    fn is_ours(&self, stat: impl FnOnce() -> Result<Stat, Errno>) -> bool {
        self.owner.is_none_or(|owner| stat().is_ok_and(|stat| stat.st_uid == owner))
    }

    /// Notes one protected entry, and what it leads to.
    fn handle_entry(&mut self, directory: BorrowedFd<'_>, parent: &Path, below: &Path) {
        let path = parent.join(below);
        let Ok(stat) = statat(directory, below, AtFlags::SYMLINK_NOFOLLOW) else { return };
        if !self.found.insert(path.clone()) || !self.is_ours(|| Ok(stat)) {
            return;
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => self.handle_target(&path, &path, false),
            FileType::RegularFile => {
                for target in repository::pointed_to(&path) {
                    self.handle_target(&path, &target, true);
                }
            }
            _ => {}
        }
    }

    /// Notes what an entry leads to, and the links on the way, where a command could change them.
    fn handle_target(&mut self, entry: &Path, target: &Path, is_pointer: bool) {
        let Some(Resolved { links, target }) = resolve(target) else { return };
        let can_be_changed = |path: &Path| self.roots.iter().any(|root| path.starts_with(&root.path));
        let contains_a_root = |path: &Path| self.roots.iter().any(|root| root.path.starts_with(path));
        // One that contains what led to it would close the whole workspace.
        let is_apt = |path: &Path| can_be_changed(path) && !contains_a_root(path) && !entry.starts_with(path);
        let target = target.filter(|target| is_apt(target) && (!is_pointer || repository::is_git_directory(target)));
        if is_pointer && target.is_none() {
            return;
        }
        let links: Vec<PathBuf> = links.into_iter().filter(|link| is_apt(link)).collect();
        self.found.extend(links.into_iter().chain(target));
    }
}

/// A directory that was read, or is known.
struct Read {
    /// As it was before.
    state: State,
    /// Whether the bound cut nothing off.
    is_whole: bool,
    listing: Listing,
}

/// Opens a directory beneath another to list it, through no link.
pub(crate) fn open_below(top: BorrowedFd<'_>, below: &Path) -> Result<OwnedFd, Errno> {
    const LISTED: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let path = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(top, path, LISTED, Mode::empty(), resolve) {
            // No such call here, or a filter that does not know it.
            Err(Errno::NOSYS | Errno::PERM) => {}
            other => return other,
        }
    }
    let mut directory = openat(top, c".", LISTED, Mode::empty())?;
    for name in below {
        directory = openat(&directory, name, LISTED, Mode::empty())?;
    }
    Ok(directory)
}

/// Calls back for each entry of a directory until told not to.
#[cfg(target_os = "linux")]
pub(crate) fn each_entry(directory: BorrowedFd<'_>, mut act: impl FnMut(&CStr, FileType) -> bool) -> Result<(), Errno> {
    // Read by the descriptor itself: opening it anew would be a third of what a small directory costs.
    let mut room = [std::mem::MaybeUninit::uninit(); 4096];
    let mut entries = rustix::fs::RawDir::new(directory, &mut room);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !act(entry.file_name(), entry.file_type()) {
            break;
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn each_entry(directory: BorrowedFd<'_>, mut act: impl FnMut(&CStr, FileType) -> bool) -> Result<(), Errno> {
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        if !act(entry.file_name(), entry.file_type()) {
            break;
        }
    }
    Ok(())
}

/// Where a path leads.
struct Resolved {
    /// The links on the way, each without links before its last name.
    links: Vec<PathBuf>,
    /// What stands at the end; none where nothing does.
    target: Option<PathBuf>,
}

/// Follows an absolute path; none where links lead in a circle.
fn resolve(path: &Path) -> Option<Resolved> {
    let mut links = Vec::new();
    let mut at = PathBuf::from("/");
    let mut waiting: Vec<PathBuf> = vec![path.into()];
    while let Some(next) = waiting.pop() {
        let mut components = next.components();
        while let Some(component) = components.next() {
            match component {
                Component::RootDir | Component::Prefix(_) => at = PathBuf::from("/"),
                Component::CurDir => {}
                Component::ParentDir => drop(at.pop()),
                Component::Normal(name) => {
                    at.push(name);
                    let Ok(metadata) = at.symlink_metadata() else {
                        return Some(Resolved { links, target: None });
                    };
                    if !metadata.is_symlink() {
                        continue;
                    }
                    let Ok(target) = std::fs::read_link(&at) else { return None };
                    links.push(at.clone());
                    if links.len() > MAX_LINKS {
                        return None;
                    }
                    at.pop();
                    waiting.push(components.as_path().into());
                    waiting.push(target);
                    break;
                }
            }
        }
    }
    Some(Resolved { links, target: Some(at) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guarded() -> Vec<String> {
        vec![".vscode".to_owned(), ".envrc".to_owned()]
    }

    struct House {
        _dir: tempfile::TempDir,
        path: PathBuf,
        /// Shared by all searches, so that each but the first may know something.
        listings: Listings,
    }

    impl House {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().canonicalize().unwrap().join("ws");
            std::fs::create_dir(&path).unwrap();
            Self { _dir: dir, path, listings: Listings::default() }
        }

        fn git_directory(&self, name: &str) {
            std::fs::create_dir_all(self.path.join(name)).unwrap();
            std::fs::write(self.path.join(name).join("HEAD"), "ref: refs/heads/main\n").unwrap();
        }

        fn link(&self, target: &str, name: &str) {
            std::fs::create_dir_all(self.path.join(name).parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, self.path.join(name)).unwrap();
        }

        fn found(&self) -> Vec<String> {
            let root = WritableRoot { path: self.path.clone(), is_workspace: true, is_git: false, id: None };
            let directory = std::fs::File::open(&self.path).unwrap();
            let found = find(&root, directory.as_fd(), std::slice::from_ref(&root), &guarded(), &self.listings);
            found.iter().map(|path| path.strip_prefix(&self.path).unwrap().to_str().unwrap().to_owned()).collect()
        }
    }

    #[test]
    fn a_repository_is_found_among_as_many_directories_as_the_bound_says() {
        let house = House::new();
        house.git_directory("many/zzz/.git");
        for number in 0..ENTRIES - 10 {
            std::fs::create_dir(house.path.join(format!("many/{number}"))).unwrap();
        }
        assert_eq!(house.found(), ["many/zzz/.git"]);
    }

    #[test]
    fn guarded_names_are_found_where_they_exist_whatever_they_are() {
        let house = House::new();
        house.git_directory("a/.VSCode");
        std::fs::write(house.path.join("a/.envrc"), "").unwrap();
        house.link("../a", "b/.vscode");
        assert_eq!(house.found(), ["a", "a/.VSCode", "a/.envrc", "b/.vscode"]);
        // Other names are other entries, also of directories that have not changed.
        let root = WritableRoot { path: house.path.clone(), is_workspace: true, is_git: false, id: None };
        let directory = std::fs::File::open(&house.path).unwrap();
        let roots = std::slice::from_ref(&root);
        let found = |guarded: &[String]| find(&root, directory.as_fd(), roots, guarded, &house.listings).len();
        assert_eq!((found(&[]), found(&guarded())), (0, 4));
    }

    #[test]
    fn names_are_protected_in_any_case() {
        assert!(is_protected_name(OsStr::new(".GIT")) && is_protected_name(OsStr::new(".agents")));
        assert!(!is_protected_name(OsStr::new(".github")) && !is_protected_name(OsStr::new("git")));
    }

    #[test]
    fn repositories_are_found_at_the_top_and_further_down() {
        let house = House::new();
        for name in [".git", "a/.GIT", "a/b/c/.git", "a/b/c/d/.git", "target/x/.git"] {
            house.git_directory(name);
        }
        assert_eq!(house.found(), [".git", "a/.GIT", "a/b/c/.git"]);
    }

    /// Waits until what is known of the house is remembered: by looking, until nothing that is read anew changes it.
    fn settle(house: &House) {
        let is_known = || house.listings.with(&house.path, &guarded(), |tree| tree.contains_key(Path::new("a/b/c")));
        while !is_known() {
            house.found();
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_is_known_of_a_directory_holds_until_it_changes() {
        let house = House::new();
        for name in [".git", "a/b/c/.git", "a/b/d"] {
            house.git_directory(name);
        }
        settle(&house);
        let before = house.listings.with(&house.path, &guarded(), |tree| tree.keys().cloned().collect::<BTreeSet<_>>());
        assert_eq!(house.found(), [".git", "a/b/c/.git"]);
        // Each is told by the directory that it stands in, however the entry comes there.
        house.git_directory("a/b/d/.git");
        assert_eq!(house.found(), [".git", "a/b/c/.git", "a/b/d/.git"]);
        settle(&house);
        std::fs::rename(house.path.join("a/b/c"), house.path.join("a/x")).unwrap();
        assert_eq!(house.found(), [".git", "a/b/d/.git", "a/x/.git"]);
        // One that takes another's place by the same name.
        std::fs::create_dir_all(house.path.join("a/y/.agents")).unwrap();
        std::fs::rename(house.path.join("a/b"), house.path.join("old")).unwrap();
        std::fs::rename(house.path.join("a/y"), house.path.join("a/b")).unwrap();
        assert_eq!(house.found(), [".git", "a/b/.agents", "a/x/.git", "old/d/.git"]);
        // What a known entry is and leads to is looked at each time.
        house.git_directory("real");
        std::fs::remove_dir_all(house.path.join("a/b/.agents")).unwrap();
        house.link("../../real", "a/b/.agents");
        assert!(house.found().contains(&"real".to_owned()));
        let after = house.listings.with(&house.path, &guarded(), |tree| tree.keys().cloned().collect::<BTreeSet<_>>());
        assert!(
            before.contains(Path::new("a/b/c")) && !after.contains(Path::new("a/b/c")),
            "what is gone is forgotten"
        );
    }

    #[test]
    fn a_known_tree_is_bounded_as_a_new_one() {
        let house = House::new();
        for number in 0..ENTRIES / 40 {
            house.git_directory(&format!("d{number}/.git"));
            for other in 0..40 {
                std::fs::write(house.path.join(format!("d{number}/{other}")), "").unwrap();
            }
        }
        let first = house.found();
        assert!(first.len() < ENTRIES / 40, "the bound is reached");
        for _ in 0..3 {
            assert_eq!(house.found(), first);
        }
    }

    #[test]
    fn links_are_followed_one_by_one_and_each_is_a_place() {
        let house = House::new();
        house.git_directory("real");
        house.link("current", ".git");
        house.link("real", "current");
        assert_eq!(house.found(), [".git", "current", "real"]);
    }

    #[test]
    fn what_leads_nowhere_or_in_a_circle_is_a_place_and_no_more() {
        let house = House::new();
        std::fs::write(house.path.join("file"), "").unwrap();
        house.link(".git", "d/.git");
        house.link("../file/x", "e/.git");
        house.link("nowhere", "f/.git");
        std::fs::create_dir_all(house.path.join("g")).unwrap();
        std::fs::write(house.path.join("g/.git"), [0xff; 5000]).unwrap();
        assert_eq!(house.found(), ["d/.git", "e/.git", "f/.git", "g/.git"]);
    }

    #[test]
    fn nothing_closes_what_contains_it() {
        let house = House::new();
        house.git_directory("src");
        for (name, pointer) in [("a", "gitdir: ..\n"), ("b", "gitdir: ../src/sub\n"), ("c", "gitdir: .\n")] {
            std::fs::create_dir_all(house.path.join(name)).unwrap();
            std::fs::write(house.path.join(name).join(".git"), pointer).unwrap();
        }
        std::fs::write(house.path.join("HEAD"), "ref: x\n").unwrap();
        house.link("..", "d/.git");
        house.link("/", "e/.git");
        assert_eq!(house.found(), ["a/.git", "b/.git", "c/.git", "d/.git", "e/.git"]);
        // A git directory is closed.
        std::fs::write(house.path.join("b/.git"), "gitdir: ../src\n").unwrap();
        assert!(house.found().contains(&"src".to_owned()));
    }
}
