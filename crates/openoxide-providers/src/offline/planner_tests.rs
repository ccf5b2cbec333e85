//! Whole turns of the stand-in against tools that the tests play.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};

use super::*;
use crate::{ModelEvent, Offline, Provider, ToolSpec, Usage};

fn tools(names: &[&str]) -> Vec<ToolSpec> {
    let make = |name: &&str| match *name {
        "apply_patch" => {
            ToolSpec::Freeform { name: "apply_patch".into(), description: String::new(), grammar: String::new() }
        }
        name => ToolSpec::Function { name: name.into(), description: String::new(), parameters: json!({}) },
    };
    names.iter().map(make).collect()
}

const ALL: [&str; 6] = ["exec_command", "write_stdin", "apply_patch", "read_file", "list_dir", "grep"];

fn note(text: &str) -> Arc<HistoryItem> {
    Arc::new(HistoryItem::Note { text: text.into() })
}

fn user(text: &str) -> Arc<HistoryItem> {
    Arc::new(HistoryItem::Message { role: Role::User, text: text.into(), carried: None })
}

/// A thread of the test's own making.
struct World {
    history: Vec<Arc<HistoryItem>>,
    tools: Vec<ToolSpec>,
    /// Calls made so far: tool and arguments, a patch as a string.
    calls: Vec<(String, Value)>,
}

impl World {
    fn new(prompt: &str, offered: &[&str]) -> Self {
        let context = note("<environment_context>\ncwd: /x\n</environment_context>");
        Self { history: vec![context, user(prompt)], tools: tools(offered), calls: Vec::new() }
    }

    /// The items of one response, its deltas checked against them.
    fn respond(&self) -> Vec<HistoryItem> {
        let request = ModelRequest {
            model: "m",
            instructions: "i",
            input: &self.history,
            tools: &self.tools,
            cache_key: "k",
            reasoning: Default::default(),
        };
        let events: Vec<ModelEvent> =
            Offline::new().stream(request).map(Result::unwrap).collect::<Vec<_>>().now_or_never().unwrap();
        let mut shown = String::new();
        let mut items = Vec::new();
        for event in &events {
            match event {
                ModelEvent::TextDelta(delta) => shown.push_str(delta),
                ModelEvent::ItemDone(item) => {
                    if let HistoryItem::Message { text, .. } = item {
                        assert_eq!(*text, std::mem::take(&mut shown));
                    }
                    items.push(item.clone());
                }
                _ => {}
            }
        }
        let Some(ModelEvent::Completed { usage: Usage { input_tokens, output_tokens, .. } }) = events.last() else {
            panic!("{events:?}")
        };
        assert!(*input_tokens > 0 && *output_tokens > 0);
        items
    }

    /// Plays a turn to its end and returns the last message.
    fn play(&mut self, mut tool: impl FnMut(&str, &Value) -> String) -> String {
        for _ in 0..60 {
            let items = self.respond();
            let mut outputs = Vec::new();
            for item in &items {
                let (call_id, name, input, custom) = match item {
                    HistoryItem::FunctionCall { call_id, name, arguments, .. } => {
                        (call_id, name, serde_json::from_str(arguments).unwrap(), false)
                    }
                    HistoryItem::CustomToolCall { call_id, name, input, .. } => (call_id, name, json!(input), true),
                    _ => continue,
                };
                let output = tool(name, &input);
                self.calls.push((name.clone(), input));
                outputs.push(HistoryItem::ToolOutput { call_id: call_id.clone(), custom, output });
            }
            let is_last = outputs.is_empty();
            let last = items.last().cloned();
            self.history.extend(items.into_iter().chain(outputs).map(Arc::new));
            if is_last {
                let Some(HistoryItem::Message { text, .. }) = last else { panic!("{last:?}") };
                assert!(text.contains("offline stand-in, not a language model"), "{text}");
                return text;
            }
        }
        panic!("the turn does not end: {:?}", self.calls);
    }

    fn names(&self) -> Vec<&str> {
        self.calls.iter().map(|(name, _)| name.as_str()).collect()
    }
}

fn numbered(text: &str) -> String {
    text.lines().enumerate().map(|(index, line)| format!("L{}: {line}\n", index + 1)).collect()
}

const CALC: &str = "def add(a, b):\n    return a - b\n";
const PROMPT: &str =
    "Run the tests with `python3 -m unittest`, then replace `a - b` by `a + b` in calc.py, then run them again.";

#[test]
fn a_failing_test_is_fixed_step_by_step() {
    let mut world = World::new(PROMPT, &ALL);
    let mut runs = 0;
    let answer = world.play(|name, input| match name {
        "exec_command" => {
            assert_eq!(input, &json!({"cmd": "python3 -m unittest"}));
            runs += 1;
            let (code, word) = if runs == 1 { (1, "FAILED") } else { (0, "OK") };
            format!("exit code: {code}\nwall time: 0.1 s\noutput:\nRan 1 test\n{word}\n")
        }
        "read_file" => numbered(CALC),
        _ => "Success. Updated the following files:\nM calc.py".into(),
    });
    assert_eq!(world.names(), ["exec_command", "read_file", "apply_patch", "exec_command"]);
    assert_eq!(
        world.calls[2].1,
        json!(
            "*** Begin Patch\n*** Update File: calc.py\n@@\n def add(a, b):\n-    return a - b\n+    return a + b\n*** End Patch\n"
        )
    );
    for expected in ["exit code 1", "FAILED", "calc.py (line 2)", "exit code 0", "OK"] {
        assert!(answer.contains(expected), "{answer}");
    }
    // Announcements name each step once.
    let said: Vec<&str> = world
        .history
        .iter()
        .filter_map(|item| match &**item {
            HistoryItem::Message { role: Role::Assistant, text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(said.len(), 4);
    assert_eq!(said[1], "Step 2 of 3: replace `a - b` by `a + b` in calc.py.");
}

#[test]
fn a_response_is_a_function_of_the_request_and_ids_are_new() {
    let mut world = World::new("run `a`; run `b`", &ALL);
    assert_eq!(world.respond(), world.respond());
    world.play(|_, _| "exit code: 0".into());
    let mut ids: Vec<&str> = world
        .history
        .iter()
        .filter_map(|item| match &**item {
            HistoryItem::FunctionCall { call_id, .. } => Some(call_id.as_str()),
            _ => None,
        })
        .collect();
    ids.dedup();
    assert_eq!(ids.len(), 2);
}

#[test]
fn a_denial_stops_the_turn() {
    let mut world = World::new(PROMPT, &ALL);
    let answer = world.play(|_, _| "The command was not run: the person asked said no. Do not try.".into());
    assert_eq!(world.names(), ["exec_command"]);
    for expected in ["not allowed", "said no", "I stopped there", "calc.py"] {
        assert!(answer.contains(expected), "{answer}");
    }
}

#[test]
fn tools_that_are_not_offered_are_not_called() {
    let mut world = World::new("run `ls`, then delete a.txt and read b.txt", &["read_file", "list_dir", "grep"]);
    let answer = world.play(|_, _| numbered("content of b"));
    assert_eq!(world.names(), ["read_file"]);
    assert!(
        answer.contains("`exec_command` is not offered") && answer.contains("`apply_patch` is not offered"),
        "{answer}"
    );
    assert!(answer.contains("content of b"), "{answer}");
}

#[test]
fn apply_patch_may_be_a_function() {
    let mut world = World::new("delete a.txt", &[]);
    world.tools =
        vec![ToolSpec::Function { name: "apply_patch".into(), description: String::new(), parameters: json!({}) }];
    world.play(|_, _| "Success.".into());
    assert_eq!(world.calls[0].1, json!({"input": "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch\n"}));
}

#[test]
fn a_text_that_is_not_there_is_told() {
    let mut world = World::new("replace `x` by `y` in calc.py; append \"z\" to empty.txt", &ALL);
    let answer =
        world.play(
            |_, input| {
                if input["path"] == "calc.py" { numbered(CALC) } else { "There is no file empty.txt.".into() }
            },
        );
    assert_eq!(world.names(), ["read_file", "read_file"]);
    assert!(
        answer.contains("`x` is not found in calc.py") && answer.contains("There is no file empty.txt."),
        "{answer}"
    );
    assert!(!answer.contains("All steps are done"), "{answer}");
}

#[test]
fn a_refused_patch_is_told_and_the_turn_goes_on() {
    let mut world = World::new("create a.txt with: x, then run `cat a.txt`", &ALL);
    let answer = world.play(|name, _| match name {
        "apply_patch" => "The patch was not applied: a.txt already exists.".into(),
        _ => "exit code: 0\noutput:\nold".into(),
    });
    assert_eq!(world.names(), ["apply_patch", "exec_command"]);
    assert!(answer.contains("Could not create a.txt") && answer.contains("already exists"), "{answer}");
}

#[test]
fn long_files_are_read_in_pages() {
    let text: Vec<String> = (1..=450).map(|n| format!("line {n}")).collect();
    let mut world = World::new("replace `line 449` by `last but one` in f", &ALL);
    world.play(|name, input| {
        if name == "apply_patch" {
            return "Success.".into();
        }
        let offset = usize::try_from(input["offset"].as_u64().unwrap()).unwrap();
        // The first page is cut short by its length, as a tool may do.
        let page = text.iter().enumerate().skip(offset - 1).take(if offset == 1 { 40 } else { 400 });
        let mut page: String = page.map(|(index, line)| format!("L{}: {line}\n", index + 1)).collect();
        if offset == 1 {
            page.push_str("[as much as fits; go on with offset 41]\n");
        }
        page
    });
    assert_eq!(world.names(), ["read_file", "read_file", "read_file", "apply_patch"]);
    assert!(world.calls[3].1.as_str().unwrap().contains("-line 449\n+last but one\n line 450\n"));
}

#[test]
fn a_running_command_is_waited_for() {
    let mut world = World::new("run `sleep 60`", &ALL);
    let mut polls = 0;
    let answer = world.play(|name, input| {
        if name == "exec_command" {
            return "still running, session_id: 7\nwall time: 10 s\noutput:\none".into();
        }
        assert_eq!((name, &input["session_id"], &input["chars"]), ("write_stdin", &json!(7), &json!("")));
        polls += 1;
        if polls < 3 { "still running, session_id: 7\noutput:\n".into() } else { "exit code: 3\noutput:\ntwo".into() }
    });
    assert!(answer.contains("exit code 3") && answer.contains("one\ntwo"), "{answer}");

    let mut endless = World::new("run `yes`", &ALL);
    let answer = endless.play(|_, _| "still running, session_id: 7\noutput:\ny".into());
    assert!(answer.contains("still running"), "{answer}");
}

#[test]
fn the_tests_are_found_by_the_projects_files() {
    for (listing, command) in [
        ("Cargo.toml\nsrc/", Some("cargo test")),
        ("README.md\npackage.json", Some("npm test")),
        ("calc.py\ntest_calc.py", Some("python3 -m unittest")),
        ("notes.txt\nsub/\n  Cargo.toml", None),
    ] {
        let mut world = World::new("run the tests", &ALL);
        world.play(|name, _| if name == "list_dir" { listing.into() } else { "exit code: 0".into() });
        assert_eq!(world.calls.get(1).map(|(_, input)| input["cmd"].as_str().unwrap()), command, "{listing}");
    }
}

#[test]
fn a_question_is_answered_with_places() {
    let files = BTreeMap::from([
        ("retry", "src/a.rs:7: fn retry_delay() {"),
        ("delay", "src/a.rs:7: fn retry_delay() {\nREADME.md:2: delay"),
    ]);
    let mut world = World::new("Where is the retry delay computed?", &ALL);
    let answer = world.play(|name, input| match name {
        "grep" => {
            let word = input["pattern"].as_str().unwrap().trim_start_matches("(?i)");
            files.get(word).copied().unwrap_or("No matches.").to_owned()
        }
        _ => {
            assert_eq!(input, &json!({"path": "src/a.rs", "offset": 4, "limit": 12}));
            "L6:\nL7: fn retry_delay() {\n".into()
        }
    });
    assert_eq!(world.names(), ["grep", "grep", "grep", "read_file"]);
    let places =
        ["src/a.rs:7: `fn retry_delay() {`", "README.md:2: `delay`"].map(|place| answer.find(place).expect(place));
    assert!(places[0] < places[1], "{answer}");

    let mut world = World::new("Where is the frobnicator?", &ALL);
    assert!(world.play(|_, _| "No matches.".into()).contains("no matching place"));
}

#[test]
fn a_file_is_explained_by_what_it_defines() {
    let mut world = World::new("explain calc.py", &ALL);
    assert!(world.play(|_, _| numbered(CALC)).contains("calc.py:1: `def add(a, b):`"));
}

#[test]
fn what_is_not_understood_gets_examples() {
    for prompt in ["hello there", "", "fix the failing test"] {
        let mut world = World::new(prompt, &ALL);
        let answer = world.play(|_, _| "No matches.".into());
        assert!(answer.contains("replace `old text` by `new text`"), "{answer}");
        assert!(!world.names().contains(&"exec_command"));
    }
}

#[test]
fn only_the_turn_under_way_counts() {
    let mut world = World::new("run `first`", &ALL);
    world.play(|_, _| "exit code: 0".into());
    world.history.push(user("run `second`"));
    world.play(|_, _| "exit code: 0".into());
    assert_eq!(world.calls[1].1["cmd"], "second");
    assert_eq!(world.calls.len(), 2);

    // A turn that was stopped is not taken up again.
    world.history.push(user("run `third`; run `fourth`"));
    let call = HistoryItem::FunctionCall {
        call_id: "c".into(),
        name: "exec_command".into(),
        arguments: "{}".into(),
        carried: None,
    };
    let output = HistoryItem::ToolOutput { call_id: "c".into(), custom: false, output: "stopped".into() };
    world.history.extend([Arc::new(call), Arc::new(output)]);
    world.history.push(note("<turn_interrupted>\nstopped\n</turn_interrupted>"));
    world.history.push(user("run `fifth`"));
    world.play(|_, _| "exit code: 0".into());
    assert_eq!(world.calls.len(), 3);
    assert_eq!(world.calls[2].1["cmd"], "fifth");
}

#[test]
fn a_prompt_given_to_a_running_turn_adds_steps() {
    let mut world = World::new("run `a`", &ALL);
    let call = world.respond();
    let HistoryItem::FunctionCall { call_id, .. } = &call[1] else { panic!("{call:?}") };
    let output = HistoryItem::ToolOutput { call_id: call_id.clone(), custom: false, output: "exit code: 5".into() };
    world.history.extend(call.into_iter().map(Arc::new));
    world.history.extend([Arc::new(output), user("also run `b`")]);
    let answer = world.play(|_, _| "exit code: 6".into());
    assert_eq!(world.calls.len(), 1);
    assert!(answer.contains("`a`: exit code 5") && answer.contains("`b`: exit code 6"), "{answer}");
}
