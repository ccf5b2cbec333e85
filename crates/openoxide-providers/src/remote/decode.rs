//! From the bytes of one attempt's stream to events: the parser of server-sent events in front, the dialect's
//! [`Reader`] behind it. Bytes come from `stream`, [`ModelEvent`]s and the stream's [`End`] go back to it.
//!
//! What is not JSON and what is not known is skipped by every reader: providers add events without notice.

use super::events::{End, Events};
use crate::{ModelEvent, SseError, sse::SseParser};

/// Longest event that is read. The largest real ones repeat a whole response.
const EVENT_LIMIT: usize = 16 * 1024 * 1024;
/// Longest stream that is read, in bytes on the wire.
const STREAM_LIMIT: usize = 256 * 1024 * 1024;

/// A dialect's understanding of its events, for one attempt.
pub(crate) trait Reader: Send + Sync {
    /// The data of one event.
    fn read(&mut self, data: &[u8], events: &mut Events);

    /// The response has said that it is over, and only what some servers leave out is still to come.
    fn is_ending(&self) -> bool {
        false
    }

    /// The body is over or broke off, and no last event came.
    fn finish(&mut self, events: &mut Events) {
        let _ = events;
    }
}

/// The state of one attempt's stream.
pub(crate) struct Decoder {
    parser: SseParser,
    reader: Box<dyn Reader>,
    events: Events,
    taken: usize,
}

impl Decoder {
    pub(crate) fn new(reader: Box<dyn Reader>) -> Self {
        Self { parser: SseParser::new(EVENT_LIMIT), reader, events: Events::default(), taken: 0 }
    }

    /// Reads bytes as they come. What follows the end is not read.
    ///
    /// # Errors
    ///
    /// The parser's, or [`SseError::TooLong`] for an endless stream; what was read before is in the queue.
    pub(crate) fn feed(&mut self, chunk: &[u8]) -> Result<(), SseError> {
        self.taken += chunk.len();
        if self.taken > STREAM_LIMIT {
            return Err(SseError::Endless { limit: STREAM_LIMIT });
        }
        let Self { parser, reader, events, .. } = self;
        parser.feed(chunk, |data| {
            if events.end().is_none() {
                reader.read(data, events);
            }
        })
    }

    /// Bytes of data so far, which are what a stream lives by.
    pub(super) fn data_bytes(&self) -> u64 {
        self.parser.data_bytes()
    }

    /// Whether only what some servers leave out is still to come.
    pub(super) fn is_ending(&self) -> bool {
        self.reader.is_ending()
    }

    /// Reads what the end of the body completes, however it ended.
    ///
    /// # Errors
    ///
    /// As [`Decoder::feed`].
    pub(crate) fn finish(&mut self) -> Result<(), SseError> {
        let Self { parser, reader, events, .. } = self;
        std::mem::replace(parser, SseParser::new(0)).finish(|data| {
            if events.end().is_none() {
                reader.read(data, events);
            }
        })?;
        if events.end().is_none() {
            reader.finish(events);
        }
        Ok(())
    }

    /// The next event of what was read so far.
    pub(crate) fn next_event(&mut self) -> Option<ModelEvent> {
        self.events.next()
    }

    /// The stream's own word on its end.
    pub(crate) fn end(&self) -> Option<&End> {
        self.events.end()
    }

    /// What was said so far.
    pub(super) fn events(&mut self) -> &mut Events {
        &mut self.events
    }
}
