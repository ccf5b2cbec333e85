//! A disk that fails under the real server: a library is preloaded that lets the Nth write or sync below the home fail, for
//! every N of two turns. On a healthy disk the thread then goes on, here and after a restart, with all of it.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use support::model::{Model, calls};
use support::{Server, openoxide};

/// Stories told side by side: most of each is waiting for processes.
const SIDE_BY_SIDE: usize = 4;

/// How a write fails; the numbers are those of the library.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// EIO, and nothing is written.
    Refused = 0,
    /// Half of it is written, then the disk is full.
    Half = 1,
    /// The same, and it cannot be cut off.
    HalfThatStays = 2,
}

#[derive(Debug, Clone, Copy)]
struct Story {
    fault: Fault,
    /// The first position that fails; 0 for none.
    first: u64,
    count: u64,
}

/// The preloaded library, compiled once.
struct Library(tempfile::TempDir);

impl Library {
    fn compile() -> Self {
        let place = tempfile::tempdir().unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/support/failing_writes.c");
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(place.path().join("failing_writes.so"))
            .arg(source)
            .output()
            .unwrap_or_else(|error| panic!("this test needs a C compiler, `cc`: {error}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(place)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("failing_writes.so")
    }
}

/// What the library and the test share: the position reached, and what fails.
struct Control {
    file: File,
    path: PathBuf,
}

impl Control {
    fn new(place: &Path, story: Story) -> Self {
        let path = place.join("control");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        let words = [0, story.first, story.count, story.fault as u64];
        file.write_all_at(&words.map(u64::to_ne_bytes).concat(), 0).unwrap();
        Self { file, path }
    }

    fn position(&self) -> u64 {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, 0).unwrap();
        u64::from_ne_bytes(word)
    }

    fn heal(&self) {
        self.file.write_all_at(&0_u64.to_ne_bytes(), 8).unwrap();
    }
}

struct House<'a> {
    home: tempfile::TempDir,
    work: tempfile::TempDir,
    control: Control,
    _aside: tempfile::TempDir,
    library: &'a Library,
    model: Model,
    story: Story,
}

impl<'a> House<'a> {
    fn new(library: &'a Library, story: Story) -> Self {
        let aside = tempfile::tempdir().unwrap();
        let control = Control::new(aside.path(), story);
        let [home, work] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        Self { home, work, control, _aside: aside, library, model: Model::recording(), story }
    }

    fn server(&self) -> Server {
        let arguments = self.model.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Server::start_as(self.home.path(), json!({}), &arguments, |command| {
            // The files whose writes fail are named by where they really are.
            let home = self.home.path().canonicalize().unwrap();
            // Each failure is logged.
            command.stderr(Stdio::null()).env("LD_PRELOAD", self.library.path());
            command.env("FAILING_WRITES_BELOW", home).env("FAILING_WRITES_CONTROL", &self.control.path);
        })
    }

    /// Runs a turn. Where not even a thread's first line can be written there is no turn, and the caller is told until it can.
    fn turn(&self, server: &mut Server, thread: Option<&str>, prompt: &str) -> Value {
        let story = self.story;
        let commands = ["echo a", "echo b"].map(|cmd| ("exec_command", json!({ "cmd": cmd })));
        let prompt = &format!("{prompt}\n{}", calls(&commands));
        loop {
            let call = match thread {
                Some(thread) => server.call("openoxide-reply", json!({ "prompt": prompt, "thread_id": thread })),
                None => {
                    let arguments = json!({ "prompt": prompt, "cwd": self.work.path(), "approval_policy": "never" });
                    server.call("openoxide", arguments)
                }
            };
            let result = server.answer(call)["result"].clone();
            let structured = &result["structuredContent"];
            let turn = &result["_meta"]["openoxide/turn"];
            if result["isError"] != true {
                assert_eq!(structured["status"], "completed", "{story:?}: {result:#}");
                let saved = self.is_saved(structured["threadId"].as_str().unwrap(), turn["turnId"].as_str().unwrap());
                let warned = structured["warnings"].as_array().is_some_and(|warnings| !warnings.is_empty());
                assert!(saved || warned, "{story:?}: {prompt} is not saved and nothing says so: {result:#}");
                return json!({ "told": structured, "turn": turn });
            }
            let text = result["content"][0]["text"].as_str().unwrap();
            let is_told = ["Input/output error", "No space left"].iter().any(|why| text.contains(why));
            assert!(is_told && turn.is_null(), "{story:?}: {prompt}: {result:#}");
        }
    }

    fn is_saved(&self, thread: &str, turn: &str) -> bool {
        lines(&self.rollout(thread)).iter().any(|line| {
            line["type"] == "event_msg" && line["payload"]["type"] == "turn_ended" && line["payload"]["turn_id"] == turn
        })
    }

    fn rollout(&self, thread: &str) -> String {
        let mut directories = vec![self.home.path().join("sessions")];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    directories.push(entry.path());
                } else if entry.file_name().to_string_lossy().ends_with(&format!("{thread}.jsonl")) {
                    return std::fs::read_to_string(entry.path()).unwrap();
                }
            }
        }
        String::new()
    }

    /// Two turns on a failing disk, one on a healthy one, a restart, and one more. Whether anything failed: how often the two
    /// turns sync is not always the same.
    fn tell(&self) -> bool {
        let story = self.story;
        let mut first = self.server();
        let start = self.turn(&mut first, None, "one");
        let thread = start["told"]["threadId"].as_str().unwrap();
        let mut turns = vec![start.clone(), self.turn(&mut first, Some(thread), "two")];
        let is_met = self.control.position() >= story.first;
        self.control.heal();
        turns.push(self.turn(&mut first, Some(thread), "three"));
        first.close_input();
        assert!(first.wait_exit().success());
        let mut second = self.server();
        turns.push(self.turn(&mut second, Some(thread), "four"));
        second.close_input();
        assert!(second.wait_exit().success());

        assert!(turns[2..].iter().all(|turn| turn["told"].get("warnings").is_none()), "{story:?}: {turns:#?}");
        let inputs = self.model.inputs();
        inputs.iter().for_each(|input| assert_paired(input, story));
        // What the restarted server sends begins with what the one before it sent last.
        let (before, after) = (&inputs[inputs.len() - 3], &inputs[inputs.len() - 2]);
        assert_eq!(before[..], after[..before.len()], "{story:?}");
        let prompts: Vec<&str> = after.iter().filter_map(prompt_of).collect();
        assert_eq!(prompts, ["one", "two", "three", "four"], "{story:?}");
        let rollout = self.rollout(thread);
        for text in [Value::from(inputs.concat()).to_string(), rollout.clone()] {
            assert!(!text.contains("turn_interrupted"), "{story:?}: {text}");
        }
        let listed: Vec<Value> = lines(&rollout)
            .into_iter()
            .filter(|line| line["payload"]["type"] == "turn_ended")
            .map(|line| line["payload"]["turn_id"].clone())
            .collect();
        let told: Vec<Value> = turns.iter().map(|turn| turn["turn"]["turnId"].clone()).collect();
        assert_eq!(listed, told, "{story:?}: {rollout}");
        let doctor = openoxide(self.home.path()).arg("doctor").output().unwrap();
        let said = String::from_utf8_lossy(&doctor.stdout);
        assert!(!said.contains("damaged"), "{story:?}: {said}");
        is_met
    }
}

/// The lines that are whole.
fn lines(rollout: &str) -> Vec<Value> {
    rollout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn prompt_of(item: &Value) -> Option<&'static str> {
    let text = item["content"][0]["text"].as_str().filter(|_| item["role"] == "user")?;
    ["one", "two", "three", "four"].into_iter().find(|prompt| text.lines().next() == Some(prompt))
}

/// Each call has its output, and each output its call before it.
fn assert_paired(input: &[Value], story: Story) {
    let mut open = Vec::new();
    for item in input {
        match item["type"].as_str() {
            Some("function_call") => open.push(&item["call_id"]),
            Some("function_call_output") => {
                let at = open.iter().position(|call| *call == &item["call_id"]);
                open.remove(at.unwrap_or_else(|| panic!("{story:?}: an output without its call: {input:#?}")));
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "{story:?}: calls without outputs {open:?}");
}

/// Every combination in the long form (`OPENOXIDE_LONG=1`), a sample that meets every position in the short one.
fn stories(positions: u64) -> Vec<Story> {
    let is_long = std::env::var_os("OPENOXIDE_LONG").is_some();
    let mut stories = Vec::new();
    for (at, fault) in [Fault::Refused, Fault::Half, Fault::HalfThatStays].into_iter().enumerate() {
        for (count, step) in [(1, 3), (2, 8), (50, 12)] {
            let (begin, step) = if is_long { (1, 1) } else { (1 + at % step, step) };
            stories.extend((begin as u64..=positions).step_by(step).map(|first| Story { fault, first, count }));
        }
    }
    stories
}

#[test]
fn whatever_write_fails_the_thread_is_whole_once_the_disk_is() {
    let library = Library::compile();
    let healthy = House::new(&library, Story { fault: Fault::Refused, first: 0, count: 0 });
    let mut server = healthy.server();
    let start = healthy.turn(&mut server, None, "one");
    let thread = start["told"]["threadId"].as_str().unwrap();
    healthy.turn(&mut server, Some(thread), "two");
    let positions = healthy.control.position();
    let least = lines(&healthy.rollout(thread)).len() as u64;
    assert!(least > 12 && positions > least, "{positions} positions for {least} lines: the library sees each write");

    let stories = stories(positions);
    let (all, left, met) = (stories.len(), Mutex::new(stories.into_iter()), AtomicUsize::new(0));
    let next = || left.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(story) = next() {
                    met.fetch_add(usize::from(House::new(&library, story).tell()), Ordering::Relaxed);
                }
            });
        }
    });
    let met = met.into_inner();
    assert!(met * 10 >= all * 8, "{met} of {all} stories met a write that fails");
}
