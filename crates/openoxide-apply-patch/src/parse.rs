//! Text -> [`Patch`]: the grammar of the language and its leniencies.
//!
//! No file is touched here and no path is judged; `verify` does both. Lines are counted from 1 in the patch itself,
//! after what stands around it has been taken off (`unwrap`).
//!
//! Leniencies, all of them for slips that models make, where one reading is left: the markers of the whole patch missing
//! or written otherwise, padding around markers, a first chunk without `@@`, blank lines as empty context lines, kept lines
//! without their tag, CRLF line endings, unified diffs (`unified`), whose ranges are ignored.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use openoxide_display::quote_path;

use crate::{
    PatchError,
    headers::{self, Header, header},
    names,
    patch::{Chunk, ChunkLine, FileOp, LineTag, Patch},
    unwrap::{self, Unwrapped},
};

const BEGIN: &str = "*** Begin Patch";
const HEADERS: &str = "`*** Add File: PATH`, `*** Delete File: PATH` or `*** Update File: PATH`";

/// Reads the text of a patch.
///
/// # Errors
/// [`PatchError::InvalidPatch`] when the text as a whole is none, [`PatchError::InvalidHunk`] with the line otherwise.
pub fn parse(text: &str) -> Result<Patch, PatchError> {
    if text.contains('\0') {
        return Err(PatchError::InvalidPatch { message: "it holds a NUL byte; patches are for text files".into() });
    }
    let Unwrapped { lines, is_closed, workdir } = unwrap::unwrap(text);
    let mut lines: Vec<&str> = lines.iter().map(Cow::as_ref).collect();
    let Some(first) = lines.first().copied() else {
        return Err(PatchError::InvalidPatch { message: format!("it is empty; the first line must be `{BEGIN}`") });
    };
    let is_ended = lines.last().is_some_and(|line| header(line) == Some(Header::End));
    if is_ended {
        lines.pop();
    }
    let crlf = first.ends_with('\r');
    let mut parser = Parser { lines: &lines, next: 0, crlf, is_unified: false };
    let begins = header(first) == Some(Header::Begin);
    parser.next = usize::from(begins);
    let is_operation = matches!(header(first), Some(Header::Add(_) | Header::Delete(_) | Header::Update(_)));
    if !begins && !is_operation && !parser.at_unified() {
        return Err(PatchError::InvalidPatch {
            message: format!("the first line must be `{BEGIN}`, found `{}`", shorten(first)),
        });
    }
    let mut hunks = Vec::new();
    while parser.skip_blank() {
        // One patch after another.
        if parser.peek().and_then(header) == Some(Header::End)
            && parser.peek_at(1).and_then(header) == Some(Header::Begin)
        {
            parser.next += 2;
            continue;
        }
        hunks.push(parser.operation()?);
    }
    if hunks.is_empty() {
        return Err(PatchError::InvalidPatch {
            message: format!("it is empty; between its first and last line put {HEADERS}"),
        });
    }
    if !is_ended {
        leave_open(&mut hunks, is_closed)?;
    }
    if let Some(workdir) = workdir {
        hunks.iter_mut().for_each(|op| op.map_paths(|path| Path::new(&workdir).join(path)));
    }
    Ok(Patch { hunks })
}

/// Marks the end of a patch that has no end marker, since it may be where the text was cut off.
fn leave_open(hunks: &mut [FileOp], is_closed: bool) -> Result<(), PatchError> {
    match hunks.last_mut() {
        Some(FileOp::Update { chunks, .. }) => {
            if let Some(chunk) = chunks.last_mut() {
                chunk.open_end = !chunk.end_of_file;
            }
        }
        Some(FileOp::Add { line, path, .. }) if !is_closed => {
            let message = format!(
                "the patch stops in the middle of the added file `{}`; end it with `*** End Patch`",
                quote_path(path)
            );
            return Err(PatchError::InvalidHunk { line: *line, message });
        }
        _ => {}
    }
    Ok(())
}

pub(crate) struct Parser<'a> {
    /// Everything before the end marker.
    lines: &'a [&'a str],
    pub(crate) next: usize,
    /// Whether the patch itself is written with CRLF endings, so that a carriage return is never content.
    crlf: bool,
    /// Whether the operation that is being read is written as a unified diff.
    is_unified: bool,
}

impl<'a> Parser<'a> {
    pub(crate) fn peek(&self) -> Option<&'a str> {
        self.peek_at(0)
    }

    pub(crate) fn peek_at(&self, offset: usize) -> Option<&'a str> {
        self.lines.get(self.next + offset).copied()
    }

    /// 1-based number of the line that `peek` shows.
    pub(crate) fn number(&self) -> usize {
        self.next + 1
    }

    pub(crate) fn is_locator(&self, line: &str) -> bool {
        headers::locator(line).is_some()
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

    pub(crate) fn bad<T>(line: usize, message: impl Into<String>) -> Result<T, PatchError> {
        Err(PatchError::InvalidHunk { line, message: message.into() })
    }

    fn operation(&mut self) -> Result<FileOp, PatchError> {
        let line = self.number();
        let text = self.peek().unwrap_or_default();
        self.is_unified = self.at_unified();
        if self.is_unified {
            return self.unified();
        }
        self.next += 1;
        match header(text) {
            Some(Header::Add(path)) => {
                let path = Self::path(line, path)?;
                Ok(FileOp::Add { line, path, content: self.added_lines()?, mode: None, replaces: true })
            }
            Some(Header::Delete(path)) => {
                let path = Self::path(line, path)?;
                // Some show what goes; the header says it all.
                while self.peek().is_some_and(|line| self.is_locator(line) || line.starts_with('-')) {
                    self.next += 1;
                }
                Ok(FileOp::Delete { line, path })
            }
            Some(Header::Update(path)) => {
                let path = Self::path(line, path)?;
                self.update(line, path)
            }
            Some(Header::Begin | Header::End) => {
                Self::bad(line, format!("`{}` may stand only once; put all operations into one patch", text.trim()))
            }
            Some(Header::Move(_) | Header::EndOfFile | Header::Unknown) | None => {
                Self::bad(line, format!("`{}` is not a header; expected {HEADERS}", shorten(text)))
            }
        }
    }

    /// The path of a header. One that stands in double quotes is read as git writes such names.
    fn path(line: usize, text: &str) -> Result<PathBuf, PatchError> {
        let path = text.trim();
        if names::unquoted(path).is_empty() {
            return Self::bad(line, "the header names no file; write the path after the colon");
        }
        Ok(openoxide_display::unquote_path(path))
    }

    /// The `+` lines of an added file. A blank line between two of them is a slip for a lone `+`. A file of which no line
    /// has its `+` is taken as it stands.
    fn added_lines(&mut self) -> Result<String, PatchError> {
        self.skip_unified_header();
        while self.peek().is_some_and(|line| line.starts_with("@@") && self.is_locator(line)) {
            self.next += 1;
        }
        let ends = |line: &str| line.trim_start().starts_with("*** ") || line.starts_with("diff --git ");
        let own = self.lines[self.next..].iter().take_while(|line| !ends(line));
        let mut own = own.filter(|line| !line.trim().is_empty()).peekable();
        let is_bare = own.peek().is_some_and(|first| !first.starts_with([' ', '\t']))
            && own.all(|line| !line.starts_with(['+', '-', '@', '\\']));
        let mut content = String::new();
        let mut blank = 0;
        while let Some(line) = self.peek() {
            let text =
                if is_bare && !ends(line) && !line.trim().is_empty() { Some(line) } else { line.strip_prefix('+') };
            if let Some(text) = text {
                content.extend(std::iter::repeat_n('\n', blank));
                blank = 0;
                content.push_str(if self.crlf { text.strip_suffix('\r').unwrap_or(text) } else { text });
                content.push('\n');
            } else if line.trim().is_empty() {
                blank += 1;
            } else if line.starts_with("\\ ") {
                content.pop();
            } else if ends(line) {
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
        let mut move_to = self.move_to()?;
        self.skip_unified_header();
        let chunks = self.chunks()?;
        if move_to.is_none() {
            move_to = self.move_to()?;
        }
        if chunks.is_empty() && move_to.is_none() {
            return Self::bad(
                line,
                format!("the update of `{}` has no chunks; add `@@` and changed lines", quote_path(&path)),
            );
        }
        Ok(FileOp::Update { line, path, move_to, chunks })
    }

    fn move_to(&mut self) -> Result<Option<PathBuf>, PatchError> {
        if !self.skip_blank() {
            return Ok(None);
        }
        let Some(Header::Move(target)) = self.peek().and_then(header) else { return Ok(None) };
        let path = Self::path(self.number(), target)?;
        self.next += 1;
        Ok(Some(path))
    }

    pub(crate) fn chunks(&mut self) -> Result<Vec<Chunk>, PatchError> {
        let mut chunks = Vec::new();
        while self.skip_blank() {
            let text = self.peek().unwrap_or_default();
            let padded = chunks.is_empty() && text.trim_start().starts_with("*** ");
            if self.ends_chunk(text) || padded {
                break;
            }
            let may_omit_locator = chunks.is_empty();
            chunks.push(self.chunk(may_omit_locator)?);
        }
        Ok(chunks)
    }

    /// Whether a chunk ends before the next line, which is `text` and no locator.
    fn ends_chunk(&self, text: &str) -> bool {
        text.starts_with("***") || text.starts_with("diff --git ") || (self.is_unified && self.at_name_pair())
    }

    fn chunk(&mut self, may_omit_locator: bool) -> Result<Chunk, PatchError> {
        let line = self.number();
        let mut contexts = Vec::new();
        let mut located = false;
        while let Some(texts) = self.peek().and_then(headers::locator) {
            located = true;
            contexts.extend(texts);
            self.next += 1;
        }
        if !located && !may_omit_locator {
            let found = self.peek().unwrap_or_default();
            return Self::bad(line, format!("`{}` is outside a chunk; start one with `@@`", shorten(found)));
        }
        let mut lines: Vec<ChunkLine> = Vec::new();
        let mut end_of_file = false;
        let (mut blank_head, mut blank_tail) = (0, 0);
        let mut final_newline = None;
        while let Some(text) = self.peek() {
            if header(text) == Some(Header::EndOfFile) && text.starts_with("***") {
                end_of_file = true;
                self.next += 1;
                break;
            }
            if self.ends_chunk(text) || self.is_locator(text) {
                break;
            }
            self.next += 1;
            if text.starts_with("\\ ") {
                final_newline = match lines.last() {
                    Some(last) if last.tag == LineTag::Remove => Some(true),
                    _ => Some(false),
                };
                continue;
            }
            let is_empty = text.is_empty() || text == "\r";
            blank_head += usize::from(is_empty && blank_head == lines.len());
            blank_tail = if is_empty { blank_tail + 1 } else { 0 };
            lines.push(chunk_line(text));
        }
        if !lines.iter().any(|line| line.tag != LineTag::Context || !line.text.is_empty()) {
            return Self::bad(line, "the chunk has no lines; give lines that start with ` `, `-` or `+`");
        }
        Ok(Chunk { line, contexts, lines, end_of_file, blank_tail, blank_head, open_end: false, final_newline })
    }
}

fn chunk_line(text: &str) -> ChunkLine {
    // The file decides the ending of a line, so a carriage return at its end is never content here.
    let text = text.strip_suffix('\r').unwrap_or(text);
    let (tag, rest, bare) = match text.as_bytes().first() {
        None => (LineTag::Context, "", true),
        Some(b' ') => (LineTag::Context, &text[1..], false),
        Some(b'-') => (LineTag::Remove, &text[1..], false),
        Some(b'+') => (LineTag::Add, &text[1..], false),
        // A line of other white space only is a blank line that lost its tag.
        Some(_) if text.trim().is_empty() => (LineTag::Context, "", true),
        Some(_) => (LineTag::Context, text, true),
    };
    ChunkLine { tag, text: rest.to_owned(), bare }
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
        let line = |tag, text: &str| ChunkLine { tag, text: text.into(), bare: false };
        assert_eq!(
            read.hunks,
            vec![
                FileOp::Add {
                    line: 2,
                    path: "a.txt".into(),
                    content: "one\n\ntwo\n".into(),
                    mode: None,
                    replaces: true
                },
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
                        blank_head: 0,
                        open_end: false,
                        final_newline: None,
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
        assert_eq!(chunk.lines[1], ChunkLine { tag: LineTag::Context, text: String::new(), bare: true });
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
            ("*** Add File: a\n+y\nx", "invalid hunk at line 4, `x` is not a line of an added file"),
            ("*** Update File: a", "invalid hunk at line 2, the update of `a` has no chunks"),
            ("*** Update File: a\n@@", "invalid hunk at line 3, the chunk has no lines"),
            ("*** Update File: a\n@@\n-x\n*** End of File\n-y", "invalid hunk at line 6, `-y` is outside a chunk"),
            ("*** Update File: a\n@@\n-x\n***", "invalid hunk at line 5, `***` is not a header"),
            (
                "*** Delete File: a\n*** End Patch\n*** Delete File: b",
                "invalid hunk at line 3, `*** End Patch` may stand",
            ),
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
            ("print(1)", "invalid patch: the first line must be `*** Begin Patch`, found `print(1)`"),
            (
                "cd x; apply_patch y",
                "invalid patch: the first line must be `*** Begin Patch`, found `cd x; apply_patch y`",
            ),
            (
                "*** Begin Patch\n*** Add File: a\n+x",
                "invalid hunk at line 2, the patch stops in the middle of the added file",
            ),
            ("*** Begin Patch\n*** Add File: a\n+\0\n*** End Patch", "invalid patch: it holds a NUL byte"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }
}
