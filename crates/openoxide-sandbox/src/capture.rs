//! Output kept in memory: the first and the last bytes since it was last taken, and the count of what fell out between.
//! Bytes come in here as they were read (`pump.rs`) and leave as text for people and models.

use std::collections::VecDeque;
use std::fmt::Write as _;

/// What a command wrote since the last taking.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// The output. Bytes that are not UTF-8 are written `\xNN`; where bytes are left out, a line says how many.
    pub text: String,
    /// Bytes that are left out of `text`.
    pub omitted_bytes: u64,
    /// Bytes the command has written since it started, up to the end of `text`.
    pub total_bytes: u64,
}

/// Head and tail of a stream of bytes, within a limit.
#[derive(Debug)]
pub(crate) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    omitted: u64,
    total: u64,
}

impl Capture {
    /// Keeps `limit` bytes, half of them from the beginning.
    pub(crate) fn new(limit: usize) -> Self {
        let head_limit = limit / 2;
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_limit,
            tail_limit: limit - head_limit,
            omitted: 0,
            total: 0,
        }
    }

    /// Adds what was read. It never refuses: what the limit has no room for falls out of the middle.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if self.tail.is_empty() && self.omitted == 0 {
            let room = self.head_limit.saturating_sub(self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..room]);
            bytes = &bytes[room..];
        }
        if bytes.len() > self.tail_limit {
            let lost = bytes.len() - self.tail_limit;
            self.omitted += (self.tail.len() + lost) as u64;
            self.tail.clear();
            bytes = &bytes[lost..];
        }
        let lost = (self.tail.len() + bytes.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..lost);
        self.omitted += lost as u64;
        self.tail.extend(bytes);
    }

    /// Takes what there is and frees its memory.
    ///
    /// A character whose last bytes have not come stays for the next taking, unless this is the end.
    pub(crate) fn take(&mut self, is_end: bool) -> Output {
        let mut head = std::mem::take(&mut self.head);
        let mut tail: Vec<u8> = std::mem::take(&mut self.tail).into();
        let mut omitted = std::mem::take(&mut self.omitted);
        if omitted == 0 {
            head.append(&mut tail);
        } else {
            // A character that the gap cut in two belongs to the gap.
            let rest = unfinished(&head);
            head.truncate(head.len() - rest);
            let torn = tail.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
            tail.drain(..torn);
            omitted += (rest + torn) as u64;
        }
        if !is_end {
            let last = if omitted == 0 { &mut head } else { &mut tail };
            let kept = last.split_off(last.len() - unfinished(last));
            self.head = kept;
        }
        let mut text = String::with_capacity(head.len() + tail.len());
        push_lossy(&mut text, &head);
        if omitted > 0 {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            // Writing to a string cannot fail.
            let _ = writeln!(text, "[{omitted} bytes of output left out here]");
            push_lossy(&mut text, &tail);
        }
        Output { text, omitted_bytes: omitted, total_bytes: self.total - self.head.len() as u64 }
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// How many bytes at the end begin a character that may still be completed.
fn unfinished(bytes: &[u8]) -> usize {
    for length in 1..=bytes.len().min(3) {
        let start = bytes.len() - length;
        if is_continuation(bytes[start]) {
            continue;
        }
        // `error_len` is none exactly where the end of the input is what is wrong.
        let ends_early = |error: std::str::Utf8Error| error.error_len().is_none();
        return if std::str::from_utf8(&bytes[start..]).is_err_and(ends_early) { length } else { 0 };
    }
    0
}

fn push_lossy(text: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_output_is_kept_whole_and_taken_once() {
        let mut capture = Capture::new(100);
        capture.push(b"one ");
        capture.push(b"two");
        assert_eq!(capture.take(false), Output { text: "one two".into(), omitted_bytes: 0, total_bytes: 7 });
        assert_eq!(capture.take(true), Output { text: String::new(), omitted_bytes: 0, total_bytes: 7 });
        capture.push(b"!");
        assert_eq!(capture.take(true), Output { text: "!".into(), omitted_bytes: 0, total_bytes: 8 });
    }

    #[test]
    fn the_middle_of_long_output_falls_out() {
        let mut capture = Capture::new(8);
        for byte in b"abcdefghijkl" {
            capture.push(&[*byte]);
        }
        let output = capture.take(true);
        assert_eq!(output.text, "abcd\n[4 bytes of output left out here]\nijkl");
        assert_eq!((output.omitted_bytes, output.total_bytes), (4, 12));
        capture.push(b"abcdefghijkl");
        assert_eq!(capture.take(true).text, "abcd\n[4 bytes of output left out here]\nijkl");
    }

    #[test]
    fn memory_stays_within_the_limit() {
        let mut capture = Capture::new(1000);
        for _ in 0..1000 {
            capture.push(&[b'x'; 4096]);
            assert!(capture.head.len() + capture.tail.len() <= 1000);
            assert!(capture.head.capacity() + capture.tail.capacity() <= 4096);
        }
        assert_eq!(capture.take(true).omitted_bytes, 4096 * 1000 - 1000);
    }

    #[test]
    fn a_character_split_across_reads_is_whole() {
        let mut capture = Capture::new(100);
        let bytes = "aé€😀".as_bytes();
        let mut text = String::new();
        for byte in bytes {
            capture.push(&[*byte]);
            text.push_str(&capture.take(false).text);
        }
        assert_eq!(text, "aé€😀");
    }

    #[test]
    fn a_character_that_never_ends_is_shown_at_the_end() {
        let mut capture = Capture::new(100);
        capture.push(b"a\xe2\x82");
        assert_eq!(capture.take(false), Output { text: "a".into(), omitted_bytes: 0, total_bytes: 1 });
        assert_eq!(capture.take(true), Output { text: r"\xe2\x82".into(), omitted_bytes: 0, total_bytes: 3 });
    }

    #[test]
    fn other_bytes_are_shown_as_numbers() {
        let mut capture = Capture::new(100);
        capture.push(b"\xff\xc3(\x80ok");
        assert_eq!(capture.take(true).text, r"\xff\xc3(\x80ok");
    }

    #[test]
    fn a_character_torn_by_the_gap_belongs_to_the_gap() {
        let mut capture = Capture::new(8);
        capture.push("aaa€bbbb€cc".as_bytes());
        let output = capture.take(true);
        assert_eq!(output.text, "aaa\n[10 bytes of output left out here]\ncc");
        assert_eq!((output.omitted_bytes, output.total_bytes), (10, 15));
    }

    proptest::proptest! {
        #[test]
        fn reads_of_any_size_give_the_same_text(text in ".{0,40}", sizes in proptest::collection::vec(1usize..5, 1..40)) {
            let mut capture = Capture::new(1 << 12);
            let mut bytes = text.as_bytes();
            let mut got = String::new();
            for size in sizes.iter().cycle() {
                if bytes.is_empty() {
                    break;
                }
                let (now, later) = bytes.split_at((*size).min(bytes.len()));
                capture.push(now);
                got.push_str(&capture.take(false).text);
                bytes = later;
            }
            got.push_str(&capture.take(true).text);
            proptest::prop_assert_eq!(got, text);
        }

        #[test]
        fn nothing_is_lost_uncounted(limit in 0usize..20, parts in proptest::collection::vec("[a-z]{0,9}", 0..20)) {
            let mut capture = Capture::new(limit);
            for part in &parts {
                capture.push(part.as_bytes());
            }
            let all = parts.concat();
            let output = capture.take(true);
            proptest::prop_assert_eq!(output.total_bytes, all.len() as u64);
            proptest::prop_assert_eq!(output.omitted_bytes, all.len().saturating_sub(limit) as u64);
        }
    }
}
