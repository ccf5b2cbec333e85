//! Notices at once that nobody reads standard output any more, also while the server has nothing to write.

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::oneshot;

/// Ready when the other end of standard output is closed. Never for a file or a device, which have no other end.
///
/// A thread of its own waits, because the system tells it only by `poll`; it ends with the process.
pub(crate) async fn noticed() {
    let (tell, told) = oneshot::channel();
    let waiting = std::thread::Builder::new().name("closed-output".to_owned()).spawn(move || {
        let stdout = rustix::stdio::stdout();
        loop {
            // Errors and hang-ups are always told; nothing else is asked for.
            let mut output = [PollFd::new(&stdout, PollFlags::empty())];
            match poll(&mut output, None) {
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    tracing::warn!(%error, "standard output cannot be watched; its end is noticed by the next write");
                    return;
                }
            }
        }
        // The receiver is gone when the server ends for another reason.
        let _ = tell.send(());
    });
    if let Err(error) = waiting {
        tracing::warn!(%error, "standard output is not watched; its end is noticed by the next write");
    }
    if told.await.is_err() {
        std::future::pending().await
    }
}
