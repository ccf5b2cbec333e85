//! What stands around a patch is taken off: a shell's heredoc, a Markdown fence and the sentences around it, an indentation
//! or a quote mark before every line, escapes of a text that was encoded twice.
//!
//! Only what cannot be anything else goes. What may be a command is left, and the parser refuses it.

use std::borrow::Cow;

use crate::{
    headers::{Header, header},
    shell,
};

/// A patch without what stood around it.
#[derive(Debug)]
pub(crate) struct Unwrapped<'a> {
    /// Its lines, from its first to its last one that is not blank.
    pub(crate) lines: Vec<Cow<'a, str>>,
    /// Whether something shows that it is whole: its end marker, a closed fence or heredoc, or the line feed at its end.
    pub(crate) is_closed: bool,
    /// The directory of a `cd DIR &&` before it.
    pub(crate) workdir: Option<String>,
}

/// Takes off what stands around a patch.
pub(crate) fn unwrap(text: &str) -> Unwrapped<'_> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = unescaped(text).map_or(Cow::Borrowed(text), Cow::Owned);
    let trimmed = text.trim_start();
    let mut workdir = None;
    let mut from_shell = None;
    if header(first_line(trimmed)) != Some(Header::Begin) {
        if let Some(patch) = shell::heredoc_body(trimmed) {
            from_shell = Some(patch);
        } else if let Some(found) = shell::extract_from_shell(trimmed) {
            workdir = found.workdir;
            from_shell = Some(found.patch);
        }
    }
    let mut is_closed = false;
    let mut lines: Vec<Cow<'_, str>> = match (from_shell, text) {
        (Some(patch), _) => {
            is_closed = true;
            patch.split('\n').map(|line| Cow::Owned(line.to_owned())).collect()
        }
        (None, Cow::Owned(text)) => text.split('\n').map(|line| Cow::Owned(line.to_owned())).collect(),
        (None, Cow::Borrowed(text)) => text.split('\n').map(Cow::Borrowed).collect(),
    };
    is_closed |= lines.last().is_some_and(|line| line.trim().is_empty()) && lines.len() > 1;
    is_closed |= take_off_fence(&mut lines);
    drop_blank_ends(&mut lines);
    take_off_margin(&mut lines);
    is_closed |= lines.last().is_some_and(|line| header(line) == Some(Header::End));
    Unwrapped { lines, is_closed, workdir }
}

fn first_line(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
}

fn drop_blank_ends(lines: &mut Vec<Cow<'_, str>>) {
    let last = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1);
    lines.truncate(last);
    let first = lines.iter().position(|line| !line.trim().is_empty()).unwrap_or(0);
    lines.drain(..first);
}

/// Whether a patch begins with the line.
fn begins(lines: &[Cow<'_, str>], at: usize) -> bool {
    let line = lines[at].trim_start_matches(['>', ' ', '\t']);
    let operation =
        matches!(header(line), Some(Header::Begin | Header::Add(_) | Header::Delete(_) | Header::Update(_)));
    let next = lines.get(at + 1).map_or("", |line| line.trim_start_matches(['>', ' ', '\t']));
    operation || line.starts_with("diff --git ") || (line.starts_with("--- ") && next.starts_with("+++ "))
}

/// Takes off the lines before a patch and after it, where a fence or a sentence explains them. Whether a fence was closed.
fn take_off_fence(lines: &mut Vec<Cow<'_, str>>) -> bool {
    let Some(start) = (0..lines.len()).find(|at| begins(lines, *at)) else { return false };
    let before = &lines[..start];
    if before.iter().any(|line| may_be_command(line)) {
        return false;
    }
    let opening = before.iter().rev().find(|line| !line.trim().is_empty());
    let fence = opening.and_then(|line| Some((margin_of(line).to_owned(), fence_of(line)?.to_owned())));
    let end = lines.iter().rposition(|line| header(line) == Some(Header::End));
    let after = end.map_or(start + 1, |end| end + 1);
    // A line of the patch itself stands behind a tag, and so not where the fence was opened.
    let margin = fence.as_ref().map_or("", |(margin, _)| margin);
    let closing = |line: &Cow<'_, str>| {
        let is_fence = fence_of(line).is_some_and(|found| line.trim() == found);
        is_fence && margin_of(line) == margin && (end.is_some() || fence.is_some())
    };
    let is_closed = match lines[after..].iter().position(closing) {
        // Inside a patch for a Markdown file such a line has a tag; a patch without an end marker ends at the last.
        Some(first) => {
            let last = lines.iter().rposition(closing).unwrap_or(after + first);
            lines.truncate(if end.is_some() { after + first } else { last });
            true
        }
        None => false,
    };
    if let Some(end) = end.filter(|end| lines.len() > end + 1) {
        let lone = |line: &Cow<'_, str>| {
            let word = line.trim();
            word.is_empty()
                || matches!(word, "EOF" | "PATCH" | "END" | "'" | "\"" | "'''" | "\"\"\"")
                || word.starts_with("</")
        };
        if lines[end + 1..].iter().all(lone) {
            lines.truncate(end + 1);
        }
    }
    lines.drain(..start);
    is_closed
}

fn margin_of(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// The fence that a line is, without its language.
fn fence_of(line: &str) -> Option<&str> {
    let text = line.trim();
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let fence = &text[..text.len() - text.trim_start_matches(mark).len()];
    (fence.len() >= 3).then_some(fence)
}

/// Whether a line before a patch may be more than a sentence: then the patch is part of something else.
fn may_be_command(line: &str) -> bool {
    let text = line.trim();
    let shell = ["apply_patch", "applypatch", "&&", "||", "<<", "$(", "|"].iter().any(|part| text.contains(part));
    let begins = ["cd ", "$ ", "#!", "@@", "***", "+", "- "].iter().any(|part| text.starts_with(part));
    shell || begins || text.ends_with(';')
}

/// Takes off what stands before every line: the same white space, or a quote mark.
fn take_off_margin(lines: &mut [Cow<'_, str>]) {
    let first = lines.first().map_or("", |line| line.as_ref());
    let margin = match first.strip_prefix('>') {
        Some(rest) => first[..=rest.len() - rest.trim_start_matches(' ').len()].to_owned(),
        None => first[..first.len() - first.trim_start().len()].to_owned(),
    };
    if margin.is_empty() {
        return;
    }
    let short = margin.trim_end().to_owned();
    let rest = |line: &str| match line.strip_prefix(&margin) {
        Some(rest) => Some(rest.to_owned()),
        None => (line.trim() == short.trim()).then(String::new),
    };
    let stripped: Option<Vec<String>> = lines.iter().map(|line| rest(line)).collect();
    if let Some(stripped) = stripped {
        for (line, rest) in lines.iter_mut().zip(stripped) {
            *line = Cow::Owned(rest);
        }
    }
}

/// The text of a patch that is one line with `\n` written out, as in a JSON text that was encoded twice.
fn unescaped(text: &str) -> Option<String> {
    let text = text.trim();
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let head = text.split("\\n").next().unwrap_or_default();
    if text.contains('\n') || header(head) != Some(Header::Begin) || head.len() == text.len() {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                c @ ('"' | '\\' | '/' | '\'') => c,
                _ => return None,
            },
            c => c,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch";

    fn text(wrapped: &str) -> String {
        unwrap(wrapped).lines.join("\n")
    }

    #[test]
    fn what_surrounds_a_patch_goes() {
        let indented = PATCH.replace('\n', "\n    ");
        let quoted = PATCH.replace('\n', "\n> ");
        for wrapped in [
            format!("```\n{PATCH}\n```"),
            format!("Here is the patch:\n\n```diff\n{PATCH}\n```\n\nIt adds a file.\n"),
            format!("~~~~patch\n{PATCH}\n~~~~\n"),
            format!("This adds the file.\n{PATCH}\n"),
            format!("{PATCH}\nEOF\n"),
            format!("```\n{}\n```", PATCH.replace("\n*** End Patch", "")),
            format!("    {indented}\n"),
            format!("> {quoted}\n"),
            format!("\"{}\"", PATCH.replace('\n', "\\n")),
            format!("cd sub && apply_patch <<'EOF'\n{PATCH}\nEOF\n"),
        ] {
            let found = text(&wrapped);
            assert!(found == PATCH || format!("{found}\n*** End Patch") == PATCH, "{wrapped}\n->\n{found}");
            assert!(unwrap(&wrapped).is_closed, "{wrapped}");
        }
        assert_eq!(unwrap(&format!("cd sub && apply_patch <<'EOF'\n{PATCH}\nEOF")).workdir.as_deref(), Some("sub"));
    }

    #[test]
    fn what_may_be_a_command_stays() {
        for wrapped in [
            format!("rm x && apply_patch <<'EOF'\n{PATCH}\nEOF"),
            format!("cat x | tee y\n{PATCH}"),
            format!("{PATCH}\nrm x"),
            format!("apply_patch <<'EOF'\n{PATCH}\nEOF\nrm x"),
        ] {
            assert_ne!(text(&wrapped), PATCH, "{wrapped}");
        }
    }

    #[test]
    fn a_fence_that_belongs_to_the_patch_stays() {
        let patch = "*** Begin Patch\n*** Update File: a.md\n@@\n ```\n-x\n+y\n ```\n*** End Patch";
        assert_eq!(text(patch), patch);
        assert_eq!(text(&format!("````\n{patch}\n````")), patch);
        let open = patch.replace("\n*** End Patch", "");
        assert_eq!(text(&open), open);
        assert_eq!(text(&format!("```\n{open}\n```\n")), open);
    }

    #[test]
    fn a_patch_without_an_end_is_open_where_not_even_its_last_line_is_ended() {
        assert!(!unwrap("*** Begin Patch\n*** Add File: a\n+x").is_closed);
        assert!(unwrap("*** Begin Patch\n*** Add File: a\n+x\n").is_closed);
    }
}
