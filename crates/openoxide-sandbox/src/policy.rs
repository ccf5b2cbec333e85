//! What commands of one thread may touch, in words of the configuration ([`SandboxPolicy`]), and the same for one
//! machine in full paths ([`Confinement`]). Turning the one into the other looks at directories and changes nothing;
//! enforcing it is the supervisor's part (`supervisor/confine.rs`), choosing it the server's.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{DirectoryId, SandboxError, SandboxMode};

/// Names that nobody but the user may create or change beneath a writable root: what git, this agent and its kin take
/// orders from. Compared without regard to case.
pub const PROTECTED_NAMES: [&str; 4] = [".git", ".openoxide", ".codex", ".agents"];

/// The most bytes that a pointer file is read of.
const MAX_POINTER: u64 = 4096;

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
    pub private_tmp: bool,
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
}

/// Places of the user that a policy speaks of. The command line fills it in; nothing here reads the environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// The user's home, where credentials of other programs lie.
    pub home: Option<PathBuf>,
    /// What `TMPDIR` names.
    pub tmpdir: Option<PathBuf>,
    /// The home of OpenOxide: its keys and rollouts, which commands never see, and the ledgers of placeholders.
    pub state: Option<PathBuf>,
    /// More files and directories that commands never see.
    pub secrets: Vec<PathBuf>,
}

/// A directory that a command may write in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WritableRoot {
    /// Without links.
    pub path: PathBuf,
    /// Whether [`PROTECTED_NAMES`] that do not exist in it are kept from being created. So it is for workspaces, and
    /// not for directories of temporary files.
    pub is_workspace: bool,
    /// Which directory that must be. The supervisor gives no right to write in another.
    pub id: Option<DirectoryId>,
}

/// A policy on this machine. All paths are absolute and without links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// How far the command reaches.
    pub mode: SandboxMode,
    /// Where it may write; empty unless the mode is `workspace-write`. Outer directories come before inner ones.
    pub writable: Vec<WritableRoot>,
    /// Files and directories that it can neither read nor list; empty in full access.
    pub hidden: Vec<PathBuf>,
    /// Whether it reaches the network.
    pub network: bool,
    /// Where the ledgers of placeholders are kept.
    pub ledgers: Option<PathBuf>,
    /// What stands in the place of `/tmp`; none where that is the system's own.
    pub private_tmp: Option<PathBuf>,
}

/// Credentials of well-known programs, beneath the user's home.
const CREDENTIALS: [&str; 22] = [
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".docker/config.json",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gh",
    ".config/gcloud",
    ".config/git/credentials",
    ".config/hub",
    ".codex/auth.json",
    ".claude/.credentials.json",
    ".gemini/oauth_creds.json",
    ".local/share/keyrings",
    ".password-store",
];

impl SandboxPolicy {
    /// The policy that confines nothing.
    #[must_use]
    pub fn full_access() -> Self {
        Self::new(SandboxMode::DangerFullAccess, PathBuf::from("/"), WorkspaceWrite::default())
    }

    /// A policy for whatever directory the path leads to when it is used.
    #[must_use]
    pub fn new(mode: SandboxMode, workspace: PathBuf, workspace_write: WorkspaceWrite) -> Self {
        Self { mode, workspace, workspace_id: None, temporary: None, workspace_write }
    }

    /// Whether what runs under it reaches the network of this machine.
    #[must_use]
    pub fn reaches_network(&self) -> bool {
        match self.mode {
            SandboxMode::ReadOnly => false,
            SandboxMode::WorkspaceWrite => self.workspace_write.network_access,
            SandboxMode::DangerFullAccess => true,
        }
    }

    /// The policy on this machine.
    ///
    /// # Errors
    /// A workspace or configured root that cannot be resolved, or one so wide that nothing would be protected.
    pub fn confinement(&self, surroundings: &Surroundings) -> Result<Confinement, SandboxError> {
        let mut confinement = Confinement {
            mode: self.mode,
            writable: Vec::new(),
            hidden: Vec::new(),
            network: self.reaches_network(),
            ledgers: None,
            private_tmp: None,
        };
        if self.mode == SandboxMode::DangerFullAccess {
            return Ok(confinement);
        }
        if self.mode == SandboxMode::WorkspaceWrite {
            confinement.writable = self.writable(surroundings)?;
            confinement.ledgers = surroundings.state.as_ref().map(|state| state.join("run"));
        }
        confinement.hidden = self.hidden(surroundings);
        Ok(confinement)
    }

    /// Files and directories that commands of this policy cannot see: credentials of the user's programs, the home of
    /// OpenOxide, and what else is named. Absolute, without links, sorted; those that exist.
    #[must_use]
    pub fn hidden(&self, surroundings: &Surroundings) -> Vec<PathBuf> {
        if self.mode == SandboxMode::DangerFullAccess {
            return Vec::new();
        }
        let workspace = self.workspace.canonicalize().ok();
        let contains_workspace =
            |path: &Path| workspace.as_deref().is_some_and(|workspace| workspace.starts_with(path));
        let credentials = surroundings.home.iter().flat_map(|home| CREDENTIALS.map(|name| home.join(name)));
        let own = surroundings.state.iter().chain(&surroundings.secrets).cloned();
        let all = credentials.chain(own).filter_map(|path| path.canonicalize().ok());
        // Whoever works inside such a directory has been sent there.
        let mut hidden: Vec<_> = all.filter(|path| !contains_workspace(path)).collect();
        hidden.sort();
        hidden.dedup();
        hidden
    }

    fn writable(&self, surroundings: &Surroundings) -> Result<Vec<WritableRoot>, SandboxError> {
        let options = &self.workspace_write;
        let mut roots: Vec<WritableRoot> = Vec::new();
        for root in std::iter::once(&self.workspace).chain(&options.writable_roots) {
            let path =
                root.canonicalize().map_err(|source| SandboxError::WritableRoot { path: root.clone(), source })?;
            if path.parent().is_none() {
                return Err(SandboxError::RootIsWritable { path: root.clone() });
            }
            roots.push(WritableRoot { path, is_workspace: true, id: None });
        }
        let slash_tmp = (!options.exclude_slash_tmp).then(|| PathBuf::from("/tmp"));
        let tmpdir = surroundings.tmpdir.clone().filter(|_| !options.exclude_tmpdir_env_var);
        for path in slash_tmp.into_iter().chain(tmpdir) {
            // One that does not exist cannot be written in, and is no reason to refuse the command.
            let path = path.canonicalize().ok().filter(|path| path.is_dir() && path.parent().is_some());
            roots.extend(path.map(|path| WritableRoot { path, is_workspace: false, id: None }));
        }
        roots.sort_by(|a, b| a.path.cmp(&b.path).then(b.is_workspace.cmp(&a.is_workspace)));
        roots.dedup_by(|later, first| later.path == first.path);
        Ok(roots)
    }
}

impl Confinement {
    /// Whether a command may write the place: beneath a writable root, nothing of a protected name on the way, not what
    /// such a name points to, and not hidden. The path is absolute and taken as it stands, so whoever writes it must follow
    /// no link.
    #[must_use]
    pub fn may_write(&self, place: &Path) -> bool {
        if self.mode == SandboxMode::DangerFullAccess {
            return true;
        }
        // The innermost root decides: it is what the user named.
        let beneath = self.writable.iter().filter(|root| place.starts_with(&root.path));
        let Some(root) = beneath.max_by_key(|root| root.path.components().count()) else { return false };
        let Ok(rest) = place.strip_prefix(&root.path) else { return false };
        let is_protected = rest.iter().any(is_protected_name);
        !is_protected && !self.hides(place) && !leads_to(&root.path, rest, place)
    }

    /// Whether the path, absolute and without links, is one that the command must not see.
    #[must_use]
    pub fn hides(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }
}

/// Whether a name is one of [`PROTECTED_NAMES`], in any case of letters.
pub(crate) fn is_protected_name(name: &OsStr) -> bool {
    PROTECTED_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Whether a link or pointer file of a protected name, in the root or in a directory on the way, leads to the place.
fn leads_to(root: &Path, rest: &Path, place: &Path) -> bool {
    let mut directories = rest.ancestors().skip(1).map(|above| root.join(above));
    directories.any(|directory| {
        let targets = PROTECTED_NAMES.iter().flat_map(|name| targets_of(&directory.join(name)));
        targets.into_iter().any(|target| place.starts_with(target))
    })
}

/// What an entry of a protected name leads to: a link's target, or the git directories that a pointer file names.
fn targets_of(entry: &Path) -> Vec<PathBuf> {
    match entry.symlink_metadata() {
        Ok(metadata) if metadata.is_symlink() => entry.canonicalize().into_iter().collect(),
        Ok(metadata) if metadata.is_file() => pointed_to(entry),
        _ => Vec::new(),
    }
}

/// The git directories that a pointer file (of a worktree or a submodule) names: its own, and the one it shares.
pub(crate) fn pointed_to(file: &Path) -> Vec<PathBuf> {
    let read = |path: &Path| {
        let mut text = String::new();
        std::fs::File::open(path).ok()?.take(MAX_POINTER).read_to_string(&mut text).ok()?;
        Some(text)
    };
    let Some(text) = read(file) else { return Vec::new() };
    let Some(pointer) = text.strip_prefix("gitdir:") else { return Vec::new() };
    let parent = file.parent().unwrap_or(Path::new("/"));
    let Ok(own) = parent.join(pointer.trim()).canonicalize() else { return Vec::new() };
    let shared = read(&own.join("commondir")).and_then(|text| own.join(text.trim()).canonicalize().ok());
    // The shared one contains the other; covering it last covers both.
    std::iter::once(own).chain(shared).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(mode: SandboxMode, workspace: &Path) -> SandboxPolicy {
        SandboxPolicy::new(mode, workspace.into(), WorkspaceWrite::default())
    }

    #[test]
    fn full_access_confines_nothing() {
        let confinement =
            policy(SandboxMode::DangerFullAccess, Path::new("/nowhere")).confinement(&Surroundings::default());
        let confinement = confinement.unwrap();
        assert!(confinement.network && confinement.writable.is_empty() && confinement.hidden.is_empty());
    }

    #[test]
    fn read_only_writes_nowhere_and_hides_credentials() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        std::fs::create_dir_all(home.join(".openoxide")).unwrap();
        let surroundings =
            Surroundings { home: Some(home.clone()), state: Some(home.join(".openoxide")), ..Surroundings::default() };
        let confinement = policy(SandboxMode::ReadOnly, &home).confinement(&surroundings).unwrap();
        assert!(!confinement.network && confinement.writable.is_empty());
        assert!(confinement.hides(&home.join(".ssh/id")) && confinement.hides(&home.join(".openoxide/auth.json")));
        assert!(!confinement.hides(&home.join(".sshd")));
        // A thread that works inside one sees it.
        let inside = policy(SandboxMode::ReadOnly, &home.join(".ssh")).confinement(&surroundings).unwrap();
        assert!(!inside.hides(&home.join(".ssh/id")));
    }

    #[test]
    fn writing_is_for_roots_and_not_for_protected_names() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(dir.join("work/src")).unwrap();
        std::fs::create_dir_all(dir.join("work/src/agents")).unwrap();
        std::os::unix::fs::symlink("agents", dir.join("work/src/.agents")).unwrap();
        std::fs::create_dir_all(dir.join("work/bare")).unwrap();
        std::fs::write(dir.join("work/.git"), "gitdir: bare\n").unwrap();
        let mut policy = policy(SandboxMode::WorkspaceWrite, &dir.join("work"));
        policy.workspace_write.exclude_slash_tmp = true;
        let confinement = policy.confinement(&Surroundings::default()).unwrap();
        let may = |path: &str| confinement.may_write(&dir.join(path));
        assert!(may("work/a") && may("work/new/b") && may("work/src/.github/x"));
        for outside in ["a", "work/.git", "work/bare/config", "work/src/.GIT/x", "work/src/agents/x", "work/.codex/c"] {
            assert!(!may(outside), "{outside}");
        }
        policy.mode = SandboxMode::ReadOnly;
        assert!(!policy.confinement(&Surroundings::default()).unwrap().may_write(&dir.join("work/a")));
        policy.mode = SandboxMode::DangerFullAccess;
        assert!(policy.confinement(&Surroundings::default()).unwrap().may_write(&dir.join("a")));
    }

    #[test]
    fn a_pointer_names_its_own_and_the_shared_directory() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let own = dir.join("main/.git/worktrees/w");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("commondir"), "../..\n").unwrap();
        std::fs::create_dir(dir.join("w")).unwrap();
        std::fs::write(dir.join("w/.git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_eq!(pointed_to(&dir.join("w/.git")), [own, dir.join("main/.git")]);
        std::fs::write(dir.join("w/.git"), "something else").unwrap();
        assert!(pointed_to(&dir.join("w/.git")).is_empty());
    }

    #[test]
    fn outer_roots_come_before_inner_ones_and_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(dir.join("tmp/work")).unwrap();
        let surroundings = Surroundings { tmpdir: Some(dir.join("tmp")), ..Surroundings::default() };
        let mut policy = policy(SandboxMode::WorkspaceWrite, &dir.join("tmp/work"));
        policy.workspace_write = WorkspaceWrite {
            writable_roots: vec![dir.join("tmp")],
            exclude_slash_tmp: true,
            ..WorkspaceWrite::default()
        };
        let roots = policy.confinement(&surroundings).unwrap().writable;
        let expected = [dir.join("tmp"), dir.join("tmp/work")];
        assert_eq!(roots.iter().map(|root| &root.path).collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
        assert!(roots.iter().all(|root| root.is_workspace));
    }

    #[test]
    fn a_root_that_cannot_be_is_refused_by_name() {
        let error =
            policy(SandboxMode::WorkspaceWrite, Path::new("/")).confinement(&Surroundings::default()).unwrap_err();
        assert!(matches!(error, SandboxError::RootIsWritable { .. }), "{error}");
        let error = policy(SandboxMode::WorkspaceWrite, Path::new("/no such place"))
            .confinement(&Surroundings::default())
            .unwrap_err();
        assert!(error.to_string().contains("/no such place"), "{error}");
    }
}
