//! `process/*`: requests, answers, notifications. Bytes are base64 with padding.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `process/start`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartParams {
    /// Chosen by the client; free in its session.
    pub process_id: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// An absolute path, plain or as a `file://` URI.
    pub cwd: String,
    /// The environment; nothing else is added unless `env_policy` asks for it.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Whether it gets a terminal.
    #[serde(default)]
    pub tty: bool,
    /// What it inherits of the server's environment, below `env`.
    #[serde(default)]
    pub env_policy: Option<EnvPolicyParams>,
    /// Whether `process/write` reaches a process without a terminal.
    #[serde(default)]
    pub pipe_stdin: bool,
    /// What the program is told that it is called.
    #[serde(default)]
    pub arg0: Option<String>,
    /// How far it may reach, in the words of Codex; see `server/policy.rs`.
    #[serde(default)]
    pub sandbox: Option<Value>,
    /// Whether its network must go through a proxy of the client's policy.
    #[serde(default)]
    pub enforce_managed_network: bool,
}

/// What is inherited of the server's environment.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvPolicyParams {
    /// `all`, `core` or `none`.
    pub inherit: Option<String>,
    /// Patterns of names to leave out.
    pub exclude: Vec<String>,
    /// Variables that are set.
    pub set: BTreeMap<String, String>,
    /// Patterns of the only names to keep; empty keeps all.
    pub include_only: Vec<String>,
}

/// The answer to `process/start`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartResult {
    /// As it was asked for.
    pub process_id: String,
    /// What holds it: `linuxSeccomp`, `macosSeatbelt` or `none`.
    pub sandbox_type: String,
}

/// `process/read`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadParams {
    /// The process.
    pub process_id: String,
    /// What came after this; everything that is kept where there is none.
    #[serde(default)]
    pub after_seq: Option<u64>,
    /// Bytes at most, but always one chunk.
    #[serde(default)]
    pub max_bytes: Option<u64>,
    /// How long to wait where there is nothing new.
    #[serde(default)]
    pub wait_ms: Option<u64>,
}

/// The answer to `process/read`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadResult {
    /// What is kept after `after_seq`.
    pub chunks: Vec<Chunk>,
    /// One more than the last `seq` that is told.
    pub next_seq: u64,
    /// Whether it has exited and all chunks up to then are told.
    pub exited: bool,
    /// How: 128 and the number of the signal that ended it, where one did.
    pub exit_code: Option<i32>,
    /// Whether its output has ended, and all of it is told.
    pub closed: bool,
    /// Why it does not run.
    pub failure: Option<String>,
    /// Whether it looks as if the sandbox had refused what it tried.
    pub sandbox_denied: bool,
    /// Output after `after_seq` that is not kept any more; left out where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Lost>,
}

/// Output that is not kept any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lost {
    /// Chunks up to this one are gone.
    pub through_seq: u64,
    /// Bytes that are gone, since the process began.
    pub bytes: u64,
}

/// Which of its outputs wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The terminal.
    Pty,
}

/// A piece of output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Chunk {
    /// Its place among what the process has told, from 1.
    pub seq: u64,
    /// Where it was written.
    pub stream: Stream,
    /// Base64.
    pub chunk: String,
}

/// `process/write`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteParams {
    /// The process.
    pub process_id: String,
    /// Base64.
    pub chunk: String,
    /// The same write, sent again, is done once. With it the answer is a status where it would be an error.
    #[serde(default)]
    pub write_id: Option<String>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteStatus {
    /// It is on its way.
    Accepted,
    /// There is no such process.
    UnknownProcess,
    /// It reads no input any more, or was started without one.
    StdinClosed,
    /// It does not run yet.
    Starting,
}

/// The answer to `process/write`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WriteResult {
    /// What became of it.
    pub status: WriteStatus,
}

/// `process/signal`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalParams {
    /// The process.
    pub process_id: String,
    /// Which.
    pub signal: Signal,
}

/// What can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Signal {
    /// SIGINT, to its process group.
    Interrupt,
}

/// `process/terminate`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminateParams {
    /// The process.
    pub process_id: String,
}

/// The answer to `process/terminate`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TerminateResult {
    /// Whether it ran.
    pub running: bool,
}

/// `process/output`, a notification.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputNotification {
    /// The process.
    pub process_id: String,
    /// What it wrote.
    #[serde(flatten)]
    pub chunk: Chunk,
}

/// `process/exited`, a notification.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitedNotification {
    /// The process.
    pub process_id: String,
    /// Its place after all output up to the exit.
    pub seq: u64,
    /// As in [`ReadResult::exit_code`].
    pub exit_code: i32,
    /// As in [`ReadResult::sandbox_denied`].
    pub sandbox_denied: bool,
}

/// `process/closed`, a notification: the last of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClosedNotification {
    /// The process.
    pub process_id: String,
    /// The last of its numbers.
    pub seq: u64,
}
