//! The places of the user that sandbox policies speak of, and whether `TMPDIR` is one that commands may write in.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use openoxide_sandbox::HostPaths;

/// Directories of the system, in which no temporary files are.
const SYSTEM: [&str; 11] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys", "/usr"];

/// Why `TMPDIR` is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotTemporary {
    value: PathBuf,
    why: String,
}

impl fmt::Display for NotTemporary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TMPDIR is {}, which {}; commands do not get it and use /tmp", self.value.display(), self.why)
    }
}

/// What the environment says of the user's places.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// `HOME`.
    pub(crate) home: Option<PathBuf>,
    /// `TMPDIR`, where it is set.
    pub(crate) tmpdir: Option<PathBuf>,
    /// The home of OpenOxide.
    pub(crate) state: Option<PathBuf>,
    /// The directory that is worked in.
    pub(crate) workspace: Option<PathBuf>,
}

impl Places {
    /// From the values of variables.
    pub(crate) fn new(
        state: Option<PathBuf>,
        workspace: Option<PathBuf>,
        value: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let set = |name| value(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self { home: set("HOME"), tmpdir: set("TMPDIR"), state, workspace }
    }

    /// What policies are told. A `TMPDIR` that is not taken is left out, and logged. The default home of OpenOxide is hidden
    /// beside the configured one: keys that were stored in it are still keys.
    pub(crate) fn host_paths(&self) -> HostPaths {
        let tmpdir = self.tmpdir().unwrap_or_else(|refused| {
            tracing::warn!("{refused}");
            None
        });
        let default = self.home.as_ref().map(|home| home.join(super::DEFAULT_HOME));
        let secrets = default.filter(|default| Some(default) != self.state.as_ref()).into_iter().collect();
        HostPaths { home: self.home.clone(), tmpdir, state: self.state.clone(), secrets }
    }

    /// The directory that `TMPDIR` names, without links, where it is a place for temporary files of this user: neither the home nor
    /// a project nor a part of the system, and nobody else's. `None` where it is not set.
    pub(crate) fn tmpdir(&self) -> Result<Option<PathBuf>, NotTemporary> {
        let Some(value) = &self.tmpdir else { return Ok(None) };
        self.judge(value).map(Some).map_err(|why| NotTemporary { value: value.clone(), why })
    }

    fn judge(&self, value: &Path) -> Result<PathBuf, String> {
        if !value.is_absolute() {
            return Err("is relative".to_owned());
        }
        let path = value.canonicalize().map_err(|error| format!("cannot be resolved ({error})"))?;
        let metadata = path.metadata().map_err(|error| format!("cannot be looked at ({error})"))?;
        if !metadata.is_dir() {
            return Err("is no directory".to_owned());
        }
        if let Some(system) = SYSTEM.iter().find(|system| path.starts_with(system)) {
            return Err(format!("lies in {system}, a directory of the system"));
        }
        for (name, place) in [("your home", &self.home), ("the home of OpenOxide", &self.state)] {
            let place = place.as_deref().map(|place| place.canonicalize().unwrap_or_else(|_| place.to_path_buf()));
            if let Some(place) = place.filter(|place| place.starts_with(&path)) {
                return Err(format!("holds {name}, {}", place.display()));
            }
        }
        // Everybody can write here as it is, and only to what is theirs.
        const SHARED: u32 = 0o1002;
        if metadata.mode() & SHARED == SHARED {
            return Ok(path);
        }
        if path.components().count() <= 2 {
            return Err("is a directory at the top of the file system that is not shared like /tmp".to_owned());
        }
        if let Some(project) = self.workspace.as_deref().map(project_of).filter(|project| project.starts_with(&path)) {
            return Err(format!("holds the project {}", project.display()));
        }
        let user = rustix::process::geteuid().as_raw();
        if metadata.uid() != user {
            return Err(format!("belongs to user {} and is not shared like /tmp; you are user {user}", metadata.uid()));
        }
        Ok(path)
    }
}

/// The repository that a directory is in, or the directory.
fn project_of(directory: &Path) -> PathBuf {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
    directory.ancestors().find(|at| at.join(".git").exists()).unwrap_or(&directory).to_path_buf()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct House {
        dir: tempfile::TempDir,
    }

    impl House {
        /// `/var/tmp/x` with a home, a project in it, and places for temporary files.
        fn new() -> Self {
            let house = Self { dir: tempfile::tempdir_in("/var/tmp").unwrap() };
            for name in
                ["home/work/project/.git", "home/work/project/src/tmp", "home/tmp", "shared/project/.git", "run"]
            {
                std::fs::create_dir_all(house.at(name)).unwrap();
            }
            std::fs::set_permissions(house.at("shared"), std::fs::Permissions::from_mode(0o1777)).unwrap();
            std::fs::write(house.at("file"), "").unwrap();
            std::os::unix::fs::symlink("home", house.at("link")).unwrap();
            house
        }

        fn at(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn judged(&self, tmpdir: &Path) -> Result<Option<PathBuf>, NotTemporary> {
            let places = Places {
                home: Some(self.at("home")),
                tmpdir: Some(tmpdir.to_path_buf()),
                state: Some(self.at("run/state")),
                workspace: Some(self.at("home/work/project/src")),
            };
            let told = places.host_paths().tmpdir;
            let judged = places.tmpdir();
            assert_eq!(judged.clone().ok().flatten(), told, "what is refused is not passed on");
            judged
        }
    }

    #[test]
    fn a_temporary_place_of_the_user_is_taken() {
        let house = House::new();
        for name in ["home/tmp", "home/work/project/src/tmp", "shared"] {
            assert_eq!(house.judged(&house.at(name)), Ok(Some(house.at(name))));
        }
        assert_eq!(Places::default().tmpdir(), Ok(None));
        let in_shared = Places {
            tmpdir: Some(house.at("shared")),
            workspace: Some(house.at("shared/project")),
            ..Places::default()
        };
        assert!(in_shared.tmpdir().is_ok(), "everybody may write there as it is");
    }

    #[test]
    fn anything_else_is_left_out_with_the_reason() {
        let house = House::new();
        for (tmpdir, why) in [
            (house.at("home"), "holds your home"),
            (house.at("link"), "holds your home"),
            (house.at("."), "holds your home"),
            (house.at("home/work"), "holds the project"),
            (house.at("home/work/project"), "holds the project"),
            (house.at("run"), "holds the home of OpenOxide"),
            (house.at("file"), "is no directory"),
            (house.at("missing"), "cannot be resolved"),
            ("tmp".into(), "is relative"),
            ("/".into(), "holds your home"),
            ("/dev".into(), "lies in /dev"),
            ("/dev/shm".into(), "lies in /dev"),
            ("/proc/self".into(), "lies in /proc"),
            ("/etc".into(), "lies in /etc"),
            ("/var".into(), "holds your home"),
            ("/opt".into(), "at the top of the file system"),
        ] {
            let told = house.judged(&tmpdir).unwrap_err().to_string();
            assert!(told.contains(why) && told.contains("use /tmp"), "{}: {told}", tmpdir.display());
        }
        let of_another = Places { tmpdir: Some(house.at("home/tmp")), ..Places::default() };
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(house.at("home/tmp"), Some(12_345), None).unwrap();
            assert!(of_another.tmpdir().unwrap_err().to_string().contains("belongs to user 12345"));
        }
    }

    #[test]
    fn both_homes_of_the_program_are_hidden() {
        let value = |name: &str| (name == "HOME").then(|| OsString::from("/h"));
        let of = |state: &str| Places::new(Some(state.into()), None, value).host_paths();
        assert_eq!(of("/elsewhere").secrets, [PathBuf::from("/h/.openoxide")]);
        assert_eq!(of("/elsewhere").state, Some("/elsewhere".into()));
        assert!(of("/h/.openoxide").secrets.is_empty());
    }
}
