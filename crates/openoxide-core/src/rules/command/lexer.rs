//! A shell line as a list of plain commands, or the reason why it is not one. It knows a small part of the shell's language
//! and refuses the rest: what it accepts means to every shell what it means here.

/// One word of a command, as the program gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// An unquoted pattern stands in it: the program may get other words, and more than one.
    pub(super) is_pattern: bool,
    /// The pattern is what the word begins with, so that what it becomes may look like an option.
    pub(super) begins_with_pattern: bool,
}

/// A program and its arguments.
pub(super) type Command = Vec<Word>;

/// The longest line that is looked at, in bytes.
const MAX_LINE: usize = 16 << 10;

/// Words that mean something to the shell where a command begins.
const KEYWORDS: [&str; 20] = [
    "!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select",
    "then", "time", "until", "while", "{",
];

/// Reads a line.
pub(super) fn read(line: &str) -> Result<Vec<Command>, String> {
    if line.len() > MAX_LINE {
        return Err(format!("the line has {} bytes; at most {MAX_LINE} are looked at", line.len()));
    }
    let mut lexer = Lexer { rest: line.chars().peekable(), commands: Vec::new(), words: Vec::new() };
    lexer.run()?;
    if lexer.commands.is_empty() {
        return Err("there is no command".to_owned());
    }
    Ok(lexer.commands)
}

struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    commands: Vec<Command>,
    words: Command,
}

impl Lexer<'_> {
    fn run(&mut self) -> Result<(), String> {
        // Whether a command has to follow.
        let mut is_owed = false;
        while let Some(next) = self.rest.peek().copied() {
            match next {
                ' ' | '\t' => {
                    self.rest.next();
                }
                ';' | '\n' => {
                    self.rest.next();
                    // After `&&`, `||` and `|` the command may stand on a later line.
                    if next == ';' && self.words.is_empty() {
                        return Err("an operator stands where a command is expected".to_owned());
                    }
                    if !self.words.is_empty() {
                        self.end_command()?;
                    }
                }
                '|' | '&' => {
                    self.rest.next();
                    let is_double = self.rest.next_if_eq(&next).is_some();
                    if !is_double && (next == '&' || self.rest.peek() == Some(&'&')) {
                        return Err("`&` starts something in the background or joins streams".to_owned());
                    }
                    if self.words.is_empty() {
                        return Err("an operator stands where a command is expected".to_owned());
                    }
                    self.end_command()?;
                    is_owed = true;
                    continue;
                }
                '2' if self.is_harmless_redirection() => {}
                '#' => return Err("a comment".to_owned()),
                _ => {
                    let word = self.word()?;
                    self.words.push(word);
                }
            }
            if !self.words.is_empty() {
                is_owed = false;
            }
        }
        if is_owed {
            return Err("the line ends where a command is expected".to_owned());
        }
        if self.words.is_empty() { Ok(()) } else { self.end_command() }
    }

    fn end_command(&mut self) -> Result<(), String> {
        let words = std::mem::take(&mut self.words);
        let first = words.first().map(|word| word.text.as_str()).unwrap_or_default();
        if KEYWORDS.contains(&first) {
            return Err(format!("`{first}` belongs to the shell's own language"));
        }
        self.commands.push(words);
        Ok(())
    }

    /// Passes over `2>&1` and `2>/dev/null` where they stand alone: they change nothing but what is seen of errors.
    fn is_harmless_redirection(&mut self) -> bool {
        // Only after a command, where it cannot be anything else.
        if self.words.is_empty() {
            return false;
        }
        for text in ["2>&1", "2>/dev/null"] {
            let mut ahead = self.rest.clone();
            let is_there = text.chars().all(|c| ahead.next() == Some(c));
            if is_there && matches!(ahead.peek(), None | Some(' ' | '\t' | '\n' | ';' | '|')) {
                self.rest = ahead;
                return true;
            }
        }
        false
    }

    fn word(&mut self) -> Result<Word, String> {
        let mut word = Word { text: String::new(), is_pattern: false, begins_with_pattern: false };
        let mut is_first = true;
        while let Some(next) = self.rest.peek().copied() {
            match next {
                ' ' | '\t' | '\n' | ';' | '|' | '&' => break,
                '\'' => {
                    self.rest.next();
                    self.quoted('\'', &mut word.text)?;
                }
                '"' => {
                    self.rest.next();
                    self.quoted('"', &mut word.text)?;
                }
                '*' | '?' | '[' | ']' => {
                    word.is_pattern = true;
                    word.begins_with_pattern |= is_first;
                    word.text.push(next);
                    self.rest.next();
                }
                '~' if is_first || word.text.ends_with([':', '=']) => {
                    return Err("`~` names a home directory".to_owned());
                }
                c if is_plain(c) => {
                    word.text.push(c);
                    self.rest.next();
                }
                other => return Err(refused(other)),
            }
            is_first = false;
        }
        Ok(word)
    }

    /// What stands up to the closing quote. Within double quotes the shell still expands, so that nothing it could expand is
    /// accepted.
    fn quoted(&mut self, quote: char, text: &mut String) -> Result<(), String> {
        for c in self.rest.by_ref() {
            match c {
                c if c == quote => return Ok(()),
                '\\' | '$' | '`' | '!' if quote == '"' => return Err(refused(c)),
                // A line break or tab inside quotes is data.
                '\n' | '\t' => text.push(c),
                c if is_deceptive(c) => return Err(refused(c)),
                c => text.push(c),
            }
        }
        Err("a quote is not closed".to_owned())
    }
}

/// Characters that mean themselves to every shell.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_./,:=+@%^~!#".contains(c)
}

fn is_deceptive(c: char) -> bool {
    openoxide_display::is_deceptive(c)
}

fn refused(c: char) -> String {
    match c {
        '\\' => "a backslash, which changes what the next character means".to_owned(),
        '$' => "`$` is replaced by something else".to_owned(),
        '`' => "a backquote runs a command".to_owned(),
        '{' | '}' => "braces may stand for several words".to_owned(),
        '<' | '>' => "a redirection".to_owned(),
        '(' | ')' => "parentheses start another shell".to_owned(),
        c if c.is_control() || is_deceptive(c) => format!("the character U+{:04X}, which cannot be seen", u32::from(c)),
        c if !c.is_ascii() => format!("the character {c:?}, which may look like another"),
        c => format!("the character {c:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<Vec<String>> {
        let commands = read(line).unwrap_or_else(|why| panic!("{line:?}: {why}"));
        commands.into_iter().map(|words| words.into_iter().map(|word| word.text).collect()).collect()
    }

    #[test]
    fn words_and_commands_are_told_apart() {
        assert_eq!(texts("ls -la"), [["ls", "-la"]]);
        assert_eq!(
            texts("a 'b  c' \"d\"e | f && g || h; i\nj;"),
            [vec!["a", "b  c", "de"], vec!["f"], vec!["g"], vec!["h"], vec!["i"], vec!["j"]]
        );
        assert_eq!(texts("a ''"), [["a", ""]]);
        assert_eq!(texts("a 2>&1 | b 2>/dev/null"), [["a"], ["b"]]);
        assert_eq!(texts("a 2"), [["a", "2"]]);
        assert_eq!(texts("a &&\n b"), [["a"], ["b"]]);
    }

    #[test]
    fn patterns_are_marked() {
        let commands = read("ls * src/*.rs '*'").unwrap();
        let marks: Vec<_> = commands[0].iter().map(|word| (word.is_pattern, word.begins_with_pattern)).collect();
        assert_eq!(marks, [(false, false), (true, true), (true, false), (false, false)]);
    }

    #[test]
    fn what_a_shell_would_change_is_not_understood() {
        for line in [
            "",
            " ",
            ";",
            "ls &&",
            "ls ||",
            "| ls",
            "ls ; ; ls",
            "ls & rm",
            "ls |& cat",
            "a\\b",
            "echo $x",
            "echo \"$x\"",
            "echo `id`",
            "a {b,c}",
            "~/x",
            "a ~",
            "a --x=~/y",
            "a > f",
            "a < f",
            "a 2>f",
            "a 2>&1x",
            "2>&1",
            "(a)",
            "! a",
            "if a",
            "a # b",
            "a 'b",
            "a \"b",
            "\u{441}at",
            "l\u{200b}s",
            "cat '\u{202e}x'",
            "ls\u{b}rm",
            "ls\rrm",
            "ls\0rm",
            "echo \"!x\"",
            "coproc a",
            "a\\\nb",
            "time a",
        ] {
            assert!(read(line).is_err(), "{line:?}: {:?}", read(line));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_character_outside_quotes_that_a_shell_acts_on_gets_through(line in "[ -~\\n\\t]{0,40}") {
            if read(&line).is_ok() {
                let mut quote = None;
                for c in line.chars() {
                    match quote {
                        Some(open) if c == open => quote = None,
                        Some(_) => {}
                        None if c == '\'' || c == '"' => quote = Some(c),
                        None => proptest::prop_assert!(!"\\$`{}()<".contains(c), "{line:?}"),
                    }
                }
                proptest::prop_assert!(quote.is_none());
            }
        }

        #[test]
        fn a_word_in_single_quotes_is_itself(word in "[^'\\p{C}\u{115f}\u{1160}\u{3164}\u{ffa0}\u{2800}]{1,20}") {
            if !word.chars().any(is_deceptive) {
                proptest::prop_assert_eq!(texts(&format!("x '{word}'")), vec![vec!["x".to_owned(), word]]);
            }
        }
    }
}
