//! `read_file`: lines of a text file, numbered, without reading more of it into memory than is shown.

use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use openoxide_llm::ToolSpec;
use serde_json::json;

use super::ToolCall;
use super::args::Args;
use super::files::{FileView, OpenError};
use super::output::{StopFlag, truncate};
use super::reading::{ReadingCall, max_text, refusal};
use super::reads::wire::wire_fields;
use super::reads::{ReadKind, ReadWork};
use super::{PreparedCall, ToolAccess, ToolEnv};

/// Its name.
const NAME: &str = "read_file";

const DEFAULT_LIMIT: u64 = 2000;
/// A longer line is cut.
const MAX_LINE_BYTES: usize = 2000;
/// How much of a file is looked at to tell text from other things.
const PROBE_BYTES: usize = 8192;

/// What is offered to the model.
fn spec() -> ToolSpec {
    ToolSpec::Function {
        name: NAME.to_owned(),
        description: "Reads lines of a text file. Each line is returned as `L<number>: text`.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file; relative to the thread's directory, or absolute."},
                "offset": {"type": "integer", "description": "The first line to read, counted from 1. Default: 1."},
                "limit": {"type": "integer", "description": "How many lines to read. Default: 2000."}
            },
            "required": ["path"],
            "additionalProperties": false
        }),
    }
}

/// See the module.
pub(super) struct Tool;

impl super::tool::Tool for Tool {
    fn spec(&self) -> ToolSpec {
        spec()
    }

    fn access(&self) -> ToolAccess {
        ToolAccess::Read
    }

    fn gives_pictures(&self) -> bool {
        false
    }

    fn parse(&self, env: &ToolEnv, call: &ToolCall) -> Result<Box<dyn PreparedCall>, String> {
        Ok(Box::new(ReadFile::new(env, &mut Args::parse(&call.input)?)?))
    }
}

/// A call whose arguments are understood.
#[derive(Debug, Clone)]
pub(super) struct ReadFile {
    shown: String,
    path: PathBuf,
    offset: u64,
    limit: u64,
    max_bytes: usize,
}
wire_fields!(ReadFile { shown, path, offset, limit, max_bytes });

impl ReadingCall for ReadFile {
    const NAME: &'static str = NAME;

    fn summary(&self) -> String {
        format!("reading {}", self.shown)
    }
}

impl ReadWork for ReadFile {
    type Found = String;

    const KIND: ReadKind = ReadKind::File;

    fn read(&self, view: &FileView, _: &StopFlag) -> Result<String, String> {
        let failed = |error: io::Error| format!("{} cannot be read: {error}.", self.shown);
        let file = view.open_file(&self.path).map_err(|error| match error {
            OpenError::IsDirectory => format!("{} is a directory; use `list_dir`.", self.shown),
            error => refusal(&self.shown, error),
        })?;
        let mut reader = BufReader::with_capacity(PROBE_BYTES, file.file());
        if reader.fill_buf().map_err(failed)?.contains(&0) {
            return Err(format!("{} is not text; it has {} bytes.", self.shown, file.len()));
        }
        let text = self.read_lines(&mut reader).map_err(failed)?;
        Ok(truncate(&text, self.max_bytes))
    }

    fn max_answer(&self) -> usize {
        max_text(self.max_bytes)
    }

    fn accepts(&self, _: &String) -> bool {
        true
    }
}

impl ReadFile {
    /// Understands a call.
    fn new(env: &ToolEnv, args: &mut Args) -> Result<Self, String> {
        let shown = args.text("path")?;
        let offset = args.optional_number("offset")?.unwrap_or(1);
        if offset == 0 {
            return Err("`offset` counts lines from 1; give 1 for the first line.".to_owned());
        }
        let limit = args.optional_number("limit")?.unwrap_or(DEFAULT_LIMIT);
        if limit == 0 {
            return Err("`limit` must be at least 1.".to_owned());
        }
        Ok(Self { path: env.resolve(&shown), shown, offset, limit, max_bytes: env.output_limit() })
    }

    fn read_lines(&self, reader: &mut impl BufRead) -> io::Result<String> {
        let (mut text, mut number, mut line) = (String::new(), 0_u64, Vec::new());
        while let Some(whole) = next_line(reader, &mut line)? {
            number += 1;
            if number < self.offset {
                continue;
            }
            if number - self.offset == self.limit {
                text.push_str(&format!("[more lines follow; go on with offset {number}]\n"));
                return Ok(text);
            }
            let mut shown = format!("L{number}: {}", String::from_utf8_lossy(&line));
            if whole > line.len() {
                shown.push_str(&format!(" [the line has {whole} bytes; cut here]"));
            }
            // Room is kept for the note, so that it survives the cut for the model.
            if text.len() + shown.len() + 100 > self.max_bytes && !text.is_empty() {
                text.push_str(&format!("[as much as fits; go on with offset {number}]\n"));
                return Ok(text);
            }
            text.push_str(&shown);
            text.push('\n');
        }
        if text.is_empty() {
            text = match number {
                0 => "[the file is empty]\n".to_owned(),
                _ => format!("[the file ends at line {number}, before offset {}]\n", self.offset),
            };
        }
        Ok(text)
    }
}

/// Reads one line, keeping its beginning; its whole length without the end of line, or `None` at the end of the file.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<usize>> {
    line.clear();
    let mut whole = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok((whole > 0).then_some(whole));
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = MAX_LINE_BYTES.saturating_sub(line.len()).min(part.len());
        line.extend_from_slice(&part[..room]);
        whole += part.len();
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            if line.len() == whole && line.last() == Some(&b'\r') {
                line.pop();
                whole -= 1;
            }
            return Ok(Some(whole));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::reading;
    use super::*;

    fn read(content: &[u8], offset: u64, limit: u64, max_bytes: usize) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, content).unwrap();
        let view = reading::tests::view(directory.path(), &[]);
        ReadFile { shown: "f".into(), path, offset, limit, max_bytes }.read(&view, &StopFlag::default())
    }

    #[test]
    fn lines_are_numbered_from_the_offset() {
        assert_eq!(read(b"a\r\nb\n\nd", 2, 10, 1000).unwrap(), "L2: b\nL3: \nL4: d\n");
        assert_eq!(read(b"a\nb\nc\n", 1, 2, 1000).unwrap(), "L1: a\nL2: b\n[more lines follow; go on with offset 3]\n");
        assert_eq!(read(b"a\nb\n", 1, 2, 1000).unwrap(), "L1: a\nL2: b\n");
        assert_eq!(read(b"a\n", 5, 2, 1000).unwrap(), "[the file ends at line 1, before offset 5]\n");
        assert_eq!(read(b"", 1, 2, 1000).unwrap(), "[the file is empty]\n");
    }

    #[test]
    fn what_is_not_text_gets_a_sentence() {
        assert_eq!(read(b"\x7fELF\0\0", 1, 2, 1000).unwrap_err(), "f is not text; it has 6 bytes.");
        let missing = ReadFile { shown: "x".into(), path: "/nowhere/x".into(), offset: 1, limit: 1, max_bytes: 9 };
        let view = reading::tests::view(Path::new("/"), &[]);
        assert_eq!(missing.read(&view, &StopFlag::default()).unwrap_err(), "There is no file x.");
    }

    #[test]
    fn long_lines_and_long_files_are_cut_with_a_way_on() {
        let text = read(&b"x".repeat(5000), 1, 2, 10_000).unwrap();
        assert!(text.contains("[the line has 5000 bytes; cut here]") && text.len() < 2100, "{text}");
        let text = read(&b"0123456789\n".repeat(100), 1, 2000, 400).unwrap();
        assert!(text.len() <= 400 && text.contains("go on with offset"), "{text}");
    }
}
