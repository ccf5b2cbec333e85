//! One process: started, read, told to its client, ended.
//!
//! Two tasks serve it. One hears what it writes, numbers it, keeps it and pushes it to whoever is attached; where that client
//! does not read, it waits, and with it the process. The other tells it what it is to be told, so that input and interrupts
//! get through meanwhile. All numbers of a process are given out by the first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openoxide_rpc::{RpcError, lock};
use openoxide_sandbox::{RunningCommand, SandboxMode};
use tokio::sync::watch;
use tokio::time::Instant;

use super::error::refused;
use super::input::{Input, Next, Refused};
use super::link::{RelayReader, RelayWriter, TerminalReader, Typed};
use super::output::Output;
use super::session::Session;
use crate::protocol::{
    Chunk, ClosedNotification, ExitedNotification, OutputNotification, ReadParams, ReadResult, Stream, WriteStatus,
};
use crate::relay::frames::{FromRelay, ToRelay};

/// Bytes of an answer to `process/read`, at most.
const MOST_READ: usize = 1 << 20;
/// The longest a read waits.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// Bytes of one chunk.
const CHUNK: usize = 64 << 10;
/// Ids of writes that are remembered.
const WRITE_IDS: usize = 1024;
/// Bytes of the end of the output in which a denial is looked for.
const TAIL: usize = 4 << 10;
/// What programs say when the system refuses something, in lower case.
const DENIALS: [&str; 3] = ["operation not permitted", "permission denied", "read-only file system"];

/// One process.
pub(super) struct Process {
    id: String,
    mode: SandboxMode,
    /// Whether `process/write` reaches it.
    takes_input: bool,
    state: Mutex<State>,
    /// Grows with each change of the state; readers wait for it.
    version: watch::Sender<u64>,
    input: Input,
    /// Whether it is to end; asked while it starts.
    is_ending: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    output: Output,
    last_seq: u64,
    exit_code: Option<i32>,
    is_denied: bool,
    is_closed: bool,
    write_ids: VecDeque<String>,
    tail: Vec<u8>,
    /// None before it runs, and when nothing of it is left.
    command: Option<Arc<RunningCommand>>,
}

/// Where what a process says comes from.
pub(super) enum Source {
    Relay(RelayReader, RelayWriter),
    Terminal(Arc<RunningCommand>),
}

impl Process {
    pub(super) fn new(id: String, mode: SandboxMode, takes_input: bool) -> Arc<Self> {
        let (state, version, input, is_ending) =
            (Mutex::default(), watch::Sender::new(0), Input::default(), watch::Sender::new(false));
        Arc::new(Self { id, mode, takes_input, state, version, input, is_ending })
    }

    /// Whether all of it was told, and nothing of it is left.
    pub(super) fn is_gone(&self) -> bool {
        let state = lock(&self.state);
        state.is_closed && state.command.is_none()
    }

    /// Ready when it is to end. Cancel-safe.
    pub(super) async fn ending(&self) {
        // The sender is in `self`.
        let _ = self.is_ending.subscribe().wait_for(|ending| *ending).await;
    }

    /// Serves it from now on.
    pub(super) fn run(self: &Arc<Self>, session: &Weak<Session>, source: Source) {
        let command = match &source {
            Source::Relay(reader, _) => Arc::clone(reader.command()),
            Source::Terminal(command) => Arc::clone(command),
        };
        lock(&self.state).command = Some(Arc::clone(&command));
        if *self.is_ending.borrow() {
            // It was asked for before there was anything to end.
            self.terminate();
        }
        let (process, session) = (Arc::clone(self), Weak::clone(session));
        tokio::spawn(async move {
            match source {
                Source::Relay(reader, writer) => {
                    let telling = tokio::spawn(Arc::clone(&process).tell_relay(writer));
                    process.hear_relay(reader, &session).await;
                    telling.abort();
                }
                Source::Terminal(command) => {
                    let telling = tokio::spawn(Arc::clone(&process).tell_terminal(Arc::clone(&command)));
                    process.hear_terminal(TerminalReader::new(command), &session).await;
                    telling.abort();
                }
            }
            process.close(&session);
            // What closed its output and runs on is held until it is gone.
            while command.tree_alive() {
                command.changed().await;
                command.take_output();
            }
            lock(&process.state).command = None;
        });
    }

    async fn hear_relay(&self, mut reader: RelayReader, session: &Weak<Session>) {
        while let Some(frame) = reader.next().await {
            match frame {
                FromRelay::Stdout(bytes) => self.take_in(session, Stream::Stdout, bytes).await,
                FromRelay::Stderr(bytes) => self.take_in(session, Stream::Stderr, bytes).await,
                FromRelay::Exited(code) => self.exit(session, code),
                FromRelay::Taken(bytes) => self.input.grant(bytes),
                FromRelay::InputClosed => self.input.close(),
                FromRelay::Ready | FromRelay::Failed(_) | FromRelay::Answer(_) => {}
            }
        }
        if lock(&self.state).exit_code.is_none() {
            // The relay was killed, and with it went what holds the command together.
            reader.command().terminate().await;
            self.exit(session, 128 + 9);
        }
    }

    async fn hear_terminal(&self, mut reader: TerminalReader, session: &Weak<Session>) {
        while let Some(typed) = reader.next().await {
            match typed {
                Typed::Output(bytes, lost) => {
                    if lost > 0 {
                        let mut state = lock(&self.state);
                        let seq = state.last_seq;
                        state.output.lose(seq, lost);
                    }
                    self.take_in(session, Stream::Pty, bytes).await;
                }
                Typed::Exited(exit) => {
                    self.exit(session, exit.code.or(exit.signal.map(|signal| 128 + signal)).unwrap_or(1));
                }
            }
        }
    }

    async fn tell_relay(self: Arc<Self>, mut writer: RelayWriter) {
        loop {
            let frame = match self.input.next().await {
                Next::Interrupt => ToRelay::Interrupt,
                Next::Taken(bytes) => ToRelay::Taken(bytes),
                Next::Bytes(bytes) => ToRelay::Input(bytes),
            };
            if writer.send(&frame).await.is_err() {
                return self.input.close();
            }
        }
    }

    async fn tell_terminal(self: Arc<Self>, command: Arc<RunningCommand>) {
        loop {
            let bytes = match self.input.next().await {
                // What the key of that name sends.
                Next::Interrupt => vec![3],
                Next::Taken(_) => continue,
                Next::Bytes(bytes) => {
                    self.input.grant(bytes.len());
                    bytes
                }
            };
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                match command.write_stdin(rest).await {
                    Ok(()) => break,
                    Err(openoxide_sandbox::SandboxError::StdinStalled { written, .. }) => rest = &rest[written..],
                    Err(_) => return self.input.close(),
                }
            }
        }
    }

    /// Keeps what it wrote, and pushes it.
    async fn take_in(&self, session: &Weak<Session>, stream: Stream, bytes: Vec<u8>) {
        for piece in bytes.chunks(CHUNK) {
            let Some(session) = session.upgrade() else { return };
            // Before the number is given out: it is the place in what is pushed.
            let out = session.attached();
            let _room = match &out {
                Some(out) => Some(out.room_to_tell().await),
                None => None,
            };
            let seq = {
                let mut state = lock(&self.state);
                state.tail.extend_from_slice(&piece[piece.len().saturating_sub(TAIL)..]);
                let over = state.tail.len().saturating_sub(TAIL);
                state.tail.drain(..over);
                state.last_seq += 1;
                let seq = state.last_seq;
                state.output.push(seq, stream, piece.to_vec(), session.kept_bytes());
                seq
            };
            self.changed();
            // Whoever is attached now: it may be another connection.
            if let Some(out) = session.attached() {
                let chunk = Chunk { seq, stream, chunk: STANDARD.encode(piece) };
                out.notify("process/output", &OutputNotification { process_id: self.id.clone(), chunk });
            }
        }
        self.input.took(bytes.len());
    }

    fn exit(&self, session: &Weak<Session>, code: i32) {
        self.input.close();
        let (seq, is_denied) = {
            let mut state = lock(&self.state);
            if state.exit_code.is_some() {
                return;
            }
            state.last_seq += 1;
            state.exit_code = Some(code);
            let tail = String::from_utf8_lossy(&state.tail).to_lowercase();
            let is_denied = code != 0
                && self.mode != SandboxMode::DangerFullAccess
                && DENIALS.iter().any(|denial| tail.contains(denial));
            state.is_denied = is_denied;
            (state.last_seq, is_denied)
        };
        self.changed();
        if let Some(out) = session.upgrade().and_then(|session| session.attached()) {
            let process_id = self.id.clone();
            out.notify(
                "process/exited",
                &ExitedNotification { process_id, seq, exit_code: code, sandbox_denied: is_denied },
            );
        }
    }

    fn close(&self, session: &Weak<Session>) {
        self.input.close();
        let seq = {
            let mut state = lock(&self.state);
            state.last_seq += 1;
            (state.is_closed, state.tail) = (true, Vec::new());
            state.last_seq
        };
        self.changed();
        if let Some(out) = session.upgrade().and_then(|session| session.attached()) {
            out.notify("process/closed", &ClosedNotification { process_id: self.id.clone(), seq });
        }
    }

    fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    /// What came after a number; waits where there is nothing, until `ended` is true.
    pub(super) async fn read(&self, params: &ReadParams, mut ended: watch::Receiver<bool>) -> ReadResult {
        let after = params.after_seq.unwrap_or(0);
        let wait = Duration::from_millis(params.wait_ms.unwrap_or(0)).min(LONGEST_WAIT);
        let until = Instant::now() + wait;
        let mut version = self.version.subscribe();
        loop {
            version.mark_unchanged();
            {
                let state = lock(&self.state);
                if state.last_seq > after || state.is_closed || wait.is_zero() || Instant::now() >= until {
                    return state.read(params);
                }
            }
            // All three are cancel-safe: they only wait. The sender of the first is in `self`.
            tokio::select! {
                _ = version.changed() => {}
                () = tokio::time::sleep_until(until) => {}
                _ = ended.wait_for(|ended| *ended) => return lock(&self.state).read(params),
            }
        }
    }

    /// Queues input.
    pub(super) fn write(&self, write_id: Option<&str>, bytes: &[u8]) -> Result<WriteStatus, RpcError> {
        let mut state = lock(&self.state);
        if write_id.is_some_and(|id| state.write_ids.iter().any(|known| known == id)) {
            return Ok(WriteStatus::Accepted);
        }
        if !self.takes_input || self.input.is_closed() {
            return Ok(WriteStatus::StdinClosed);
        }
        match self.input.push(bytes) {
            Ok(()) => {}
            Err(Refused::Closed) => return Ok(WriteStatus::StdinClosed),
            Err(Refused::Full) => {
                return Err(refused(format!(
                    "process {:?} does not read its input: {} bytes wait already; write again when it has",
                    self.id,
                    super::input::MOST_WAITING
                )));
            }
        }
        if let Some(id) = write_id {
            if state.write_ids.len() == WRITE_IDS {
                state.write_ids.pop_front();
            }
            state.write_ids.push_back(id.to_owned());
        }
        Ok(WriteStatus::Accepted)
    }

    pub(super) fn interrupt(&self) {
        if !self.input.is_closed() || lock(&self.state).exit_code.is_none() {
            self.input.interrupt();
        }
    }

    /// Begins to end it with all it started; true where it ran.
    pub(super) fn terminate(self: &Arc<Self>) -> bool {
        let is_running = {
            let state = lock(&self.state);
            state.exit_code.is_none() && !state.is_closed
        };
        self.is_ending.send_replace(true);
        let process = Arc::clone(self);
        tokio::spawn(async move { process.end().await });
        is_running
    }

    /// Ends it with all it started, and returns when nothing is left.
    pub(super) async fn end(&self) {
        self.is_ending.send_replace(true);
        let command = lock(&self.state).command.clone();
        if let Some(command) = command {
            command.terminate().await;
        }
    }
}

impl State {
    fn read(&self, params: &ReadParams) -> ReadResult {
        let most =
            params.max_bytes.map_or(MOST_READ, |bytes| usize::try_from(bytes).unwrap_or(MOST_READ).min(MOST_READ));
        let taken = self.output.after(params.after_seq.unwrap_or(0), most);
        let last = taken.chunks.last().map(|chunk| chunk.seq).filter(|_| taken.has_more);
        let is_all = !taken.has_more;
        ReadResult {
            next_seq: last.unwrap_or(self.last_seq) + 1,
            chunks: taken.chunks,
            exited: is_all && self.exit_code.is_some(),
            exit_code: self.exit_code.filter(|_| is_all),
            closed: is_all && self.is_closed,
            failure: None,
            sandbox_denied: is_all && self.is_denied,
            lost: taken.lost,
        }
    }
}
