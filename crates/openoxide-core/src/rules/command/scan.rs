//! A lenient look at a shell line: whatever a shell might run, wrapped, nested, quoted or escaped as it may be. What comes
//! out serves to refuse, never to allow, so that a guess too many does little harm.

/// A command as it might be run: its words, and how its pipeline began.
#[derive(Debug, Clone, Default)]
pub(super) struct Guess {
    pub(super) words: Vec<String>,
    /// Targets of redirections that write.
    pub(super) writes: Vec<String>,
    /// The commands ahead of it in its pipeline.
    pub(super) fed_by: Vec<Vec<String>>,
    /// Where a `cd` ahead of it went.
    pub(super) directory: Option<String>,
}

/// The deepest nesting of shells that is followed.
const DEPTH: usize = 5;

/// The most guesses that are made of one line.
const MOST: usize = 512;

/// Programs that run another, with the options of theirs that take a value.
const WRAPPERS: [(&str, &str); 21] = [
    ("sudo", "ugpCRTDhrt"),
    ("doas", "uC"),
    ("env", "uCS"),
    ("nohup", ""),
    ("nice", "n"),
    ("ionice", "cn"),
    ("timeout", "ks"),
    ("stdbuf", "ioe"),
    ("command", ""),
    ("builtin", ""),
    ("exec", "a"),
    ("time", "fo"),
    ("setsid", ""),
    ("chroot", ""),
    ("busybox", ""),
    ("toybox", ""),
    ("unshare", ""),
    ("taskset", ""),
    ("xargs", "IinLPsEda"),
    ("parallel", "jIa"),
    ("strace", "eops"),
];

/// Wrappers whose first plain word belongs to them.
const WITH_OPERAND: [&str; 3] = ["timeout", "chroot", "taskset"];

/// Words after which a command begins.
const LEADING: [&str; 12] =
    ["if", "then", "elif", "else", "while", "until", "do", "!", "{", "coproc", "time", "function"];

const SHELLS: [&str; 8] = ["sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "rbash"];

/// Everything that the line might run.
pub(super) fn guesses(line: &str) -> Vec<Guess> {
    let mut all = Vec::new();
    scan(line, DEPTH, &mut all);
    all
}

/// What an argument vector might run.
pub(super) fn guesses_of_words(words: &[String]) -> Vec<Guess> {
    let mut all = Vec::new();
    unwrap(Guess { words: words.to_vec(), ..Guess::default() }, DEPTH, &mut all);
    all
}

fn scan(line: &str, depth: usize, all: &mut Vec<Guess>) {
    let mut reader = Reader::new(line);
    reader.run();
    for guess in reader.guesses {
        unwrap(guess, depth, all);
    }
    if depth > 0 {
        for nested in reader.nested {
            scan(&nested, depth - 1, all);
        }
    }
}

/// Adds the command, and what it runs where it is a wrapper or a shell.
fn unwrap(guess: Guess, depth: usize, all: &mut Vec<Guess>) {
    if all.len() >= MOST {
        return;
    }
    let mut words: &[String] = &guess.words;
    let mut from_input = false;
    loop {
        // Assignments ahead of the command, and words of the shell's own language.
        let is_passed = |word: &String| LEADING.contains(&word.as_str()) || is_assignment(word);
        while words.first().is_some_and(is_passed) {
            words = &words[1..];
        }
        let Some((program, rest)) = words.split_first() else { break };
        let name = super::program::base_name(program);
        let Some((_, valued)) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name) else { break };
        from_input |= matches!(name, "xargs" | "parallel");
        words = after_options(rest, valued, WITH_OPERAND.contains(&name));
    }
    let is_wrapped = words.len() != guess.words.len();
    let mut inner = Guess { words: words.to_vec(), ..guess.clone() };
    if from_input {
        // It gets the words that are printed to it.
        inner.words.extend(guess.fed_by.iter().flatten().skip(1).cloned());
    }
    if let Some((program, rest)) = inner.words.split_first() {
        let name = super::program::base_name(program);
        if depth > 0 && (SHELLS.contains(&name) || matches!(name, "eval" | "su" | "ssh")) {
            for script in scripts(name, rest) {
                scan(&script, depth - 1, all);
            }
        }
        if name == "find" {
            for run in find_runs(rest) {
                all.push(Guess { words: run, ..Guess::default() });
            }
        }
    }
    all.push(inner);
    if is_wrapped {
        all.push(guess);
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '+'))
    })
}

/// The words after a wrapper's own options.
fn after_options<'a>(mut words: &'a [String], valued: &str, has_operand: bool) -> &'a [String] {
    let mut owes_operand = has_operand;
    while let Some((first, rest)) = words.split_first() {
        if first.starts_with("--") || is_assignment(first) {
            words = rest;
        } else if let Some(letters) = first.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            let takes_next = letters.len() == 1 && valued.contains(letters);
            words = if takes_next { rest.get(1..).unwrap_or_default() } else { rest };
        } else if owes_operand {
            owes_operand = false;
            words = rest;
        } else {
            break;
        }
    }
    words
}

/// The lines that a shell is given.
fn scripts(name: &str, words: &[String]) -> Vec<String> {
    if matches!(name, "eval" | "ssh") {
        return vec![words.join(" ")];
    }
    // Any word after an option with a `c` in it: which one it is depends on the shell.
    let has_command = words.iter().position(|word| word.starts_with('-') && word.contains('c'));
    has_command.map(|at| words[at + 1..].to_vec()).unwrap_or_default()
}

/// What `find` runs for each place it looks at, with that place filled in.
fn find_runs(words: &[String]) -> Vec<Vec<String>> {
    let starts: Vec<&String> = words.iter().take_while(|word| !word.starts_with(['-', '(', '!'])).collect();
    let mut runs = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if matches!(word.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir") {
            let command = words[at + 1..].iter().take_while(|word| !matches!(word.as_str(), ";" | "+"));
            let filled = command.flat_map(|word| {
                if word == "{}" { starts.iter().map(|start| (*start).clone()).collect() } else { vec![word.clone()] }
            });
            runs.push(filled.collect());
        }
    }
    runs
}

/// Splits a line at everything that may separate commands, and undoes quotes and escapes.
struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    guesses: Vec<Guess>,
    /// What stands in substitutions.
    nested: Vec<String>,
    current: Guess,
    word: Option<String>,
    /// The next word is where something is written.
    writes_next: bool,
    directory: Option<String>,
}

impl<'a> Reader<'a> {
    fn new(line: &'a str) -> Self {
        Self {
            rest: line.chars().peekable(),
            guesses: Vec::new(),
            nested: Vec::new(),
            current: Guess::default(),
            word: None,
            writes_next: false,
            directory: None,
        }
    }

    fn run(&mut self) {
        while let Some(c) = self.rest.next() {
            match c {
                ' ' | '\t' | '\r' | '\u{b}' | '\u{c}' => self.end_word(),
                '\n' | ';' | '\0' | '(' | ')' => self.end_command(false),
                '&' if self.rest.peek() == Some(&'>') => {}
                '&' => self.end_command(false),
                '|' => {
                    let is_or = self.rest.next_if_eq(&'|').is_some();
                    self.end_command(!is_or);
                }
                '#' if self.word.is_none() => while self.rest.next_if(|c| *c != '\n').is_some() {},
                '>' => {
                    // A number ahead is a descriptor.
                    if self.word.as_deref().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
                        self.word = None;
                    }
                    self.end_word();
                    while self.rest.next_if(|c| matches!(c, '>' | '|' | '&')).is_some() {}
                    self.writes_next = true;
                }
                '<' => self.end_word(),
                '\\' => match self.rest.next() {
                    Some('\n') | None => {}
                    Some(c) => self.push(c),
                },
                '\'' => {
                    self.word.get_or_insert_default();
                    while let Some(c) = self.rest.next_if(|c| *c != '\'') {
                        self.push(c);
                    }
                    self.rest.next();
                }
                '"' => self.double_quoted(),
                '`' => self.substitution('`'),
                '$' => self.dollar(),
                c => self.push(c),
            }
        }
        self.end_command(false);
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn double_quoted(&mut self) {
        self.word.get_or_insert_default();
        while let Some(c) = self.rest.next() {
            match c {
                '"' => return,
                '\\' => match self.rest.next() {
                    Some('\n') | None => {}
                    Some(c) => self.push(c),
                },
                '`' => self.substitution('`'),
                '$' => self.dollar(),
                c => self.push(c),
            }
        }
    }

    /// `$(...)`, `$'...'`, `${IFS}`, and the names of variables, which stay as they are written.
    fn dollar(&mut self) {
        match self.rest.peek() {
            Some('(') => {
                self.rest.next();
                self.substitution(')');
            }
            Some('\'') => {
                self.rest.next();
                self.ansi_quoted();
            }
            Some('"') => {}
            Some('{') => {
                self.rest.next();
                let mut name = String::new();
                while let Some(c) = self.rest.next_if(|c| *c != '}') {
                    name.push(c);
                }
                self.rest.next();
                self.variable(&name);
            }
            _ => {
                let mut name = String::new();
                while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                self.variable(&name);
            }
        }
    }

    fn variable(&mut self, name: &str) {
        if name == "IFS" {
            return self.end_word();
        }
        // A default value may hold a substitution.
        if name.contains("$(") || name.contains('`') {
            self.nested.push(name.replace("$(", "; ").replace(['`', ')'], "; "));
        }
        let name = name.split([':', '-', '=', '?', '+', '%', '#', '/']).next().unwrap_or_default();
        let word = self.word.get_or_insert_default();
        word.push('$');
        word.push_str(name);
    }

    fn substitution(&mut self, end: char) {
        let (mut text, mut open) = (String::new(), 1);
        for c in self.rest.by_ref() {
            if end == ')' && c == '(' {
                open += 1;
            } else if c == end {
                open -= 1;
                if open == 0 {
                    break;
                }
            }
            text.push(c);
        }
        self.nested.push(text);
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
                    decoded.into_iter().for_each(|c| self.push(c));
                }
                c => self.push(c),
            }
        }
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
        let Some(word) = self.word.take() else { return };
        if std::mem::take(&mut self.writes_next) {
            self.current.writes.push(word);
        } else {
            self.current.words.extend(braces(word));
        }
    }

    fn end_command(&mut self, is_pipe: bool) {
        self.end_word();
        self.writes_next = false;
        let mut ended = std::mem::take(&mut self.current);
        if ended.words.is_empty() && ended.writes.is_empty() {
            return;
        }
        ended.directory.clone_from(&self.directory);
        if ended.words.first().is_some_and(|word| word == "cd" || word == "pushd") {
            self.directory = ended.words.get(1).cloned();
        }
        if is_pipe {
            self.current.fed_by.clone_from(&ended.fed_by);
            self.current.fed_by.push(ended.words.clone());
        }
        self.guesses.push(ended);
    }
}

/// `{rm,-rf,/}` as the words it becomes; any other word as itself, which keeps the braces of shell groups apart too.
fn braces(word: String) -> Vec<String> {
    match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
        Some(inner) if inner.contains(',') => inner.split(',').map(str::to_owned).collect(),
        _ => vec![word],
    }
}
