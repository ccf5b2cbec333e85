//! Who answers the questions: the person at standard input, or `--yes` for them.

use std::io::BufRead;

use tokio::sync::mpsc;

/// The source of answers.
pub(super) enum Asker {
    /// Everything is approved.
    ApproveAll,
    /// Lines of standard input. Reading starts with the first question, on a thread of its own: a read of a terminal
    /// cannot be given up, and that thread ends with the process.
    Stdin,
    /// Lines from a channel.
    Lines(mpsc::Receiver<String>),
}

impl Asker {
    /// Whether nobody needs to be asked.
    pub(super) fn approves_all(&self) -> bool {
        matches!(self, Self::ApproveAll)
    }

    /// The next line; `None` when there will be none.
    ///
    /// Cancel-safe: a line stays in the channel until it is returned.
    pub(super) async fn next_line(&mut self) -> Option<String> {
        if matches!(self, Self::Stdin) {
            *self = Self::Lines(read_stdin());
        }
        match self {
            Self::Lines(lines) => lines.recv().await,
            _ => None,
        }
    }
}

/// The reading thread sends; one line at a time, since each answers one question. Dropping the receiver ends the thread
/// at its next line.
fn read_stdin() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
