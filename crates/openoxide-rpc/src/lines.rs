//! The reader task: bytes to lines, no line longer than its bound, whatever the bytes are.
//!
//! A line over the bound is read to its end and thrown away but for its head, from which the id of the request may be
//! salvaged. Parsing is the processor's.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Bytes of one line, without its newline.
pub const MAX_LINE: usize = 16 * 1024 * 1024;
/// Bytes kept of a line that is too long.
const HEAD: usize = 4 * 1024;
/// Bytes asked for in one read.
const READ: usize = 32 * 1024;
/// A buffer larger than this is given back once its long line is done.
const KEPT_CAPACITY: usize = 512 * 1024;
/// Bytes of all lines that wait for the processor.
const WAITING: usize = 2 * MAX_LINE;
/// Lines that wait for the processor. A reader that is ahead stops reading, and the client's pipe fills.
const WAITING_LINES: usize = 128;

/// One line of input.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// The line without its newline.
    Whole(Vec<u8>),
    /// The head of a line that was too long.
    TooLong(Vec<u8>),
}

/// A line on its way to the processor; its share of the waiting bytes is given back when it is dropped.
pub struct Input {
    /// The line.
    pub line: Line,
    _share: OwnedSemaphorePermit,
}

/// Cuts a byte stream into lines.
pub struct LineReader<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Where the line under way begins in `buffer`; what lies before is consumed.
    start: usize,
    /// Up to where `buffer` was searched for a newline.
    searched: usize,
    /// Whether the line under way is too long; the buffer then holds its head and what was read last.
    skipping: bool,
    limit: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Lines of at most `limit` bytes.
    pub fn new(reader: R, limit: usize) -> Self {
        Self { reader, buffer: Vec::new(), start: 0, searched: 0, skipping: false, limit }
    }

    /// The next line; `None` at the end of input. A last line without a newline counts.
    pub async fn next(&mut self) -> std::io::Result<Option<Line>> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let end = self.searched + at;
                let line = self.take(end);
                self.start = end + 1;
                self.searched = self.start;
                return Ok(Some(line));
            }
            self.compact();
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                if self.buffer.is_empty() {
                    return Ok(None);
                }
                let line = self.take(self.buffer.len());
                self.buffer.clear();
                self.searched = 0;
                return Ok(Some(line));
            }
        }
    }

    /// Moves the unfinished line to the front, cuts it down where it is too long, and makes room to read.
    fn compact(&mut self) {
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.skipping || self.buffer.len() > self.limit {
            self.skipping = true;
            self.buffer.truncate(HEAD);
        }
        self.searched = self.buffer.len();
        // One huge line must not keep its memory for good.
        if self.buffer.capacity() > KEPT_CAPACITY && self.buffer.len() < READ {
            self.buffer.shrink_to(READ);
        }
        self.buffer.reserve(READ);
    }

    /// The line that ends at `end`, out of the buffer.
    fn take(&mut self, end: usize) -> Line {
        let line = &self.buffer[self.start..end];
        if std::mem::take(&mut self.skipping) || line.len() > self.limit {
            return Line::TooLong(line[..line.len().min(HEAD)].to_vec());
        }
        Line::Whole(line.to_vec())
    }
}

/// The reader task: sends lines to the processor until the input ends, then drops its end of the channel, which is how
/// the processor learns of it. A processor that is behind holds it up: lines and bytes on their way have a bound.
pub async fn read_lines<R: AsyncRead + Unpin>(reader: R, lines: mpsc::Sender<Input>) {
    let feeder = Feeder::new(lines);
    let mut reader = LineReader::new(reader, MAX_LINE);
    loop {
        let line = match reader.next().await {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "the input cannot be read any more; ending as at its end");
                return;
            }
        };
        if !feeder.feed(line).await {
            return;
        }
    }
}

/// The reader's end of the channel, with the bytes that may wait in it.
pub(crate) struct Feeder {
    lines: mpsc::Sender<Input>,
    budget: Arc<Semaphore>,
}

impl Feeder {
    pub(crate) fn new(lines: mpsc::Sender<Input>) -> Self {
        Self { lines, budget: Arc::new(Semaphore::new(WAITING)) }
    }

    /// Sends a line once there is room for it. False where the processor has ended.
    pub(crate) async fn feed(&self, line: Line) -> bool {
        let (Line::Whole(bytes) | Line::TooLong(bytes)) = &line;
        let share = u32::try_from(bytes.len()).unwrap_or(u32::MAX).min(WAITING as u32);
        // The semaphore is never closed.
        let Ok(share) = Arc::clone(&self.budget).acquire_many_owned(share).await else { return false };
        self.lines.send(Input { line, _share: share }).await.is_ok()
    }
}

/// The channel from reader to processor. The reader sends and drops it at the end of input.
pub fn channel() -> (mpsc::Sender<Input>, mpsc::Receiver<Input>) {
    mpsc::channel(WAITING_LINES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads from chunks, one chunk a read.
    struct Chunks(std::collections::VecDeque<Vec<u8>>);

    impl AsyncRead for Chunks {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            buf: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            if let Some(mut chunk) = self.0.pop_front() {
                let rest = chunk.split_off(chunk.len().min(buf.remaining()));
                buf.put_slice(&chunk);
                if !rest.is_empty() {
                    self.0.push_front(rest);
                }
            }
            std::task::Poll::Ready(Ok(()))
        }
    }

    fn lines_of(chunks: Vec<Vec<u8>>, limit: usize) -> Vec<Line> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let chunks = chunks.into_iter().filter(|chunk| !chunk.is_empty()).collect();
        runtime.block_on(async {
            let mut reader = LineReader::new(Chunks(chunks), limit);
            let mut lines = Vec::new();
            while let Some(line) = reader.next().await.unwrap() {
                lines.push(line);
            }
            lines
        })
    }

    #[test]
    fn a_line_over_the_bound_keeps_its_head_and_the_next_line_is_whole() {
        let long = [b"{\"id\":9,".as_slice(), &[b'x'; 20_000], b"\nnext\n"].concat();
        let lines = lines_of(long.chunks(777).map(<[u8]>::to_vec).collect(), 10_000);
        let [Line::TooLong(head), Line::Whole(next)] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(head.starts_with(b"{\"id\":9,") && head.len() == HEAD);
        assert_eq!(next, b"next");
    }

    #[test]
    fn a_last_line_without_newline_counts() {
        assert_eq!(lines_of(vec![b"a\nb".to_vec()], 10), [Line::Whole(b"a".to_vec()), Line::Whole(b"b".to_vec())]);
    }

    proptest! {
        #[test]
        fn chunking_makes_no_difference(
            bytes in proptest::collection::vec(prop_oneof![3 => Just(b'\n'), 7 => any::<u8>()], 0..300),
            cuts in proptest::collection::vec(1usize..40, 1..50),
            limit in 5usize..40,
        ) {
            let mut chunks = Vec::new();
            let (mut rest, mut cuts) = (bytes.as_slice(), cuts.iter().cycle());
            while !rest.is_empty() {
                let (chunk, more) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                chunks.push(chunk.to_vec());
                rest = more;
            }
            let mut expected: Vec<Line> = bytes
                .split(|byte| *byte == b'\n')
                .map(|line| if line.len() > limit { Line::TooLong(line.to_vec()) } else { Line::Whole(line.to_vec()) })
                .collect();
            // Splitting leaves one empty piece behind the last newline, which is no line.
            if expected.last() == Some(&Line::Whole(Vec::new())) {
                expected.pop();
            }
            prop_assert_eq!(lines_of(chunks, limit), expected);
        }
    }
}
