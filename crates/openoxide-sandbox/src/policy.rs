//! What commands of one thread may touch, in words of the configuration. What that means on one machine is
//! [`crate::Confinement`]; enforcing it is the supervisor's part (`supervisor/confine.rs`), choosing it the server's.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{DirectoryId, SandboxMode};

/// Names that nobody but the user may create or change beneath a writable root: what git, this agent and its kin take
/// orders from. Compared without regard to case.
pub const PROTECTED_NAMES: [&str; 4] = [".git", ".openoxide", ".codex", ".agents"];

/// More names beneath a writable root that other programs take orders from: editors, agents, shells. What exists of them is
/// kept as [`PROTECTED_NAMES`] are; what does not may be made, and is told first among what a turn has changed. These hold
/// where the configuration names no others.
pub const GUARDED_NAMES: [&str; 10] =
    [".vscode", ".idea", ".zed", ".cursor", ".claude", ".gemini", ".mcp.json", ".envrc", ".husky", ".devcontainer"];

/// Whether commands may write to the repository that they work in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GitAccess {
    /// They may not.
    #[default]
    ReadOnly,
    /// Those that are nothing but git, which commits: see [`crate::CommandSpec::git_from`].
    Commit,
}

/// `[sandbox_workspace_write]`: what `workspace-write` allows beside the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkspaceWrite {
    /// More directories to write in, absolute.
    pub writable_roots: Vec<PathBuf>,
    /// Whether commands reach the network.
    pub network_access: bool,
    /// Leaves `/tmp` read-only.
    pub exclude_slash_tmp: bool,
    /// Leaves the directory that `TMPDIR` names read-only.
    pub exclude_tmpdir_env_var: bool,
    /// Gives each thread a `/tmp` of its own: commands see the thread's temporary directory in its place.
    /// Where nothing is said, whoever starts the server decides.
    pub private_tmp: Option<bool>,
    /// Whether commands that are nothing but git may write to the repository.
    pub git: GitAccess,
    /// Names to guard in the place of [`GUARDED_NAMES`].
    pub protected_names: Option<Vec<String>>,
}

impl WorkspaceWrite {
    /// The guarded names: those that are configured, else [`GUARDED_NAMES`].
    #[must_use]
    pub fn guarded_names(&self) -> Vec<String> {
        self.protected_names.clone().unwrap_or_else(|| GUARDED_NAMES.map(str::to_owned).into())
    }

    /// Whether each thread has a `/tmp` of its own.
    #[must_use]
    pub fn has_private_tmp(&self) -> bool {
        self.private_tmp.unwrap_or(false)
    }
}

/// What commands of one thread may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// How far they reach.
    pub mode: SandboxMode,
    /// The thread's directory, absolute. Never the directory a single command asks for.
    pub workspace: PathBuf,
    /// Which directory that must be; none where whatever the path leads to will do.
    pub workspace_id: Option<DirectoryId>,
    /// The thread's own directory for temporary files, absolute and without links; commands find it as `TMPDIR`.
    pub temporary: Option<PathBuf>,
    /// What `workspace-write` allows beside them.
    pub workspace_write: WorkspaceWrite,
    /// What one command is allowed beyond the policy of its thread.
    pub widening: Widening,
}

/// What one command in `workspace-write` is allowed beyond the policy of its thread. It is no other policy: the command runs beside
/// the thread's other ones and reaches them, but for what follows from it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Widening {
    /// More directories to write in, absolute.
    pub writable_roots: Vec<PathBuf>,
    /// Whether it is in the machine's network; then it is not in the thread's, and does not reach servers there.
    pub network: bool,
    /// Whether it may write the repository as under [`GitAccess::Commit`].
    pub git: bool,
}

/// Places of the user that a policy speaks of. The command line fills it in; nothing here reads the environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostPaths {
    /// The user's home, where credentials of other programs lie.
    pub home: Option<PathBuf>,
    /// What `TMPDIR` names.
    pub tmpdir: Option<PathBuf>,
    /// The home of OpenOxide: its keys and rollouts, which commands never see, and the ledgers of placeholders.
    pub state: Option<PathBuf>,
    /// More files and directories that commands never see.
    pub secrets: Vec<PathBuf>,
}

impl SandboxPolicy {
    /// The policy that confines nothing.
    #[must_use]
    pub fn full_access() -> Self {
        Self::new(SandboxMode::DangerFullAccess, PathBuf::from("/"), WorkspaceWrite::default())
    }

    /// A policy for whatever directory the path leads to when it is used.
    #[must_use]
    pub fn new(mode: SandboxMode, workspace: PathBuf, workspace_write: WorkspaceWrite) -> Self {
        Self { mode, workspace, workspace_id: None, temporary: None, workspace_write, widening: Widening::default() }
    }

    /// The policy of the thread, without what widens it for one command.
    #[must_use]
    pub fn of_thread(&self) -> Self {
        Self { widening: Widening::default(), ..self.clone() }
    }

    /// Whether commands that are nothing but git may write their repository. What is missing beside it must be held, for which
    /// namespaces are needed.
    #[must_use]
    pub fn opens_git(&self) -> bool {
        let is_allowed = self.workspace_write.git == GitAccess::Commit || self.widening.git;
        let is_asked = self.mode == SandboxMode::WorkspaceWrite && is_allowed;
        cfg!(target_os = "linux") && is_asked
    }

    /// Whether what runs under it reaches the network of this machine.
    #[must_use]
    pub fn reaches_network(&self) -> bool {
        match self.mode {
            SandboxMode::ReadOnly => false,
            SandboxMode::WorkspaceWrite => self.workspace_write.network_access || self.widening.network,
            SandboxMode::DangerFullAccess => true,
        }
    }

    /// Files and directories that commands of this policy cannot see: credentials of the user's programs and of the
    /// system, the home of OpenOxide, and what else is named. Absolute, sorted, whether or not they exist.
    #[must_use]
    pub fn hidden(&self, host_paths: &HostPaths) -> Vec<PathBuf> {
        if self.mode == SandboxMode::DangerFullAccess { Vec::new() } else { host_paths.hidden() }
    }
}
