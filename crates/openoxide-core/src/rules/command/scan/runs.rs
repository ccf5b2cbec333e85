//! What the commands of a line run: through wrappers, shells, substitutions, and programs that take a command along.

use super::reader::{self, Raw};
use super::word::Word;
use super::{Found, Guess, tools, wrappers};
use crate::rules::command::program::base_name;

/// The deepest nesting that is followed.
const DEPTH: usize = 6;

/// The most guesses that are made of one line.
const MOST: usize = 512;

/// The longest line that is looked at, in bytes.
const MAX_LINE: usize = 64 << 10;

/// Words after which a command begins.
const LEADING: [&str; 11] = ["if", "then", "elif", "else", "while", "until", "do", "!", "{", "coproc", "function"];

const SHELLS: [&str; 10] = ["sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "rbash", "pwsh"];

/// Programs whose words are data to them, whatever they say.
const DATA: [&str; 44] = [
    "echo", "printf", "grep", "egrep", "fgrep", "rg", "ag", "cat", "head", "tail", "less", "ls", "wc", "cut", "sort",
    "uniq", "tr", "test", "[", "[[", "jq", "basename", "dirname", "cd", "case", "git", "touch", "mkdir", "rm", "cp",
    "mv", "diff", "stat", "true", "false", "pwd", "read", ":", "which", "type", "kill", "sleep", "tee", "file",
];

/// What is searched so far.
#[derive(Default)]
pub(super) struct Search {
    found: Found,
    /// How deep the line stands that is read.
    depth: usize,
    /// What is read is only spoken of.
    is_hint: bool,
    /// Git is told something by its environment, or by an alias.
    sets_up_git: bool,
}

/// What a command has beside its words.
#[derive(Clone, Default)]
struct Around {
    writes: Vec<String>,
    directory: Option<String>,
    inputs: Vec<String>,
    reads_file: bool,
    /// What is printed to it; none where that is not known.
    fed: Option<Vec<Word>>,
    goes_on: bool,
}

impl Search {
    pub(super) fn found(mut self) -> Found {
        if self.sets_up_git {
            let gits = self
                .found
                .guesses
                .iter_mut()
                .filter(|guess| guess.words.first().is_some_and(|word| word.text == "git"));
            gits.for_each(|guess| guess.is_set_up = true);
        }
        self.found
    }

    fn unclear(&mut self, why: &str) {
        // What is only spoken of need not be a shell's.
        if !self.is_hint {
            self.found.unclear.get_or_insert_with(|| why.to_owned());
        }
    }

    pub(super) fn line(&mut self, line: &str) {
        if self.depth > DEPTH || self.found.guesses.len() >= MOST {
            return self.unclear("too much is nested in it");
        }
        if line.len() > MAX_LINE {
            return self.unclear("it is too long");
        }
        if line.chars().any(|c| !"\n\t\r".contains(c) && (c.is_control() || openoxide_display::is_deceptive(c))) {
            self.unclear("it holds characters that cannot be seen");
        }
        self.sets_up_git |= line.contains("GIT_CONFIG");
        self.depth += 1;
        let lines = reader::read(line);
        if let Some(why) = lines.unclear {
            self.unclear(why);
        }
        for at in 0..lines.commands.len() {
            let raw = &lines.commands[at];
            let around = Around {
                writes: raw.writes.clone(),
                directory: raw.directory.clone(),
                inputs: raw.inputs.clone(),
                reads_file: raw.reads_file,
                fed: raw.fed_by.and_then(|by| printed(&lines.commands, by)),
                goes_on: false,
            };
            self.command(&raw.words, &around);
        }
        for nested in &lines.nested {
            self.line(nested);
        }
        self.depth -= 1;
    }

    pub(super) fn words(&mut self, words: Vec<Word>) {
        self.command(&words, &Around::default());
    }

    /// A text that may be a line of a shell, or may be anything.
    fn hint(&mut self, text: &str) {
        let was = std::mem::replace(&mut self.is_hint, true);
        self.line(text);
        self.is_hint = was;
    }

    fn command(&mut self, words: &[Word], around: &Around) {
        if self.found.guesses.len() >= MOST {
            return self.unclear("too much is nested in it");
        }
        let whole = words;
        let mut words = words;
        let mut is_set_up = false;
        // Assignments ahead of the command, and words of the shell's own language.
        while let Some(first) = words.first().filter(|first| {
            !first.is_open() && LEADING.contains(&first.text.as_str()) || wrappers::is_assignment(&first.text)
        }) {
            is_set_up |= self.assignment(first);
            // A function's name is no command.
            let passed = if first.text == "function" { 2 } else { 1 };
            words = words.get(passed..).unwrap_or_default();
        }
        let Some((program, rest)) = words.split_first() else {
            return self.push(whole.to_vec(), around, false);
        };
        let name = base_name(&program.text).to_lowercase();
        let name = name.as_str();
        if !program.is_open()
            && let Some(wrapper) = wrappers::find(name)
        {
            self.wrapped(wrapper, rest, around);
            return self.push(words.to_vec(), around, is_set_up);
        }
        if !program.is_open() {
            self.carried(name, rest, around);
        }
        let told = if program.is_open() { None } else { tools::told(name, words) };
        match told {
            Some(told) => {
                let settings = told.settings;
                let is_set_up = is_set_up | (name.starts_with("git") && self.git(&told.words, &settings, around));
                self.push(told.words, around, is_set_up);
            }
            None => self.push(words.to_vec(), around, is_set_up),
        }
    }

    /// An assignment ahead of a command. Returns whether it tells git what to do.
    fn assignment(&mut self, word: &Word) -> bool {
        let Some((name, value)) = word.text.split_once('=') else { return false };
        if value.contains(char::is_whitespace) {
            self.hint(value);
        }
        name.starts_with("GIT_CONFIG") || matches!(name, "HOME" | "XDG_CONFIG_HOME")
    }

    fn wrapped(&mut self, wrapper: &wrappers::Wrapper, rest: &[Word], around: &Around) {
        let is_env = wrapper.name == "env";
        let mut rest = rest.to_vec();
        if is_env {
            self.split_string(&mut rest);
        }
        if matches!(wrapper.name, "flock" | "runuser") {
            self.after_command_option(&rest);
        }
        for word in rest.iter().filter(|word| wrappers::is_assignment(&word.text)) {
            self.sets_up_git |= self.assignment(&word.clone());
        }
        for start in wrapper.starts(&rest) {
            let inner = &rest[start..];
            if inner.is_empty() && !matches!(wrapper.name, "parallel") {
                continue;
            }
            match wrapper.name {
                "xargs" => self.from_input(inner, &rest[..start], around),
                "parallel" => self.parallel(inner, &rest[..start], around),
                // It gives what follows to a shell.
                "watch" => self.line(&joined(inner)),
                _ => self.command(inner, around),
            }
        }
    }

    /// `env -S 'git push'`: words of a word.
    fn split_string(&mut self, rest: &mut Vec<Word>) {
        let Some(at) = rest.iter().position(|word| {
            word.text.starts_with("--split-string")
                || (word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains('S'))
        }) else {
            return;
        };
        let text = rest[at].text.clone();
        let held = text
            .split_once(['S', '='])
            .map(|(_, held)| held.to_owned())
            .filter(|held| !held.is_empty() && !text.starts_with("--split-string") || text.contains('='));
        let (line, taken) = match held {
            Some(held) => (held, 1),
            None => (rest.get(at + 1).map(|word| word.text.clone()).unwrap_or_default(), 2),
        };
        let after = joined(rest.get(at + taken..).unwrap_or_default());
        self.line(&format!("{line} {after}"));
    }

    /// What a program of input runs: with words that are printed to it, or that nobody knows.
    fn from_input(&mut self, inner: &[Word], options: &[Word], around: &Around) {
        let filled = opened(inner, options);
        let mut words = filled.clone();
        let fed = around.inputs.iter().flat_map(|text| text.split_whitespace().map(Word::plain));
        let fed: Vec<Word> = around.fed.iter().flatten().cloned().chain(fed).collect();
        let fed = fed.iter().flat_map(|word| word.text.split_whitespace().map(Word::plain).collect::<Vec<_>>());
        words.extend(fed);
        let around = Around { goes_on: filled == inner, fed: None, inputs: Vec::new(), ..around.clone() };
        self.command(&words, &around);
    }

    fn parallel(&mut self, inner: &[Word], options: &[Word], around: &Around) {
        let Some(at) = inner.iter().position(|word| word.text.starts_with(":::")) else {
            if inner.is_empty() {
                return self.script_from_input(around);
            }
            return self.from_input(inner, options, around);
        };
        let (command, arguments) = (&inner[..at], &inner[at + 1..]);
        for argument in arguments {
            let line = joined(command) + " " + &argument.text;
            self.line(&line.replace("{}", &argument.text));
        }
        self.command(&[&opened(command, options), arguments].concat(), around);
    }

    /// Lines and commands that a program takes along.
    fn carried(&mut self, name: &str, rest: &[Word], around: &Around) {
        match name {
            name if SHELLS.contains(&name) => self.shell(rest, around),
            "eval" => self.line(&joined(rest)),
            "ssh" => self.line(&joined(rest)),
            "trap" | "bind" | "complete" => rest.iter().for_each(|word| self.script(word)),
            "su" | "sg" | "script" | "runuser" => self.after_command_option(rest),
            "alias" => {
                let values = rest.iter().filter_map(|word| word.text.split_once('='));
                let values: Vec<String> = values.map(|(_, value)| value.to_owned()).collect();
                values.iter().for_each(|value| self.line(value));
            }
            "." | "source" if rest.first().is_some_and(is_stream) => self.script_from_input(around),
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                for word in rest {
                    let tells_git = self.assignment(word);
                    self.sets_up_git |= tells_git;
                }
            }
            "find" | "fd" | "fdfind" => {
                for run in find_runs(rest) {
                    self.command(&run, &Around::default());
                }
            }
            // A program under another name for the shell.
            "hash" if rest.iter().any(|word| word.text.starts_with("-p")) => {
                self.unclear("it gives programs other names");
            }
            "enable" if rest.iter().any(|word| word.text.starts_with("-f")) => {
                self.unclear("it loads code into the shell");
            }
            _ => {}
        }
    }

    /// What a shell is given: a line, a script, or what comes in.
    fn shell(&mut self, rest: &[Word], around: &Around) {
        if rest.iter().any(|word| is_command_option(&word.text)) {
            return self.after_command_option(rest);
        }
        let mut operands = rest.iter().enumerate().filter(|(at, word)| {
            let is_value = at.checked_sub(1).and_then(|before| rest.get(before)).is_some_and(|before| {
                matches!(before.text.as_str(), "-o" | "+o" | "-O" | "+O" | "--rcfile" | "--init-file")
            });
            !is_value && !word.text.starts_with(['-', '+'])
        });
        let reads_input = rest.iter().any(|word| word.text == "-s" || word.text == "-");
        match operands.next() {
            Some((_, script)) if !reads_input && !is_stream(script) => {}
            _ if around.reads_file => {}
            _ => self.script_from_input(around),
        }
    }

    /// A script that comes in by a pipe, a here-document or a here-string.
    fn script_from_input(&mut self, around: &Around) {
        match &around.fed {
            Some(words) => {
                self.line(&joined(words));
                words.iter().for_each(|word| self.line(&word.text.clone()));
            }
            None if around.inputs.is_empty() => self.unclear("a shell reads what to do from its input"),
            None => {}
        }
        around.inputs.iter().for_each(|text| self.line(text));
    }

    /// Everything after `-c`: which of it is the line depends on the program.
    fn after_command_option(&mut self, rest: &[Word]) {
        let Some(at) = rest.iter().position(|word| is_command_option(&word.text)) else { return };
        if let Some((_, held)) = rest[at].text.split_once('=') {
            self.line(&held.to_owned());
        }
        rest[at + 1..].iter().for_each(|word| self.script(word));
    }

    fn script(&mut self, word: &Word) {
        self.line(&joined(std::slice::from_ref(word)));
    }

    /// What git runs beside itself. Returns whether something tells it to do another thing than it seems.
    fn git(&mut self, words: &[Word], settings: &[Word], around: &Around) -> bool {
        let mut is_set_up = false;
        let command = words.get(1);
        for setting in settings {
            let Some((key, value)) = setting.text.split_once('=') else { continue };
            let alias = key.get(..6).filter(|start| start.eq_ignore_ascii_case("alias.")).map(|_| &key[6..]);
            match alias {
                Some(alias) if command.is_some_and(|command| command.is(alias) != super::Match::No) => {
                    match value.strip_prefix('!') {
                        Some(line) => self.line(&line.to_owned()),
                        None => {
                            let line = format!("git {value} {}", joined(words.get(2..).unwrap_or_default()));
                            self.line(&line);
                        }
                    }
                }
                Some(_) => {}
                None => self.hint(value),
            }
            is_set_up |= setting.is_open();
        }
        let rest = words.get(2..).unwrap_or_default();
        match command.map(|command| command.text.as_str()) {
            Some("submodule") => {
                if let Some(at) = rest.iter().position(|word| word.text == "foreach") {
                    self.line(&joined(&rest[at + 1..]).replace("--recursive", ""));
                }
            }
            Some("bisect") if rest.first().is_some_and(|word| word.text == "run") => self.command(&rest[1..], around),
            Some("rebase" | "difftool" | "filter-branch" | "mergetool") => {
                for (at, word) in rest.iter().enumerate() {
                    match word.text.split_once('=') {
                        Some((option, line)) if option.starts_with("--") => self.line(&line.to_owned()),
                        _ if word.text.starts_with('-') => {
                            let next = rest.get(at + 1).map(|next| next.text.clone()).unwrap_or_default();
                            self.line(&next);
                        }
                        _ => {}
                    }
                }
            }
            // From here on git has another command.
            Some("config") if rest.iter().any(|word| word.text.to_lowercase().starts_with("alias.")) => {
                self.sets_up_git = true;
            }
            _ => {}
        }
        is_set_up
    }

    fn push(&mut self, words: Vec<Word>, around: &Around, is_set_up: bool) {
        let program = words.first().cloned().unwrap_or_default();
        // A program that is a line of its own is one in another language's quotes.
        if self.is_hint && program.text.contains(char::is_whitespace) && self.depth <= DEPTH {
            self.line(&program.text);
        }
        // What is only spoken of, and not known, says nothing.
        if self.is_hint && program.is_open() {
            return;
        }
        let name = base_name(&program.text).to_lowercase();
        let is_data =
            DATA.contains(&name.as_str()) || SHELLS.contains(&name.as_str()) || wrappers::find(&name).is_some();
        let may_wrap = !is_data && !program.is_open();
        let mut texts = Vec::new();
        if may_wrap && !self.is_hint {
            let is_code = |text: &&str| text.contains([' ', '\n', ';', '(', '|', '&', '!', ',']);
            let given =
                words.iter().skip(1).map(|word| word.text.as_str()).chain(around.inputs.iter().map(String::as_str));
            texts = given.filter(is_code).map(str::to_owned).collect();
            for text in &texts {
                self.hint(text);
            }
        }
        self.found.guesses.push(Guess {
            words,
            writes: around.writes.clone(),
            directory: around.directory.clone(),
            goes_on: around.goes_on,
            is_hint: self.is_hint,
            texts,
            may_wrap,
            is_set_up,
        });
    }
}

/// The words as a line. What only the shell knows is written so that it is not known there either.
fn joined(words: &[Word]) -> String {
    let mut texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    if words.iter().any(|word| word.is_open() && !word.text.contains('$')) {
        // A value that the line itself names may be another one by then.
        texts.push("\n$()");
    }
    texts.join(" ")
}

/// `-c`, alone or in a bundle, and its long form.
fn is_command_option(text: &str) -> bool {
    if let Some(long) = text.strip_prefix("--") {
        return long == "command" || long.starts_with("command=") || long == "session-command";
    }
    text.strip_prefix('-').is_some_and(|letters| letters.contains('c') && letters.len() <= 8)
}

/// Whether a file is what comes in by a pipe or a substitution.
fn is_stream(word: &Word) -> bool {
    let text = word.text.as_str();
    text == "-"
        || text.contains("<()")
        || ["/dev/stdin", "/dev/fd", "/proc/self/fd"].iter().any(|start| text.starts_with(start))
}

/// The words with what is filled in from elsewhere.
fn opened(words: &[Word], options: &[Word]) -> Vec<Word> {
    let mut marks = vec!["{".to_owned()];
    for (at, option) in options.iter().enumerate() {
        match option.text.strip_prefix("-I").or_else(|| option.text.strip_prefix("-J")) {
            Some("") => marks.extend(options.get(at + 1).map(|next| next.text.clone())),
            Some(mark) => marks.push(mark.to_owned()),
            None => {}
        }
    }
    let is_filled = |word: &&Word| marks.iter().any(|mark| word.text.contains(mark.as_str()));
    words.iter().map(|word| if is_filled(&word) { word.opened() } else { word.clone() }).collect()
}

/// What a command prints to the next one, where its words say it; none where only running it tells.
fn printed(commands: &[Raw], at: usize) -> Option<Vec<Word>> {
    let raw = commands.get(at)?;
    let (program, rest) = raw.words.split_first()?;
    let is_known = |words: &[Word]| words.iter().all(|word| !word.is_open() && !word.text.contains('\\'));
    match base_name(&program.text) {
        "echo" => {
            let words: Vec<Word> = rest
                .iter()
                .skip_while(|word| matches!(word.text.as_str(), "-n" | "-e" | "-E" | "-ne"))
                .cloned()
                .collect();
            is_known(&words).then_some(words)
        }
        "printf" => {
            let words: Vec<Word> = rest
                .iter()
                .filter(|word| !matches!(word.text.as_str(), "%s" | "%s\\n" | "%s\n"))
                .map(|word| if word.is_open() { word.clone() } else { Word::plain(word.text.replace("\\n", "\n")) })
                .collect();
            (is_known(&words) && words.iter().all(|word| !word.text.contains('%'))).then_some(words)
        }
        "cat" | "tee" if rest.is_empty() && !raw.inputs.is_empty() => {
            Some(raw.inputs.iter().map(Word::plain).collect())
        }
        "cat" if rest.is_empty() => printed(commands, raw.fed_by?),
        _ => None,
    }
}

/// What `find` runs for each place it looks at, with that place filled in.
fn find_runs(words: &[Word]) -> Vec<Vec<Word>> {
    let starts: Vec<&Word> = words.iter().take_while(|word| !word.text.starts_with(['-', '(', '!'])).collect();
    let mut runs = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let runs_it = ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];
        if runs_it.contains(&word.text.as_str()) {
            let command = words[at + 1..].iter().take_while(|word| !matches!(word.text.as_str(), ";" | "+"));
            let filled = command.flat_map(|word| {
                if word.text == "{}" {
                    starts.iter().map(|start| (*start).clone()).collect()
                } else {
                    vec![word.clone()]
                }
            });
            runs.push(filled.collect());
        }
    }
    runs
}
