//! Directories that are swapped for links while patches go through them: whatever becomes of the patch, nothing outside of
//! the root changes.
//!
//! The number of tries is 2,000, or what `OPENOXIDE_RACE_TRIES` says.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::SystemTime,
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::place::Walk;

const TRIES: u32 = 2000;

#[allow(clippy::disallowed_methods, reason = "a test may be asked to try harder")]
fn tries() -> u32 {
    std::env::var("OPENOXIDE_RACE_TRIES").ok().and_then(|tries| tries.parse().ok()).unwrap_or(TRIES)
}

/// Ends the swapping when the tries are over, in whichever way.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What lies outside, as it should stay: contents, and the times of directories, which tell of files that came and went.
type State = Vec<(PathBuf, Option<String>, SystemTime)>;

fn outside(place: &Path) -> State {
    let mut all = vec![state(place.to_path_buf())];
    add(place, &mut all);
    all.sort();
    all
}

fn add(directory: &Path, all: &mut State) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            add(&entry.path(), all);
        }
        all.push(state(entry.path()));
    }
}

fn state(path: PathBuf) -> (PathBuf, Option<String>, SystemTime) {
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let content = fs::read_to_string(&path).ok();
    (path, content, modified)
}

/// `a` in the root changes places with a link to a directory outside, over and over, while patches add, update, delete,
/// move and make directories beneath it. Returns how many patches were applied.
fn race(by: Walk) -> u32 {
    let (inside, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = inside.path();
    for place in [root.join("a"), other.path().to_path_buf()] {
        fs::create_dir_all(place.join("deep")).unwrap();
        for name in ["update", "delete", "move", "deep/update"] {
            fs::write(place.join(name), format!("{name}\n")).unwrap();
        }
    }
    symlink(other.path(), root.join("swap")).unwrap();
    let before = outside(other.path());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also when an assertion fails, or the scope would wait for ever.
        let _end = End(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                renameat_with(CWD, root.join("a"), CWD, root.join("swap"), RenameFlags::EXCHANGE).unwrap();
            }
        });
        let patches = [
            "*** Add File: a/new\n+x",
            "*** Add File: a/deep/er/new\n+x",
            "*** Update File: a/update\n@@\n-update\n+U",
            "*** Update File: a/deep/update\n@@\n-deep/update\n+U",
            "*** Delete File: a/delete",
            "*** Update File: a/move\n*** Move to: a/moved/moved\n@@\n-move\n+M",
        ]
        .map(|body| crate::parse(&format!("*** Begin Patch\n{body}\n*** End Patch")).unwrap());
        let mut applied = 0;
        for patch in patches.iter().cycle().take(tries() as usize) {
            if let Ok(verified) = patch.verify_by(root, None, &|_| true, by) {
                applied += u32::from(verified.apply().is_ok());
            }
            assert_eq!(outside(other.path()), before, "something outside was changed");
            // Nothing outside has these names, so that taking them away harms nothing whichever is the link now.
            for name in ["new", "deep/er/new", "moved/moved"] {
                for place in ["a", "swap"] {
                    let _ = fs::remove_file(root.join(place).join(name));
                }
            }
        }
        applied
    })
}

#[test]
fn nothing_is_written_through_a_swapped_directory() {
    assert!(race(Walk::Kernel) > 0, "no patch went through, so nothing was tried");
}

#[test]
fn nothing_is_written_through_a_swapped_directory_without_the_kernels_walk() {
    assert!(race(Walk::ByHand) > 0, "no patch went through, so nothing was tried");
}
