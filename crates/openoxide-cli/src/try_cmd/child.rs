//! Starts our own program as `mcp-server` and ends it: by closing its input, by force when that is not enough.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tokio::io::AsyncRead;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// How long a server may take to end once its input is closed; it promises no more.
const PATIENCE: Duration = Duration::from_millis(2_500);

/// The child.
pub(super) struct Server {
    child: Child,
}

impl Server {
    /// Starts it. Its stderr is ours. It gets a process group of its own, so that Ctrl-C reaches us alone and the order
    /// of ending is ours; when we die, its input closes and it ends by itself.
    ///
    /// # Errors
    /// Where the program cannot be started.
    pub(super) fn start(exe: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        #[allow(
            clippy::disallowed_methods,
            reason = "starts our own server, whose client this is; not a command of an agent"
        )]
        let mut command = Command::new(exe);
        let child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", exe.display()))?;
        Ok(Self { child })
    }

    /// Its output and its input; once.
    ///
    /// # Errors
    /// Where they were taken before.
    pub(super) fn take_pipes(&mut self) -> anyhow::Result<(ChildStdout, ChildStdin)> {
        let reader = self.child.stdout.take().context("the server's output is taken")?;
        let writer = self.child.stdin.take().context("the server's input is taken")?;
        Ok((reader, writer))
    }

    /// Closes its input, reads what it still says so that it is not held up, and waits; kills it when it takes longer
    /// than it may. Returns how it ended, as words that follow "the server".
    pub(super) async fn end<R: AsyncRead + Unpin, W>(mut self, mut reader: R, writer: W) -> String {
        drop(writer);
        let mut nowhere = tokio::io::sink();
        // What it started could hold its output open, so the end of the output decides nothing.
        let ended = async {
            tokio::select! {
                status = self.child.wait() => status,
                () = async {
                    let _ = tokio::io::copy(&mut reader, &mut nowhere).await;
                    std::future::pending().await
                } => unreachable!("pending never ends"),
            }
        };
        match tokio::time::timeout(PATIENCE, ended).await {
            Ok(Ok(status)) => format!("ended with {status}"),
            Ok(Err(error)) => format!("could not be waited for: {error}"),
            Err(_) => match self.child.kill().await {
                Ok(()) => format!("did not end within {} ms and was killed", PATIENCE.as_millis()),
                Err(error) => format!("did not end and could not be killed: {error}"),
            },
        }
    }
}
