//! The messages as types. Fields that are not known are passed over, so that newer clients and servers can talk to this one.

mod files;
mod process;

use serde::{Deserialize, Serialize};

pub use files::*;
pub use process::*;

/// Codes of errors that are this protocol's own.
pub mod code {
    /// There is no such file or handle.
    pub const NOT_FOUND: i32 = -32004;
    /// The session is attached to another connection.
    pub const SESSION_ATTACHED: i32 = -32010;
}

/// `initialize`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// What the client calls itself.
    pub client_name: String,
    /// The session to go on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_session_id: Option<String>,
}

/// The answer to `initialize`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// Names the session, for [`InitializeParams::resume_session_id`].
    pub session_id: String,
    /// As `environment/info` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_info: Option<EnvironmentInfo>,
}

/// `environment/info`: the machine, as a client has to know it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentInfo {
    /// The user's shell.
    pub shell: ShellInfo,
    /// The version of the server.
    pub executor_version: String,
    /// Names this server for as long as it runs.
    pub provider_id: String,
    /// Where the server was started, as a URI.
    pub cwd: String,
    /// The user's home, as a URI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_home_dir: Option<String>,
    /// `linux` or `macos`.
    pub platform_os: String,
    /// Directories to put before `PATH`, as URIs.
    pub prepend_path_dirs: Vec<String>,
    /// Directories for temporary files beside `temp_dir`, as URIs.
    pub temporary_directories: Vec<String>,
    /// The directory for temporary files, as a URI.
    pub temp_dir: String,
    /// What there is beside the founding document's methods.
    pub capabilities: Capabilities,
}

/// The user's shell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShellInfo {
    /// `bash`, `zsh`, `sh`.
    pub name: String,
    /// The program.
    pub path: String,
}

/// What there is beside the founding document's methods.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    /// `fs/open` with `replace`, and `fs/writeBlock`.
    pub file_write_streaming: bool,
    /// The same under a `sandbox` object.
    pub sandboxed_file_streaming: bool,
}

/// `environment/status`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EnvironmentStatus {
    /// `ready`.
    pub status: String,
}

/// The empty answer.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Done {}
