//! A relay in the sandbox, as the server sees it: what it tells, and a pipe to tell it something. And a command with a terminal,
//! which needs no relay.
//!
//! The name of the pipe (`pipes.rs`) is gone once the relay has it open.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openoxide_rpc::RpcError;
use openoxide_sandbox::{CommandSpec, ExitStatus, RunningCommand};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;

use super::error::of_sandbox;
use super::pipes::PipePlace;
use super::policy::{Authority, Reach};
use crate::relay::frames::{FromRelay, Lines, ToRelay};
use crate::relay::{PIPE_VARIABLE, RELAY_ARG};

/// Bytes of a relay's lines that are kept until they are taken: more than its window in base64, so that none are lost.
const KEPT: usize = 4 << 20;

/// What a relay is for.
pub(super) struct RelaySpec<'a> {
    pub(super) reach: &'a Reach,
    pub(super) authority: &'a Authority,
    pub(super) role: &'static str,
    pub(super) arguments: Vec<String>,
    pub(super) cwd: PathBuf,
    pub(super) env: BTreeMap<OsString, OsString>,
}

/// What a relay says.
pub(super) struct RelayReader {
    command: Arc<RunningCommand>,
    lines: Lines,
    is_ended: bool,
    /// Taken away with the first word.
    place: Option<PipePlace>,
}

/// What a relay is told.
pub(super) struct RelayWriter {
    pipe: pipe::Sender,
}

/// Starts a relay.
///
/// # Errors
/// As the launcher's.
pub(super) async fn start_relay(spec: RelaySpec<'_>) -> Result<(RelayReader, RelayWriter), RpcError> {
    let temporary = spec.reach.launcher.host_paths().tmpdir.clone().unwrap_or_else(|| "/tmp".into());
    let io =
        |error: io::Error| RpcError::internal(format!("a pipe in {} cannot be made: {error}", temporary.display()));
    let (place, pipe) = spec.authority.pipes.make().map_err(io)?;
    let mut argv = vec![text(&spec.authority.program)?, RELAY_ARG.to_owned(), spec.role.to_owned()];
    argv.extend(spec.arguments);
    let mut env = spec.env;
    // No other command reads it there, as it might among the arguments.
    env.insert(PIPE_VARIABLE.into(), place.path().into());
    let command = spawn(spec.reach, argv, spec.cwd, env, false).await?;
    let (command, lines) = (Arc::new(command), Lines::default());
    let reader = RelayReader { command, lines, is_ended: false, place: Some(place) };
    Ok((reader, RelayWriter { pipe }))
}

/// Starts what the sandbox crate calls a command.
pub(super) async fn spawn(
    reach: &Reach,
    argv: Vec<String>,
    cwd: PathBuf,
    env: BTreeMap<OsString, OsString>,
    tty: bool,
) -> Result<RunningCommand, RpcError> {
    let spec = CommandSpec {
        argv,
        cwd,
        env,
        tty,
        policy: reach.policy.clone(),
        output_limit: KEPT,
        thread_marker: None,
        git_from: Vec::new(),
    };
    reach.launcher.spawn(spec).await.map_err(|error| of_sandbox(&error))
}

pub(super) fn text(path: &Path) -> Result<String, RpcError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| RpcError::internal(format!("the path {} is not UTF-8", path.display())))
}

impl RelayReader {
    /// What holds the relay and all below it.
    pub(super) fn command(&self) -> &Arc<RunningCommand> {
        &self.command
    }

    /// The next frame; none once it has ended and all is told. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<FromRelay> {
        loop {
            while let Some(line) = self.lines.next() {
                if let Some(frame) = FromRelay::parse(&line) {
                    // It has the pipe open.
                    self.place = None;
                    return Some(frame);
                }
            }
            if self.is_ended {
                return None;
            }
            // The news of an exit may have been taken with output already.
            if self.command.exit_status().is_none() {
                self.command.changed().await;
            }
            // Asked before: what was written until then can be taken now.
            self.is_ended = self.command.exit_status().is_some();
            self.lines.push(self.command.take_output().text.as_bytes());
        }
    }
}

impl RelayWriter {
    /// # Errors
    /// The relay is gone.
    pub(super) async fn send(&mut self, frame: &ToRelay) -> io::Result<()> {
        self.pipe.write_all(frame.encode().as_bytes()).await
    }
}

/// What a command with a terminal writes.
pub(super) struct TerminalReader {
    command: Arc<RunningCommand>,
    /// Bytes that it has written so far.
    total: u64,
    is_exit_told: bool,
}

/// Something of a terminal.
pub(super) enum Typed {
    /// It wrote; so many more bytes were lost before.
    Output(Vec<u8>, u64),
    /// It has exited.
    Exited(ExitStatus),
}

impl TerminalReader {
    pub(super) fn new(command: Arc<RunningCommand>) -> Self {
        Self { command, total: 0, is_exit_told: false }
    }

    /// The next piece; none when nothing of it is left. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Typed> {
        loop {
            if !self.command.tree_alive() && self.is_exit_told {
                return None;
            }
            // The news of an exit may have been taken with output already.
            if self.is_exit_told || self.command.exit_status().is_none() {
                self.command.changed().await;
            }
            let exit = self.command.exit_status();
            let output = self.command.take_output();
            let written = output.total_bytes.saturating_sub(self.total + output.omitted_bytes);
            self.total = output.total_bytes;
            if !output.text.is_empty() {
                return Some(Typed::Output(bytes_of(output.text, written, output.omitted_bytes), output.omitted_bytes));
            }
            if let Some(exit) = exit.filter(|_| !self.is_exit_told) {
                self.is_exit_told = true;
                return Some(Typed::Exited(exit));
            }
        }
    }
}

/// The bytes that were written as text. Those that are no UTF-8 stand there as `\xNN`; the number of bytes says how many of
/// what looks so are such. Where only some are, nobody knows which, and the text stays as it is.
fn bytes_of(text: String, written: u64, omitted: u64) -> Vec<u8> {
    let more = (text.len() as u64).saturating_sub(written);
    if omitted > 0 || more == 0 {
        return text.into_bytes();
    }
    let bytes = text.as_bytes();
    let escape = |at: usize| {
        let [b'\\', b'x', high @ (b'8' | b'9' | b'a'..=b'f'), low @ (b'0'..=b'9' | b'a'..=b'f')] =
            bytes.get(at..at + 4)?
        else {
            return None;
        };
        let digits = [*high, *low];
        u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()
    };
    let (mut raw, mut at, mut escapes) = (Vec::with_capacity(bytes.len()), 0, 0);
    while at < bytes.len() {
        match escape(at) {
            Some(byte) => {
                (at, escapes) = (at + 4, escapes + 1);
                raw.push(byte);
            }
            None => {
                raw.push(bytes[at]);
                at += 1;
            }
        }
    }
    if escapes * 3 == more { raw } else { text.into_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_terminal_come_back_where_it_is_known_which_they_are() {
        assert_eq!(bytes_of("a\\xffb".to_owned(), 3, 0), b"a\xffb");
        assert_eq!(bytes_of("a\\xffb".to_owned(), 6, 0), b"a\\xffb");
        assert_eq!(bytes_of("\\xff\\xfe".to_owned(), 2, 0), b"\xff\xfe");
        // One of them was written so.
        assert_eq!(bytes_of("\\xff\\xfe".to_owned(), 5, 0), b"\\xff\\xfe");
        assert_eq!(bytes_of("\\x41".to_owned(), 4, 0), b"\\x41");
    }
}
