//! What the commands of a line run: through wrappers, shells, substitutions, and programs that take a command along.

use super::guess::{Found, Guess};
use super::reader;
use super::texts::{joined, opened, printed};
use super::word::Word;
use super::{tools, wrappers};
use crate::rules::command::program::base_name;

/// The deepest nesting that is followed.
const DEPTH: usize = 6;

/// The most guesses that are made of one line.
const MOST: usize = 512;

/// The longest line that is looked at, in bytes.
const MAX_LINE: usize = 64 << 10;

/// Words after which a command begins.
const LEADING: [&str; 11] = ["if", "then", "elif", "else", "while", "until", "do", "!", "{", "coproc", "function"];

pub(super) const SHELLS: [&str; 10] = ["sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "rbash", "pwsh"];

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
    pub(super) sets_up_git: bool,
}

/// What a command has beside its words.
#[derive(Clone, Default)]
pub(super) struct Around {
    pub(super) writes: Vec<String>,
    pub(super) directory: Option<String>,
    pub(super) inputs: Vec<String>,
    pub(super) reads_file: bool,
    /// What is printed to it; none where that is not known.
    pub(super) fed: Option<Vec<Word>>,
    pub(super) goes_on: bool,
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

    pub(super) fn unclear(&mut self, why: &str) {
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
    pub(super) fn hint(&mut self, text: &str) {
        let was = std::mem::replace(&mut self.is_hint, true);
        self.line(text);
        self.is_hint = was;
    }

    pub(super) fn command(&mut self, words: &[Word], around: &Around) {
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
    pub(super) fn assignment(&mut self, word: &Word) -> bool {
        let Some((name, value)) = word.text.split_once('=') else { return false };
        if value.contains(char::is_whitespace) {
            self.hint(value);
        }
        name.starts_with("GIT_CONFIG") || matches!(name, "HOME" | "XDG_CONFIG_HOME")
    }

    fn wrapped(&mut self, wrapper: &wrappers::Wrapper, rest: &[Word], around: &Around) {
        if wrapper.name == "env" {
            self.split_string(rest);
        }
        if matches!(wrapper.name, "flock" | "runuser") {
            self.after_command_option(rest);
        }
        for word in rest.iter().filter(|word| wrappers::is_assignment(&word.text)) {
            self.sets_up_git |= self.assignment(word);
        }
        for start in wrapper.starts(rest) {
            let inner = &rest[start..];
            if inner.is_empty() && !matches!(wrapper.name, "parallel") {
                continue;
            }
            match wrapper.name {
                "xargs" => self.run_on_input(inner, &rest[..start], around),
                "parallel" => self.parallel(inner, &rest[..start], around),
                // It gives what follows to a shell.
                "watch" => self.line(&joined(inner)),
                _ => self.command(inner, around),
            }
        }
    }

    /// `env -S 'git push'`: words of a word.
    fn split_string(&mut self, rest: &[Word]) {
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
    fn run_on_input(&mut self, inner: &[Word], options: &[Word], around: &Around) {
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
            return self.run_on_input(inner, options, around);
        };
        let (command, arguments) = (&inner[..at], &inner[at + 1..]);
        for argument in arguments {
            let line = joined(command) + " " + &argument.text;
            self.line(&line.replace("{}", &argument.text));
        }
        self.command(&[&opened(command, options), arguments].concat(), around);
    }

    pub(super) fn push(&mut self, words: Vec<Word>, around: &Around, is_set_up: bool) {
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
