//! Splits a line at everything that may separate commands, and undoes quotes and escapes. What stands in substitutions
//! comes out as lines of its own. Nothing is refused; what cannot be followed is said.

use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;

use super::word::{Bit, Word, words_of};

/// A command of a line, as it stands.
#[derive(Debug, Clone, Default)]
pub(super) struct Raw {
    pub(super) words: Vec<Word>,
    /// Targets of redirections that write.
    pub(super) writes: Vec<String>,
    /// Texts that are given to it: here-documents and here-strings.
    pub(super) inputs: Vec<String>,
    /// Its input is a file.
    pub(super) reads_file: bool,
    /// The command ahead of it in its pipeline, by its place among all.
    pub(super) fed_by: Option<usize>,
    /// Where a `cd` ahead of it went.
    pub(super) directory: Option<String>,
}

/// What is read out of a line.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) commands: Vec<Raw>,
    /// What stands in substitutions.
    pub(super) nested: Vec<String>,
    /// Why the line is not one that can be followed.
    pub(super) unclear: Option<&'static str>,
}

/// Reads a line.
pub(super) fn read(line: &str) -> Lines {
    let mut reader = Reader::new(line);
    reader.run();
    reader.out
}

/// What the next word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Next {
    #[default]
    Word,
    Write,
    Read,
    HereString,
    HereDocument {
        strips_tabs: bool,
    },
}

/// A here-document whose text is still to come.
struct Awaited {
    end: String,
    strips_tabs: bool,
    is_literal: bool,
    /// The command that it is given to.
    command: usize,
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    out: Lines,
    current: Raw,
    word: Option<Vec<Bit>>,
    next: Next,
    awaited: Vec<Awaited>,
    directory: Option<String>,
    /// What the line itself says of variables.
    variables: HashMap<String, String>,
    parentheses: usize,
}

/// Variables that the environment sets, and that are one word which is no program's name.
const ENVIRONMENT: [&str; 12] =
    ["HOME", "PWD", "TMPDIR", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "UID", "EUID", "HOSTNAME", "PPID"];

impl<'a> Reader<'a> {
    fn new(line: &'a str) -> Self {
        Self {
            rest: line.chars().peekable(),
            out: Lines::default(),
            current: Raw::default(),
            word: None,
            next: Next::Word,
            awaited: Vec::new(),
            directory: None,
            variables: HashMap::new(),
            parentheses: 0,
        }
    }

    fn run(&mut self) {
        while let Some(c) = self.rest.next() {
            match c {
                ' ' | '\t' | '\r' | '\u{b}' | '\u{c}' => self.end_word(),
                '\n' => {
                    self.end_command(false);
                    self.here_documents();
                }
                ';' | '\0' => self.end_command(false),
                '(' if self.word.is_none() && self.current.words.is_empty() && self.rest.peek() == Some(&'(') => {
                    self.rest.next();
                    self.arithmetic();
                }
                '(' => {
                    self.parentheses += 1;
                    self.end_command(false);
                }
                ')' => self.close(),
                '&' if self.rest.peek() == Some(&'>') => {}
                '&' => {
                    self.rest.next_if_eq(&'&');
                    self.end_command(false);
                }
                '|' => {
                    let is_or = self.rest.next_if_eq(&'|').is_some();
                    self.rest.next_if_eq(&'&');
                    self.end_command(!is_or);
                }
                '#' if self.word.is_none() => while self.rest.next_if(|c| *c != '\n').is_some() {},
                '>' | '<' if self.rest.peek() == Some(&'(') => {
                    self.rest.next();
                    self.substitution(')');
                    self.push(Bit::Open("<()".to_owned(), false));
                }
                '>' => {
                    self.drop_descriptor();
                    while self.rest.next_if(|c| matches!(c, '>' | '|' | '&')).is_some() {}
                    self.next = Next::Write;
                }
                '<' => self.input(),
                '\\' => match self.rest.next() {
                    Some('\n') | None => {}
                    Some(c) => self.push(Bit::Quoted(c)),
                },
                '\'' => {
                    self.word.get_or_insert_default();
                    while let Some(c) = self.rest.next_if(|c| *c != '\'') {
                        self.push(Bit::Quoted(c));
                    }
                    if self.rest.next().is_none() {
                        self.out.unclear = Some("a quote is not closed");
                    }
                }
                '"' => {
                    self.word.get_or_insert_default();
                    self.double_quoted(Some('"'));
                }
                '`' => {
                    self.substitution('`');
                    self.push(Bit::Open("$()".to_owned(), true));
                }
                '$' => self.dollar(false),
                c => self.push(Bit::Bare(c)),
            }
        }
        self.end_command(false);
    }

    fn push(&mut self, bit: Bit) {
        self.word.get_or_insert_default().push(bit);
    }

    /// What stands between double quotes, or is a here-document's text.
    fn double_quoted(&mut self, end: Option<char>) {
        while let Some(c) = self.rest.next() {
            match c {
                c if Some(c) == end => return,
                '\\' => match self.rest.next() {
                    Some('\n') | None => {}
                    Some(c @ ('$' | '`' | '"' | '\\')) => self.push(Bit::Quoted(c)),
                    Some(c) => {
                        self.push(Bit::Quoted('\\'));
                        self.push(Bit::Quoted(c));
                    }
                },
                '`' => {
                    self.substitution('`');
                    self.push(Bit::Open("$()".to_owned(), false));
                }
                '$' => self.dollar(true),
                c => self.push(Bit::Quoted(c)),
            }
        }
        if end.is_some() {
            self.out.unclear = Some("a quote is not closed");
        }
    }

    /// A number ahead of a redirection is a descriptor.
    fn drop_descriptor(&mut self) {
        let is_digit = |bit: &Bit| matches!(bit, Bit::Bare(c) if c.is_ascii_digit());
        if self.word.as_deref().is_some_and(|word| word.iter().all(is_digit)) {
            self.word = None;
        }
        self.end_word();
    }

    fn input(&mut self) {
        self.drop_descriptor();
        self.next = if self.rest.next_if_eq(&'<').is_none() {
            self.rest.next_if(|c| matches!(c, '&' | '>'));
            Next::Read
        } else if self.rest.next_if_eq(&'<').is_some() {
            Next::HereString
        } else {
            Next::HereDocument { strips_tabs: self.rest.next_if_eq(&'-').is_some() }
        };
    }

    /// `)` ends a subshell, or the pattern of a `case`, which is no command.
    fn close(&mut self) {
        if self.parentheses > 0 {
            self.parentheses -= 1;
            return self.end_command(false);
        }
        self.end_word();
        if self.current.words.len() == 1 {
            self.current = Raw::default();
        }
        self.end_command(false);
    }

    /// Passes over `((...))`; what it substitutes is still run.
    fn arithmetic(&mut self) {
        let mut depth = 2_usize;
        while let Some(c) = self.rest.next() {
            match c {
                '(' => depth += 1,
                ')' => {
                    depth -= 1;
                    if depth == 0 {
                        return;
                    }
                }
                '`' => self.substitution('`'),
                '$' if self.rest.next_if_eq(&'(').is_some() => self.substitution(')'),
                _ => {}
            }
        }
        self.out.unclear = Some("parentheses are not closed");
    }

    /// `$(...)`, `$((...))`, `$'...'`, `${...}` and variables.
    fn dollar(&mut self, is_quoted: bool) {
        match self.rest.peek() {
            Some('(') => {
                self.rest.next();
                if self.rest.next_if_eq(&'(').is_some() {
                    self.arithmetic();
                } else {
                    self.substitution(')');
                }
                self.push(Bit::Open("$()".to_owned(), !is_quoted));
            }
            Some('\'') if !is_quoted => {
                self.rest.next();
                self.ansi_quoted();
            }
            // A translated string is the string.
            Some('"') if !is_quoted => {}
            Some('{') => {
                self.rest.next();
                let (mut name, mut depth) = (String::new(), 1);
                for c in self.rest.by_ref() {
                    depth += i32::from(c == '{') - i32::from(c == '}');
                    if depth == 0 {
                        break;
                    }
                    name.push(c);
                }
                self.variable(&name, is_quoted);
            }
            Some(c) if c.is_ascii_alphabetic() || *c == '_' => {
                let mut name = String::new();
                while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                self.variable(&name, is_quoted);
            }
            // Numbers of the shell's own.
            Some(c @ ('?' | '$' | '#' | '!')) => {
                let shown = format!("${c}");
                self.rest.next();
                shown.chars().for_each(|c| self.push(Bit::Quoted(c)));
            }
            Some(c @ ('@' | '*' | '-' | '0'..='9')) => {
                let shown = format!("${c}");
                self.rest.next();
                self.push(Bit::Open(shown, true));
            }
            _ => self.push(Bit::Quoted('$')),
        }
    }

    fn variable(&mut self, written: &str, is_quoted: bool) {
        let name: String = written.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        if name == "IFS" && !is_quoted {
            return self.end_word();
        }
        // A default value may hold a substitution.
        if written.contains("$(") || written.contains('`') {
            self.out.nested.push(written.replace("$(", "; ").replace(['`', ')'], "; "));
        }
        let is_whole = name == written;
        let shown = format!("${name}");
        match self.variables.get(&name).filter(|_| is_whole && name != "HOME").cloned() {
            Some(value) if is_quoted => self.push(Bit::Open(value, false)),
            Some(value) => {
                // The shell splits it into words.
                for (at, part) in value.split_whitespace().enumerate() {
                    if at > 0 {
                        self.end_word();
                    }
                    self.push(Bit::Open(part.to_owned(), false));
                }
                self.word.get_or_insert_default();
            }
            None if is_whole && ENVIRONMENT.contains(&name.as_str()) => {
                shown.chars().for_each(|c| self.push(Bit::Quoted(c)));
            }
            None => self.push(Bit::Open(shown, !is_quoted)),
        }
    }

    fn substitution(&mut self, end: char) {
        let (mut text, mut open) = (String::new(), 1);
        let mut quote = None;
        while let Some(c) = self.rest.next() {
            if c == '\\' && quote != Some('\'') {
                text.push(c);
                text.extend(self.rest.next());
                continue;
            }
            match quote {
                Some(open) if c == open => quote = None,
                None if end == ')' && matches!(c, '\'' | '"') => quote = Some(c),
                None if end == ')' && c == '(' => open += 1,
                None if c == end => {
                    open -= 1;
                    if open == 0 {
                        return self.out.nested.push(text);
                    }
                }
                Some(_) | None => {}
            }
            text.push(c);
        }
        self.out.unclear = Some("a substitution is not closed");
        self.out.nested.push(text);
    }

    /// `\xHH`, `\NNN`, `\uHHHH` and the letters.
    fn ansi_quoted(&mut self) {
        self.word.get_or_insert_default();
        while let Some(c) = self.rest.next() {
            match c {
                '\'' => return,
                '\\' => {
                    let decoded = match self.rest.next() {
                        Some('n') => Some('\n'),
                        Some('t') => Some('\t'),
                        Some('x') => self.digits(16, 2),
                        Some('u') => self.digits(16, 4),
                        Some('U') => self.digits(16, 8),
                        Some(c @ '0'..='7') => {
                            let mut value = c.to_digit(8).unwrap_or(0);
                            for _ in 0..2 {
                                let Some(next) = self.rest.next_if(|c| c.is_digit(8)) else { break };
                                value = value * 8 + next.to_digit(8).unwrap_or(0);
                            }
                            char::from_u32(value)
                        }
                        other => other,
                    };
                    decoded.into_iter().for_each(|c| self.push(Bit::Quoted(c)));
                }
                c => self.push(Bit::Quoted(c)),
            }
        }
        self.out.unclear = Some("a quote is not closed");
    }

    fn digits(&mut self, radix: u32, most: usize) -> Option<char> {
        let mut value = 0_u32;
        for _ in 0..most {
            let Some(next) = self.rest.next_if(|c| c.is_digit(radix)) else { break };
            value = value.wrapping_mul(radix).wrapping_add(next.to_digit(radix)?);
        }
        char::from_u32(value)
    }

    fn end_word(&mut self) {
        let Some(bits) = self.word.take() else { return };
        let is_literal = bits.iter().any(|bit| matches!(bit, Bit::Quoted(_)));
        let words = words_of(bits);
        match std::mem::take(&mut self.next) {
            Next::Word => {
                for word in words {
                    if let Some((name, value)) = word.text.split_once('=') {
                        self.variables.insert(name.to_owned(), value.to_owned());
                    }
                    self.current.words.push(word);
                }
            }
            Next::Write => self.current.writes.extend(words.into_iter().map(|word| word.text)),
            Next::Read => self.current.reads_file = true,
            Next::HereString => self.current.inputs.extend(words.into_iter().map(|word| word.text)),
            Next::HereDocument { strips_tabs } => {
                let end = words.into_iter().map(|word| word.text).collect();
                self.awaited.push(Awaited { end, strips_tabs, is_literal, command: self.out.commands.len() });
                // It is there, whatever comes.
                self.current.inputs.push(String::new());
            }
        }
    }

    /// Takes the texts of here-documents, which begin on the line after them.
    fn here_documents(&mut self) {
        for Awaited { end, strips_tabs, is_literal, command } in std::mem::take(&mut self.awaited) {
            let mut text = String::new();
            loop {
                let mut line = String::new();
                let mut is_whole = false;
                for c in self.rest.by_ref() {
                    if c == '\n' {
                        is_whole = true;
                        break;
                    }
                    line.push(c);
                }
                let shown = if strips_tabs { line.trim_start_matches('\t') } else { &line };
                if shown == end || (!is_whole && line.is_empty()) {
                    break;
                }
                text.push_str(shown);
                text.push('\n');
                if !is_whole {
                    break;
                }
            }
            if !is_literal {
                let mut inner = Reader::new(&text);
                inner.double_quoted(None);
                self.out.nested.append(&mut inner.out.nested);
            }
            if let Some(command) = self.out.commands.get_mut(command) {
                command.inputs.push(text);
            }
        }
    }

    fn end_command(&mut self, is_pipe: bool) {
        self.end_word();
        self.next = Next::Word;
        let mut ended = std::mem::take(&mut self.current);
        let is_empty = ended.words.is_empty() && ended.writes.is_empty() && ended.inputs.is_empty();
        if is_empty {
            // A pipeline goes on over a line break, and into a group.
            self.current.fed_by = ended.fed_by;
            return;
        }
        ended.directory.clone_from(&self.directory);
        if ended.words.first().is_some_and(|word| word.text == "cd" || word.text == "pushd") {
            self.directory = ended.words.get(1).map(|word| word.text.clone());
        }
        if is_pipe {
            self.current.fed_by = Some(self.out.commands.len());
        }
        self.out.commands.push(ended);
    }
}
