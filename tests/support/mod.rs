//! Drives the real binary: a legacy MCP client over its stdio, and a look at what it leaves running.
//!
//! Plain threads and blocking reads; every wait has a bound and polls for what it waits for. Processes are recognised by
//! a mark in their environment, which whatever the server starts inherits, also in a session of its own.

#![allow(dead_code, reason = "each test program uses its part of this module")]

pub(crate) mod house;
pub(crate) mod kinds;
pub(crate) mod listener;
pub(crate) mod model;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longer than anything takes that works, on a busy machine too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
const MARK: &str = "OPENOXIDE_E2E_MARK";

/// The program under test, with nothing of the caller's configuration.
pub(crate) fn openoxide(home: &Path) -> Command {
    // Whatever the umask is under which a test made these: what a group may write is refused.
    for (path, mode) in [(home.to_path_buf(), 0o755), (home.join("config.toml"), 0o644)] {
        if path.exists() {
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        }
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_openoxide"));
    command.env("OPENOXIDE_HOME", home).env("TMPDIR", temporary()).env_remove("NO_COLOR");
    command
}

/// Where the servers of this test program make their threads' directories for temporary files: not in the system's `/tmp`,
/// which every command of every test would then have to look through. What test programs before this one have left goes.
fn temporary() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        const PREFIX: &str = "openoxide-tests-";
        for left in std::fs::read_dir("/var/tmp").unwrap().flatten() {
            let name = left.file_name();
            let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|pid| pid.parse::<u32>().ok());
            if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
                // Another program may be at it as well.
                let _ = std::fs::remove_dir_all(left.path());
            }
        }
        let place = Path::new("/var/tmp").join(format!("{PREFIX}{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        place
    })
}

/// A user who is neither root nor known to the machine.
pub(crate) const ORDINARY: u32 = 12_345;

/// The users to test as: the one who runs the tests, and for root an ordinary one as well.
pub(crate) fn users() -> Vec<Option<u32>> {
    if rustix::process::geteuid().is_root() { vec![None, Some(ORDINARY)] } else { vec![None] }
}

/// A directory of a user, in which the program lies as `openoxide` so that the user can start it. It is not below /tmp, where every
/// command may write.
pub(crate) fn place_of(user: Option<u32>) -> tempfile::TempDir {
    let place = tempfile::Builder::new().prefix("place-").tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = place.path().join("openoxide");
    if std::fs::hard_link(env!("CARGO_BIN_EXE_openoxide"), &program).is_err() {
        std::fs::copy(env!("CARGO_BIN_EXE_openoxide"), &program).unwrap();
    }
    std::os::unix::fs::chown(place.path(), user, user).unwrap();
    place
}

/// The program in such a directory, started as its user, with the home of OpenOxide and the user's own home in it. Nothing of the
/// caller's environment is passed on but the path.
pub(crate) fn openoxide_of(user: Option<u32>, place: &Path) -> Command {
    let mut command = Command::new(place.join("openoxide"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
    command.env("HOME", place).env("OPENOXIDE_HOME", place.join("state")).current_dir(place);
    if let Some(user) = user {
        std::os::unix::process::CommandExt::uid(&mut command, user);
        std::os::unix::process::CommandExt::gid(&mut command, user);
    }
    command
}

/// Waits until `holds`; fails saying `what` when it does not come to that.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "still not: {what}");
        std::thread::sleep(POLL);
    }
}

/// A running `openoxide mcp-server` with the offline provider.
pub(crate) struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// Read, and not asked for yet.
    kept: VecDeque<Value>,
    last_id: u64,
    mark: String,
    _home: Option<tempfile::TempDir>,
}

impl Server {
    /// Starts it and shakes hands; `capabilities` are the client's.
    pub(crate) fn start(capabilities: Value) -> Self {
        Self::start_with(capabilities, &[])
    }

    /// The same, with more arguments on its command line.
    pub(crate) fn start_with(capabilities: Value, arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut server = Self::start_in(home.path(), capabilities, arguments);
        server._home = Some(home);
        server
    }

    /// The same, in a home that others use as well.
    pub(crate) fn start_in(home: &Path, capabilities: Value, arguments: &[&str]) -> Self {
        Self::start_as(home, capabilities, arguments, |_| {})
    }

    /// The same, with more of the process set.
    pub(crate) fn start_as(
        home: &Path,
        capabilities: Value,
        arguments: &[&str],
        set: impl FnOnce(&mut Command),
    ) -> Self {
        // The name is unique while the home exists; the count tells servers of one home apart.
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mark = format!("{}-{count}-", home.file_name().unwrap().to_string_lossy());
        let mut command = openoxide(home);
        set(&mut command);
        Self::run(command, mark, capabilities, arguments)
    }

    /// The server that a command line starts, which ends with the program's name or an argument to it.
    pub(crate) fn run(mut command: Command, mark: String, capabilities: Value, arguments: &[&str]) -> Self {
        command
            .args(["mcp-server", "-c", "model_provider=\"offline\""])
            .args(arguments)
            .env(MARK, &mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        // The reading thread sends, the test receives; the bound holds more than any test leaves unread.
        let (sender, messages) = sync_channel(4096);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                // A server that is killed may leave half a line behind.
                let Ok(message) = serde_json::from_str(&line) else {
                    assert!(line.starts_with('{') && !line.ends_with('}'), "no message: {line}");
                    return;
                };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        let mut server = Self { child, stdin, messages, kept: VecDeque::new(), last_id: 0, mark, _home: None };
        let info = json!({ "name": "e2e", "version": "1" });
        let initialize = server.request(
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info }),
        );
        assert_eq!(server.answer(initialize)["result"]["serverInfo"]["name"], "openoxide");
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    /// Writes one message.
    pub(crate) fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("the input is open");
        writeln!(stdin, "{message}").unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a request and returns its id.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Sends a request of the modern era, with what its client declares, and returns its id.
    pub(crate) fn modern(&mut self, method: &str, mut params: Value, capabilities: &Value) -> u64 {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
        params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "e2e", "version": "1" });
        self.request(method, params)
    }

    /// Calls a tool and returns the request's id.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// The next message for which `wanted` holds; those before it are kept for later.
    pub(crate) fn wait_for(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.kept.iter().position(&wanted) {
            return self.kept.remove(at).unwrap();
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.messages.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(message) if wanted(&message) => return message,
                Ok(message) => self.kept.push_back(message),
                Err(RecvTimeoutError::Timeout) => panic!("did not come: {what}; came: {:#?}", self.kept),
                Err(RecvTimeoutError::Disconnected) => panic!("the server went away before {what}: {:#?}", self.kept),
            }
        }
    }

    /// The answer to a request.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.wait_for(&format!("the answer to {id}"), |message| is_answer_to(message, id))
    }

    /// The structured result of a tool call that must not be an error.
    pub(crate) fn result(&mut self, id: u64) -> Value {
        let answer = self.answer(id);
        assert_ne!(answer["result"]["isError"], true, "{answer:#}");
        answer["result"]["structuredContent"].clone()
    }

    /// The thread that an open call works on, as its log messages name it.
    pub(crate) fn thread_of(&mut self, id: u64) -> String {
        let message = self.wait_for("a log message of the call", |message| {
            message["method"] == "notifications/message" && message["params"]["_meta"]["requestId"] == id
        });
        message["params"]["_meta"]["threadId"].as_str().unwrap().to_owned()
    }

    /// Whether an answer to `id` has come so far.
    pub(crate) fn has_answered(&mut self, id: u64) -> bool {
        self.kept.extend(self.messages.try_iter());
        self.kept.iter().any(|message| is_answer_to(message, id))
    }

    /// Every message of a server that has ended, but for those that were asked for.
    pub(crate) fn all_that_came(&mut self) -> Vec<Value> {
        self.kept.extend(self.messages.iter());
        self.kept.drain(..).collect()
    }

    /// The server's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes the server's input.
    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Sends the server a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends the server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks the server to end, by SIGTERM.
    pub(crate) fn terminate(&mut self) {
        // The shell's kill, so that no unsafe code is needed here.
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
    }

    /// The most memory that the server has had, in KiB.
    pub(crate) fn peak_memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Waits for the server's end.
    pub(crate) fn wait_exit(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the server has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Command lines of what the server started and what that started, and of the server itself.
    pub(crate) fn processes(&self) -> Vec<String> {
        processes_with(&format!("{MARK}={}", self.mark))
    }

    /// Whether such a command line is among them, without a shell around it.
    pub(crate) fn runs(&self, command_line: &str) -> bool {
        self.processes().iter().any(|line| line == command_line)
    }

    /// Waits until nothing with the server's mark is left.
    pub(crate) fn expect_nothing_left(&self) {
        let mut left = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            left = self.processes();
            if left.is_empty() {
                return;
            }
            std::thread::sleep(POLL);
        }
        panic!("left running: {left:#?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server of a failed test does not outlive it; what it leaked ends by itself in minutes.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_answer_to(message: &Value, id: u64) -> bool {
    message["id"] == id && message.get("method").is_none()
}

/// Command lines of the live processes whose environment holds `variable`.
fn processes_with(variable: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let directory = entry.path();
        let Ok(environment) = std::fs::read(directory.join("environ")) else { continue };
        if !environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes()) {
            continue;
        }
        let state = std::fs::read_to_string(directory.join("stat")).unwrap_or_default();
        let state = state.rsplit(')').next().unwrap_or_default().trim_start().chars().next();
        if matches!(state, None | Some('Z' | 'X')) {
            continue;
        }
        let Ok(command_line) = std::fs::read(directory.join("cmdline")) else { continue };
        let words: Vec<_> = command_line.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
        found.push(words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" "));
    }
    found
}
