//! Lines and commands that a program takes along: shells, `eval`, aliases, what git runs beside itself.

use super::runs::{Around, SHELLS, Search};
use super::texts::{find_runs, is_command_option, is_stream, joined};
use super::word::{Match, Word};

impl Search {
    /// Lines and commands that a program takes along.
    pub(super) fn carried(&mut self, name: &str, rest: &[Word], around: &Around) {
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
    pub(super) fn script_from_input(&mut self, around: &Around) {
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
    pub(super) fn after_command_option(&mut self, rest: &[Word]) {
        let Some(at) = rest.iter().position(|word| is_command_option(&word.text)) else { return };
        if let Some((_, held)) = rest[at].text.split_once('=') {
            self.line(held);
        }
        rest[at + 1..].iter().for_each(|word| self.script(word));
    }

    fn script(&mut self, word: &Word) {
        self.line(&joined(std::slice::from_ref(word)));
    }

    /// What git runs beside itself. Returns whether something tells it to do another thing than it seems.
    pub(super) fn git(&mut self, words: &[Word], settings: &[Word], around: &Around) -> bool {
        let mut is_set_up = false;
        let command = words.get(1);
        for setting in settings {
            let Some((key, value)) = setting.text.split_once('=') else { continue };
            let alias = key.get(..6).filter(|start| start.eq_ignore_ascii_case("alias.")).map(|_| &key[6..]);
            match alias {
                Some(alias) if command.is_some_and(|command| command.is(alias) != Match::No) => {
                    match value.strip_prefix('!') {
                        Some(line) => self.line(line),
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
                        Some((option, line)) if option.starts_with("--") => self.line(line),
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
}
