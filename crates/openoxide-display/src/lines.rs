//! Text of several lines for people, with nothing in it that hides or reorders what they see.

use crate::{is_deceptive, visible_text};

/// A text whose lines stay lines. A line is as it is, tabs included, where nothing else in it deceives; a line that does,
/// or that begins like an escaped one, is written `$'...'` with escapes.
#[must_use]
pub fn visible_lines(text: &str) -> String {
    text.split('\n').map(visible_line).collect::<Vec<_>>().join("\n")
}

fn visible_line(line: &str) -> String {
    if line.chars().any(|c| c != '\t' && is_deceptive(c)) {
        return visible_text(line);
    }
    // Else nobody could tell it from an escaped one.
    if line.starts_with("$'") {
        return format!("$'{}'", line.replace('\\', r"\\").replace('\'', r"\'"));
    }
    line.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_lines_and_deceptive_ones_are_escaped() {
        assert_eq!(visible_lines("a\n\tb\n"), "a\n\tb\n");
        assert_eq!(visible_lines("ok\n\u{1b}[2Kx\tit's\u{202e}\nend"), "ok\n$'\\033[2Kx\\tit\\'s\\u202e'\nend");
        assert_eq!(visible_lines("+a\r\n"), "$'+a\\r'\n", "a change of line ends is seen");
        assert_eq!(visible_lines(r"$'\U0011ffff'"), r"$'$\'\\U0011ffff\''");
    }

    proptest::proptest! {
        #[test]
        fn no_line_holds_anything_deceptive_and_none_is_added(text in "(.|\n|\r){0,60}") {
            let shown = visible_lines(&text);
            proptest::prop_assert_eq!(shown.matches('\n').count(), text.matches('\n').count());
            proptest::prop_assert!(!shown.chars().any(|c| !"\n\t".contains(c) && is_deceptive(c)));
        }
    }
}
