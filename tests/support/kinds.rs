//! Files that are no plain small files, a workspace to put them in, and a second caller who does not notice.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::Server;

/// What a second caller may wait for an answer at most: the promise is half a second, and a test machine is slow.
pub(crate) const PROMPT: Duration = Duration::from_millis(3 * 500);

/// What the end may take at most: the promise is 2.5 s.
pub(crate) const END: Duration = Duration::from_millis(3 * 2500);

/// Makes a thing at a path.
pub(crate) type Make = fn(&Path);

/// The kinds of things that are no plain small files.
pub(crate) const KINDS: [(&str, Make); 9] = [
    ("a pipe", |path| mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap()),
    ("an endless device", |path| symlink("/dev/zero", path).unwrap()),
    ("a terminal", |path| symlink("/dev/ptmx", path).unwrap()),
    ("the kernel's log", |path| symlink("/proc/kmsg", path).unwrap()),
    ("a link in a circle", |path| symlink(path.file_name().unwrap(), path).unwrap()),
    ("a link to nothing", |path| symlink("nowhere/at/all", path).unwrap()),
    ("a huge file without a line", |path| fs::File::create(path).unwrap().set_len(8 << 30).unwrap()),
    ("no text", |path| fs::write(path, b"\xff\xfe\0\xff").unwrap()),
    ("a directory", |path| fs::create_dir(path).unwrap()),
];

pub(crate) struct House {
    _dir: tempfile::TempDir,
    pub(crate) work: PathBuf,
}

impl House {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().canonicalize().unwrap().join("repo/sub");
        fs::create_dir_all(work.join("deep")).unwrap();
        fs::create_dir_all(work.join("../.git/info")).unwrap();
        fs::write(work.join("../.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(work.join("a.txt"), "a needle\n").unwrap();
        fs::write(work.join("deep/b.txt"), "a needle\n").unwrap();
        Self { _dir: dir, work }
    }

    pub(crate) fn call(&self, server: &mut Server, prompt: &str) -> u64 {
        let arguments = json!({ "prompt": prompt, "cwd": self.work, "approval_policy": "never" });
        server.call("openoxide", arguments)
    }
}

/// The second caller: everything it asks for is answered at once.
pub(crate) fn is_served(server: &mut Server, quiet: &House, what: &str) {
    let began = Instant::now();
    let (ping, list) = (server.request("ping", json!({})), server.request("tools/list", json!({})));
    let turn = quiet.call(server, "hello");
    server.answer(ping);
    server.answer(list);
    server.result(turn);
    assert!(began.elapsed() < PROMPT, "{what}: the second caller waited for {:?}", began.elapsed());
}

/// Ends a server by SIGTERM in the time that is promised.
pub(crate) fn ends(mut server: Server, what: &str) {
    let began = Instant::now();
    server.terminate();
    server.wait_exit();
    assert!(began.elapsed() < END, "{what}: the end took {:?}", began.elapsed());
}

pub(crate) fn status(result: &Value) -> &str {
    result["status"].as_str().unwrap_or_default()
}

/// A file that is another kind of thing each time somebody looks, until it is dropped.
pub(crate) struct Changing {
    is_over: Arc<AtomicBool>,
    changer: Option<JoinHandle<()>>,
}

impl Changing {
    pub(crate) fn at(path: &Path) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, path) = (Arc::clone(&is_over), path.to_path_buf());
        // Beside it, under a name that nothing reads.
        let next = path.with_file_name("next~");
        let texts: [Make; 3] = [
            |path| fs::write(path, "a needle\n").unwrap(),
            |path| fs::write(path, b"\x89PNG\r\n\x1a\n").unwrap(),
            |path| fs::write(path, "longer\n".repeat(100_000)).unwrap(),
        ];
        // A directory does not take the place of a file.
        let odd = KINDS.into_iter().filter(|(kind, _)| *kind != "a directory").map(|(_, make)| make);
        let kinds: Vec<Make> = odd.flat_map(|make| [make].into_iter().chain(texts)).collect();
        let changer = std::thread::spawn(move || {
            for make in kinds.iter().cycle().take_while(|_| !over.load(Ordering::Relaxed)) {
                let _ = fs::remove_file(&next);
                make(&next);
                fs::rename(&next, &path).unwrap();
            }
        });
        Self { is_over, changer: Some(changer) }
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.changer.take().map(JoinHandle::join);
    }
}
