//! What a client is told of this machine.

use std::path::Path;

use super::ExecServerConfig;
use super::path::to_uri;
use crate::protocol::{Capabilities, EnvironmentInfo, ShellInfo};

pub(super) fn info(config: &ExecServerConfig) -> EnvironmentInfo {
    let host = config.launcher.host_paths();
    EnvironmentInfo {
        shell: ShellInfo { name: config.shell.name.clone(), path: config.shell.path.clone() },
        executor_version: env!("CARGO_PKG_VERSION").to_owned(),
        provider_id: format!("openoxide:{}", uuid::Uuid::new_v4().simple()),
        cwd: to_uri(&config.cwd),
        user_home_dir: host.home.as_deref().map(to_uri),
        platform_os: std::env::consts::OS.to_owned(),
        prepend_path_dirs: Vec::new(),
        temporary_directories: Vec::new(),
        temp_dir: to_uri(host.tmpdir.as_deref().unwrap_or(Path::new("/tmp"))),
        capabilities: Capabilities { file_write_streaming: true, sandboxed_file_streaming: true },
    }
}
