//! SIGKILL at every step of a patch of 40 files, and at every step of putting that right: the tree is what it was before
//! the patch or what it is after it, as the ledger says, and nothing else is left.
//!
//! The test starts itself as the process that is killed. It ends itself at a step, by number.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicI64, Ordering},
};

use rustix::{
    fs::{Mode, OFlags},
    process::{Signal, getpid, kill_process},
};

use crate::{Base, Leftover, Recovered, ledger::Ledger};

/// Steps until the end of this process; none of the tests in it is counted unless it is a child.
static LEFT: AtomicI64 = AtomicI64::new(i64::MAX);

/// Which directory a child works in, which step it ends at, and what it does.
const CHILD: &str = "OPENOXIDE_KILL_CHILD";
/// Set where the file system is to look like one that cannot exchange names.
const NO_EXCHANGE: &str = "OPENOXIDE_KILL_NO_EXCHANGE";

/// A step is about to be taken.
pub(crate) fn point() {
    if LEFT.fetch_sub(1, Ordering::Relaxed) == 0 {
        kill_process(getpid(), Signal::KILL).unwrap();
    }
}

#[allow(clippy::disallowed_methods, reason = "how a test speaks to its child")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Whether names cannot be exchanged.
pub(crate) fn lacks_exchange() -> bool {
    variable(NO_EXCHANGE).is_some()
}

/// Every file and directory with its content.
fn tree(root: &Path) -> BTreeMap<PathBuf, Option<(String, u32)>> {
    let mut all = BTreeMap::new();
    let mut waiting = vec![root.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path.clone());
                all.insert(path, None);
            } else {
                let mode = fs::metadata(&path).unwrap().permissions().mode();
                let text = fs::read_to_string(&path).unwrap();
                all.insert(path, Some((text, mode)));
            }
        }
    }
    all
}

/// Ten files each to update, delete, move and add, some in directories that do not exist.
fn prepare(root: &Path) -> String {
    let mut patch = String::from("*** Begin Patch\n");
    for i in 0..10 {
        for name in ["update", "delete", "move"] {
            fs::write(root.join(format!("{name} {i}")), format!("{name}\n")).unwrap();
        }
        patch += &format!(
            "*** Update File: update {i}\n@@\n-update\n+U{i}\n*** Delete File: delete {i}\n*** Update File: move {i}\n\
             *** Move to: to/{}/moved {i}\n@@\n-move\n+M\n*** Add File: new {}/add {i}\n+x\n",
            i % 3,
            i % 2
        );
    }
    fs::set_permissions(root.join("update 3"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::set_permissions(root.join("delete 3"), fs::Permissions::from_mode(0o600)).unwrap();
    patch + "*** End Patch"
}

fn base(root: &Path) -> Base {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Base { directory: rustix::fs::open(root, flags, Mode::empty()).unwrap(), path: root.into() }
}

fn recover(work: &Path) -> (bool, Recovered) {
    let leftover = Leftover::read(&File::open(work.join("ledger")).unwrap()).unwrap().unwrap();
    assert_eq!(leftover.note(), b"a note");
    (leftover.is_done(), leftover.recover(base(&work.join("root"))).unwrap())
}

/// What the child does; in the test's own process nothing.
#[test]
fn child_that_is_killed() {
    let Some(told) = variable(CHILD) else { return };
    let mut told = told.splitn(3, ' ');
    let (what, left, work) = (told.next().unwrap(), told.next().unwrap(), Path::new(told.next().unwrap()));
    let root = work.join("root");
    match what {
        "apply" => {
            let patch = crate::parse(&fs::read_to_string(work.join("patch")).unwrap()).unwrap();
            let verified = patch.verify_where(&root, Some(base(&root)), &|_| true).unwrap();
            let file = OpenOptions::new().write(true).create_new(true).open(work.join("ledger")).unwrap();
            let ledger = Ledger::begin(file, b"a note").unwrap();
            LEFT.store(left.parse().unwrap(), Ordering::Relaxed);
            let _ = verified.commit(Some(ledger)).unwrap().finish();
        }
        _ => {
            LEFT.store(left.parse().unwrap(), Ordering::Relaxed);
            recover(work);
        }
    }
}

/// Runs a child. Says whether it was killed.
#[allow(clippy::disallowed_methods, reason = "a test starts itself")]
fn is_killed(what: &str, left: u32, work: &Path, exchange: bool) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kills::child_that_is_killed", "--test-threads=1"]);
    command.env(CHILD, format!("{what} {left} {}", work.display()));
    if !exchange {
        command.env(NO_EXCHANGE, "1");
    }
    let output = command.output().unwrap();
    assert!(output.status.success() || output.status.signal() == Some(9), "{output:?}");
    !output.status.success()
}

fn begin(work: &Path) -> PathBuf {
    let root = work.join("root");
    fs::create_dir(&root).unwrap();
    let patch = prepare(&root);
    fs::write(work.join("patch"), patch).unwrap();
    root
}

fn at_every_step(exchange: bool) {
    let [mut taken_back, mut done] = [0, 0];
    for left in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().canonicalize().unwrap();
        let root = begin(&work);
        let before = tree(&root);
        let after = {
            let other = tempfile::tempdir().unwrap();
            let other = other.path().canonicalize().unwrap();
            let patch = crate::parse(&prepare(&other)).unwrap();
            let _ = patch.verify(&other).unwrap().apply().unwrap();
            let moved =
                tree(&other).into_iter().map(|(path, what)| (root.join(path.strip_prefix(&other).unwrap()), what));
            moved.collect::<BTreeMap<_, _>>()
        };
        if !is_killed("apply", left, &work, exchange) {
            assert_eq!(tree(&root), after);
            assert!(taken_back > 200 && done > 20, "{taken_back} taken back, {done} finished");
            return;
        }
        // Some are killed again while that is put right.
        if left % 7 == 3 {
            is_killed("recover", left % 50, &work, exchange);
        }
        let (is_done, recovered) = recover(&work);
        assert_eq!(recovered, Recovered::default(), "at step {left}");
        assert_eq!(tree(&root), if is_done { after } else { before }, "at step {left}, done: {is_done}");
        // Once more changes nothing.
        assert_eq!(recover(&work).1, Recovered::default());
        *(if is_done { &mut done } else { &mut taken_back }) += 1;
    }
}

#[test]
fn killed_at_any_step_a_patch_is_all_or_nothing() {
    at_every_step(true);
}

#[test]
fn killed_at_any_step_where_names_cannot_be_exchanged() {
    at_every_step(false);
}

#[test]
fn what_somebody_wrote_since_stays() {
    // After the steps and before `done`.
    let mut left = 0;
    let (_dir, work, root) = loop {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().canonicalize().unwrap();
        let root = begin(&work);
        assert!(is_killed("apply", left, &work, true));
        // The last step of all is the one that sets the last deleted or moved file aside.
        if !root.join("move 9").exists() && root.join("new 1/add 9").exists() {
            break (dir, work, root);
        }
        left += 1;
        // The first of these steps is far down, and each look takes a while.
        left = left.max(200);
    };
    fs::write(root.join("update 1"), "mine\n").unwrap();
    fs::write(root.join("delete 2"), "mine\n").unwrap();
    fs::write(root.join("new 1/add 3"), "mine\n").unwrap();
    fs::write(root.join("new 1/mine"), "mine\n").unwrap();
    fs::remove_file(root.join("update 4")).unwrap();
    let (is_done, recovered) = recover(&work);
    assert!(!is_done && recovered.failed.is_empty(), "{recovered:?}");
    let left = recovered.left.join("\n");
    for name in ["update 1", "delete 2", "new 1/add 3"] {
        assert!(left.contains(&format!("{name} was changed since and stays")), "{left}");
        assert_eq!(fs::read_to_string(root.join(name)).unwrap(), "mine\n");
    }
    assert_eq!(recovered.left.len(), 3, "{left}");
    assert_eq!(fs::read_to_string(root.join("update 4")).unwrap(), "update\n");
    assert_eq!(fs::read_to_string(root.join("update 5")).unwrap(), "update\n");
    assert!(root.join("new 1/mine").exists() && !root.join("new 0").exists() && !root.join("to").exists());
    // Nothing that only the patch had is thrown away.
    let copies: Vec<String> = tree(&root)
        .into_iter()
        .filter(|(path, _)| path.file_name().unwrap().to_string_lossy().starts_with(".openoxide-patch-"))
        .filter_map(|(_, what)| what.map(|(text, _)| text))
        .collect();
    assert_eq!(copies.len(), 2, "{copies:?}");
}

#[test]
fn no_link_is_followed_and_no_other_file_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().canonicalize().unwrap();
    let root = begin(&work);
    let outside = work.join("outside");
    fs::create_dir_all(outside.join("0")).unwrap();
    let mut left = 200;
    while !root.join("new 1/add 9").exists() {
        for path in [root.clone(), work.join("ledger"), work.join("patch")] {
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
        begin(&work);
        assert!(is_killed("apply", left, &work, true));
        left += 1;
    }
    // The directory is another one now, and its place is taken by a link to files of the same names.
    for entry in fs::read_dir(root.join("new 1")).unwrap().flatten() {
        fs::copy(entry.path(), outside.join(entry.file_name())).unwrap();
    }
    fs::rename(root.join("new 1"), work.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("new 1")).unwrap();
    let before = tree(&outside);
    let (_, recovered) = recover(&work);
    assert!(recovered.left.iter().any(|left| left.contains("a directory on its path was replaced")), "{recovered:?}");
    assert_eq!(tree(&outside), before);
    assert!(work.join("elsewhere/add 9").exists());
}
