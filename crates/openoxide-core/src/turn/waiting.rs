//! Waiting for what may not be there: a deadline, a stream, a call.

use std::pin::Pin;

use tokio::time::Sleep;

/// Ready when the time is over; never where there is no end to it. Says how many seconds it was.
pub(super) async fn out_of_time(deadline: &mut Option<(Pin<Box<Sleep>>, u64)>) -> u64 {
    match deadline {
        Some((sleep, seconds)) => {
            sleep.await;
            let seconds = *seconds;
            // Told once.
            *deadline = None;
            seconds
        }
        None => std::future::pending().await,
    }
}

/// A future that may not be there; without one it never ends.
pub(super) async fn poll_some<F: Future + Unpin>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
