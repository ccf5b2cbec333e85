//! The stdout writer: the only code that touches stdout.

use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::outgoing::Outgoing;

/// The writer task: drains the queue until it is closed and empty. Returns early when stdout is closed, which ends the
/// server like the end of input.
pub(crate) async fn write_lines<W: AsyncWrite + Unpin>(mut writer: W, out: Arc<Outgoing>) {
    while let Some(batch) = out.next_batch().await {
        let written = async {
            writer.write_all(&batch).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            tracing::info!(%error, "stdout is closed; ending");
            break;
        }
    }
    // Whoever waits for room is let go.
    out.close();
}
