//! Reads what tools answered. Leniently: a tool may add notes, and an answer cut in the middle is still of use.

/// What a command came to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct CommandOutput {
    /// `None` while it runs, or when the tool says no number.
    pub(super) exit_code: Option<i32>,
    /// Names the command that still runs.
    pub(super) session_id: Option<u64>,
    /// Its text.
    pub(super) text: String,
    /// The tool's first line, for when there is no exit code.
    pub(super) head: String,
}

/// Reads the answer of `exec_command` or `write_stdin`: `exit code: N` or `still running, session_id: N`, `wall time`,
/// `output:` and the text.
pub(super) fn command(output: &str) -> CommandOutput {
    let mut read = CommandOutput { head: first_line(output).to_owned(), ..CommandOutput::default() };
    let mut rest = output;
    // The head has a few lines; what a command prints after them must not be taken for it.
    for _ in 0..6 {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let lower = line.trim().to_lowercase();
        if let Some(code) = lower.strip_prefix("exit code:") {
            // A signal may be named behind the number.
            read.exit_code = code.split_whitespace().next().and_then(|code| code.parse().ok());
        } else if let Some(at) = lower.find("session_id") {
            read.session_id = number_in(&lower[at..]);
        } else if lower == "output:" {
            read.text = after.trim_end().to_owned();
            return read;
        }
        rest = after;
    }
    if read.exit_code.is_none() && read.session_id.is_none() {
        read.text = output.trim_end().to_owned();
    }
    read
}

/// The numbered lines (`L12: text`) of a `read_file` answer.
pub(super) fn numbered_lines(output: &str) -> Vec<(usize, &str)> {
    output
        .lines()
        .filter_map(|line| {
            let (number, text) = line.strip_prefix('L')?.split_once(':')?;
            Some((number.parse().ok()?, text.strip_prefix(' ').unwrap_or(text)))
        })
        .collect()
}

/// A line that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Match<'a> {
    pub(super) path: &'a str,
    pub(super) line: usize,
    pub(super) text: &'a str,
}

/// The `path:line: text` lines of a `grep` answer.
pub(super) fn matches(output: &str) -> Vec<Match<'_>> {
    output.lines().filter_map(read_match).collect()
}

fn read_match(line: &str) -> Option<Match<'_>> {
    // The path may hold colons of its own; the first that is followed by a number and another one ends it.
    line.match_indices(':').find_map(|(at, _)| {
        let rest = &line[at + 1..];
        let (number, text) = rest.split_once(':')?;
        let number = number.parse().ok()?;
        (at > 0).then(|| Match { path: line[..at].trim(), line: number, text: text.trim() })
    })
}

/// Whether the answer says that somebody, or the policy, did not allow a command or patch.
pub(super) fn is_denial(output: &str) -> bool {
    let head = first_line(output).to_lowercase();
    if head.starts_with("exit code") || head.starts_with("still running") {
        return false;
    }
    ["was not run", "not applied; no file was changed:", "denied", "declined", "not approved", "needs approval"]
        .iter()
        .any(|word| head.contains(word))
        && !head.contains("permission denied")
}

/// Whether a patch tool says that it changed nothing.
pub(super) fn is_failed_patch(output: &str) -> bool {
    let head = first_line(output).to_lowercase();
    if let Some(code) = head.strip_prefix("exit code:") {
        return code.trim() != "0";
    }
    if ["success", "done", "applied", "updated", "the patch was applied"].iter().any(|word| head.starts_with(word)) {
        return false;
    }
    let starts = ["error", "fail", "invalid", "cannot", "could not", "there is no", "no such", "the patch", "unknown"];
    let holds = [
        "not found",
        "not applied",
        "already exists",
        "does not",
        "ambiguous",
        "cannot",
        "could not",
        "failed",
        "nothing was changed",
        "no file was changed",
    ];
    starts.iter().any(|word| head.starts_with(word)) || holds.iter().any(|word| head.contains(word))
}

pub(super) fn first_line(text: &str) -> &str {
    text.trim_start().lines().next().unwrap_or_default().trim_end()
}

/// The last lines of a text, at most `lines` of them and about `bytes` long.
pub(super) fn last_lines(text: &str, lines: usize, bytes: usize) -> Vec<&str> {
    let mut size = 0;
    let mut kept: Vec<&str> = text
        .trim_end()
        .lines()
        .rev()
        .take(lines)
        .take_while(|line| {
            size += line.len();
            size <= bytes
        })
        .collect();
    kept.reverse();
    kept
}

fn number_in(text: &str) -> Option<u64> {
    let from = text.find(|c: char| c.is_ascii_digit())?;
    let digits = &text[from..];
    digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_answers() {
        let done = command("exit code: 1\nwall time: 0.1 s\noutput:\nexit code: 9\nlast\n");
        assert_eq!((done.exit_code, done.session_id, done.text.as_str()), (Some(1), None, "exit code: 9\nlast"));
        let running = command("still running, session_id: 42\nwall time: 10 s\noutput:\npart");
        assert_eq!((running.exit_code, running.session_id, running.text.as_str()), (None, Some(42), "part"));
        assert_eq!(command("exit code: 0").exit_code, Some(0));
        assert_eq!(command("exit code: 137 (ended by signal 9)\noutput:\n").exit_code, Some(137));
        assert_eq!(command("Something else.\nMore.").text, "Something else.\nMore.");
    }

    #[test]
    fn lines_and_matches() {
        assert_eq!(numbered_lines("note\nL1: a: b\nL2:\nL3:   c\nLast: no"), [(1, "a: b"), (2, ""), (3, "  c")]);
        let found = matches("src/a.rs:12: let x: u8 = 1;\nodd:name.c:3:text\nnone found\n");
        assert_eq!(found[0], Match { path: "src/a.rs", line: 12, text: "let x: u8 = 1;" });
        assert_eq!(found[1], Match { path: "odd:name.c", line: 3, text: "text" });
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn denials_are_told_from_results_that_speak_of_them() {
        for (output, expected) in [
            ("The command was not run: the person asked said no. Do not try.", true),
            ("The patch was not applied; no file was changed: nobody answered the question in time.", true),
            ("denied by the user", true),
            ("exit code: 1\noutput:\naccess denied", false),
            ("cannot read x: Permission denied", false),
        ] {
            assert_eq!(is_denial(output), expected, "{output}");
        }
    }

    #[test]
    fn patch_answers() {
        for (output, failed) in [
            ("Success. Updated the following files:\nM a", false),
            ("Done: 1 file changed", false),
            ("exit code: 0\noutput:\n", false),
            ("The patch was not applied: line 3 not found", true),
            ("a.txt already exists", true),
        ] {
            assert_eq!(is_failed_patch(output), failed, "{output}");
        }
    }

    #[test]
    fn the_end_of_an_output() {
        assert_eq!(last_lines("a\nb\nc\n", 2, 100), ["b", "c"]);
        assert_eq!(last_lines("a\nbbbb\nc\n", 9, 5), ["bbbb", "c"]);
    }
}
