//! What the operator allows, and what a caller's `sandbox` object means here. What cannot be expressed is refused, and so is
//! what exceeds the operator's ceiling; nothing is left out in silence.
//!
//! The object is Codex's (`permissions`, `cwd`, `workspaceRoots`), or simply `{"mode", "writableRoots", "networkAccess"}`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openoxide_rpc::RpcError;
use openoxide_sandbox::{HostPaths, Launcher, PROTECTED_NAMES, SandboxMode, SandboxPolicy, Workspace, WorkspaceWrite};
use serde::Deserialize;
use serde_json::Value;

use super::ExecServerConfig;
use super::error::refused;
use super::files::settled;
use super::path::Given;
use super::pipes::Pipes;

/// The operator's word.
pub(super) struct Authority {
    launcher: Launcher,
    pub(super) program: PathBuf,
    pub(super) env: BTreeMap<OsString, OsString>,
    pub(super) pipes: Pipes,
    max: SandboxMode,
    /// Without links.
    roots: Vec<PathBuf>,
}

/// How far one command or file operation reaches, and what starts it.
#[derive(Debug, Clone)]
pub(super) struct Reach {
    pub(super) policy: SandboxPolicy,
    pub(super) launcher: Launcher,
}

impl Reach {
    /// As clients are told.
    pub(super) fn sandbox_type(&self) -> &'static str {
        match self.policy.mode {
            SandboxMode::DangerFullAccess => "none",
            _ if cfg!(target_os = "macos") => "macosSeatbelt",
            _ => "linuxSeccomp",
        }
    }
}

impl Authority {
    /// # Errors
    /// A directory that callers may work in cannot be resolved.
    pub(super) fn new(config: ExecServerConfig) -> std::io::Result<Self> {
        let ExecServerConfig { launcher, program, env, cwd, allow_roots, max_sandbox: max, .. } = config;
        let given = if allow_roots.is_empty() { vec![cwd] } else { allow_roots };
        let resolved = given.iter().map(|root| {
            let of_root = |error: std::io::Error| {
                let why = format!("directory {} cannot be allowed: {error}; name an existing one", root.display());
                std::io::Error::new(error.kind(), why)
            };
            root.canonicalize().map_err(of_root)
        });
        let roots = resolved.collect::<Result<Vec<_>, _>>()?;
        let mut writable = Vec::new();
        if max != SandboxMode::ReadOnly {
            let temporary = ["/tmp".into()].into_iter().chain(launcher.host_paths().tmpdir.clone());
            writable.extend(temporary.filter_map(|path: PathBuf| path.canonicalize().ok()));
            writable.extend(roots.iter().cloned());
        }
        let pipes = Pipes::new(launcher.host_paths(), &writable)?;
        Ok(Self { launcher, program, env, pipes, max, roots })
    }

    /// The directory a command starts in: it exists, and lies beneath what the operator allows.
    pub(super) fn directory(&self, given: &Given) -> Result<Arc<Workspace>, RpcError> {
        let unusable = |why: &dyn std::fmt::Display| {
            RpcError::invalid_params(format!("cwd {}: {why}; name an existing directory", given.shown()))
        };
        let directory = Workspace::resolve(&given.path).map_err(|error| unusable(&error))?;
        self.check_beneath("cwd", directory.path())?;
        Ok(Arc::new(directory))
    }

    /// The first directory that callers may work in, where no other is meant.
    pub(super) fn first_root(&self) -> &Path {
        self.roots.first().map_or(Path::new("/"), PathBuf::as_path)
    }

    fn check_beneath(&self, field: &str, path: &Path) -> Result<(), RpcError> {
        if self.roots.iter().any(|root| path.starts_with(root)) {
            return Ok(());
        }
        let roots: Vec<_> = self.roots.iter().map(|root| root.display().to_string()).collect();
        Err(refused(format!(
            "{field} {} lies outside of what the operator of this server allows: {}",
            path.display(),
            roots.join(", ")
        )))
    }

    /// Whether a change would lie beneath what the operator allows.
    ///
    /// # Errors
    /// It would not.
    pub(super) fn check_write(&self, path: &Path) -> Result<(), RpcError> {
        self.check_beneath("path", &settled(path))
    }

    /// Nobody removes a directory that callers are held in, or one above it: what is in it would go first.
    ///
    /// # Errors
    /// It is such a directory.
    pub(super) fn check_removal(&self, path: &Path) -> Result<(), RpcError> {
        let settled = settled(path);
        match self.roots.iter().find(|root| root.starts_with(&settled)) {
            Some(root) => Err(refused(format!(
                "{} holds {}, where callers work; remove what is in it",
                settled.display(),
                root.display()
            ))),
            None => Ok(()),
        }
    }

    /// How far a command in this directory reaches.
    pub(super) fn for_command(&self, cwd: &Workspace, sandbox: Option<&Value>) -> Result<Reach, RpcError> {
        match sandbox.filter(|sandbox| !sandbox.is_null()) {
            Some(sandbox) => self.translated(sandbox, cwd.path()),
            None => {
                let mut policy = SandboxPolicy::new(self.default_mode(), cwd.path().into(), WorkspaceWrite::default());
                policy.workspace_id = Some(cwd.id().clone());
                Ok(Reach { policy, launcher: self.launcher.clone() })
            }
        }
    }

    /// How far a file operation reaches.
    pub(super) fn for_files(&self, sandbox: Option<&Value>) -> Result<Reach, RpcError> {
        let first = self.first_root();
        match sandbox.filter(|sandbox| !sandbox.is_null()) {
            Some(sandbox) => self.translated(sandbox, first),
            None => {
                let writable_roots = self.roots.iter().skip(1).cloned().collect();
                let write = WorkspaceWrite { writable_roots, ..WorkspaceWrite::default() };
                let policy = SandboxPolicy::new(self.default_mode(), first.into(), write);
                Ok(Reach { policy, launcher: self.launcher.clone() })
            }
        }
    }

    /// Without a word of the caller nobody leaves the sandbox, whatever the ceiling is.
    fn default_mode(&self) -> SandboxMode {
        match self.max {
            SandboxMode::ReadOnly => SandboxMode::ReadOnly,
            SandboxMode::WorkspaceWrite | SandboxMode::DangerFullAccess => SandboxMode::WorkspaceWrite,
        }
    }

    fn translated(&self, sandbox: &Value, cwd: &Path) -> Result<Reach, RpcError> {
        let wrong = |error: serde_json::Error| {
            RpcError::invalid_params(format!("sandbox cannot be expressed here, so nothing is run: {error}"))
        };
        let asked = match sandbox.get("permissions") {
            Some(_) => Codex::deserialize(sandbox).map_err(wrong)?.asked(cwd)?,
            None => Plain::deserialize(sandbox).map_err(wrong)?.asked(cwd)?,
        };
        self.held(asked)
    }

    /// The policy, where the ceiling allows it.
    fn held(&self, asked: Asked) -> Result<Reach, RpcError> {
        let is_above = match (asked.mode, self.max) {
            (SandboxMode::DangerFullAccess, max) => max != SandboxMode::DangerFullAccess,
            (SandboxMode::WorkspaceWrite, max) => max == SandboxMode::ReadOnly,
            (SandboxMode::ReadOnly, _) => false,
        };
        if is_above {
            return Err(refused(format!(
                "the sandbox object asks for {}; the operator of this server allows at most {} (--max-sandbox)",
                asked.mode.as_str(),
                self.max.as_str()
            )));
        }
        if asked.network && self.max != SandboxMode::DangerFullAccess {
            return Err(refused(
                "the sandbox object asks for the network, which the operator of this server does not allow; ask for \
                 network: \"restricted\"",
            ));
        }
        if asked.network && asked.mode == SandboxMode::ReadOnly {
            return Err(refused("the network without a directory to write in cannot be expressed here"));
        }
        if asked.mode == SandboxMode::DangerFullAccess {
            return Ok(Reach { policy: SandboxPolicy::full_access(), launcher: self.launcher.clone() });
        }
        let mut roots = Vec::new();
        for root in &asked.roots {
            let real = root.canonicalize().map_err(|error| {
                RpcError::invalid_params(format!("sandbox: {} cannot be used: {error}", root.display()))
            })?;
            self.check_beneath("sandbox: writable directory", &real)?;
            roots.push(real);
        }
        let launcher = match asked.hidden.is_empty() {
            true => self.launcher.clone(),
            false => {
                let host = self.launcher.host_paths();
                let secrets = host.secrets.iter().chain(&asked.hidden).cloned().collect();
                Launcher::new(self.program.clone(), HostPaths { secrets, ..host.clone() })
            }
        };
        let mut roots = roots.into_iter();
        let workspace = roots.next().unwrap_or_else(|| self.first_root().into());
        let write = WorkspaceWrite {
            writable_roots: roots.collect(),
            network_access: asked.network,
            exclude_slash_tmp: !asked.slash_tmp,
            exclude_tmpdir_env_var: !asked.tmpdir,
            ..WorkspaceWrite::default()
        };
        Ok(Reach { policy: SandboxPolicy::new(asked.mode, workspace, write), launcher })
    }
}

/// What a caller asks for, in words of this crate.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    mode: SandboxMode,
    roots: Vec<PathBuf>,
    slash_tmp: bool,
    tmpdir: bool,
    network: bool,
    hidden: Vec<PathBuf>,
}

impl Asked {
    fn nothing() -> Self {
        let (roots, hidden) = (Vec::new(), Vec::new());
        Self { mode: SandboxMode::ReadOnly, roots, slash_tmp: false, tmpdir: false, network: false, hidden }
    }

    fn everything() -> Self {
        Self { mode: SandboxMode::DangerFullAccess, network: true, ..Self::nothing() }
    }
}

/// Our own words.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Plain {
    mode: SandboxMode,
    #[serde(default)]
    writable_roots: Vec<String>,
    #[serde(default)]
    network_access: bool,
}

impl Plain {
    fn asked(self, cwd: &Path) -> Result<Asked, RpcError> {
        if self.mode == SandboxMode::DangerFullAccess {
            return Ok(Asked::everything());
        }
        if self.mode == SandboxMode::ReadOnly {
            let network = self.network_access;
            return Ok(Asked { network, ..Asked::nothing() });
        }
        let given = self.writable_roots.iter().map(|root| Given::parse("sandbox.writableRoots", root));
        let mut roots = vec![cwd.to_path_buf()];
        roots.extend(given.collect::<Result<Vec<_>, _>>()?.into_iter().map(|given| given.path));
        let (slash_tmp, tmpdir) = (true, true);
        Ok(Asked { mode: self.mode, roots, slash_tmp, tmpdir, network: self.network_access, hidden: Vec::new() })
    }
}

/// Codex's words. What it says beside these is of Windows, or of no consequence here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Codex {
    permissions: Permissions,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    workspace_roots: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
enum Permissions {
    Disabled,
    Managed { file_system: FileSystem, network: Network },
}

#[derive(Deserialize, PartialEq, Eq, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Network {
    Restricted,
    Enabled,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
enum FileSystem {
    Unrestricted,
    Restricted { entries: Vec<FileEntry> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    path: EntryPath,
    access: Access,
    #[serde(default)]
    missing_path_behavior: Option<String>,
}

#[derive(Deserialize, PartialEq, Eq, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Access {
    Read,
    Write,
    #[serde(alias = "deny")]
    None,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
enum EntryPath {
    Path { path: String },
    Special { value: Special },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
enum Special {
    Root,
    /// What programs need to run at all.
    Minimal,
    ProjectRoots {
        #[serde(default)]
        subpath: Option<String>,
    },
    SlashTmp,
    Tmpdir,
}

impl Codex {
    fn asked(self, cwd: &Path) -> Result<Asked, RpcError> {
        let (file_system, network) = match self.permissions {
            Permissions::Disabled => return Ok(Asked::everything()),
            Permissions::Managed { file_system, network } => (file_system, network == Network::Enabled),
        };
        let entries = match file_system {
            FileSystem::Unrestricted if network => return Ok(Asked::everything()),
            FileSystem::Unrestricted => {
                return Err(refused("sandbox: writing everywhere without the network cannot be expressed here"));
            }
            FileSystem::Restricted { entries } => entries,
        };
        let mut roots = Vec::new();
        for root in &self.workspace_roots {
            roots.push(Given::parse("sandbox.workspaceRoots", root)?.path);
        }
        if roots.is_empty() {
            roots.push(match &self.cwd {
                Some(cwd) => Given::parse("sandbox.cwd", cwd)?.path,
                None => cwd.to_path_buf(),
            });
        }
        let mut asked = Asked { network, ..Asked::nothing() };
        let mut reads_all = false;
        // What may be written is known before what is taken back of it is judged.
        let (writes, others): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.access == Access::Write);
        for entry in writes {
            match &entry.path {
                EntryPath::Special { value: Special::ProjectRoots { subpath: None } } => {
                    asked.roots.extend(roots.clone())
                }
                EntryPath::Special { value: Special::ProjectRoots { subpath: Some(sub) } } => {
                    asked.roots.extend(roots.iter().map(|root| root.join(sub)));
                }
                EntryPath::Special { value: Special::SlashTmp } => asked.slash_tmp = true,
                EntryPath::Special { value: Special::Tmpdir } => asked.tmpdir = true,
                EntryPath::Path { path } => asked.roots.push(Given::parse("sandbox: path", path)?.path),
                EntryPath::Special { value: Special::Root | Special::Minimal } if network => {
                    return Ok(Asked::everything());
                }
                EntryPath::Special { value: Special::Root | Special::Minimal } => {
                    return Err(refused("sandbox: writing everywhere without the network cannot be expressed here"));
                }
            }
        }
        if !asked.roots.is_empty() {
            asked.mode = SandboxMode::WorkspaceWrite;
        } else if asked.slash_tmp || asked.tmpdir {
            return Err(refused("sandbox: writing temporary files and no directory cannot be expressed here"));
        }
        for entry in others {
            match (&entry.path, entry.access) {
                (EntryPath::Special { value: Special::Root }, Access::Read) => reads_all = true,
                (EntryPath::Special { value: Special::Root }, _) => {
                    return Err(refused("sandbox: hiding everything cannot be expressed here"));
                }
                (path, Access::Read) => {
                    for place in places(path, &roots)? {
                        check_read_only(&place, &asked, entry.missing_path_behavior.as_deref())?;
                    }
                }
                (path, _) => asked.hidden.extend(places(path, &roots)?),
            }
        }
        if !reads_all {
            return Err(refused(
                "sandbox: reading some directories only cannot be expressed here; give the root access read, and access \
                 none to what is to be hidden",
            ));
        }
        Ok(asked)
    }
}

/// The places that an entry means.
fn places(path: &EntryPath, roots: &[PathBuf]) -> Result<Vec<PathBuf>, RpcError> {
    Ok(match path {
        EntryPath::Path { path } => vec![Given::parse("sandbox: path", path)?.path],
        EntryPath::Special { value: Special::ProjectRoots { subpath } } => {
            roots.iter().map(|root| subpath.as_ref().map_or(root.clone(), |sub| root.join(sub))).collect()
        }
        EntryPath::Special { value: Special::SlashTmp } => vec!["/tmp".into()],
        // It is read with everything else; hiding it has no meaning without its path.
        EntryPath::Special { value: Special::Root | Special::Minimal | Special::Tmpdir } => Vec::new(),
    })
}

/// A place to read that lies beneath one to write is kept from writing by its name, or cannot be.
fn check_read_only(place: &Path, asked: &Asked, when_missing: Option<&str>) -> Result<(), RpcError> {
    let is_protected =
        |path: &Path| path.iter().any(|part| PROTECTED_NAMES.iter().any(|name| part.eq_ignore_ascii_case(name)));
    let within = asked.roots.iter().filter_map(|root| place.strip_prefix(root).ok());
    let open: Vec<_> = within.filter(|rest| !is_protected(rest)).collect();
    let is_skipped = when_missing == Some("skip") && place.symlink_metadata().is_err();
    if open.is_empty() || is_skipped {
        return Ok(());
    }
    Err(refused(format!(
        "sandbox: {} is to be read-only beneath a directory that is written, which cannot be expressed here (that is for {} \
         alone)",
        place.display(),
        PROTECTED_NAMES.join(", ")
    )))
}

#[cfg(test)]
mod tests;
