//! Commands shown to a person who decides on them: one line, quoted as a shell would take it, with nothing in it that
//! the eye cannot see or that reorders what it sees. Only text is made here; what is done with it is the caller's.

/// The command as one line that a shell would read back into the same words.
///
/// Plain words stand as they are, others in single quotes. A word with anything [deceptive](is_deceptive) in it is
/// written `$'...'`, with escapes for it.
#[must_use]
pub fn visible(argv: &[String]) -> String {
    let mut line = String::new();
    for (position, word) in argv.iter().enumerate() {
        if position > 0 {
            line.push(' ');
        }
        // `A=1` in front would be read as an assignment.
        let is_plain = !word.is_empty() && word.chars().all(is_plain) && !(position == 0 && word.contains('='));
        if is_plain {
            line.push_str(word);
        } else if word.chars().any(is_deceptive) {
            push_escaped(&mut line, word);
        } else {
            push_quoted(&mut line, word);
        }
    }
    line
}

/// The same where a shell is given a line: that line alone, which is what a person has to read.
#[must_use]
pub fn command_line(argv: &[String]) -> String {
    match argv {
        [shell, flag, line] if is_shell(shell) && flag.starts_with('-') && flag.ends_with('c') => visible_text(line),
        _ => visible(argv),
    }
}

fn is_shell(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("bash" | "sh" | "zsh" | "dash"))
}

/// A text as one line: as it is where nothing in it deceives, and else written `$'...'` with escapes.
#[must_use]
pub fn visible_text(text: &str) -> String {
    if !text.chars().any(is_deceptive) {
        return text.to_owned();
    }
    let mut line = String::new();
    push_escaped(&mut line, text);
    line
}

/// Whether a character is not what it seems on a screen: a control character (line breaks and tabs too), one without a
/// shape, one that changes the direction of its neighbours, or a space or line break other than the ordinary one.
#[must_use]
pub fn is_deceptive(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || c.is_whitespace()
        || matches!(c,
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            // Zero-width characters, marks of direction, embeddings, overrides, isolates, invisible operators.
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            // Tags and further variation selectors.
            | '\u{e0000}'..='\u{e0fff}')
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c)
}

fn push_quoted(line: &mut String, word: &str) {
    line.push('\'');
    line.push_str(&word.replace('\'', r"'\''"));
    line.push('\'');
}

fn push_escaped(line: &mut String, word: &str) {
    line.push_str("$'");
    for c in word.chars() {
        match c {
            '\n' => line.push_str(r"\n"),
            '\t' => line.push_str(r"\t"),
            '\r' => line.push_str(r"\r"),
            '\\' => line.push_str(r"\\"),
            '\'' => line.push_str(r"\'"),
            // Three octal digits, so that a digit that follows is not taken for a part of the escape.
            c if c.is_ascii_control() => line.push_str(&format!(r"\{:03o}", u32::from(c))),
            c if is_deceptive(c) && u32::from(c) <= 0xffff => line.push_str(&format!(r"\u{:04x}", u32::from(c))),
            c if is_deceptive(c) => line.push_str(&format!(r"\U{:08x}", u32::from(c))),
            c => line.push(c),
        }
    }
    line.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(argv: &[&str]) -> String {
        visible(&argv.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn plain_words_stand_as_they_are() {
        assert_eq!(shown(&["cargo", "test", "--", "a::b", "x=1"]), "cargo test -- a::b x=1");
        assert_eq!(shown(&[]), "");
    }

    #[test]
    fn what_a_shell_would_read_otherwise_is_quoted() {
        assert_eq!(shown(&["bash", "-c", "rm -rf $HOME"]), "bash -c 'rm -rf $HOME'");
        assert_eq!(shown(&["echo", ""]), "echo ''");
        assert_eq!(shown(&["echo", "it's"]), r"echo 'it'\''s'");
        assert_eq!(shown(&["A=1", "b"]), "'A=1' b");
        assert_eq!(shown(&["~/x", "grüße"]), "'~/x' 'grüße'");
    }

    #[test]
    fn what_the_eye_cannot_see_is_escaped() {
        assert_eq!(shown(&["a\nb\t'\\\r"]), r"$'a\nb\t\'\\\r'");
        assert_eq!(shown(&["\u{1b}[2K1", "\u{7f}"]), r"$'\033[2K1' $'\177'");
        assert_eq!(shown(&["a\u{202e}b", "\u{200b}", "\u{e0041}"]), r"$'a\u202eb' $'\u200b' $'\U000e0041'");
        assert_eq!(shown(&["a\u{a0}b\u{2028}\u{85}"]), r"$'a\u00a0b\u2028\u0085'");
    }

    #[test]
    fn of_a_shell_its_line_is_shown_and_nothing_hides_in_it() {
        let line = |words: &[&str]| command_line(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(line(&["/bin/bash", "-lc", "ls -l; pwd"]), "ls -l; pwd");
        assert_eq!(line(&["bash", "-c", "ls\u{1b}[2K\rrm -rf x\u{202e}\n"]), r"$'ls\033[2K\rrm -rf x\u202e\n'");
        assert_eq!(line(&["bash", "run.sh", "x y"]), "bash run.sh 'x y'");
        assert_eq!(line(&["push", "-c", "a b"]), "push -c 'a b'");
    }

    #[test]
    fn texts_are_one_line() {
        assert_eq!(visible_text(r"grep 'a\nb' x"), r"grep 'a\nb' x");
        assert_eq!(visible_text("true\nrm -rf x"), r"$'true\nrm -rf x'");
    }

    proptest::proptest! {
        #[test]
        fn a_line_never_holds_anything_deceptive(argv in proptest::collection::vec(".*", 0..4)) {
            proptest::prop_assert!(!visible(&argv).chars().any(is_deceptive));
        }
    }
}
