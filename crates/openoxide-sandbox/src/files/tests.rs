//! Tests of [`FileView`]: what it lets through, and that an exchange while it looks gains nothing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::look_up::look_up_by_hand;
use super::*;

struct House {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl House {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        for name in ["work/sub", "secret", "outside"] {
            fs::create_dir_all(path.join(name)).unwrap();
        }
        fs::write(path.join("work/a"), "inside").unwrap();
        fs::write(path.join("secret/key"), "SECRET").unwrap();
        fs::write(path.join("outside/b"), "outside").unwrap();
        Self { _dir: dir, path }
    }

    fn view(&self) -> FileView {
        let workspace = Arc::new(Workspace::resolve(&self.path.join("work")).unwrap());
        FileView::new(workspace, vec![self.path.join("secret")])
    }
}

fn text(file: &OpenedFile) -> String {
    String::from_utf8(file.read_whole(1000).unwrap().unwrap()).unwrap()
}

fn fifo(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn what_is_hidden_or_made_by_the_kernel_is_refused_whatever_leads_there() {
    let house = House::new();
    let view = house.view();
    symlink("../secret/key", house.path.join("work/link")).unwrap();
    symlink("../secret", house.path.join("work/dir")).unwrap();
    symlink("/proc/self/environ", house.path.join("work/environ")).unwrap();
    symlink("/proc/self/root", house.path.join("work/root")).unwrap();
    let open = |path: &str| view.open(Path::new(path)).map(drop);
    for path in ["link", "dir", "dir/key", "../secret/key", "sub/../dir/key"] {
        assert!(matches!(open(path), Err(OpenError::Hidden)), "{path}: {:?}", open(path));
    }
    for path in ["environ", "/proc/self/environ", "/proc/self/maps", "/sys/kernel", "/proc", "/proc/kmsg"] {
        assert!(matches!(open(path), Err(OpenError::Kernel)), "{path}: {:?}", open(path));
    }
    for path in ["root/etc/passwd", "/proc/self/cwd", "/proc/self/fd/0"] {
        assert!(matches!(open(path), Err(OpenError::Link | OpenError::Kernel)), "{path}: {:?}", open(path));
    }
    assert_eq!(text(&view.open_file(Path::new("../outside/b")).unwrap()), "outside");
    assert_eq!(text(&view.open_file(&house.path.join("work/a")).unwrap()), "inside");
}

#[test]
fn pipes_devices_sockets_and_endless_things_are_never_opened() {
    let house = House::new();
    let view = house.view();
    fifo(&house.path.join("work/pipe"));
    symlink("/dev/zero", house.path.join("work/zero")).unwrap();
    symlink("loop", house.path.join("work/loop")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(house.path.join("work/socket")).unwrap();
    let open = |path: &str| view.open_file(Path::new(path)).map(drop).unwrap_err().to_string();
    assert!(open("pipe").contains("a pipe"));
    assert!(open("zero").contains("a device"));
    assert!(open("socket").contains("a socket"));
    assert!(open("loop").contains("circle"));
    assert!(open("sub").contains("a directory"));
    assert!(matches!(view.open_file(Path::new("none")), Err(OpenError::NotFound)));
}

#[test]
fn a_look_up_beneath_follows_links_that_stay_and_no_others() {
    let house = House::new();
    let view = house.view();
    symlink("../a", house.path.join("work/sub/stays")).unwrap();
    symlink("../../outside/b", house.path.join("work/sub/leaves")).unwrap();
    symlink(house.path.join("work/a"), house.path.join("work/sub/absolute")).unwrap();
    let root = view.open_workspace().unwrap();
    let open = |path: &str, links| view.file_beneath(&root, Path::new(path), links);
    assert_eq!(text(&open("sub/stays", Links::Beneath).unwrap()), "inside");
    for (path, links) in [
        ("sub/stays", Links::Refused),
        ("sub/leaves", Links::Beneath),
        ("sub/absolute", Links::Beneath),
        ("../outside/b", Links::Beneath),
        ("../outside/b", Links::Refused),
    ] {
        assert!(matches!(open(path, links), Err(OpenError::Link)), "{path}: {:?}", open(path, links));
    }
}

#[test]
fn by_hand_the_answers_are_the_same() {
    let house = House::new();
    symlink("../a", house.path.join("work/sub/stays")).unwrap();
    symlink("../../outside/b", house.path.join("work/sub/leaves")).unwrap();
    let view = house.view();
    let root = view.open_workspace().unwrap();
    let from = root.directory.as_fd();
    let beneath = |path: &str, links| look_up_by_hand(from, Path::new(path), Reach::Beneath(links)).is_ok();
    assert!(beneath("sub/stays", Links::Beneath) && beneath("a", Links::Refused));
    assert!(!beneath("sub/leaves", Links::Beneath) && !beneath("../outside/b", Links::Refused));
    assert!(look_up_by_hand(from, Path::new("/proc/self/environ"), Reach::Anywhere).is_err());
}

#[test]
fn names_are_bytes() {
    let house = House::new();
    let name = OsStr::from_bytes(b"\xff\n");
    fs::write(house.path.join("work/sub").join(name), "odd").unwrap();
    let view = house.view();
    let sub = view.open_directory(Path::new("sub")).unwrap();
    let (entries, has_more) = sub.entries(10).unwrap();
    assert_eq!(entries, [Entry { name: name.to_owned(), kind: EntryKind::File }]);
    assert!(!has_more && sub.entries(0).unwrap().1);
    assert_eq!(text(&view.file_beneath(&sub, Path::new(name), Links::Refused).unwrap()), "odd");
}

#[test]
fn the_workspace_is_the_directory_that_was_opened_and_not_its_path() {
    let house = House::new();
    let view = house.view();
    fs::rename(house.path.join("work"), house.path.join("moved")).unwrap();
    symlink("secret", house.path.join("work")).unwrap();
    assert_eq!(text(&view.open_file(&house.path.join("work/a")).unwrap()), "inside");
    assert!(matches!(view.open_file(&house.path.join("work/key")), Err(OpenError::NotFound)));
}

#[test]
fn a_private_tmp_takes_the_place_of_the_shared_one() {
    let house = House::new();
    let elsewhere = tempfile::tempdir_in("/tmp").unwrap();
    let root = elsewhere.path().canonicalize().unwrap();
    std::fs::write(root.join("c"), "root").unwrap();
    let private = house.path.join("outside");
    let view = house.view().with_private_tmp(Some(private.clone()), std::slice::from_ref(&root));
    assert_eq!(text(&view.open_file(Path::new("/tmp/b")).unwrap()), "outside");
    // The workspace itself may lie below the shared one, and stays where it is.
    assert_eq!(text(&view.open_file(&house.path.join("work/a")).unwrap()), "inside");
    // So may what else is written, and the directory that stands for it has a name of its own.
    assert_eq!(text(&view.open_file(&root.join("c")).unwrap()), "root");
    assert_eq!(text(&view.open_file(&private.join("b")).unwrap()), "outside");
    let without = house.view().with_private_tmp(Some(private), &[]);
    assert!(matches!(without.open_file(&root.join("c")), Err(OpenError::NotFound)));
}

/// Exchanges two names as fast as it can until it is dropped.
struct Exchange {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Exchange {
    fn new(a: PathBuf, b: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &a, rustix::fs::CWD, &b, flags).unwrap();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Tries of each race.
const RACES: usize = 20_000;

#[test]
fn an_exchange_of_a_file_and_a_link_to_a_secret_never_gives_the_secret() {
    let house = House::new();
    let view = house.view();
    fs::write(house.path.join("work/file"), "inside").unwrap();
    symlink("../secret/key", house.path.join("work/other")).unwrap();
    let _exchange = Exchange::new(house.path.join("work/file"), house.path.join("work/other"));
    let root = view.open_workspace().unwrap();
    let (mut opened, mut refused) = (0, 0);
    for round in 0..RACES {
        let found = match round % 4 {
            3 => view.open_entry(&root, OsStr::new("file")).map(|opened| match opened {
                Opened::File(file) => file,
                Opened::Directory(_) => panic!("no directory"),
            }),
            0 => view.open_file(Path::new("file")),
            1 => view.file_beneath(&root, Path::new("file"), Links::Beneath),
            _ => view.file_beneath(&root, Path::new("file"), Links::Refused),
        };
        match found {
            Ok(file) => {
                assert_eq!(text(&file), "inside");
                opened += 1;
            }
            Err(OpenError::Hidden | OpenError::Link) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(opened > 0 && refused > 0, "the race never took place: {opened} opened, {refused} refused");
}

#[test]
fn an_exchange_of_directories_never_leads_out() {
    let house = House::new();
    let view = house.view();
    fs::create_dir(house.path.join("work/dir")).unwrap();
    fs::write(house.path.join("work/dir/key"), "inside").unwrap();
    symlink("../secret", house.path.join("work/other")).unwrap();
    let _exchange = Exchange::new(house.path.join("work/dir"), house.path.join("work/other"));
    for round in 0..RACES {
        let root = view.open_workspace().unwrap();
        let found = match round % 2 {
            0 => view.open_file(Path::new("dir/key")),
            _ => view.file_beneath(&root, Path::new("dir/key"), Links::Beneath),
        };
        match found {
            Ok(file) => assert_eq!(text(&file), "inside"),
            Err(OpenError::Hidden | OpenError::Link | OpenError::NotFound) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_exchange_of_a_file_and_a_pipe_never_waits() {
    let house = House::new();
    let view = house.view();
    fs::write(house.path.join("work/file"), "inside").unwrap();
    fifo(&house.path.join("work/pipe"));
    let _exchange = Exchange::new(house.path.join("work/file"), house.path.join("work/pipe"));
    for _ in 0..RACES {
        match view.open_file(Path::new("file")) {
            Ok(file) => assert_eq!(text(&file), "inside"),
            Err(OpenError::Special { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn entries_and_parents_are_judged_as_paths_are() {
    let house = House::new();
    let view = FileView::new(
        Arc::new(Workspace::resolve(&house.path.join("work/sub")).unwrap()),
        vec![house.path.join("secret"), house.path.join("work/a")],
    );
    let work = view.open_parent(&view.open_workspace().unwrap()).unwrap();
    assert_eq!(work.path(), house.path.join("work"));
    assert!(matches!(view.open_entry(&work, OsStr::new("a")), Err(OpenError::Hidden)));
    assert!(matches!(view.open_entry(&work, OsStr::new("..")), Err(OpenError::Link)));
    assert!(matches!(view.open_entry(&work, OsStr::new("sub")), Ok(Opened::Directory(_))));
    let mut top = view.open_parent(&work).unwrap();
    assert!(matches!(view.open_entry(&top, OsStr::new("secret")), Err(OpenError::Hidden)));
    while let Ok(above) = view.open_parent(&top) {
        top = above;
    }
    assert_eq!(top.path(), Path::new("/"));
    assert!(matches!(view.open_entry(&top, OsStr::new("proc")), Err(OpenError::Kernel)));
}
