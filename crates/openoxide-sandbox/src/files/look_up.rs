//! Finding a place without opening what is there, and what a descriptor tells of where it leads.

use std::ffi::OsString;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Links, OpenError};

/// How often a look-up is tried again that was disturbed by renames on its way.
const TRIES: usize = 64;

pub(super) fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// How far a look-up may lead.
#[derive(Clone, Copy)]
pub(super) enum Reach {
    /// Wherever links lead, but those of `/proc`.
    Anywhere,
    /// Beneath the directory it starts from.
    Beneath(Links),
}

/// Finds a place without opening what is there.
#[cfg(target_os = "linux")]
pub(super) fn look_up(from: BorrowedFd<'_>, path: &Path, reach: Reach) -> Result<OwnedFd, OpenError> {
    use rustix::fs::ResolveFlags;
    let (resolve, flags) = match reach {
        Reach::Anywhere => (ResolveFlags::NO_MAGICLINKS, OFlags::PATH),
        Reach::Beneath(Links::Beneath) => (ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS, OFlags::PATH),
        Reach::Beneath(Links::Refused) => {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
            (resolve, OFlags::PATH | OFlags::NOFOLLOW)
        }
    };
    for _ in 0..TRIES {
        match rustix::fs::openat2(from, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // Something was renamed meanwhile, so that the kernel could not tell whether the path stays beneath.
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOSYS | Errno::PERM) => return look_up_by_hand(from, path, reach),
            other => return Ok(other?),
        }
    }
    Err(OpenError::Io(Errno::AGAIN.into()))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn look_up(from: BorrowedFd<'_>, path: &Path, reach: Reach) -> Result<OwnedFd, OpenError> {
    look_up_by_hand(from, path, reach)
}

/// How a place is opened without opening what is there.
#[cfg(target_os = "linux")]
pub(super) const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
pub(super) const PLACE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// The same for systems without the call that judges a whole path.
pub(super) fn look_up_by_hand(from: BorrowedFd<'_>, path: &Path, reach: Reach) -> Result<OwnedFd, OpenError> {
    match reach {
        Reach::Anywhere => {
            let found = rustix::fs::openat(from, path, PLACE, Mode::empty())?;
            // A magic link says nothing of where it leads, so that what it was found through counts.
            if is_beneath_proc(path) { Err(OpenError::Kernel) } else { Ok(found) }
        }
        Reach::Beneath(Links::Beneath) => {
            let found = rustix::fs::openat(from, path, PLACE, Mode::empty())?;
            let is_beneath = real_path(found.as_fd())?.starts_with(real_path(from)?);
            if is_beneath { Ok(found) } else { Err(OpenError::Link) }
        }
        Reach::Beneath(Links::Refused) => {
            let mut found = from.try_clone_to_owned()?;
            for part in path.components() {
                match part {
                    Component::Normal(name) => {
                        found = rustix::fs::openat(&found, name, PLACE | OFlags::NOFOLLOW, Mode::empty())?;
                    }
                    Component::CurDir => {}
                    _ => return Err(OpenError::Link),
                }
            }
            Ok(found)
        }
    }
}

fn is_beneath_proc(path: &Path) -> bool {
    path.starts_with("/proc") || path.starts_with("/sys")
}

/// Opens what a descriptor stands for, for reading, without waiting for anybody.
#[cfg(target_os = "linux")]
pub(super) fn reopen(found: BorrowedFd<'_>) -> Result<OwnedFd, OpenError> {
    // A lease that a command holds on the file would otherwise be waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(descriptor_path(found), flags, Mode::empty())?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn reopen(found: BorrowedFd<'_>) -> Result<OwnedFd, OpenError> {
    Ok(found.try_clone_to_owned()?)
}

fn descriptor_path(found: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", found.as_raw_fd())
}

/// Where what a descriptor stands for lies now.
#[cfg(target_os = "linux")]
pub(super) fn real_path(found: BorrowedFd<'_>) -> Result<PathBuf, OpenError> {
    let path = rustix::fs::readlink(descriptor_path(found), Vec::new())?;
    Ok(OsString::from_vec(path.into_bytes()).into())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn real_path(found: BorrowedFd<'_>) -> Result<PathBuf, OpenError> {
    let path = rustix::fs::getpath(found)?;
    Ok(OsString::from_vec(path.into_bytes()).into())
}

/// File systems whose files the kernel makes up as they are read, by the numbers of `statfs(2)`.
#[cfg(target_os = "linux")]
const MADE_BY_KERNEL: [u64; 9] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xcafe_4a11, // bpf
    0x6265_6570, // configfs
];

#[cfg(target_os = "linux")]
pub(super) fn is_made_by_kernel(found: BorrowedFd<'_>, path: &Path) -> bool {
    let is_kernels = |stat: rustix::fs::StatFs| {
        // The type's width differs between machines; the numbers are 32 bits wide.
        MADE_BY_KERNEL.contains(&(stat.f_type as u64 & 0xffff_ffff))
    };
    is_beneath_proc(path) || rustix::fs::fstatfs(found).is_ok_and(is_kernels)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_made_by_kernel(_: BorrowedFd<'_>, _: &Path) -> bool {
    false
}
