//! What is kept of a process's output: the latest chunks within a bound. What fell out is counted.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::protocol::{Chunk, Lost, Stream};

/// Chunks that are kept.
#[derive(Debug, Default)]
pub(super) struct Output {
    chunks: VecDeque<Kept>,
    bytes: usize,
    lost: Option<Lost>,
}

#[derive(Debug)]
struct Kept {
    seq: u64,
    stream: Stream,
    bytes: Vec<u8>,
}

/// Some chunks, for one answer.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) chunks: Vec<Chunk>,
    /// Whether there are more.
    pub(super) has_more: bool,
    pub(super) lost: Option<Lost>,
}

impl Output {
    /// Adds a chunk; what is older goes until `bound` bytes are left. The newest always stays.
    pub(super) fn push(&mut self, seq: u64, stream: Stream, mut bytes: Vec<u8>, bound: usize) {
        bytes.shrink_to_fit();
        self.bytes += bytes.len();
        self.chunks.push_back(Kept { seq, stream, bytes });
        while self.bytes > bound && self.chunks.len() > 1 {
            let Some(oldest) = self.chunks.pop_front() else { return };
            self.bytes -= oldest.bytes.len();
            self.lose(oldest.seq, oldest.bytes.len() as u64);
        }
    }

    /// Counts bytes that never came here, before the chunk `seq`.
    pub(super) fn lose(&mut self, seq: u64, bytes: u64) {
        let lost = self.lost.get_or_insert(Lost { through_seq: 0, bytes: 0 });
        lost.through_seq = lost.through_seq.max(seq);
        lost.bytes += bytes;
    }

    /// What came after `after`, at most so many bytes, but one chunk in any case.
    pub(super) fn after(&self, after: u64, most: usize) -> Taken {
        let mut left = most;
        let mut chunks = Vec::new();
        let mut newer = self.chunks.iter().skip_while(|kept| kept.seq <= after);
        let has_more = loop {
            let Some(kept) = newer.next() else { break false };
            if kept.bytes.len() > left && !chunks.is_empty() {
                break true;
            }
            left = left.saturating_sub(kept.bytes.len());
            chunks.push(Chunk { seq: kept.seq, stream: kept.stream, chunk: STANDARD.encode(&kept.bytes) });
        };
        Taken { chunks, has_more, lost: self.lost.filter(|lost| lost.through_seq > after) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_kept_and_what_fell_out_is_told() {
        let mut output = Output::default();
        for seq in 1..=10 {
            output.push(seq, Stream::Stdout, vec![0; 10], 35);
        }
        let taken = output.after(0, 1000);
        assert_eq!(taken.chunks.iter().map(|chunk| chunk.seq).collect::<Vec<_>>(), [8, 9, 10]);
        assert_eq!(taken.lost, Some(Lost { through_seq: 7, bytes: 70 }));
        assert_eq!(output.after(7, 1000).lost, None);
        output.push(11, Stream::Stderr, vec![0; 100], 35);
        assert_eq!(output.after(0, 1000).chunks.len(), 1, "one that is larger than the bound is kept alone");
    }

    #[test]
    fn a_budget_smaller_than_a_chunk_gives_one() {
        let mut output = Output::default();
        (1..=3).for_each(|seq| output.push(seq, Stream::Pty, vec![1; 10], 1000));
        let taken = output.after(0, 1);
        assert!(taken.chunks.len() == 1 && taken.has_more);
        let taken = output.after(1, 20);
        assert!(taken.chunks.len() == 2 && !taken.has_more);
        assert!(output.after(3, 20).chunks.is_empty());
    }
}
