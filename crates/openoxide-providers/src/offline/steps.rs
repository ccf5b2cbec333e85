//! Performs one step: the calls it takes, in order, and a report of what they came to. No step knows of the others.

use super::{
    calls::{Action, Pause, Replay},
    clause::Step,
    edits,
    outputs::{self, CommandOutput},
    search, words,
};

/// Lines read at a time; few enough that an answer is not cut short.
const PAGE: usize = 400;
/// Pages read of one file at most.
const PAGES: usize = 25;
/// Times a running command is waited for at most.
const WAITS: usize = 20;
/// Matches asked for, and places shown.
const MATCHES: usize = 60;
const SHOWN: usize = 6;
/// Files that say how a project's tests are run.
const TEST_COMMANDS: [(&str, &str); 8] = [
    ("Cargo.toml", "cargo test"),
    ("package.json", "npm test"),
    ("go.mod", "go test ./..."),
    ("pytest.ini", "python3 -m pytest"),
    ("pyproject.toml", "python3 -m pytest"),
    ("Makefile", "make test"),
    ("Rakefile", "rake test"),
    ("pom.xml", "mvn -q test"),
];

/// What a step came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    /// A sentence.
    pub(super) text: String,
    /// Lines to show below it.
    pub(super) detail: Vec<String>,
    pub(super) is_done: bool,
}

impl Report {
    fn done(text: String) -> Self {
        Self { text, detail: Vec::new(), is_done: true }
    }

    pub(super) fn failed(text: String) -> Self {
        Self { text, detail: Vec::new(), is_done: false }
    }

    pub(super) fn denied(what: &str, answer: &str) -> Self {
        Self::failed(format!("Did not {what}: this was not allowed. {}", outputs::first_line(answer)))
    }

    fn with(mut self, detail: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.detail.extend(detail.into_iter().map(Into::into));
        self
    }
}

/// The step as an infinitive: `run ...`.
pub(super) fn describe(step: &Step) -> String {
    match step {
        Step::Run(command) => format!("run `{command}`"),
        Step::RunTests => "run the tests".into(),
        Step::Create { path, .. } => format!("create {path}"),
        Step::Replace { from, to, path, .. } if to.is_empty() => format!("remove `{from}` from {path}"),
        Step::Replace { from, to, path, .. } => format!("replace `{from}` by `{to}` in {path}"),
        Step::Delete(path) => format!("delete {path}"),
        Step::Rename { from, to } => format!("rename {from} to {to}"),
        Step::Append { path, .. } => format!("append to {path}"),
        Step::Read(path) => format!("read {path}"),
        Step::List(path) => format!("list {path}"),
        Step::Search(text) => format!("search for `{text}`"),
        Step::Explain(question) => format!("look for places about \"{question}\""),
        Step::Unclear(text) => format!("understand \"{text}\""),
    }
}

/// Goes through a step as far as the answers reach.
pub(super) fn perform(step: &Step, replay: &mut Replay<'_>) -> Result<Report, Pause> {
    match step {
        Step::Run(command) => run(command, replay),
        Step::RunTests => run_tests(replay),
        Step::Create { path, content } => patch(edits::create(path, content), format!("Created {path}."), step, replay),
        Step::Delete(path) => patch(edits::delete(path), format!("Deleted {path}."), step, replay),
        Step::Rename { from, to } => patch(edits::rename(from, to), format!("Renamed {from} to {to}."), step, replay),
        Step::Replace { from, to, path, first_only } => {
            // Asked before reading: half of the work would be for nothing.
            require(replay, "apply_patch")?;
            let text = match read_whole(path, replay)? {
                Ok(text) => text,
                Err(reason) => return Ok(Report::failed(format!("Could not {}: {reason}", describe(step)))),
            };
            let lines: Vec<&str> = text.iter().map(String::as_str).collect();
            let Some(made) = edits::replace(path, &lines, from, to, *first_only) else {
                return Ok(Report::failed(format!("Could not {}: `{from}` is not found in {path}.", describe(step))));
            };
            let places = made.places.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let word = if made.places.len() == 1 { "line" } else { "lines" };
            let done = if to.is_empty() {
                format!("Removed `{from}` from {path} ({word} {places}).")
            } else {
                format!("Replaced `{from}` by `{to}` in {path} ({word} {places}).")
            };
            patch(made.patch, done, step, replay)
        }
        Step::Append { text, path } => {
            require(replay, "apply_patch")?;
            match read_whole(path, replay)? {
                Ok(lines) => {
                    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                    patch(edits::append(path, &lines, text), format!("Appended to {path}."), step, replay)
                }
                Err(reason) => Ok(Report::failed(format!("Could not {}: {reason}", describe(step)))),
            }
        }
        Step::Read(path) => {
            let answer = replay.call(Action::Read { path: path.clone(), offset: 1, limit: PAGE })?;
            let lines = outputs::numbered_lines(answer);
            if lines.is_empty() {
                return Ok(Report::failed(format!("Could not read {path}: {}", outputs::first_line(answer))));
            }
            let shown = lines.iter().take(40).map(|(_, text)| (*text).to_owned());
            let more = (lines.len() > 40).then(|| format!("... ({} lines were read)", lines.len()));
            Ok(Report::done(format!("Read {path}:")).with(shown).with(more))
        }
        Step::List(path) => {
            let answer = replay.call(Action::List { path: path.clone() })?;
            Ok(Report::done(format!("Listed {path}:")).with(answer.lines().take(60)))
        }
        Step::Search(text) => {
            let action = Action::Grep { pattern: search::pattern(text), max_results: MATCHES };
            let found = outputs::matches(replay.call(action)?);
            if found.is_empty() {
                return Ok(Report::done(format!("Searched for `{text}`: found nowhere.")));
            }
            let places = found.iter().take(12).map(|one| format!("{}:{}: {}", one.path, one.line, one.text));
            let more = (found.len() > 12).then(|| format!("... and {} more", found.len() - 12));
            Ok(Report::done(format!("Searched for `{text}`:")).with(places).with(more))
        }
        Step::Explain(question) => Ok(match explain(question, replay)? {
            Some(found) => Report::done(found),
            None => Report::failed(format!("Did not {}: there is no word in it to search for.", describe(step))),
        }),
        Step::Unclear(text) => Ok(Report::failed(format!("Did not understand \"{text}\"."))),
    }
}

/// The best matching places for a question as a text; `None` when it has no word to search for.
pub(super) fn explain(question: &str, replay: &mut Replay<'_>) -> Result<Option<String>, Pause> {
    let file = question
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && !"./_-".contains(c)).trim_end_matches('.'))
        .find(|word| words::is_path_like(word));
    if let Some(path) = file
        && replay.offers("read_file")
    {
        let answer = replay.call(Action::Read { path: path.to_owned(), offset: 1, limit: PAGE })?;
        let lines = outputs::numbered_lines(answer);
        if !lines.is_empty() {
            return Ok(Some(outline(path, &lines)));
        }
    }
    let words = search::words(question);
    if words.is_empty() {
        return Ok(None);
    }
    let grep = |word: &String| Action::Grep { pattern: search::pattern(word), max_results: MATCHES };
    let answers = replay.call_all(words.iter().map(grep).collect())?;
    let found: Vec<_> = words.iter().cloned().zip(answers.iter().map(|answer| outputs::matches(answer))).collect();
    let best = search::rank(&found, SHOWN);
    let named: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    let Some(top) = best.first() else {
        return Ok(Some(format!("I searched for {} and found no matching place.", named.join(", "))));
    };
    let mut text = format!("I searched for {}. The best matching places:\n", named.join(", "));
    for one in &best {
        text.push_str(&format!("\n- {}:{}: `{}`", one.path, one.line, cut(one.text, 160)));
    }
    if replay.offers("read_file") {
        let offset = top.line.saturating_sub(3).max(1);
        let answer = replay.call(Action::Read { path: top.path.to_owned(), offset, limit: 12 })?;
        let lines: Vec<&str> = outputs::numbered_lines(answer).into_iter().map(|(_, text)| text).collect();
        if !lines.is_empty() {
            text.push_str(&format!("\n\nAround {}:{}:\n\n```\n{}\n```", top.path, top.line, lines.join("\n")));
        }
    }
    Ok(Some(text))
}

/// What a file defines, by line, or how it begins.
fn outline(path: &str, lines: &[(usize, &str)]) -> String {
    let defined: Vec<String> = lines
        .iter()
        .filter(|(_, text)| search::defines(text, ""))
        .take(30)
        .map(|(number, text)| format!("- {path}:{number}: `{}`", cut(text.trim(), 160)))
        .collect();
    if defined.is_empty() {
        let start: Vec<&str> = lines.iter().take(20).map(|(_, text)| *text).collect();
        return format!("{path} begins:\n\n```\n{}\n```", start.join("\n"));
    }
    format!("What {path} defines:\n\n{}", defined.join("\n"))
}

fn cut(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(at, _)| &text[..at])
}

fn require(replay: &Replay<'_>, tool: &'static str) -> Result<(), Pause> {
    if replay.offers(tool) { Ok(()) } else { Err(Pause::NotOffered(tool)) }
}

fn patch(patch: String, done: String, step: &Step, replay: &mut Replay<'_>) -> Result<Report, Pause> {
    let answer = replay.call(Action::Patch { patch })?;
    if outputs::is_failed_patch(answer) {
        return Ok(Report::failed(format!("Could not {}:", describe(step))).with(answer.lines().take(8)));
    }
    Ok(Report::done(done))
}

/// All lines of a file, or why there are none.
fn read_whole(path: &str, replay: &mut Replay<'_>) -> Result<Result<Vec<String>, String>, Pause> {
    let mut text: Vec<String> = Vec::new();
    for _ in 0..PAGES {
        let offset = text.len() + 1;
        let answer = replay.call(Action::Read { path: path.to_owned(), offset, limit: PAGE })?;
        let lines = outputs::numbered_lines(answer);
        if lines.is_empty() && text.is_empty() {
            let head = outputs::first_line(answer);
            let is_empty = head.is_empty() || head.starts_with('[') && head.contains("empty");
            return Ok(if is_empty { Ok(text) } else { Err(head.to_owned()) });
        }
        for (number, line) in &lines {
            if *number != text.len() + 1 {
                return Ok(Err(format!("line {} of {path} could not be read whole.", text.len() + 1)));
            }
            text.push((*line).to_owned());
        }
        // A page ends early when it is as long as an answer may be; the tool then says where to go on.
        let has_more = answer.trim_end().lines().next_back().is_some_and(|line| line.contains("go on with offset"));
        if lines.is_empty() || (lines.len() < PAGE && !has_more) {
            return Ok(Ok(text));
        }
    }
    Ok(Err(format!("{path} has more than {} lines, too many for the stand-in.", PAGE * PAGES)))
}

fn run(command: &str, replay: &mut Replay<'_>) -> Result<Report, Pause> {
    let mut output = outputs::command(replay.call(Action::Exec { cmd: command.to_owned() })?);
    for _ in 0..WAITS {
        let Some(session_id) = output.session_id.filter(|_| replay.offers("write_stdin")) else { break };
        let more = outputs::command(replay.call(Action::Wait { session_id })?);
        let text = [output.text, more.text].join("\n");
        output = CommandOutput { text: text.trim_matches('\n').to_owned(), ..more };
    }
    let (result, is_done) = match (output.exit_code, output.session_id) {
        (Some(0), _) => ("exit code 0".to_owned(), true),
        (Some(code), _) => (format!("exit code {code}"), false),
        (None, Some(id)) => (format!("still running (session {id})"), false),
        (None, None) => (format!("no exit code; {}", output.head), false),
    };
    let mut report = Report::done(format!("Ran `{command}`: {result}."));
    report.is_done = is_done;
    Ok(report.with(outputs::last_lines(&output.text, 8, 800)))
}

fn run_tests(replay: &mut Replay<'_>) -> Result<Report, Pause> {
    require(replay, "exec_command")?;
    let listing = replay.call(Action::List { path: ".".into() })?;
    // Entries of directories further down are indented.
    let has = |file: &str| listing.lines().any(|line| line.trim_end() == file);
    let known = TEST_COMMANDS.iter().find(|(file, _)| has(file)).map(|(_, command)| *command);
    // Python's own runner finds files of this name.
    let is_unittest = |line: &str| line == "tests/" || line.starts_with("test") && line.ends_with(".py");
    let found = known.or_else(|| listing.lines().any(is_unittest).then_some("python3 -m unittest"));
    match found {
        Some(command) => run(command, replay),
        None => Ok(Report::failed(
            "Could not tell how the tests are run here; name the command, as in: run `make check`.".into(),
        )),
    }
}
