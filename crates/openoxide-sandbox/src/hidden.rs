//! The places that commands never see: the server's own secrets, credentials of the user's programs and of the system. Which
//! they are on this machine is found out here, for each command anew; covering them is the supervisor's part.
//!
//! A place is named where it is expected and where it really lies, whether or not it exists: a file that is not there yet,
//! or is replaced while a command runs, is as secret as the one before.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::{HostPaths, SandboxError, SandboxMode};

/// The home of OpenOxide where none is configured, beneath the user's.
const DEFAULT_STATE: &str = ".openoxide";

/// Credentials of well-known programs, beneath the user's home.
const CREDENTIALS: [&str; 34] = [
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
    ".my.cnf",
    ".mylogin.cnf",
    ".boto",
    ".s3cfg",
    ".vault-token",
    ".terraformrc",
    ".terraform.d/credentials.tfrc.json",
    ".docker/config.json",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".config/gh",
    ".config/glab-cli",
    ".config/gcloud",
    ".config/git/credentials",
    ".config/hub",
    ".config/rclone",
    ".config/op",
    ".codex/auth.json",
    ".claude/.credentials.json",
    ".gemini/oauth_creds.json",
    ".local/share/keyrings",
    ".password-store",
    ".config/containers/auth.json",
];

/// More names of files and directories that hold keys, wherever they stand.
const KEYS: [&str; 10] = [
    ".docker",
    "keyrings",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "auth.json",
    "credentials",
    "credentials.toml",
    ".credentials.json",
];

/// Directories of the system's secrets.
const SYSTEM_DIRECTORIES: [&str; 2] = ["/run/secrets", "/var/run/secrets"];

/// Files of the system's secrets: the directory, and how their names begin and end.
const SYSTEM_FILES: [(&str, &str, &str); 3] =
    [("/etc", "shadow", ""), ("/etc", "gshadow", ""), ("/etc/ssh", "", "_key")];

/// Whether a word of a command names something that holds credentials, or may: by what it is called, wherever it lies. For
/// whoever asks before such a command runs; what commands do not see is decided by [`HostPaths`] and the disk.
#[must_use]
pub fn names_credentials(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let parts: Vec<&str> = word.split(['/', ':', '=']).filter(|part| !matches!(*part, "" | ".")).collect();
    let is_named = |name: &str| {
        let name: Vec<&str> = name.split('/').collect();
        parts.windows(name.len()).any(|parts| parts == name)
    };
    let is_of_system = |(directory, begin, end): (&str, &str, &str)| {
        let name = word.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
        name.is_some_and(|name| name.starts_with(begin) && name.ends_with(end))
    };
    CREDENTIALS.into_iter().chain(KEYS).any(is_named)
        || SYSTEM_DIRECTORIES.iter().any(|directory| word.starts_with(directory))
        || SYSTEM_FILES.into_iter().any(is_of_system)
}

impl HostPaths {
    /// The server's own secrets: its home, configured and by default, and the further files that it was told to keep.
    /// No command and no tool sees them in any mode. Absolute; by the name that was given, and where that leads.
    #[must_use]
    pub fn own_secrets(&self) -> Vec<PathBuf> {
        let mut places = BTreeSet::new();
        let default = self.home.iter().map(|home| home.join(DEFAULT_STATE));
        self.state.iter().chain(&self.secrets).cloned().chain(default).for_each(|path| add(&mut places, &path));
        places.into_iter().collect()
    }

    /// Everything that commands in a confined mode do not see. Absolute, sorted.
    pub(crate) fn hidden(&self) -> Vec<PathBuf> {
        let mut places: BTreeSet<_> = self.own_secrets().into_iter().collect();
        let credentials = self.home.iter().flat_map(|home| CREDENTIALS.map(|name| home.join(name)));
        credentials.for_each(|path| add(&mut places, &path));
        for directory in SYSTEM_DIRECTORIES.map(Path::new).into_iter().filter(|path| path.exists()) {
            add(&mut places, directory);
        }
        for (directory, begin, end) in SYSTEM_FILES {
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            let is_secret = |name: &std::ffi::OsStr| {
                name.to_str().is_some_and(|name| name.starts_with(begin) && name.ends_with(end))
            };
            for path in entries.filter(|entry| is_secret(&entry.file_name())).map(|entry| entry.path()) {
                // The system keeps them from an ordinary user itself.
                if rustix::fs::access(&path, Access::READ_OK).is_ok() {
                    add(&mut places, &path);
                }
            }
        }
        places.into_iter().collect()
    }

    /// Whether commands of a mode may work in a directory: not in the server's own secrets in any mode, and not in
    /// credentials in a confined one. A directory that contains such places is served with them hidden.
    ///
    /// # Errors
    /// [`SandboxError::HiddenPlace`] with the place.
    pub fn check_place(&self, mode: SandboxMode, directory: &Path) -> Result<(), SandboxError> {
        let places = if mode == SandboxMode::DangerFullAccess { self.own_secrets() } else { self.hidden() };
        check_against(&places, directory)
    }
}

/// Whether a directory lies in none of the places.
pub(crate) fn check_against(places: &[PathBuf], directory: &Path) -> Result<(), SandboxError> {
    let real = if has_no_links(directory) { directory.to_owned() } else { real(directory) };
    match places.iter().find(|place| real.starts_with(place) || directory.starts_with(place)) {
        Some(hidden) => Err(SandboxError::HiddenPlace { path: directory.into(), hidden: hidden.clone() }),
        None => Ok(()),
    }
}

/// Adds a place as it is named, and as where it leads.
fn add(places: &mut BTreeSet<PathBuf>, path: &Path) {
    if has_no_links(path) {
        places.insert(path.into());
        return;
    }
    let named = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => return,
    };
    places.extend(named.canonicalize());
    places.insert(named);
}

/// Whether there is no link in an absolute path, as far as it exists: one system call for what is so nearly always.
#[cfg(target_os = "linux")]
fn has_no_links(path: &Path) -> bool {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let is_plain = path.is_absolute() && path.components().all(|part| part != std::path::Component::ParentDir);
    // Without O_NOFOLLOW a link in the last place is refused as well.
    let opened = openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    is_plain && matches!(opened, Ok(_) | Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR))
}

#[cfg(not(target_os = "linux"))]
fn has_no_links(_: &Path) -> bool {
    false
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, PathBuf, HostPaths) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let host_paths =
            HostPaths { home: Some(path.clone()), state: Some(path.join("elsewhere")), ..HostPaths::default() };
        (dir, path, host_paths)
    }

    #[test]
    fn a_place_is_hidden_by_its_name_and_where_it_leads() {
        let (_dir, path, host_paths) = home();
        std::fs::create_dir(path.join("dotfiles")).unwrap();
        std::fs::write(path.join("dotfiles/netrc"), "").unwrap();
        std::os::unix::fs::symlink("dotfiles/netrc", path.join(".netrc")).unwrap();
        let hidden = host_paths.hidden();
        for name in [".netrc", "dotfiles/netrc", ".ssh", ".docker/config.json", "elsewhere", ".openoxide"] {
            assert!(hidden.contains(&path.join(name)), "{name}");
        }
        assert!(hidden.is_sorted());
    }

    #[test]
    fn what_is_hidden_is_known_by_its_name() {
        let named = CREDENTIALS.map(|name| format!("/home/u/{name}")).into_iter();
        let others = ["~/.SSH/config", "key=.config//./gh/hosts.yml", "a:id_rsa", ".docker", "/etc/shadow-"];
        for word in named.chain(others.map(str::to_owned)) {
            assert!(names_credentials(&word), "{word}");
        }
        for word in [".config/ghostty", ".cargo/config.toml", "src/auth.rs", ".sshd", "/etc/hosts", ".codex", ""] {
            assert!(!names_credentials(word), "{word}");
        }
    }

    #[test]
    fn nobody_works_in_a_hidden_place() {
        let (_dir, path, host_paths) = home();
        std::fs::create_dir_all(path.join("elsewhere/sub")).unwrap();
        std::fs::create_dir(path.join(".ssh")).unwrap();
        std::os::unix::fs::symlink("elsewhere/sub", path.join("link")).unwrap();
        let check = |mode, name: &str| host_paths.check_place(mode, &path.join(name)).is_ok();
        for mode in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite] {
            for name in ["elsewhere", "elsewhere/sub", "link", ".openoxide", ".openoxide/x", ".ssh"] {
                assert!(!check(mode, name), "{mode:?} {name}");
            }
            assert!(check(mode, "") && check(mode, "other"));
        }
        for name in ["elsewhere/sub", "link", ".openoxide"] {
            assert!(!check(SandboxMode::DangerFullAccess, name), "{name}");
        }
        assert!(check(SandboxMode::DangerFullAccess, ".ssh"));
        let error = host_paths.check_place(SandboxMode::ReadOnly, &path.join("link")).unwrap_err();
        assert!(error.to_string().contains("link"), "{error}");
    }
}
