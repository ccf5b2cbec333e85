//! A policy on one machine: which directories are written, which places are hidden, and what a path of a command's means
//! there. Made by [`crate::Launcher::confinement`] for each command, and enforced by the supervisor.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::hidden::check_against;
use crate::listings::Listings;
use crate::pins::Pins;
use crate::policy::PROTECTED_NAMES;
use crate::protected::{self, is_guarded_name, is_protected_name};
use crate::writable_git::WritableGit;
use crate::{DirectoryId, HostPaths, SandboxError, SandboxMode, SandboxPolicy, Workspace, WorkspaceError};

/// The directory of temporary files that all users share.
pub(crate) const SLASH_TMP: &str = "/tmp";

/// A directory that a command may write in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WritableRoot {
    /// Without links.
    pub path: PathBuf,
    /// Whether it is the user's work. Otherwise it is for temporary files and may be shared with other users, whose
    /// files in it are left alone.
    pub is_workspace: bool,
    /// Whether it is a repository's own directory, written by this one command: what git takes orders from in it is held.
    pub is_git: bool,
    /// Which directory that must be. The supervisor gives no right to write in another.
    pub id: Option<DirectoryId>,
}

/// A policy on this machine. All paths are absolute; no links stand in them, but for the last name of a hidden place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// How far the command reaches.
    pub mode: SandboxMode,
    /// Where it may write; empty unless the mode is `workspace-write`. Outer directories come before inner ones.
    pub writable: Vec<WritableRoot>,
    /// Files and directories that it can neither read nor list, whether or not they exist; empty in full access.
    pub hidden: Vec<PathBuf>,
    /// Whether it reaches the network.
    pub network: bool,
    /// Where the ledgers of placeholders are kept.
    pub ledgers: Option<PathBuf>,
    /// What stands in the place of `/tmp`, one of the writable directories; none where that is the system's own.
    pub private_tmp: Option<PathBuf>,
    /// Directories of temporary files that were left out because another directory has taken their place.
    pub left_out: Vec<PathBuf>,
    /// More names beneath the writable directories that are protected where they exist.
    pub guarded: Vec<String>,
    /// More places that are protected.
    pub(crate) sealed: Vec<PathBuf>,
    /// What lies beneath the writable directories and is protected all the same; looked for when it is first asked for.
    pub(crate) protected: OnceLock<Vec<PathBuf>>,
}

impl Confinement {
    /// One that allows nothing but reading.
    pub(crate) fn new(mode: SandboxMode) -> Self {
        Self {
            mode,
            writable: Vec::new(),
            hidden: Vec::new(),
            network: false,
            ledgers: None,
            private_tmp: None,
            left_out: Vec::new(),
            guarded: Vec::new(),
            sealed: Vec::new(),
            protected: OnceLock::new(),
        }
    }

    /// The policy on this machine, with the directories that its words lead to.
    ///
    /// # Errors
    /// A workspace or configured root that cannot be resolved, was replaced, lies in a hidden place, or is so wide that
    /// nothing would be protected.
    pub(crate) fn of(policy: &SandboxPolicy, host_paths: &HostPaths, pins: &Pins) -> Result<Self, SandboxError> {
        let workspace = match &policy.workspace_id {
            Some(id) => Some(Workspace::open(&policy.workspace, Some(id)).map_err(of_root)?),
            None if policy.mode == SandboxMode::WorkspaceWrite => {
                Some(Workspace::resolve(&policy.workspace).map_err(of_root)?)
            }
            None => None,
        };
        let mut confinement = Self::new(policy.mode);
        if policy.mode == SandboxMode::DangerFullAccess {
            confinement.network = true;
            return Ok(confinement);
        }
        confinement.hidden = host_paths.hidden();
        check_against(&confinement.hidden, &policy.workspace)?;
        if let (SandboxMode::WorkspaceWrite, Some(workspace)) = (policy.mode, workspace) {
            confinement.network = policy.reaches_network();
            confinement.guarded = policy.workspace_write.guarded_names();
            confinement.ledgers = host_paths.state.as_ref().map(|state| state.join("run"));
            // Made before a command could make it, where it lies in a directory that is written.
            if let Some(state) = host_paths.state.as_ref().filter(|state| !state.exists()) {
                make_private_directory(state);
            }
            confinement.add_roots(workspace, policy, host_paths, pins)?;
        }
        Ok(confinement)
    }

    fn add_roots(
        &mut self,
        workspace: Workspace,
        policy: &SandboxPolicy,
        host_paths: &HostPaths,
        pins: &Pins,
    ) -> Result<(), SandboxError> {
        let options = &policy.workspace_write;
        let mut roots = vec![(workspace, true)];
        for path in options.writable_roots.iter().chain(&policy.widening.writable_roots) {
            check_against(&self.hidden, path)?;
            roots.push((pins.open(path).map_err(of_root)?, true));
        }
        let own = policy.temporary.as_deref().map(|path| (path, own_temporary(path)));
        if options.has_private_tmp() {
            // The system's own would be in reach, where it is not covered.
            let Some((path, own)) = own else { return Err(SandboxError::NoPrivateTmp) };
            let own = own.map_err(|error| of_temporary(path, error))?;
            self.private_tmp = Some(own.path().into());
            roots.push((own, false));
        } else {
            let slash_tmp = (!options.exclude_slash_tmp).then_some(Path::new(SLASH_TMP));
            let tmpdir = host_paths.tmpdir.as_deref().filter(|_| !options.exclude_tmpdir_env_var);
            let shared = slash_tmp.into_iter().chain(tmpdir).map(|path| (path, pins.open(path)));
            for (path, opened) in shared.chain(own) {
                match opened {
                    Ok(opened) if check_against(&self.hidden, opened.path()).is_err() => {
                        self.left_out.push(path.into());
                    }
                    Ok(opened) => roots.push((opened, false)),
                    // One that does not exist cannot be written in, and is no reason to refuse the command.
                    Err(WorkspaceError::Unusable { .. }) => {}
                    Err(_) => self.left_out.push(path.into()),
                }
            }
        }
        for (root, is_workspace) in roots {
            if root.path().parent().is_none() {
                if is_workspace {
                    return Err(SandboxError::RootIsWritable { path: root.path().into() });
                }
                continue;
            }
            let (path, id) = (root.path().into(), Some(root.id().clone()));
            self.writable.push(WritableRoot { path, is_workspace, is_git: false, id });
        }
        self.sort_roots();
        Ok(())
    }

    /// Opens the repositories that the directories lie in, for one command that is nothing but git.
    pub(crate) fn open_git(&mut self, starts: &[PathBuf]) {
        let mut git = WritableGit::default();
        starts.iter().for_each(|start| git.add(start, self));
        let Some(WritableGit { roots, sealed }) = git.finish() else { return };
        self.writable.extend(roots);
        self.sealed.extend(sealed);
        self.sort_roots();
    }

    /// Outer ones come before inner ones, and each once. What the user named stays as it was named.
    fn sort_roots(&mut self) {
        self.writable.sort_by(|a, b| a.path.cmp(&b.path).then(b.is_workspace.cmp(&a.is_workspace)));
        self.writable.dedup_by(|later, first| later.path == first.path);
    }

    /// Whether a command may write the place: beneath a writable root, nothing of a protected name on the way, not what
    /// such a name leads to anywhere beneath the roots, and not hidden. The path is absolute, as a command would say it, and
    /// taken as it stands, so whoever writes it must follow no link.
    #[must_use]
    pub fn may_write(&self, place: &Path) -> bool {
        if self.mode == SandboxMode::DangerFullAccess {
            return true;
        }
        let place = &self.map(place);
        // The innermost root decides: it is what the user named.
        let beneath = self.writable.iter().filter(|root| place.starts_with(&root.path));
        let Some(root) = beneath.max_by_key(|root| root.path.components().count()) else { return false };
        let Ok(rest) = place.strip_prefix(&root.path) else { return false };
        let is_protected = rest.iter().any(is_protected_name) || self.is_guarded(&root.path, rest);
        !is_protected && !self.hides(place) && !self.is_led_to(root, rest, place)
    }

    /// Whether something of a guarded name that exists stands on the way.
    fn is_guarded(&self, root: &Path, rest: &Path) -> bool {
        rest.ancestors().any(|path| {
            let is_named = path.file_name().is_some_and(|name| is_guarded_name(name, &self.guarded));
            is_named && root.join(path).symlink_metadata().is_ok()
        })
    }

    /// Whether the path, absolute and without links, is one that the command must not see.
    #[must_use]
    pub fn hides(&self, path: &Path) -> bool {
        let path = &self.map(path);
        self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    /// Where a path of a command's leads outside of its view: elsewhere only for what lies in a `/tmp` of its own. A path
    /// that is mapped already stays as it is.
    #[must_use]
    pub fn map(&self, path: &Path) -> PathBuf {
        let roots = self.writable.iter().map(|root| root.path.as_path());
        let private = self.private_tmp.as_deref();
        private.and_then(|private| on_host(private, roots, path)).unwrap_or_else(|| path.into())
    }

    /// Looks for what lies beneath the writable directories and is protected all the same. It may read some thousand entries
    /// of the disk.
    pub(crate) fn find_protected(&self, listings: &Listings) -> Vec<PathBuf> {
        let found = protected::find_all(&self.writable, &self.guarded, listings);
        found.into_iter().chain(self.sealed.iter().cloned()).collect()
    }

    /// Whether a link or pointer file of a protected name leads to the place.
    fn is_led_to(&self, root: &WritableRoot, rest: &Path, place: &Path) -> bool {
        let protected = self.protected.get_or_init(|| self.find_protected(&Listings::default()));
        // A root within such a place is what the user named.
        let covers = |path: &PathBuf| place.starts_with(path) && !root.path.starts_with(path);
        if protected.iter().any(covers) {
            return true;
        }
        // The search has bounds; what stands on the way to the place is looked at wherever it is.
        let mut directories = rest.ancestors().skip(1).map(|above| root.path.join(above));
        directories.any(|directory| {
            let names = PROTECTED_NAMES.into_iter().chain(self.guarded.iter().map(String::as_str));
            let entries = names.map(|name| directory.join(name));
            entries.flat_map(|entry| protected::leads_to(&entry, &self.writable)).any(|path| covers(&path))
        })
    }
}

/// Where a path of the thread's own `/tmp` lies, for which `private` stands; none for one that lies where it says. The
/// directories `apart` are seen under their own names, also where they lie in the system's `/tmp`.
pub(crate) fn on_host<'a>(private: &Path, apart: impl IntoIterator<Item = &'a Path>, path: &Path) -> Option<PathBuf> {
    let below = path.strip_prefix(SLASH_TMP).ok()?;
    if path.starts_with(private) || apart.into_iter().any(|apart| path.starts_with(apart)) {
        return None;
    }
    Some(if below.as_os_str().is_empty() { private.into() } else { private.join(below) })
}

/// The thread's own directory for temporary files, which must belong to this user.
fn own_temporary(path: &Path) -> Result<Workspace, WorkspaceError> {
    let opened = Workspace::open(path, None)?;
    let unusable = |source| WorkspaceError::Unusable { path: path.into(), source };
    let owner = rustix::fs::fstat(opened.as_fd()).map_err(|errno| unusable(errno.into()))?.st_uid;
    match owner == rustix::process::geteuid().as_raw() {
        true => Ok(opened),
        false => Err(WorkspaceError::Replaced { path: path.into() }),
    }
}

fn make_private_directory(path: &Path) {
    use std::os::unix::fs::DirBuilderExt as _;
    // Where it cannot be made, whoever needs it says so.
    let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
}

fn of_root(error: WorkspaceError) -> SandboxError {
    match error {
        WorkspaceError::Unusable { path, source } => SandboxError::WritableRoot { path, source },
        source => SandboxError::Moved { source },
    }
}

fn of_temporary(path: &Path, source: WorkspaceError) -> SandboxError {
    let source = std::io::Error::other(source.to_string());
    SandboxError::WritableRoot { path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkspaceWrite;

    fn confine(policy: &SandboxPolicy, host_paths: &HostPaths) -> Result<Confinement, SandboxError> {
        Confinement::of(policy, host_paths, &Pins::default())
    }

    fn policy(mode: SandboxMode, workspace: &Path) -> SandboxPolicy {
        SandboxPolicy::new(mode, workspace.into(), WorkspaceWrite::default())
    }

    #[test]
    fn full_access_confines_nothing() {
        let confinement = confine(&policy(SandboxMode::DangerFullAccess, Path::new("/nowhere")), &HostPaths::default());
        let confinement = confinement.unwrap();
        assert!(confinement.network && confinement.writable.is_empty() && confinement.hidden.is_empty());
    }

    #[test]
    fn read_only_writes_nowhere_and_hides_credentials() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        std::fs::create_dir_all(home.join(".openoxide")).unwrap();
        let host_paths =
            HostPaths { home: Some(home.clone()), state: Some(home.join(".openoxide")), ..HostPaths::default() };
        let confinement = confine(&policy(SandboxMode::ReadOnly, &home), &host_paths).unwrap();
        assert!(!confinement.network && confinement.writable.is_empty());
        assert!(confinement.hides(&home.join(".ssh/id")) && confinement.hides(&home.join(".openoxide/auth.json")));
        assert!(!confinement.hides(&home.join(".sshd")));
        // A thread that would work inside one is refused.
        let inside = confine(&policy(SandboxMode::ReadOnly, &home.join(".ssh")), &host_paths).unwrap_err();
        assert!(matches!(inside, SandboxError::HiddenPlace { .. }), "{inside}");
    }

    #[test]
    fn writing_is_for_roots_and_not_for_protected_names() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(dir.join("work/src")).unwrap();
        std::fs::create_dir_all(dir.join("work/src/agents")).unwrap();
        std::os::unix::fs::symlink("agents", dir.join("work/src/.agents")).unwrap();
        std::fs::create_dir_all(dir.join("work/bare")).unwrap();
        std::fs::write(dir.join("work/bare/HEAD"), "ref: x\n").unwrap();
        // What a nested link leads to, wherever that is.
        std::fs::create_dir_all(dir.join("work/realgit")).unwrap();
        std::os::unix::fs::symlink("../../realgit", dir.join("work/src/agents/.git")).unwrap();
        std::fs::write(dir.join("work/.git"), "gitdir: bare\n").unwrap();
        let mut policy = policy(SandboxMode::WorkspaceWrite, &dir.join("work"));
        policy.workspace_write.exclude_slash_tmp = true;
        let confinement = confine(&policy, &HostPaths::default()).unwrap();
        let may = |path: &str| confinement.may_write(&dir.join(path));
        assert!(may("work/a") && may("work/new/b") && may("work/src/.github/x"));
        for outside in [
            "a",
            "work/.git",
            "work/bare/config",
            "work/realgit/x",
            "work/src/.GIT/x",
            "work/src/agents/x",
            "work/.codex/c",
        ] {
            assert!(!may(outside), "{outside}");
        }
        policy.mode = SandboxMode::ReadOnly;
        assert!(!confine(&policy, &HostPaths::default()).unwrap().may_write(&dir.join("work/a")));
        policy.mode = SandboxMode::DangerFullAccess;
        assert!(confine(&policy, &HostPaths::default()).unwrap().may_write(&dir.join("a")));
    }

    #[test]
    fn what_exists_of_a_guarded_name_is_not_written_and_what_does_not_is() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(dir.join("a/.VSCode")).unwrap();
        std::fs::write(dir.join(".envrc"), "").unwrap();
        let mut policy = policy(SandboxMode::WorkspaceWrite, &dir);
        policy.workspace_write.exclude_slash_tmp = true;
        let may = |policy: &SandboxPolicy, path: &str| {
            confine(policy, &HostPaths::default()).unwrap().may_write(&dir.join(path))
        };
        for (path, expected) in [
            (".envrc", false),
            ("a/.VSCode/settings.json", false),
            ("a/.VSCode", false),
            (".vscode/settings.json", true),
            (".mcp.json", true),
            ("AGENTS.md", true),
        ] {
            assert_eq!(may(&policy, path), expected, "{path}");
        }
        policy.workspace_write.protected_names = Some(vec!["CLAUDE.md".to_owned()]);
        std::fs::write(dir.join("CLAUDE.md"), "").unwrap();
        assert!(may(&policy, ".envrc") && !may(&policy, "CLAUDE.md"));
    }

    #[test]
    fn outer_roots_come_before_inner_ones_and_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(dir.join("tmp/work")).unwrap();
        let host_paths = HostPaths { tmpdir: Some(dir.join("tmp")), ..HostPaths::default() };
        let mut policy = policy(SandboxMode::WorkspaceWrite, &dir.join("tmp/work"));
        policy.workspace_write = WorkspaceWrite {
            writable_roots: vec![dir.join("tmp")],
            exclude_slash_tmp: true,
            ..WorkspaceWrite::default()
        };
        let roots = confine(&policy, &host_paths).unwrap().writable;
        let expected = [dir.join("tmp"), dir.join("tmp/work")];
        assert_eq!(roots.iter().map(|root| &root.path).collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
        assert!(roots.iter().all(|root| root.is_workspace));
    }

    #[test]
    fn a_root_that_cannot_be_is_refused_by_name() {
        let error = confine(&policy(SandboxMode::WorkspaceWrite, Path::new("/")), &HostPaths::default()).unwrap_err();
        assert!(matches!(error, SandboxError::RootIsWritable { .. }), "{error}");
        let error = confine(&policy(SandboxMode::WorkspaceWrite, Path::new("/no such place")), &HostPaths::default())
            .unwrap_err();
        assert!(error.to_string().contains("/no such place"), "{error}");
    }

    #[test]
    fn a_workspace_that_was_replaced_is_refused_in_every_mode() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        for name in ["x/proj", "other/proj"] {
            std::fs::create_dir_all(dir.join(name)).unwrap();
        }
        for mode in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite, SandboxMode::DangerFullAccess] {
            let id = Workspace::resolve(&dir.join("x/proj")).unwrap().id().clone();
            let policy = SandboxPolicy { workspace_id: Some(id.clone()), ..policy(mode, &dir.join("x/proj")) };
            let confined = confine(&policy, &HostPaths::default()).unwrap();
            if mode == SandboxMode::WorkspaceWrite {
                let root = confined.writable.iter().find(|root| root.is_workspace).unwrap();
                assert_eq!((root.path.as_path(), root.id.as_ref()), (dir.join("x/proj").as_path(), Some(&id)));
            }
            std::fs::rename(dir.join("x"), dir.join("y")).unwrap();
            std::os::unix::fs::symlink("other", dir.join("x")).unwrap();
            let error = confine(&policy, &HostPaths::default()).unwrap_err();
            assert!(matches!(error, SandboxError::Moved { source: WorkspaceError::Link { .. } }), "{error}");
            std::fs::remove_file(dir.join("x")).unwrap();
            std::fs::create_dir_all(dir.join("x/proj")).unwrap();
            let error = confine(&policy, &HostPaths::default()).unwrap_err();
            assert!(matches!(error, SandboxError::Moved { source: WorkspaceError::Replaced { .. } }), "{error}");
            std::fs::remove_dir_all(dir.join("x")).unwrap();
            std::fs::rename(dir.join("y"), dir.join("x")).unwrap();
        }
    }

    #[test]
    fn a_temporary_directory_that_was_replaced_is_left_out_and_a_root_refused() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        for name in ["ws", "tmp", "more"] {
            std::fs::create_dir(dir.join(name)).unwrap();
        }
        let host_paths = HostPaths { tmpdir: Some(dir.join("tmp")), ..HostPaths::default() };
        let mut policy = policy(SandboxMode::WorkspaceWrite, &dir.join("ws"));
        policy.workspace_write.exclude_slash_tmp = true;
        let pins = Pins::default();
        assert_eq!(Confinement::of(&policy, &host_paths, &pins).unwrap().writable.len(), 2);
        std::fs::rename(dir.join("tmp"), dir.join("old")).unwrap();
        std::fs::create_dir(dir.join("tmp")).unwrap();
        let confined = Confinement::of(&policy, &host_paths, &pins).unwrap();
        assert_eq!((confined.writable.len(), confined.left_out), (1, vec![dir.join("tmp")]));
        policy.workspace_write.writable_roots = vec![dir.join("more")];
        Confinement::of(&policy, &host_paths, &pins).unwrap();
        std::fs::remove_dir(dir.join("more")).unwrap();
        std::os::unix::fs::symlink("/usr", dir.join("more")).unwrap();
        let error = Confinement::of(&policy, &host_paths, &pins).unwrap_err();
        assert!(matches!(error, SandboxError::Moved { .. }) && error.to_string().contains("more"), "{error}");
    }

    #[test]
    fn the_threads_own_temporary_directory_may_stand_for_slash_tmp() {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let dir = dir.path().canonicalize().unwrap();
        for name in ["ws", "own"] {
            std::fs::create_dir(dir.join(name)).unwrap();
        }
        let mut policy = policy(SandboxMode::WorkspaceWrite, &dir.join("ws"));
        policy.workspace_write.private_tmp = Some(true);
        assert!(matches!(confine(&policy, &HostPaths::default()), Err(SandboxError::NoPrivateTmp)));
        policy.temporary = Some(dir.join("own"));
        let confined = confine(&policy, &HostPaths::default()).unwrap();
        assert_eq!(
            confined.writable.iter().map(|root| &root.path).collect::<Vec<_>>(),
            [&dir.join("own"), &dir.join("ws")]
        );
        assert_eq!(confined.map(Path::new("/tmp")), dir.join("own"));
        for (path, expected) in [("/tmp/a/b", dir.join("own/a/b")), ("/usr/a", "/usr/a".into())] {
            assert_eq!(confined.map(Path::new(path)), expected);
            assert_eq!(confined.map(&expected), expected, "mapping twice changes nothing");
        }
        assert_eq!(confined.map(&dir.join("ws/x")), dir.join("ws/x"), "a workspace in /tmp stays where it is");
        assert!(confined.may_write(Path::new("/tmp/a")) && !confined.may_write(Path::new("/tmp/.git/x")));
        policy.workspace_write.private_tmp = None;
        policy.workspace_write.exclude_slash_tmp = true;
        let confined = confine(&policy, &HostPaths::default()).unwrap();
        assert!(confined.may_write(&dir.join("own/x")) && !confined.may_write(Path::new("/tmp/a")));
    }

    #[test]
    fn the_home_is_made_before_a_command_could_make_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::create_dir(dir.join("ws")).unwrap();
        let state = dir.join("ws/state");
        let host_paths = HostPaths { state: Some(state.clone()), ..HostPaths::default() };
        let confined = confine(&policy(SandboxMode::WorkspaceWrite, &dir.join("ws")), &host_paths).unwrap();
        assert_eq!(state.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(confined.hides(&state.join("config.toml")) && !confined.may_write(&state.join("config.toml")));
    }
}
