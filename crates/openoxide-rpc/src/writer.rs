//! The writer task: the only code that touches the output of a connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::outgoing::Outgoing;

/// The writer task: drains the queue until it is closed and empty. Returns early when the output is closed, or when the client
/// takes nothing for `patience` while the queue is full; either means that the connection is lost.
pub async fn write_lines<W: AsyncWrite + Unpin>(mut writer: W, out: Arc<Outgoing>, patience: Duration) {
    while let Some(batch) = out.next_batch().await {
        if let Err(error) = write(&mut writer, &batch, &out, patience).await {
            tracing::info!(%error, "the output takes no more; ending");
            break;
        }
    }
    // Tasks that wait for room are let go.
    out.close();
}

/// Writes all of it. Each part that the client takes begins its time anew.
async fn write<W: AsyncWrite + Unpin>(
    writer: &mut W,
    mut batch: &[u8],
    out: &Outgoing,
    patience: Duration,
) -> io::Result<()> {
    while !batch.is_empty() {
        match patient(writer.write(batch), out, patience).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => batch = &batch[written..],
        }
    }
    patient(writer.flush(), out, patience).await
}

async fn patient<T>(step: impl Future<Output = io::Result<T>>, out: &Outgoing, patience: Duration) -> io::Result<T> {
    // Nothing is lost by dropping the step: the connection ends then.
    tokio::select! {
        biased;
        done = step => done,
        () = out.stays_full(patience) => {
            let message = format!("the client has read nothing for {} s while the queue was full", patience.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, message))
        }
    }
}
