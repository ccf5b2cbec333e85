//! Server-sent events, from bytes to the data of each event. Knows nothing of what the data says.
//!
//! Only `data` fields matter here: the providers name the kind of an event inside its JSON, so `event`, `id` and
//! `retry` fields are skipped like comments. Line ends are LF, CR or CRLF, in any mixture, wherever the network cut
//! the bytes (WHATWG HTML, section 9.2.6). Where it goes next: `remote::decode`.

/// Why a stream cannot be read as events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SseError {
    /// A line or the data of one event is longer than the limit.
    #[error("an event is longer than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// A stream is longer than any response can be.
    #[error("the response is longer than {limit} bytes and not over")]
    Endless {
        /// The limit in bytes.
        limit: usize,
    },
}

/// A push parser: bytes in as they come, the data of complete events out.
///
/// An event that lies within one chunk and has one `data` line, as nearly all do, is handed out without being copied.
#[derive(Debug)]
pub(crate) struct SseParser {
    /// The unfinished last line of the chunks so far.
    line: Vec<u8>,
    /// Data lines of the unfinished event, joined by LF.
    data: Vec<u8>,
    /// Whether `data` holds a line (perhaps an empty one).
    has_data: bool,
    /// The last chunk ended in CR: an LF that comes first belongs to it.
    skip_lf: bool,
    /// No line has been read, so a byte order mark may still come.
    at_start: bool,
    limit: usize,
    /// Bytes of data lines so far, those under way included. Comments and other fields are no data.
    data_bytes: u64,
}

impl SseParser {
    /// A parser that refuses lines and events of more than `limit` bytes; it never keeps more than twice that.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            skip_lf: false,
            at_start: true,
            limit,
            data_bytes: 0,
        }
    }

    /// Bytes of data lines so far. It grows as long as a server says something; comments do not count.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Reads the next bytes and calls `sink` with the data of each event that they complete.
    ///
    /// # Errors
    ///
    /// [`SseError::TooLong`]; the parser is of no use afterwards.
    pub(crate) fn feed(&mut self, chunk: &[u8], mut sink: impl FnMut(&[u8])) -> Result<(), SseError> {
        let mut rest = chunk;
        if self.skip_lf && !rest.is_empty() {
            self.skip_lf = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        // The only data line of the event under way, as long as it lies whole in this chunk.
        let mut borrowed: Option<&[u8]> = None;
        while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
            let line = &rest[..end];
            let was_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if was_cr {
                match rest.first() {
                    Some(b'\n') => rest = &rest[1..],
                    Some(_) => {}
                    None => self.skip_lf = true,
                }
            }
            if self.line.is_empty() {
                self.take_line(line, &mut borrowed, &mut sink)?;
            } else {
                // Put together from two chunks, so nothing may borrow it past this block; being the chunk's first line,
                // nothing is borrowed yet either.
                self.extend_line(line)?;
                let whole = std::mem::take(&mut self.line);
                let mut short = None;
                self.take_line(&whole, &mut short, &mut sink)?;
                self.keep(&mut short)?;
                self.line = whole;
                self.line.clear();
            }
        }
        self.keep(&mut borrowed)?;
        self.extend_line(rest)
    }

    /// Ends the stream: what is left counts as its last line and last event, so that a server that forgets the final
    /// blank line is understood. Data that was cut off is no valid JSON and is dropped further on.
    ///
    /// # Errors
    ///
    /// [`SseError::TooLong`].
    pub(crate) fn finish(mut self, mut sink: impl FnMut(&[u8])) -> Result<(), SseError> {
        if !self.line.is_empty() {
            let whole = std::mem::take(&mut self.line);
            let mut short = None;
            self.take_line(&whole, &mut short, &mut sink)?;
            self.keep(&mut short)?;
        }
        if self.has_data {
            sink(&self.data);
        }
        Ok(())
    }

    /// One whole line. Leaves its data in `borrowed` when it is the event's first, in `self.data` otherwise.
    fn take_line<'c>(
        &mut self,
        line: &'c [u8],
        borrowed: &mut Option<&'c [u8]>,
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<(), SseError> {
        if line.len() > self.limit {
            return Err(SseError::TooLong { limit: self.limit });
        }
        let line =
            if std::mem::take(&mut self.at_start) { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
        if line.is_empty() {
            if let Some(data) = borrowed.take() {
                sink(data);
            } else if self.has_data {
                sink(&self.data);
                self.data.clear();
                self.has_data = false;
            }
            return Ok(());
        }
        let Some(after) = line.strip_prefix(b"data") else { return Ok(()) };
        self.data_bytes += line.len() as u64;
        let value = match after.split_first() {
            None => after,
            Some((b':', value)) => value.strip_prefix(b" ").unwrap_or(value),
            // A field whose name only begins like `data`.
            Some(_) => return Ok(()),
        };
        if borrowed.is_none() && !self.has_data {
            *borrowed = Some(value);
            return Ok(());
        }
        self.keep(borrowed)?;
        self.keep(&mut Some(value))
    }

    /// Copies a data line that can no longer be borrowed to the event under way.
    fn keep(&mut self, value: &mut Option<&[u8]>) -> Result<(), SseError> {
        let Some(value) = value.take() else { return Ok(()) };
        if self.data.len() + value.len() + usize::from(self.has_data) > self.limit {
            return Err(SseError::TooLong { limit: self.limit });
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
        Ok(())
    }

    fn extend_line(&mut self, part: &[u8]) -> Result<(), SseError> {
        if self.line.len() + part.len() > self.limit {
            return Err(SseError::TooLong { limit: self.limit });
        }
        self.line.extend_from_slice(part);
        if self.line.starts_with(b"data") {
            self.data_bytes += part.len() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What came out, and whether it ended in an error.
    fn read(chunks: &[&[u8]], limit: usize) -> (Vec<String>, bool) {
        let mut parser = SseParser::new(limit);
        let mut events = Vec::new();
        for chunk in chunks {
            if parser.feed(chunk, |data| events.push(String::from_utf8_lossy(data).into_owned())).is_err() {
                return (events, true);
            }
        }
        let failed = parser.finish(|data| events.push(String::from_utf8_lossy(data).into_owned())).is_err();
        (events, failed)
    }

    #[test]
    fn fields_comments_and_line_ends() {
        for (input, expected) in [
            ("data: a\n\ndata: b\n\n", vec!["a", "b"]),
            ("data: a\r\n\r\ndata:b\r\r", vec!["a", "b"]),
            (": keep-alive\n\ndata: a\n: more\n\n", vec!["a"]),
            ("event: x\nid: 1\nretry: 5\ndata: a\n\n", vec!["a"]),
            ("data: a\ndata: b\ndata\ndata:  c\n\n", vec!["a\nb\n\n c"]),
            ("database: no\n\n", vec![]),
            ("\u{feff}data: a\n\n\u{feff}data: b\n\n", vec!["a"]),
            ("event: x\n\n\n\n", vec![]),
            ("data: unfinished", vec!["unfinished"]),
            ("data\n\n", vec![""]),
        ] {
            assert_eq!(read(&[input.as_bytes()], 100).0, expected, "{input:?}");
        }
    }

    #[test]
    fn a_crlf_cut_in_two_is_one_line_end() {
        let (events, _) = read(&[b"data: a\r", b"\ndata: b\r", b"", b"\n\r", b"\n"], 100);
        assert_eq!(events, ["a\nb"]);
    }

    #[test]
    fn what_is_too_long_is_refused_at_once() {
        assert!(read(&[b"data: 0123456789"], 10).1, "a line");
        assert!(read(&[b"data: 01\ndata: 23\ndata: 45\ndata: 67\n"], 10).1, "data of many lines");
        assert!(!read(&[b"data: 01\n\ndata: 23\n\ndata: 45\n\ndata: 67\n"], 10).1);
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_events(
            parts in prop::collection::vec(
                prop::sample::select(vec!["data: ", "data:", "data", "event: e", ": c", "x", "\n", "\r", "\r\n", "\n\n", "é", "{\"a\":1}", "\u{feff}"]),
                0..40,
            ),
            cuts in prop::collection::vec(0usize..200, 0..12),
            limit in prop::sample::select(vec![6usize, 12, 1000]),
        ) {
            let bytes = parts.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            let whole = read(&[&bytes], limit);
            prop_assert_eq!(&read(&chunks, limit), &whole);
            prop_assert_eq!(&read(&single, limit), &whole);
        }
    }
}
