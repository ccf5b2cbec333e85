//! Reads by helpers, and by helpers that are not what they should be. For the tests of other files: helpers that are threads
//! of this process, and helpers that are processes.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openoxide_sandbox::Workspace;

use super::wire::{Bytes, Input, Wire, encode, wire_fields};
use super::{
    HelperProcess, Helpers, MAX_SENTENCE, ReadHelper, ReadKind, ReadPlace, ReadPool, ReadWork, read_frame, write_frame,
};
use crate::tools::files::FileView;
use crate::tools::output::StopFlag;
use crate::tools::serve_reads;
use crate::{CoreError, Shares};

/// Says to this test program what kind of helper it is.
const ROLE: &str = "OPENOXIDE_TEST_OF_READS";

/// The server itself.
pub(crate) fn in_server() -> ReadPlace {
    ReadPlace { reads: Shares::new(8, 8, 8), owner: crate::api::Owner::default(), pool: None }
}

/// A place with these helpers.
pub(crate) fn by(helpers: Arc<dyn Helpers>) -> ReadPlace {
    ReadPlace { pool: Some(Arc::new(ReadPool::new(helpers))), ..in_server() }
}

/// Both places, with their names.
pub(crate) fn both() -> [(&'static str, ReadPlace); 2] {
    [("in the server", in_server()), ("by a helper", by(Arc::new(Threads::serving())))]
}

/// Helpers that are threads of this process, and do whatever the test wants.
pub(crate) struct Threads {
    act: fn(UnixStream),
    pub(crate) started: AtomicUsize,
}

impl Threads {
    /// Real ones.
    pub(crate) fn serving() -> Self {
        Self::doing(|stream| serve_reads(stream.into()))
    }

    fn doing(act: fn(UnixStream)) -> Self {
        Self { act, started: AtomicUsize::new(0) }
    }
}

impl Helpers for Threads {
    fn start(&self) -> BoxFuture<'static, Result<Option<ReadHelper>, String>> {
        self.started.fetch_add(1, Ordering::SeqCst);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let act = self.act;
        std::thread::spawn(move || act(theirs));
        std::future::ready(Ok(Some(helper(ours, ())))).boxed()
    }
}

/// Helpers that are processes: this very test program.
pub(crate) struct Processes {
    role: &'static str,
    /// Those that were started.
    pub(crate) ids: Arc<Mutex<Vec<u32>>>,
}

impl Processes {
    pub(crate) fn new(role: &'static str) -> Self {
        Self { role, ids: Arc::default() }
    }

    /// Whether those that were started are all gone.
    pub(crate) fn are_gone(&self) -> bool {
        let ids = self.ids.lock().unwrap();
        assert!(!ids.is_empty(), "none was ever started");
        ids.iter().all(|id| !Path::new(&format!("/proc/{id}")).exists())
    }
}

impl Helpers for Processes {
    fn start(&self) -> BoxFuture<'static, Result<Option<ReadHelper>, String>> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        #[allow(clippy::disallowed_methods, reason = "a test starts itself")]
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "tools::reads::tests::child_that_reads", "--nocapture", "--test-threads=1"]);
        // With one arena, as in a process that was forked: what others reserve counts as taken from the start.
        command
            .env(ROLE, self.role)
            .env("MALLOC_ARENA_MAX", "1")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = Killed(command.spawn().unwrap());
        self.ids.lock().unwrap().push(child.0.id());
        std::future::ready(Ok(Some(helper(ours, child)))).boxed()
    }
}

/// Kills its process when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn helper(ours: UnixStream, alive: impl Send + Sync + 'static) -> ReadHelper {
    ours.set_nonblocking(true).unwrap();
    let stream = tokio::net::UnixStream::from_std(ours).unwrap();
    ReadHelper { process: Box::new(Held { stream, _alive: alive }), has_own_tmp: false }
}

struct Held<T> {
    stream: tokio::net::UnixStream,
    _alive: T,
}

impl<T: Send + Sync> HelperProcess for Held<T> {
    fn stream(&mut self) -> &mut tokio::net::UnixStream {
        &mut self.stream
    }
}

/// Bytes that a process with little memory may take beside what it has when it starts.
const LITTLE: u64 = 8 << 20;

/// In the child: what helpers are that are processes. Does nothing where nobody has asked for it.
#[test]
#[allow(clippy::disallowed_methods, reason = "how a test speaks to its child")]
fn child_that_reads() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let stream = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    match role.as_str() {
        "serves" => serve_reads(stream.into()),
        "serves with little memory" => {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
            let size: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
            let most = Some((size << 10) + LITTLE);
            let limit = rustix::process::Rlimit { current: most, maximum: most };
            rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
            serve_reads(stream.into());
        }
        "serves once" => {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let serving = std::thread::spawn(move || serve_reads(theirs.into()));
            let (mut stream, mut ours) = (stream, ours);
            let ask = read_frame(&mut stream, super::MAX_ASK).unwrap().unwrap();
            write_frame(&mut ours, &ask).unwrap();
            let answer = read_frame(&mut ours, super::MAX_ASK).unwrap().unwrap();
            write_frame(&mut stream, &answer).unwrap();
            drop(ours);
            serving.join().unwrap();
        }
        "never answers" => std::thread::sleep(Duration::from_secs(600)),
        other => panic!("no role {other}"),
    }
    std::process::exit(0);
}

/// A read that gives what it was told to, and believes only itself.
struct Echo {
    text: String,
}
wire_fields!(Echo { text });

impl ReadWork for Echo {
    type Found = String;

    const KIND: ReadKind = ReadKind::File;

    fn read(&self, _: &FileView, _: &StopFlag) -> Result<String, String> {
        Ok(self.text.clone())
    }

    fn max_answer(&self) -> usize {
        100
    }

    fn accepts(&self, found: &String) -> bool {
        *found == self.text
    }
}

fn view(root: &Path) -> impl FnOnce() -> Result<FileView, CoreError> + Send + 'static {
    let view = FileView::new(Arc::new(Workspace::resolve(root).unwrap()), Vec::new());
    move || Ok(view)
}

/// What is said of a helper that does this once it was asked.
async fn said_of(act: fn(UnixStream)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let place = by(Arc::new(Threads::doing(act)));
    let none = place.read(view(dir.path()), Echo { text: "this".into() }).await;
    none.err().expect("a helper like that is not believed").sentence("read_file")
}

fn asked(stream: &mut UnixStream) {
    read_frame(stream, super::MAX_ASK).unwrap().unwrap();
}

fn answers(mut stream: UnixStream, bytes: &[u8]) {
    asked(&mut stream);
    let _ = write_frame(&mut stream, bytes);
    // Its end of the stream stays open for as long as the server's.
    let _ = stream.read(&mut [0]);
}

#[tokio::test]
async fn what_is_no_answer_is_not_believed() {
    let nonsense =
        "`read_file` gave nothing: the process that reads for this thread was ended: what it sent is no answer";
    let cases: [fn(UnixStream); 7] = [
        |stream| answers(stream, b""),
        |stream| answers(stream, &[7; 50]),
        |stream| answers(stream, &encode(&Ok::<_, String>("that".to_owned()))),
        |stream| answers(stream, &[encode(&Ok::<_, String>("this".to_owned())), vec![0]].concat()),
        |stream| answers(stream, &encode(&Ok::<_, String>(Bytes(vec![0xff; 4])))),
        |stream| answers(stream, &encode(&(true, u64::MAX))),
        |stream| answers(stream, &encode(&Err::<String, _>("x".repeat(MAX_SENTENCE + 1)))),
    ];
    for (at, act) in cases.into_iter().enumerate() {
        let said = said_of(act).await;
        assert!(said.starts_with(nonsense), "case {at}: {said}");
    }
}

#[tokio::test]
async fn what_promises_or_sends_too_much_is_ended_before_it_is_read() {
    let promise = said_of(|mut stream| {
        asked(&mut stream);
        let _ = stream.write_all(&u32::MAX.to_le_bytes());
        while stream.write_all(&[0; 4096]).is_ok() {}
    });
    let said = promise.await;
    assert!(said.contains("it sent 4294967295 bytes, where at most 65552 can be"), "{said}");
}

#[tokio::test]
async fn what_goes_away_is_told_wherever_it_was() {
    let gone: [fn(UnixStream); 4] = [
        drop,
        |mut stream| asked(&mut stream),
        |mut stream| {
            asked(&mut stream);
            stream.write_all(&[9, 0]).unwrap();
        },
        |mut stream| {
            asked(&mut stream);
            stream.write_all(&[9, 0, 0, 0, 1, 2, 3]).unwrap();
        },
    ];
    for act in gone {
        let said = said_of(act).await;
        assert!(said.contains("ended before it answered; it may have needed more memory"), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_silent_is_given_up_at_the_deadline() {
    let silent = said_of(|mut stream| {
        asked(&mut stream);
        let _ = stream.read(&mut [0]);
    });
    assert_eq!(silent.await, "`read_file` did not end within 60 s; the disk may not answer.");
}

#[tokio::test]
async fn a_helper_that_cannot_be_started_is_told() {
    struct None_;
    impl Helpers for None_ {
        fn start(&self) -> BoxFuture<'static, Result<Option<ReadHelper>, String>> {
            std::future::ready(Err("no process can be had".to_owned())).boxed()
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let none = by(Arc::new(None_)).read(view(dir.path()), Echo { text: String::new() }).await.err().unwrap();
    assert!(none.sentence("grep").ends_with("could not be started: no process can be had."));
}

#[tokio::test]
async fn a_read_that_nobody_waits_for_takes_its_helper_along() {
    let dir = tempfile::tempdir().unwrap();
    let helpers = Arc::new(Processes::new("never answers"));
    let ids = Arc::clone(&helpers.ids);
    let place = by(Arc::clone(&helpers) as Arc<dyn Helpers>);
    let mut read = Box::pin(place.read(view(dir.path()), Echo { text: String::new() }));
    while ids.lock().unwrap().is_empty() {
        assert!((&mut read).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    assert!(!helpers.are_gone());
    drop(read);
    assert!(helpers.are_gone());
}

/// Whether a value of no read is refused without a word.
#[test]
fn a_helper_that_is_asked_nonsense_ends() {
    struct Odd(u8);
    impl Wire for Odd {
        fn put(&self, out: &mut Vec<u8>) {
            self.0.put(out);
        }

        fn take(_: &mut Input<'_>) -> Option<Self> {
            None
        }
    }
    for ask in [Vec::new(), vec![200; 9], encode(&Odd(3))] {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let serving = std::thread::spawn(move || serve_reads(theirs.into()));
        write_frame(&mut ours, &ask).unwrap();
        assert!(read_frame(&mut ours, 10).unwrap().is_none());
        serving.join().unwrap();
    }
}

/// A directory of its own for each test, without links.
pub(crate) fn root() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    (dir, root)
}
