//! Text -> [`Patch`]: the grammar of the language and its leniencies.
//!
//! No file is touched here and no path is judged; `verify` does both. Lines are counted from 1 in the patch itself,
//! after a heredoc wrapper has been taken off.
//!
//! Leniencies, all of them for slips that models make: a heredoc or `apply_patch` wrapper around the patch, blank lines
//! around it, padding around markers, a first chunk without `@@`, blank lines as empty context lines, CRLF line endings,
//! and unified-diff ranges after `@@`, which are ignored.

use std::borrow::Cow;
use std::path::PathBuf;

use openoxide_display::quote_path;

use crate::{
    PatchError,
    patch::{Chunk, ChunkLine, FileOp, LineTag, Patch},
    shell,
};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";
const HEADERS: &str = "`*** Add File: PATH`, `*** Delete File: PATH` or `*** Update File: PATH`";

/// Reads the text of a patch.
///
/// # Errors
/// [`PatchError::InvalidPatch`] when the text as a whole is none, [`PatchError::InvalidHunk`] with the line otherwise.
pub fn parse(text: &str) -> Result<Patch, PatchError> {
    if text.contains('\0') {
        return Err(PatchError::InvalidPatch { message: "it holds a NUL byte; patches are for text files".into() });
    }
    let body = unwrap(text);
    let lines: Vec<&str> = body.split('\n').collect();
    let first = lines.iter().position(|line| !line.trim().is_empty());
    let last = lines.iter().rposition(|line| !line.trim().is_empty());
    let (Some(first), Some(last)) = (first, last) else {
        return Err(PatchError::InvalidPatch { message: format!("it is empty; the first line must be `{BEGIN}`") });
    };
    if lines[first].trim() != BEGIN {
        return Err(PatchError::InvalidPatch {
            message: format!("the first line must be `{BEGIN}`, found `{}`", shorten(lines[first])),
        });
    }
    if lines[last].trim() != END {
        return Err(PatchError::InvalidPatch {
            message: format!("the last line must be `{END}`, found `{}`", shorten(lines[last])),
        });
    }
    let crlf = lines[first].ends_with('\r');
    let mut parser = Parser { lines: &lines[..last], next: first + 1, crlf };
    let mut hunks = Vec::new();
    while parser.skip_blank() {
        hunks.push(parser.operation()?);
    }
    if hunks.is_empty() {
        return Err(PatchError::InvalidPatch {
            message: format!("it is empty; between its first and last line put {HEADERS}"),
        });
    }
    Ok(Patch { hunks })
}

/// Takes off a byte order mark and what a shell would have taken off: `<<'EOF'` ... `EOF`, with or without the command.
fn unwrap(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let trimmed = text.trim_start();
    if trimmed.starts_with(BEGIN) {
        return Cow::Borrowed(text);
    }
    if let Some(patch) = shell::heredoc_body(trimmed) {
        return Cow::Owned(patch);
    }
    match shell::extract_from_shell(trimmed) {
        Some(shell::ShellPatch { workdir: None, patch }) => Cow::Owned(patch),
        _ => Cow::Borrowed(text),
    }
}

struct Parser<'a> {
    /// Everything before the end marker.
    lines: &'a [&'a str],
    next: usize,
    /// Whether the patch itself is written with CRLF endings, so that a carriage return is never content.
    crlf: bool,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.next).copied()
    }

    /// 1-based number of the line that `peek` shows.
    fn number(&self) -> usize {
        self.next + 1
    }

    /// Moves to the next line that is not blank; false at the end.
    fn skip_blank(&mut self) -> bool {
        while let Some(line) = self.peek() {
            if !line.trim().is_empty() {
                return true;
            }
            self.next += 1;
        }
        false
    }

    fn bad<T>(line: usize, message: impl Into<String>) -> Result<T, PatchError> {
        Err(PatchError::InvalidHunk { line, message: message.into() })
    }

    fn operation(&mut self) -> Result<FileOp, PatchError> {
        let line = self.number();
        let header = self.peek().unwrap_or_default().trim();
        self.next += 1;
        if let Some(path) = header.strip_prefix(ADD) {
            let path = Self::path(line, path)?;
            return Ok(FileOp::Add { line, path, content: self.added_lines()?, mode: None });
        }
        if let Some(path) = header.strip_prefix(DELETE) {
            return Ok(FileOp::Delete { line, path: Self::path(line, path)? });
        }
        if let Some(path) = header.strip_prefix(UPDATE) {
            let path = Self::path(line, path)?;
            return self.update(line, path);
        }
        if header == BEGIN || header == END {
            return Self::bad(line, format!("`{header}` may stand only once; put all operations into one patch"));
        }
        Self::bad(line, format!("`{}` is not a header; expected {HEADERS}", shorten(header)))
    }

    /// The path of a header. One that stands in double quotes is read as git writes such names.
    fn path(line: usize, text: &str) -> Result<PathBuf, PatchError> {
        let path = text.trim();
        if path.is_empty() {
            return Self::bad(line, "the header names no file; write the path after the colon");
        }
        Ok(openoxide_display::unquote_path(path))
    }

    /// The `+` lines of an added file. A blank line between two of them is a slip for a lone `+`.
    fn added_lines(&mut self) -> Result<String, PatchError> {
        let mut content = String::new();
        let mut blank = 0;
        while let Some(line) = self.peek() {
            if let Some(text) = line.strip_prefix('+') {
                content.extend(std::iter::repeat_n('\n', blank));
                blank = 0;
                content.push_str(if self.crlf { text.strip_suffix('\r').unwrap_or(text) } else { text });
                content.push('\n');
            } else if line.trim().is_empty() {
                blank += 1;
            } else if line.trim_start().starts_with("*** ") {
                break;
            } else {
                return Self::bad(
                    self.number(),
                    format!("`{}` is not a line of an added file; each starts with `+`", shorten(line)),
                );
            }
            self.next += 1;
        }
        Ok(content)
    }

    fn update(&mut self, line: usize, path: PathBuf) -> Result<FileOp, PatchError> {
        let mut move_to = None;
        if self.skip_blank() {
            let header = self.peek().unwrap_or_default().trim();
            if let Some(target) = header.strip_prefix(MOVE) {
                move_to = Some(Self::path(self.number(), target)?);
                self.next += 1;
            }
        }
        let mut chunks = Vec::new();
        while self.skip_blank() {
            let text = self.peek().unwrap_or_default();
            let padded = chunks.is_empty() && text.trim_start().starts_with("*** ");
            if text.starts_with("***") || padded {
                break;
            }
            let may_omit_locator = chunks.is_empty();
            chunks.push(self.chunk(may_omit_locator)?);
        }
        if chunks.is_empty() && move_to.is_none() {
            return Self::bad(
                line,
                format!("the update of `{}` has no chunks; add `@@` and changed lines", quote_path(&path)),
            );
        }
        Ok(FileOp::Update { line, path, move_to, chunks })
    }

    fn chunk(&mut self, may_omit_locator: bool) -> Result<Chunk, PatchError> {
        let line = self.number();
        let mut contexts = Vec::new();
        let mut located = false;
        while let Some(context) = self.peek().and_then(locator) {
            located = true;
            if !context.is_empty() {
                contexts.push(context.to_owned());
            }
            self.next += 1;
        }
        if !located && !may_omit_locator {
            let found = self.peek().unwrap_or_default();
            return Self::bad(line, format!("`{}` is outside a chunk; start one with `@@`", shorten(found)));
        }
        let mut lines = Vec::new();
        let mut end_of_file = false;
        let mut blank_tail = 0;
        while let Some(text) = self.peek() {
            if text.trim_end() == END_OF_FILE {
                end_of_file = true;
                self.next += 1;
                break;
            }
            if text.starts_with("***") || locator(text).is_some() {
                break;
            }
            lines.push(self.chunk_line(text)?);
            blank_tail = if text.is_empty() || text == "\r" { blank_tail + 1 } else { 0 };
            self.next += 1;
        }
        if !lines.iter().any(|line| line.tag != LineTag::Context || !line.text.is_empty()) {
            return Self::bad(line, "the chunk has no lines; give lines that start with ` `, `-` or `+`");
        }
        Ok(Chunk { line, contexts, lines, end_of_file, blank_tail })
    }

    fn chunk_line(&self, text: &str) -> Result<ChunkLine, PatchError> {
        // The file decides the ending of a line, so a carriage return at its end is never content here.
        let text = text.strip_suffix('\r').unwrap_or(text);
        let (tag, rest) = match text.as_bytes().first() {
            None => (LineTag::Context, ""),
            Some(b' ') => (LineTag::Context, &text[1..]),
            Some(b'-') => (LineTag::Remove, &text[1..]),
            Some(b'+') => (LineTag::Add, &text[1..]),
            // A line of other white space only is a blank line that lost its tag.
            Some(_) if text.trim().is_empty() => (LineTag::Context, ""),
            Some(_) => {
                return Self::bad(
                    self.number(),
                    format!(
                        "`{}` has no tag; a line of a chunk starts with ` ` (kept), `-` (removed) or `+` (added)",
                        shorten(text)
                    ),
                );
            }
        };
        Ok(ChunkLine { tag, text: rest.to_owned() })
    }
}

/// The text after `@@`, empty when there is none; `None` when the line is no locator.
fn locator(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("@@")?;
    if !rest.is_empty() && !rest.starts_with([' ', '\t', '\r']) {
        return None;
    }
    let rest = rest.strip_suffix('\r').unwrap_or(rest);
    let text = rest.strip_prefix([' ', '\t']).unwrap_or(rest);
    if text.trim().is_empty() || is_unified_range(text) { Some("") } else { Some(text.trim_end()) }
}

/// Whether the text is `-3,7 +3,9 @@ ...`: a range of a unified diff, whose numbers are not to be trusted.
fn is_unified_range(text: &str) -> bool {
    let numbers = |part: Option<&str>, sign: char| {
        part.and_then(|part| part.strip_prefix(sign))
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit() || b == b','))
    };
    let mut parts = text.split_whitespace();
    numbers(parts.next(), '-') && numbers(parts.next(), '+') && parts.next().is_none_or(|part| part == "@@")
}

/// A line as an error message shows it: trimmed and cut.
fn shorten(line: &str) -> String {
    const SHOWN: usize = 80;
    let line = line.trim();
    match line.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(body: &str) -> Result<Patch, PatchError> {
        parse(&format!("*** Begin Patch\n{body}\n*** End Patch"))
    }

    fn only_chunk(body: &str) -> Chunk {
        match patch(body).unwrap().hunks.remove(0) {
            FileOp::Update { mut chunks, .. } => {
                assert_eq!(chunks.len(), 1);
                chunks.remove(0)
            }
            other => panic!("not an update: {other:?}"),
        }
    }

    #[test]
    fn all_operations_of_one_patch_are_read_in_order() {
        let read = patch(
            "*** Add File: a.txt\n+one\n+\n+two\n*** Delete File: b.txt\n*** Update File: c.txt\n*** Move to: d.txt\n@@ fn x\n y\n-z\n+w\n*** End of File",
        )
        .unwrap();
        let line = |tag, text: &str| ChunkLine { tag, text: text.into() };
        assert_eq!(
            read.hunks,
            vec![
                FileOp::Add { line: 2, path: "a.txt".into(), content: "one\n\ntwo\n".into(), mode: None },
                FileOp::Delete { line: 6, path: "b.txt".into() },
                FileOp::Update {
                    line: 7,
                    path: "c.txt".into(),
                    move_to: Some("d.txt".into()),
                    chunks: vec![Chunk {
                        line: 9,
                        contexts: vec!["fn x".into()],
                        lines: vec![line(LineTag::Context, "y"), line(LineTag::Remove, "z"), line(LineTag::Add, "w")],
                        end_of_file: true,
                        blank_tail: 0,
                    }],
                },
            ]
        );
    }

    #[test]
    fn wrappers_padding_and_crlf_are_taken_off() {
        let plain = parse("*** Begin Patch\n*** Add File: a\n+x\n*** End Patch").unwrap();
        for text in [
            "<<'EOF'\n*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\nEOF\n",
            "<<EOF\n*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\nEOF",
            "apply_patch <<\"PATCH\"\n*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\nPATCH",
            "  *** Begin Patch  \n  *** Add File:   a  \n+x\n  *** End Patch \n\n",
            "*** Begin Patch\r\n*** Add File: a\r\n+x\r\n*** End Patch\r\n",
            "\u{feff}*** Begin Patch\n*** Add File: a\n+x\n*** End Patch",
        ] {
            assert_eq!(parse(text).unwrap(), plain, "{text:?}");
        }
    }

    #[test]
    fn a_carriage_return_in_an_added_file_is_content_unless_the_patch_itself_is_crlf() {
        let FileOp::Add { content, .. } = patch("*** Add File: a\n+x\r").unwrap().hunks.remove(0) else { panic!() };
        assert_eq!(content, "x\r\n");
    }

    #[test]
    fn the_first_chunk_may_omit_its_locator_and_blank_lines_are_context() {
        let chunk = only_chunk("*** Update File: a\n x\n\n-y\n\n");
        assert_eq!((chunk.lines.len(), chunk.blank_tail), (5, 2));
        assert_eq!(chunk.lines[1], ChunkLine { tag: LineTag::Context, text: String::new() });
        assert_eq!(chunk.line, 3);
        assert!(chunk.contexts.is_empty());
    }

    #[test]
    fn locators_stack_and_unified_ranges_are_ignored() {
        let chunk = only_chunk("*** Update File: a\n@@ class A\n@@   def f\n-y");
        assert_eq!(chunk.contexts, ["class A", "  def f"]);
        assert!(only_chunk("*** Update File: a\n@@ -1,3 +1,4 @@\n-y").contexts.is_empty());
        assert_eq!(only_chunk("*** Update File: a\n@@ -1 is a number\n-y").contexts, ["-1 is a number"]);
    }

    #[test]
    fn a_pure_move_needs_no_chunk() {
        let read = patch("*** Update File: a\n*** Move to: b").unwrap();
        assert!(
            matches!(&read.hunks[0], FileOp::Update { move_to: Some(to), chunks, .. } if to == "b" && chunks.is_empty())
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (body, expected) in [
            (
                "*** Environment ID: 7\n*** Delete File: a",
                "invalid hunk at line 2, `*** Environment ID: 7` is not a header",
            ),
            ("hello", "invalid hunk at line 2, `hello` is not a header"),
            ("*** Add File:\n+x", "invalid hunk at line 2, the header names no file"),
            ("*** Add File: a\nx", "invalid hunk at line 3, `x` is not a line of an added file"),
            ("*** Update File: a", "invalid hunk at line 2, the update of `a` has no chunks"),
            ("*** Update File: a\n@@", "invalid hunk at line 3, the chunk has no lines"),
            ("*** Update File: a\n@@\n-x\nfoo", "invalid hunk at line 5, `foo` has no tag"),
            ("*** Update File: a\n@@\n-x\n*** End of File\n-y", "invalid hunk at line 6, `-y` is outside a chunk"),
            ("*** Update File: a\n@@\n-x\n***", "invalid hunk at line 5, `***` is not a header"),
            ("*** Delete File: a\n*** End Patch\n*** Begin Patch", "invalid hunk at line 3, `*** End Patch` may stand"),
            ("", "invalid patch: it is empty; between"),
        ] {
            let error = patch(body).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{body:?}: {error}");
        }
    }

    #[test]
    fn a_text_without_its_markers_is_no_patch() {
        for (text, expected) in [
            ("", "invalid patch: it is empty"),
            (
                "diff --git a/x b/x",
                "invalid patch: the first line must be `*** Begin Patch`, found `diff --git a/x b/x`",
            ),
            ("*** Begin Patch\n*** Delete File: a", "invalid patch: the last line must be `*** End Patch`"),
            ("*** Begin Patch\n*** Add File: a\n+\0\n*** End Patch", "invalid patch: it holds a NUL byte"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }
}
