//! What a process is still to be told: bytes of input, interrupts, and how much of its output was taken. One task takes it out
//! (`process.rs`); whoever serves a request puts it in and never waits.

use std::collections::VecDeque;
use std::sync::Mutex;

use openoxide_rpc::lock;
use tokio::sync::Notify;

use crate::relay::frames::INPUT_WINDOW;

/// Bytes that wait for a process that does not read.
pub(super) const MOST_WAITING: usize = 1 << 20;

/// Bytes that are sent at once.
const PIECE: usize = 16 << 10;

#[derive(Debug, Default)]
pub(super) struct Input {
    waiting: Mutex<Waiting>,
    /// The task waits; a permit is kept.
    filled: Notify,
}

#[derive(Debug)]
struct Waiting {
    bytes: VecDeque<u8>,
    /// What may be sent before the process has taken more.
    credit: usize,
    interrupts: usize,
    taken: usize,
    is_closed: bool,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { bytes: VecDeque::new(), credit: INPUT_WINDOW, interrupts: 0, taken: 0, is_closed: false }
    }
}

/// Why input is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Closed,
    Full,
}

/// The next thing to tell.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Interrupt,
    Taken(usize),
    Bytes(Vec<u8>),
}

impl Input {
    pub(super) fn push(&self, bytes: &[u8]) -> Result<(), Refused> {
        let mut waiting = lock(&self.waiting);
        if waiting.is_closed {
            return Err(Refused::Closed);
        }
        if waiting.bytes.len() + bytes.len() > MOST_WAITING {
            return Err(Refused::Full);
        }
        waiting.bytes.extend(bytes);
        drop(waiting);
        self.filled.notify_one();
        Ok(())
    }

    pub(super) fn interrupt(&self) {
        lock(&self.waiting).interrupts += 1;
        self.filled.notify_one();
    }

    /// Output that was taken.
    pub(super) fn took(&self, bytes: usize) {
        lock(&self.waiting).taken += bytes;
        self.filled.notify_one();
    }

    /// The process has taken so much of what was sent.
    pub(super) fn grant(&self, bytes: usize) {
        lock(&self.waiting).credit += bytes;
        self.filled.notify_one();
    }

    /// It reads no more.
    pub(super) fn close(&self) {
        let mut waiting = lock(&self.waiting);
        waiting.is_closed = true;
        waiting.bytes = VecDeque::new();
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.waiting).is_closed
    }

    /// What comes next; interrupts go before input. Cancel-safe: what is given out is given in the last step.
    pub(super) async fn next(&self) -> Next {
        loop {
            if let Some(next) = lock(&self.waiting).pop() {
                return next;
            }
            self.filled.notified().await;
        }
    }
}

impl Waiting {
    fn pop(&mut self) -> Option<Next> {
        if self.interrupts > 0 {
            self.interrupts -= 1;
            return Some(Next::Interrupt);
        }
        if self.taken > 0 {
            return Some(Next::Taken(std::mem::take(&mut self.taken)));
        }
        let length = self.bytes.len().min(PIECE).min(self.credit);
        if length == 0 {
            return None;
        }
        self.credit -= length;
        Some(Next::Bytes(self.bytes.drain(..length).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_more_is_sent_than_is_taken_and_an_interrupt_goes_before() {
        let input = Input::default();
        input.push(&vec![7; INPUT_WINDOW + 1]).unwrap();
        let mut sent = 0;
        while sent < INPUT_WINDOW {
            let Next::Bytes(bytes) = input.next().await else { panic!("bytes") };
            sent += bytes.len();
        }
        assert!(futures_util::FutureExt::now_or_never(input.next()).is_none());
        input.interrupt();
        input.grant(1);
        assert_eq!(input.next().await, Next::Interrupt);
        assert_eq!(input.next().await, Next::Bytes(vec![7]));
        assert_eq!(input.push(&vec![0; MOST_WAITING + 1]), Err(Refused::Full));
        input.close();
        assert_eq!(input.push(b"x"), Err(Refused::Closed));
    }
}
