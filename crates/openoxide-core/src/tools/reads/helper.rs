//! The server's side of a helper: asks it one thing, and believes nothing that comes back before it was judged.

use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use openoxide_sandbox::FileView;
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
    /// Starts one, or says in a sentence why it cannot be started.
    fn start(&self) -> BoxFuture<'static, Result<ReadHelper, String>>;
}

/// A process that reads for one call. Dropping it ends it.
pub(crate) struct ReadHelper {
    /// It serves on the other end.
    pub(crate) stream: UnixStream,
    /// Kills it when dropped.
    pub(crate) _alive: Box<dyn Send + Sync>,
    /// Whether what the thread's commands see as `/tmp` is `/tmp` for it too.
    pub(crate) has_own_tmp: bool,
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
    /// More was asked than fits.
    #[error("what is asked takes {bytes} bytes, where at most {MAX_ASK} can be sent")]
    AsksTooMuch { bytes: usize },
}

impl ReadHelper {
    /// Asks it for one read, for at most so long by its own clock. Whoever drops the future drops the helper.
    pub(super) async fn ask<W: ReadWork>(
        mut self,
        view: &FileView,
        work: W,
        limit: Duration,
    ) -> Result<Result<W::Found, String>, HelperError> {
        let mut view = view.describe();
        if self.has_own_tmp {
            view.private_tmp = None;
        }
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let ask = encode(&Ask { kind: W::KIND.to_wire(), limit_ms, view, work: Bytes(encode(&work)) });
        let Some(head) = header(ask.len()).filter(|_| ask.len() <= MAX_ASK) else {
            return Err(HelperError::AsksTooMuch { bytes: ask.len() });
        };
        let most = work.max_answer().max(MAX_SENTENCE) + FRAMING;
        let answer = self.exchange([&head[..], &ask].concat(), most).await?;
        let judge = move || {
            // Ended before its answer is looked at: it has nothing more to say.
            drop(self);
            let answer: Result<W::Found, String> = decode(&answer).ok_or(HelperError::Nonsense)?;
            match &answer {
                Ok(found) if !work.accepts(found) => Err(HelperError::Nonsense),
                Err(sentence) if sentence.len() > MAX_SENTENCE => Err(HelperError::Nonsense),
                Ok(_) | Err(_) => Ok(answer),
            }
        };
        if most <= LARGE + MAX_SENTENCE + FRAMING {
            return judge();
        }
        tokio::task::spawn_blocking(judge).await.unwrap_or(Err(HelperError::Nonsense))
    }

    async fn exchange(&mut self, ask: Vec<u8>, most: usize) -> Result<Vec<u8>, HelperError> {
        // What it cannot be sent because it is gone, or does not listen, shows in what it answers: nothing.
        let gone = |_: io::Error| HelperError::Ended;
        self.stream.write_all(&ask).await.map_err(gone)?;
        let mut head = [0; 4];
        self.stream.read_exact(&mut head).await.map_err(gone)?;
        let length = length(head, most).map_err(|bytes| HelperError::TooMuch { bytes, most })?;
        let mut answer = Vec::new();
        // Grows with what comes, not with what is promised.
        let read = (&mut self.stream).take(length as u64).read_to_end(&mut answer).await.map_err(gone)?;
        if read == length { Ok(answer) } else { Err(HelperError::Ended) }
    }
}
