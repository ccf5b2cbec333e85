//! What `openoxide try` shows: lines, one live line on a terminal, colours where they are wanted, and diffs.
//!
//! Nothing here knows the protocol. Whatever comes from the server, a command or a file passes [`plain`] first, so that
//! it cannot steer the terminal. A reader of our output that went away is no reason to stop a turn: failed writes are
//! not reported.

use std::io::{IsTerminal, Write};

/// Characters of the live line; few enough that it never wraps.
const LIVE_WIDTH: usize = 76;
const CLEAR_LINE: &str = "\r\x1b[2K";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const CYAN: &str = "\x1b[36m";
const RESET: &str = "\x1b[0m";

/// A place to write to, and how.
pub(super) struct Screen<O> {
    out: O,
    /// One line may be rewritten.
    is_live: bool,
    has_colour: bool,
    /// The live line is on the screen.
    shows_live: bool,
    /// The last progress line, so that a repeated phase is shown once where lines stay.
    last_progress: String,
}

impl Screen<std::io::Stdout> {
    /// Standard output as it is: rewriting and colours on a terminal alone, no colours where `NO_COLOR` is set and not
    /// empty, no rewriting beside a trace.
    pub(super) fn stdout(trace: bool) -> Self {
        let out = std::io::stdout();
        let is_terminal = out.is_terminal();
        #[allow(clippy::disallowed_methods, reason = "the command line reads the environment")]
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self::new(out, is_terminal && !trace, is_terminal && !no_colour)
    }
}

impl<O: Write> Screen<O> {
    /// A screen on any writer.
    pub(super) fn new(out: O, is_live: bool, has_colour: bool) -> Self {
        Self { out, is_live, has_colour, shows_live: false, last_progress: String::new() }
    }

    /// A line that stays.
    pub(super) fn line(&mut self, text: &str) {
        self.styled("", text);
    }

    /// A line that stays and stands out.
    pub(super) fn heading(&mut self, text: &str) {
        self.styled(BOLD, text);
    }

    /// Lines that stay, each indented.
    pub(super) fn indented(&mut self, text: &str) {
        for line in text.lines() {
            self.styled(DIM, &format!("    {line}"));
        }
    }

    /// How things stand: the live line on a terminal, a line each time it changes elsewhere.
    pub(super) fn progress(&mut self, message: &str) {
        let message = plain(message.lines().next().unwrap_or_default());
        if self.is_live {
            let shown: String = message.chars().take(LIVE_WIDTH).collect();
            self.write(&format!("{CLEAR_LINE}{}", self.paint(DIM, &shown)));
            self.shows_live = true;
        } else if message != self.last_progress {
            self.write(&format!(". {message}\n"));
            self.last_progress = message;
        }
    }

    /// A prompt: the cursor stays behind it.
    pub(super) fn prompt(&mut self, text: &str) {
        self.clear_live();
        self.write(text);
    }

    /// A unified diff.
    pub(super) fn diff(&mut self, diff: &str) {
        for line in diff.lines() {
            let style = match line.as_bytes() {
                [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', ..] => BOLD,
                [b'@', b'@', ..] => CYAN,
                [b'+', ..] => GREEN,
                [b'-', ..] => RED,
                _ => "",
            };
            self.styled(style, line);
        }
    }

    /// Takes the live line away, so that what others write does not stand behind it.
    pub(super) fn clear_live(&mut self) {
        if self.shows_live {
            self.write(CLEAR_LINE);
            self.shows_live = false;
        }
    }

    fn styled(&mut self, style: &str, text: &str) {
        self.clear_live();
        let text = plain(text);
        self.write(&format!("{}\n", self.paint(style, &text)));
    }

    fn paint(&self, style: &str, text: &str) -> String {
        match self.has_colour && !style.is_empty() {
            true => format!("{style}{text}{RESET}"),
            false => text.to_owned(),
        }
    }

    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

/// The text with control characters made visible; tabs and line ends stay. The marks that turn the direction of
/// writing are control characters too: with them a command can look like another.
fn plain(text: &str) -> String {
    let is_steering = |c: char| {
        (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_steering(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(is_live: bool, has_colour: bool, act: impl FnOnce(&mut Screen<&mut Vec<u8>>)) -> String {
        let mut out = Vec::new();
        act(&mut Screen::new(&mut out, is_live, has_colour));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_diff_is_coloured_on_request_only() {
        let diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same\n";
        assert_eq!(shown(false, false, |screen| screen.diff(diff)), diff);
        let coloured = shown(false, true, |screen| screen.diff(diff));
        for expected in [format!("{RED}-old{RESET}"), format!("{GREEN}+new{RESET}"), format!("{BOLD}--- a/x{RESET}")] {
            assert!(coloured.contains(&expected), "{coloured:?}");
        }
    }

    #[test]
    fn the_live_line_gives_way_to_lines_that_stay() {
        let text = shown(true, false, |screen| {
            screen.progress("one");
            screen.progress("two");
            screen.line("stays");
        });
        assert_eq!(text, format!("{CLEAR_LINE}one{CLEAR_LINE}two{CLEAR_LINE}stays\n"));
    }

    #[test]
    fn without_a_terminal_each_phase_is_a_line_once() {
        let text = shown(false, false, |screen| {
            for phase in ["thinking", "thinking", "running x"] {
                screen.progress(phase);
            }
        });
        assert_eq!(text, ". thinking\n. running x\n");
    }

    #[test]
    fn what_comes_from_outside_cannot_steer_the_terminal() {
        let text = shown(false, false, |screen| screen.line("a\x1b[2Jb\u{202e}c\td"));
        assert_eq!(text, "a\\u{1b}[2Jb\\u{202e}c\td\n");
    }
}
