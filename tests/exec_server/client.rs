//! A client of `openoxide exec-server`, over its standard streams or a WebSocket, and a server of a test's own.
//!
//! Plain threads and blocking reads. What is waited for has a bound; nothing sleeps to wait.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longer than anything takes that works, on a busy machine too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// In the environment of each command, so that it is recognised among all processes.
const MARK: &str = "OPENOXIDE_EXEC_TEST";

/// A server with places of its own.
pub(crate) struct House {
    dir: tempfile::TempDir,
    pub(crate) root: PathBuf,
}

impl House {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["work", "home", "tmp", "outside"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        Self { dir, root }
    }

    pub(crate) fn work(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.join("work") } else { self.root.join("work").join(name) }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_openoxide"));
        command.arg("exec-server").args(arguments).current_dir(self.work(""));
        command.env("OPENOXIDE_HOME", self.root.join("home")).env("TMPDIR", self.root.join("tmp"));
        command
    }

    /// A client on the standard streams of a server of its own, initialized.
    pub(crate) fn stdio(&self, arguments: &[&str]) -> Client {
        let mut client = self.raw_stdio(arguments);
        client.initialize(None);
        client
    }

    pub(crate) fn raw_stdio(&self, arguments: &[&str]) -> Client {
        let mut command = self.command(&["--listen", "stdio"]);
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let lines = reading(move |tell| {
            BufReader::new(stdout).lines().map_while(Result::ok).all(|line| tell.send(line).is_ok());
        });
        Client::new(Way::Lines(Box::new(stdin)), lines, Some(child))
    }

    /// A server that listens; its address, and what ends it.
    pub(crate) fn listening(&self, arguments: &[&str]) -> Listening {
        let mut child = self.command(arguments).stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("ws://").expect("the first line is the address").to_owned();
        Listening { child, address }
    }

    /// Processes of commands of this house.
    pub(crate) fn processes(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.root.display());
        let mut found = Vec::new();
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(environment) = std::fs::read(process.path().join("environ")) else { continue };
            if environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()) {
                let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
                // One that is a zombie has no command line.
                if !line.is_empty() {
                    found.push(String::from_utf8_lossy(&line).replace('\0', " "));
                }
            }
        }
        found
    }

    /// Waits until nothing of this house runs.
    pub(crate) fn nothing_is_left(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "left: {left:#?}");
            std::thread::yield_now();
        }
    }

    /// `process/start` of a script of bash.
    pub(crate) fn script(&self, id: &str, script: &str) -> Value {
        json!({"processId": id, "argv": ["bash", "-c", script], "cwd": self.work(""), "tty": false, "env": self.env()})
    }

    pub(crate) fn env(&self) -> Value {
        json!({"PATH": "/usr/local/bin:/usr/bin:/bin", MARK: self.root})
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

pub(crate) struct Listening {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Listening {
    /// A WebSocket, initialized.
    pub(crate) fn client(&self) -> Client {
        let mut client = self.raw(&[]).unwrap();
        client.initialize(None);
        client
    }

    /// A WebSocket with more headers, or the head of the answer that refuses it.
    pub(crate) fn raw(&self, headers: &[&str]) -> Result<Client, String> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let more: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let head = format!(
            "GET / HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{more}\r\n",
            self.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        let answer = String::from_utf8(answer).unwrap();
        if !answer.starts_with("HTTP/1.1 101") {
            return Err(answer);
        }
        let input = stream.try_clone().unwrap();
        let lines = reading(move |tell| read_frames(BufReader::new(input), &tell));
        Ok(Client::new(Way::Frames(stream), lines, None))
    }

    pub(crate) fn resident_kib(&self) -> u64 {
        resident_kib(self.child.id())
    }
}

/// What a process holds in memory.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reading(read: impl FnOnce(SyncSender<String>) + Send + 'static) -> Receiver<String> {
    let (tell, lines) = sync_channel(16);
    std::thread::spawn(move || read(tell));
    lines
}

fn read_frames(mut input: impl Read, tell: &SyncSender<String>) {
    loop {
        let mut head = [0; 2];
        if input.read_exact(&mut head).is_err() {
            return;
        }
        let length = match head[1] & 127 {
            126 => {
                let mut bytes = [0; 2];
                input.read_exact(&mut bytes).unwrap();
                usize::from(u16::from_be_bytes(bytes))
            }
            127 => {
                let mut bytes = [0; 8];
                input.read_exact(&mut bytes).unwrap();
                usize::try_from(u64::from_be_bytes(bytes)).unwrap()
            }
            short => usize::from(short),
        };
        let mut text = vec![0; length];
        if input.read_exact(&mut text).is_err() {
            return;
        }
        if head[0] & 15 == 1 && tell.send(String::from_utf8(text).unwrap()).is_err() {
            return;
        }
    }
}

enum Way {
    Lines(Box<dyn Write + Send>),
    Frames(TcpStream),
    Closed,
}

pub(crate) struct Client {
    way: Way,
    lines: Receiver<String>,
    /// What came and was not asked for yet.
    kept: Vec<Value>,
    next: i64,
    pub(crate) child: Option<Child>,
    pub(crate) session: String,
}

impl Client {
    fn new(way: Way, lines: Receiver<String>, child: Option<Child>) -> Self {
        Self { way, lines, kept: Vec::new(), next: 1, child, session: String::new() }
    }

    pub(crate) fn initialize(&mut self, resumed: Option<&str>) {
        let mut params = json!({"clientName": "test"});
        if let Some(resumed) = resumed {
            params["resumeSessionId"] = resumed.into();
        }
        let result = self.ask("initialize", params);
        self.session = result["sessionId"].as_str().unwrap().to_owned();
        self.say(&json!({"method": "initialized", "params": {}}).to_string());
    }

    /// One message, as it stands.
    pub(crate) fn say(&mut self, text: &str) {
        match &mut self.way {
            Way::Lines(out) => out.write_all(format!("{text}\n").as_bytes()).unwrap(),
            Way::Frames(stream) => {
                let mut frame = vec![0x81];
                match text.len() {
                    short @ 0..126 => frame.push(0x80 | u8::try_from(short).unwrap()),
                    middle @ 126..65536 => {
                        frame.push(0x80 | 126);
                        frame.extend(u16::try_from(middle).unwrap().to_be_bytes());
                    }
                    long => {
                        frame.push(0x80 | 127);
                        frame.extend((long as u64).to_be_bytes());
                    }
                }
                frame.extend([0; 4]);
                frame.extend(text.as_bytes());
                stream.write_all(&frame).unwrap();
            }
            Way::Closed => panic!("it is closed"),
        }
    }

    pub(crate) fn send(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        self.say(&json!({"id": id, "method": method, "params": params}).to_string());
        id
    }

    /// The answer to a request.
    pub(crate) fn answer(&mut self, id: i64) -> Value {
        self.wait(|message| message["id"] == id && message.get("method").is_none())
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The code and message that a request is refused with.
    #[track_caller]
    pub(crate) fn refused(&mut self, method: &str, params: Value) -> (i64, String) {
        let id = self.send(method, params);
        let answer = self.answer(id);
        let error = answer.get("error").unwrap_or_else(|| panic!("{method} was served: {answer}"));
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    /// The first message that fits; others are kept.
    #[track_caller]
    pub(crate) fn wait(&mut self, mut fits: impl FnMut(&Value) -> bool) -> Value {
        if let Some(at) = self.kept.iter().position(&mut fits) {
            return self.kept.remove(at);
        }
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let message: Value = serde_json::from_str(&line).unwrap();
                    if fits(&message) {
                        return message;
                    }
                    self.kept.push(message);
                }
                Err(RecvTimeoutError::Timeout) => panic!("nothing came; kept: {:#?}", self.kept),
                Err(RecvTimeoutError::Disconnected) => panic!("the connection ended; kept: {:#?}", self.kept),
            }
        }
    }

    #[track_caller]
    pub(crate) fn told(&mut self, method: &str, id: &str) -> Value {
        let told = self.wait(|message| message["method"] == method && message["params"]["processId"] == id);
        told["params"].clone()
    }

    /// What a process wrote until it closed, by stream, and its exit code; its numbers are in order.
    #[track_caller]
    pub(crate) fn ended(&mut self, id: &str) -> (Vec<u8>, Vec<u8>, i64) {
        let (mut out, mut err, mut code, mut seq) = (Vec::new(), Vec::new(), None, 0);
        loop {
            let told = self.wait(|message| message.get("method").is_some() && message["params"]["processId"] == id);
            let params = &told["params"];
            seq += 1;
            assert_eq!(params["seq"], seq, "{told}");
            match told["method"].as_str().unwrap() {
                "process/output" if params["stream"] == "stderr" => err.extend(bytes(&params["chunk"])),
                "process/output" => out.extend(bytes(&params["chunk"])),
                "process/exited" => code = params["exitCode"].as_i64(),
                "process/closed" => return (out, err, code.expect("it exited before")),
                other => panic!("{other}"),
            }
        }
    }

    /// Closes the WebSocket as a client does that is done.
    pub(crate) fn say_goodbye(&mut self) {
        if let Way::Frames(stream) = &mut self.way {
            stream.write_all(&[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]).unwrap();
        }
        self.cut();
    }

    /// Lets go of the connection.
    pub(crate) fn cut(&mut self) {
        if let Way::Frames(stream) = &self.way {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        self.way = Way::Closed;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.cut();
        if let Some(child) = &mut self.child {
            let _ = child.wait();
        }
    }
}

/// Base64, without a crate for it.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let three = [part[0], *part.get(1).unwrap_or(&0), *part.get(2).unwrap_or(&0)];
        let number = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * place) & 63) as usize];
            text.push(if place > part.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

pub(crate) fn bytes(text: &Value) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let letters: Vec<u8> = text.as_str().unwrap().bytes().filter(|letter| *letter != b'=').map(value).collect();
    let mut bytes = Vec::new();
    for part in letters.chunks(4) {
        let number = part.iter().fold(0u32, |number, six| number << 6 | u32::from(*six)) << (6 * (4 - part.len()));
        bytes.extend(&number.to_be_bytes()[1..part.len()]);
    }
    bytes
}
