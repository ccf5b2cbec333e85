//! What tools say, cut to size: for the model by tokens, for a running command by bytes kept.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;

/// A token counts as this many bytes.
const TOKEN_BYTES: usize = 4;

/// The bytes that a number of tokens stands for.
pub(crate) fn bytes_of(tokens: usize) -> usize {
    tokens.saturating_mul(TOKEN_BYTES)
}

/// Cuts the middle out of a text that is too long for the model, telling how long it was.
pub(crate) fn truncate(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(max_bytes / 2);
    let tail = text.ceil_char_boundary(text.len() - (max_bytes - max_bytes / 2));
    let (left_out, total) = ((tail - head).div_ceil(TOKEN_BYTES), text.len().div_ceil(TOKEN_BYTES));
    format!("{}\n[{left_out} of {total} tokens left out here]\n{}", &text[..head], &text[tail..])
}

/// Output of a command that goes on: its beginning and its end, up to a limit.
#[derive(Debug)]
pub(super) struct Capture {
    head: String,
    tail: VecDeque<String>,
    tail_bytes: usize,
    lost: u64,
    half: usize,
}

impl Capture {
    /// Keeps at most about `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { head: String::new(), tail: VecDeque::new(), tail_bytes: 0, lost: 0, half: limit / 2 }
    }

    /// Adds what came, and how many bytes were lost before it came here.
    pub(super) fn push(&mut self, text: &str, lost: u64) {
        self.lost += lost;
        let room = self.half.saturating_sub(self.head.len());
        let split = if self.tail.is_empty() { text.floor_char_boundary(room.min(text.len())) } else { 0 };
        self.head.push_str(&text[..split]);
        if split < text.len() {
            self.tail_bytes += text.len() - split;
            self.tail.push_back(text[split..].to_owned());
        }
        // Whole pieces go, so that nothing is copied for each one that comes; `text` cuts to the byte.
        while let Some(oldest) = self.tail.front()
            && self.tail_bytes - oldest.len() >= self.half
        {
            self.lost += oldest.len() as u64;
            self.tail_bytes -= oldest.len();
            self.tail.pop_front();
        }
    }

    /// What was kept, with a note where something is missing.
    pub(super) fn text(&self) -> String {
        let mut text = self.head.clone();
        let mut pieces = self.tail.iter().map(String::as_str);
        let (mut lost, mut first) = (self.lost, pieces.next().unwrap_or_default());
        if self.tail_bytes > self.half {
            let cut = first.ceil_char_boundary((self.tail_bytes - self.half).min(first.len()));
            lost += cut as u64;
            first = &first[cut..];
        }
        if lost > 0 {
            text.push_str(&format!("\n[{lost} bytes of output were not kept]\n"));
        }
        text.push_str(first);
        text.extend(pieces);
        text
    }
}

/// Tells blocking work that nobody waits for it any more, or that its time is over.
#[derive(Debug, Clone, Default)]
pub(crate) struct StopFlag {
    raised: Arc<AtomicBool>,
    until: Option<Instant>,
}

/// Raises its [`StopFlag`] when dropped.
pub(crate) struct StopOnDrop(StopFlag);

impl StopFlag {
    /// One that raises itself at a moment.
    pub(crate) fn until(moment: Instant) -> Self {
        Self { raised: Arc::default(), until: Some(moment) }
    }

    /// Whether to stop.
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed) || self.is_late()
    }

    /// Whether the time is over.
    pub(crate) fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// A guard that raises the flag when it goes.
    pub(crate) fn on_drop(&self) -> StopOnDrop {
        StopOnDrop(self.clone())
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.raised.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_ends_and_tells_its_size() {
        let text = format!("{}{}{}", "a".repeat(100), "é".repeat(1000), "z".repeat(100));
        let cut = truncate(&text, 200);
        assert!(cut.starts_with(&"a".repeat(100)) && cut.ends_with(&"z".repeat(100)));
        assert!(cut.contains("[500 of 550 tokens left out here]"), "{cut}");
        assert_eq!(truncate("short", 5), "short");
    }

    #[test]
    fn a_capture_keeps_head_and_tail_within_its_limit() {
        let mut capture = Capture::new(20);
        for n in 0..100 {
            capture.push(&format!("{n:03} "), 0);
        }
        let text = capture.text();
        assert!(text.starts_with("000 001 00\n[380 bytes of output were not kept]\n"), "{text}");
        assert!(text.ends_with("098 099 "));
    }

    #[test]
    fn one_piece_that_is_too_long_is_cut_in_the_middle() {
        let mut capture = Capture::new(20);
        capture.push(&format!("{}{}", "a".repeat(50), "z".repeat(50)), 7);
        assert_eq!(capture.text(), format!("aaaaaaaaaa\n[87 bytes of output were not kept]\n{}", "z".repeat(10)));
    }

    #[test]
    fn a_capture_within_its_limit_is_whole() {
        let mut capture = Capture::new(100);
        for part in ["one ", "zwei ", "três"] {
            capture.push(part, 0);
        }
        assert_eq!(capture.text(), "one zwei três");
    }
}
