//! Runs what blocks on the disk on threads for it: bounded in number for each principal, ended by a deadline and with the
//! turn.
//!
//! A thread that hangs in the system (a disk that does not answer) keeps its place until it comes back; whoever waits for
//! it does not.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::output::StopFlag;
use crate::Shares;
use crate::api::Owner;

/// The longest that one reading tool works. It then answers with what it has.
pub(crate) const READ_LIMIT: Duration = Duration::from_secs(60);

/// What is waited for after that, for work that does not see the deadline because the system holds it.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// Reads that run at once: of all principals, and of one. The runtime has 512 threads for them and others. Beyond it a read
/// waits.
pub(crate) const MAX_READS: usize = 256;
pub(crate) const MAX_READS_OF_ONE: usize = 64;

/// Why blocking work gave nothing.
pub(crate) enum NoAnswer {
    /// It panicked.
    Failed,
    /// It did not end in time.
    Late,
}

/// Runs blocking work for a principal. Dropping the future, or the deadline, tells the work to stop.
pub(crate) async fn blocking<T: Send + 'static>(
    reads: &Arc<Shares<Owner>>,
    owner: &Owner,
    work: impl FnOnce(&StopFlag) -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    let place = reads.wait(owner).await;
    let stop = StopFlag::until(Instant::now() + READ_LIMIT);
    let _stops_when_dropped = stop.on_drop();
    let work = move || {
        let done = work(&stop);
        drop(place);
        done
    };
    match timeout(READ_LIMIT + GRACE, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_)) => Err(NoAnswer::Failed),
        Err(_) => Err(NoAnswer::Late),
    }
}
