//! The server's side of a helper: asks it one thing after the other, and believes nothing that comes back before it was
//! judged.

use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use openoxide_sandbox::{FileView, ViewDescription};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::frame::{Ask, MAX_ASK, MAX_SENTENCE, header, length};
use super::wire::{Bytes, decode, encode};
use super::work::ReadWork;

/// Beyond it an answer is taken apart on a thread for that.
const LARGE: usize = 64 << 10;

/// Bytes of an answer beside what was found.
const FRAMING: usize = 16;

/// Starts helpers in the box of one thread.
pub(crate) trait Helpers: Send + Sync {
    /// Starts one, or says in a sentence why it cannot be started. None where the thread has no box that one could be in; the
    /// server reads then.
    fn start(&self) -> BoxFuture<'static, Result<Option<ReadHelper>, String>>;
}

/// A process that reads for one turn. Dropping it ends it.
pub(crate) struct ReadHelper {
    pub(crate) process: Box<dyn HelperProcess>,
    /// Whether what the thread's commands see as `/tmp` is `/tmp` for it too.
    pub(crate) has_own_tmp: bool,
}

/// What holds a helper. Dropping it kills the process.
pub(crate) trait HelperProcess: Send + Sync {
    /// It serves on the other end.
    fn stream(&mut self) -> &mut UnixStream;
}

/// Why a helper gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HelperError {
    /// There is none.
    #[error("the process that reads for this thread could not be started: {0}")]
    NotStarted(String),
    /// It is gone, by itself or killed.
    #[error(
        "the process that reads for this thread ended before it answered; it may have needed more memory than it is \
         given, so read less at once, or do it with a command"
    )]
    Ended,
    /// Its answer is longer than one can be.
    #[error("the process that reads for this thread was ended: it sent {bytes} bytes, where at most {most} can be")]
    TooMuch { bytes: usize, most: usize },
    /// What it sent is no answer.
    #[error("the process that reads for this thread was ended: what it sent is no answer to what was asked")]
    Nonsense,
    /// The thread's directory cannot be told.
    #[error("the thread's directory cannot be looked at: {0}")]
    NoDirectory(io::Error),
    /// More was asked than fits.
    #[error("what is asked takes {bytes} bytes, where at most {MAX_ASK} can be sent")]
    AsksTooMuch { bytes: usize },
}

/// A read as it is sent, and what may come back.
pub(super) struct Asking<W> {
    work: W,
    /// Holds the workspace until the answer is judged.
    view: FileView,
    described: ViewDescription,
    limit: Duration,
}

impl<W: ReadWork> Asking<W> {
    /// A read through a view, for at most so long by the helper's own clock. Blocks on the disk.
    pub(super) fn new(view: FileView, work: W, limit: Duration) -> Result<Self, HelperError> {
        let described = view.describe().map_err(HelperError::NoDirectory)?;
        Ok(Self { work, view, described, limit })
    }

    /// The read itself, for whoever does it without a helper.
    pub(super) fn into_parts(self) -> (FileView, W) {
        (self.view, self.work)
    }

    fn most(&self) -> usize {
        self.work.max_answer().max(MAX_SENTENCE) + FRAMING
    }

    fn frame(&self, has_own_tmp: bool) -> Result<Vec<u8>, HelperError> {
        let mut view = self.described.clone();
        if has_own_tmp {
            view.private_tmp = None;
        }
        let limit_ms = u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX);
        let ask = encode(&Ask { kind: W::KIND.to_wire(), limit_ms, view, work: Bytes(encode(&self.work)) });
        match header(ask.len()).filter(|_| ask.len() <= MAX_ASK) {
            Some(head) => Ok([&head[..], &ask].concat()),
            None => Err(HelperError::AsksTooMuch { bytes: ask.len() }),
        }
    }

    /// Judges what came back.
    pub(super) async fn judge(self, answer: Vec<u8>) -> Result<Result<W::Found, String>, HelperError> {
        let is_large = self.most() > LARGE + MAX_SENTENCE + FRAMING;
        let judge = move || {
            let answer: Result<W::Found, String> = decode(&answer).ok_or(HelperError::Nonsense)?;
            match &answer {
                Ok(found) if !self.work.accepts(found) => Err(HelperError::Nonsense),
                Err(sentence) if sentence.len() > MAX_SENTENCE => Err(HelperError::Nonsense),
                Ok(_) | Err(_) => Ok(answer),
            }
        };
        if !is_large {
            return judge();
        }
        tokio::task::spawn_blocking(judge).await.unwrap_or(Err(HelperError::Nonsense))
    }
}

impl ReadHelper {
    /// Asks for one read. Where that fails the helper is not to be asked again.
    pub(super) async fn ask<W: ReadWork>(&mut self, asking: &Asking<W>) -> Result<Vec<u8>, HelperError> {
        let (ask, most) = (asking.frame(self.has_own_tmp)?, asking.most());
        let stream = self.process.stream();
        // What it cannot be sent because it is gone, or does not listen, shows in what it answers: nothing.
        let gone = |_: io::Error| HelperError::Ended;
        stream.write_all(&ask).await.map_err(gone)?;
        let mut head = [0; 4];
        stream.read_exact(&mut head).await.map_err(gone)?;
        let length = length(head, most).map_err(|bytes| HelperError::TooMuch { bytes, most })?;
        let mut answer = Vec::new();
        // Grows with what comes, not with what is promised.
        let read = stream.take(length as u64).read_to_end(&mut answer).await.map_err(gone)?;
        if read == length { Ok(answer) } else { Err(HelperError::Ended) }
    }
}
