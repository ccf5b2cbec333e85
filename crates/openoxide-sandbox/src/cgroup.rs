//! A control group for each command that nothing else holds together, where the system lets this process make groups below its
//! own: cgroup v2, delegated to the user (systemd does it for what runs below `user@UID.service`), or root. What is in
//! a group cannot lose it by leaving its parent, session or environment, and `cgroup.kill` ends all of it at once, whatever
//! user it has become. No controller is turned on: the group limits nothing.
//!
//! A process that may write the user's groups can move itself to another one; so nothing else rests on this alone.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat};
use rustix::io::Errno;

/// What the name of a command's group begins with; the command's id follows.
const PREFIX: &str = "openoxide-";

/// `CLONE_INTO_CGROUP` of `clone3(2)`.
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// The directory in which this process may make groups, as far as can be told without making one.
///
/// # Errors
/// Why it may not, for a person.
pub(crate) fn delegated() -> Result<PathBuf, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("reading {path}: {error}"));
    let directory = own(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)?;
    may_make_groups(&directory)?;
    Ok(directory)
}

/// Whether groups may be made in this one, and processes of this one moved to them.
fn may_make_groups(directory: &Path) -> Result<(), String> {
    let rights = [
        (directory.to_owned(), Access::WRITE_OK | Access::EXEC_OK),
        (directory.join("cgroup.procs"), Access::WRITE_OK),
    ];
    for (path, access) in rights {
        accessat(CWD, &path, access, AtFlags::EACCESS).map_err(|errno| format!("{}: {errno}", path.display()))?;
    }
    Ok(())
}

/// The directory of this process's own group, from `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn own(cgroup: &str, mounts: &str) -> Result<PathBuf, String> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::")).ok_or("there is no cgroup v2")?;
    // ID PARENT DEVICE ROOT POINT OPTIONS [FIELD...] - TYPE SOURCE OPTIONS
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let found = (unescaped(fields.next()?), unescaped(fields.next()?));
        (after.split(' ').next() == Some("cgroup2")).then_some(found)
    });
    let (root, point) = mount.ok_or("no cgroup v2 is mounted")?;
    let inner =
        Path::new(path).strip_prefix(&root).map_err(|_| format!("the group {path} lies outside of what is mounted"))?;
    // A group outside of the namespace is shown so.
    if inner.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(format!("the group {path} lies outside of what is mounted"));
    }
    Ok(point.join(inner))
}

/// A path of `mountinfo`, where blanks and backslashes are three octal digits after a backslash.
fn unescaped(text: &str) -> PathBuf {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsStr::from_bytes(&out))
}

/// The group of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    path: PathBuf,
}

impl Group {
    /// The place of a command's group, which need not exist.
    pub(crate) fn of(directory: &Path, id: &str) -> Self {
        Self { path: directory.join(format!("{PREFIX}{id}")) }
    }

    /// The group at a path that was written down, if it is the one of this command and nothing else.
    pub(crate) fn at(path: &Path, id: &str) -> Option<Self> {
        let group = Self::of(path.parent()?, id);
        (path.is_absolute() && group.path == path).then_some(group)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it. It is of use only where the kernel can end all of it, as from Linux 5.14 on.
    pub(crate) fn make(&self) -> Result<OwnedFd, Errno> {
        rustix::fs::mkdir(&self.path, Mode::from_raw_mode(0o755))?;
        let opened = accessat(CWD, self.path.join("cgroup.kill"), Access::WRITE_OK, AtFlags::EACCESS).and_then(|()| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(&self.path, flags, Mode::empty())
        });
        if opened.is_err() {
            self.remove();
        }
        opened
    }

    /// Kills all that is in it. The processes end soon after.
    pub(crate) fn kill(&self) {
        // It fails where there is no such group any more.
        let _ = fs::OpenOptions::new()
            .write(true)
            .open(self.path.join("cgroup.kill"))
            .and_then(|mut file| io::Write::write_all(&mut file, b"1"));
    }

    /// Removes it; whether it is gone. It stays while a process is in it.
    pub(crate) fn remove(&self) -> bool {
        matches!(rustix::fs::rmdir(&self.path), Ok(()) | Err(Errno::NOENT))
    }
}

/// A fork whose copy is in a group from its first instruction on. Moving it there afterwards would have to wait for
/// every other fork of the system.
///
/// It returns as `fork(2)` does; the caller has one thread, or calls nothing in the copy that needs a lock.
#[cfg(target_os = "linux")]
pub(crate) fn fork_into(group: &OwnedFd) -> libc::c_long {
    use std::os::fd::AsRawFd as _;
    /// `struct clone_args` up to its last field.
    #[repr(C)]
    #[derive(Default)]
    struct CloneArgs {
        flags: u64,
        pidfd: u64,
        child_tid: u64,
        parent_tid: u64,
        exit_signal: u64,
        stack: u64,
        stack_size: u64,
        tls: u64,
        set_tid: u64,
        set_tid_size: u64,
        cgroup: u64,
    }
    let args = CloneArgs {
        flags: INTO_CGROUP,
        exit_signal: u64::from(libc::SIGCHLD.cast_unsigned()),
        cgroup: u64::from(group.as_raw_fd().cast_unsigned()),
        ..CloneArgs::default()
    };
    // SAFETY: the structure has the form and size that the kernel knows; without a stack of its own and shared memory this is
    // a fork, with the duties that the caller has for one.
    #[allow(unsafe_code)]
    unsafe {
        libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>())
    }
}

/// Makes a group, starts a process in it that ends by itself, and removes the group.
///
/// # Errors
/// Why that does not work here, for a person.
#[cfg(target_os = "linux")]
pub(crate) fn try_here() -> Result<(), String> {
    let group = Group::of(&delegated()?, &format!("try-{}", std::process::id()));
    let of_path = |what: &str, error: &dyn std::fmt::Display| format!("{what} {}: {error}", group.path.display());
    let opened = group.make().map_err(|errno| of_path("making", &errno))?;
    let forked = fork_into(&opened);
    if forked == 0 {
        crate::supervisor::exit(0)
    }
    let outcome = match i32::try_from(forked).ok().and_then(|pid| rustix::process::Pid::from_raw(pid.max(0))) {
        None => Err(of_path("starting a process in", &io::Error::last_os_error())),
        Some(pid) => {
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
            Ok(())
        }
    };
    group.remove();
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "31 1 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                          40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n\
                          41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    const UNIFIED: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const INNER: &str = "30 23 0:26 /box /sys/fs/cg\\040roup rw,nosuid - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_own_group_is_found_whatever_is_mounted() {
        let service = "/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope";
        let own = |cgroup: &str, mounts| super::own(cgroup, mounts).map(|path| path.to_str().unwrap().to_owned());
        assert_eq!(own("9:name=systemd:/\n0::/\n", HYBRID).unwrap(), "/sys/fs/cgroup/unified/");
        assert_eq!(own(&format!("0::{service}\n"), UNIFIED).unwrap(), format!("/sys/fs/cgroup{service}"));
        assert_eq!(own("0::/box/a\n", INNER).unwrap(), "/sys/fs/cg roup/a");
        for (cgroup, mounts, why) in [
            ("4:cpu:/\n", UNIFIED, "no cgroup v2"),
            ("0::/\n", "", "no cgroup v2 is mounted"),
            ("0::/other\n", INNER, "/other lies outside"),
            ("0::/../a\n", UNIFIED, "/../a lies outside"),
        ] {
            let error = own(cgroup, mounts).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn groups_are_made_only_where_all_that_is_needed_is_there() {
        let tree = tempfile::tempdir().unwrap();
        let directory = tree.path().join("user@1000.service");
        assert!(may_make_groups(&directory).unwrap_err().contains("user@1000.service"));
        fs::create_dir(&directory).unwrap();
        assert!(may_make_groups(&directory).unwrap_err().contains("cgroup.procs"));
        fs::write(directory.join("cgroup.procs"), "").unwrap();
        may_make_groups(&directory).unwrap();
        // An old kernel's group cannot be ended as a whole: it is not kept.
        let group = Group::of(&directory, "0123");
        assert!(group.make().is_err() && !group.path().exists());
    }

    #[test]
    fn a_path_that_was_written_down_is_a_commands_own_group_or_none() {
        let of = |path: &str| Group::at(Path::new(path), "0123").map(|group| group.path);
        assert_eq!(of("/cg/a/openoxide-0123"), Some("/cg/a/openoxide-0123".into()));
        for other in ["/cg/a", "/cg/a/openoxide-0124", "openoxide-0123", "/cg/openoxide-0123/..", "/"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
