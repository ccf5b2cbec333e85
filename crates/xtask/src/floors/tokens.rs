//! Rust as words and marks, with the line of each. Comments, strings and lifetimes are left out: nothing in them is code.

/// One piece of a source.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// An identifier, a keyword or a number.
    Word(String),
    /// `::`
    Colons,
    /// Any other character.
    Mark(char),
}

impl Token {
    /// The word it is.
    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Colons | Self::Mark(_) => None,
        }
    }
}

/// The tokens of a source, each with its line, from 1.
pub(super) fn tokens(text: &str) -> Vec<(Token, usize)> {
    let chars: Vec<char> = text.chars().collect();
    let mut lexer = Lexer { chars: &chars, at: 0, line: 1 };
    let mut found = Vec::new();
    while let Some(c) = lexer.peek(0) {
        let line = lexer.line;
        match c {
            '/' if lexer.peek(1) == Some('/') => lexer.skip_until(|c| c == '\n'),
            '/' if lexer.peek(1) == Some('*') => lexer.block_comment(),
            '"' => lexer.string(),
            '\'' => lexer.quote(),
            ':' if lexer.peek(1) == Some(':') => {
                lexer.skip(2);
                found.push((Token::Colons, line));
            }
            c if is_word(c) => {
                if let Some(word) = lexer.word() {
                    found.push((Token::Word(word), line));
                }
            }
            c => {
                lexer.skip(1);
                if !c.is_whitespace() {
                    found.push((Token::Mark(c), line));
                }
            }
        }
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Lexer<'a> {
    chars: &'a [char],
    at: usize,
    line: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            if self.peek(0) == Some('\n') {
                self.line += 1;
            }
            self.at += 1;
        }
    }

    fn skip_until(&mut self, ends: impl Fn(char) -> bool) {
        while self.peek(0).is_some_and(|c| !ends(c)) {
            self.skip(1);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth = depth.saturating_sub(1),
                _ => {
                    self.skip(1);
                    continue;
                }
            }
            self.skip(2);
            if depth == 0 {
                return;
            }
        }
    }

    /// A string whose first quote comes next.
    fn string(&mut self) {
        self.skip(1);
        while let Some(c) = self.peek(0) {
            self.skip(if c == '\\' { 2 } else { 1 });
            if c == '"' {
                return;
            }
        }
    }

    /// A raw string whose hashes or first quote come next.
    fn raw_string(&mut self, hashes: usize) {
        self.skip(hashes + 1);
        while let Some(c) = self.peek(0) {
            self.skip(1);
            if c == '"' && (0..hashes).all(|ahead| self.peek(ahead) == Some('#')) {
                return self.skip(hashes);
            }
        }
    }

    /// A character, or a lifetime.
    fn quote(&mut self) {
        self.skip(1);
        if self.peek(0) == Some('\\') {
            self.skip(2);
            self.skip_until(|c| c == '\'');
            self.skip(1);
        } else if self.peek(1) == Some('\'') {
            self.skip(2);
        } else {
            self.skip_until(|c| !is_word(c));
        }
    }

    /// A word; none where it only begins a string.
    fn word(&mut self) -> Option<String> {
        let mut word = String::new();
        while let Some(c) = self.peek(0).filter(|c| is_word(*c)) {
            word.push(c);
            self.skip(1);
        }
        let hashes = (0..).take_while(|ahead| self.peek(*ahead) == Some('#')).count();
        match word.as_str() {
            "r" | "br" | "cr" if self.peek(hashes) == Some('"') => self.raw_string(hashes),
            // A raw identifier.
            "r" if hashes == 1 && self.peek(1).is_some_and(is_word) => {
                self.skip(1);
                return self.word();
            }
            // Else the quote comes next.
            _ => return Some(word),
        }
        None
    }
}
