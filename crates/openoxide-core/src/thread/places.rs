//! Directories in which no thread works, and what confined threads never see.

use std::path::{Path, PathBuf};

use openoxide_sandbox::{HostPaths, SandboxMode, SandboxPolicy, WorkspaceWrite};

use crate::CoreError;

/// Refuses a directory that lies in what is the server's own, whatever the mode, or where the thread is confined, among
/// credentials. For where no server runs.
pub(crate) fn check_place_offline(path: &Path, mode: SandboxMode, host_paths: &HostPaths) -> Result<(), CoreError> {
    match mode {
        SandboxMode::DangerFullAccess => check_not_in(path, &host_paths.own_secrets()),
        SandboxMode::ReadOnly | SandboxMode::WorkspaceWrite => check_not_in(path, &hidden_places(host_paths)),
    }
}

/// What confined commands never see.
pub(crate) fn hidden_places(host_paths: &HostPaths) -> Vec<PathBuf> {
    let policy = SandboxPolicy::new(SandboxMode::ReadOnly, PathBuf::from("/"), WorkspaceWrite::default());
    policy.hidden(host_paths)
}

pub(super) fn check_not_in(path: &Path, places: &[PathBuf]) -> Result<(), CoreError> {
    match places.iter().any(|place| path.starts_with(place)) {
        true => Err(CoreError::CwdHidden { path: path.into() }),
        false => Ok(()),
    }
}
