//! The few mount calls that the view is made of. Everything is moved by descriptor, so that no path is looked up twice, and no
//! link is followed on the way to one.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags};

use super::super::failure::errno_of;
use crate::workspace::open_without_links;

/// Nothing beneath is written, gives rights by its owner, or is a device.
pub(super) const SEALED: u64 = libc::MOUNT_ATTR_RDONLY | OPEN;
/// The same, but writable.
pub(super) const OPEN: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// The form of `mount_setattr(2)`.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// A place in the tree as it is now, itself and not where it links to. A link on the way to it is told as `ELOOP`.
pub(super) fn place(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // A filter that does not know the call; every kernel that has the mount calls below has it.
        Err(Errno::NOSYS | Errno::PERM) => {}
        other => return other,
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return rustix::fs::open(path, flags, Mode::empty());
    };
    rustix::fs::openat(open_without_links(parent)?, name, flags, Mode::empty())
}

/// A copy, attached nowhere, of everything that is mounted at and below a place.
pub(super) fn copy(place: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(place, c"", flags)
}

/// Attaches a copy over a place.
pub(super) fn attach(copy: &OwnedFd, over: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(copy, c"", over, c"", flags)
}

/// Gives a copy, and all mounts in it, more attributes.
pub(super) fn restrict(copy: &OwnedFd, attributes: u64) -> Result<(), Errno> {
    let attr = MountAttr { set: attributes, clear: 0, propagation: 0, user_namespace: 0 };
    set_attributes(copy.as_fd(), c"", libc::AT_RECURSIVE | libc::AT_EMPTY_PATH, &attr)
}

/// Gives everything that is mounted more attributes.
pub(super) fn restrict_all(attributes: u64) -> Result<(), Errno> {
    let attr = MountAttr { set: attributes, clear: 0, propagation: 0, user_namespace: 0 };
    set_attributes(CWD, c"/", libc::AT_RECURSIVE, &attr)
}

/// Takes the whole tree out of whatever is shared with other namespaces.
pub(super) fn make_private() -> Result<(), Errno> {
    let attr = MountAttr { set: 0, clear: 0, propagation: libc::MS_PRIVATE, user_namespace: 0 };
    set_attributes(CWD, c"/", libc::AT_RECURSIVE, &attr)
}

/// Has what is mounted elsewhere come here, and nothing of here go there.
pub(super) fn make_slave() -> Result<(), Errno> {
    let attr = MountAttr { set: 0, clear: 0, propagation: libc::MS_SLAVE, user_namespace: 0 };
    set_attributes(CWD, c"/", libc::AT_RECURSIVE, &attr)
}

fn set_attributes(
    at: BorrowedFd<'_>,
    path: &std::ffi::CStr,
    flags: libc::c_int,
    attr: &MountAttr,
) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, the path ends with NUL, and the structure has the size that is told and the
    // kernel's layout.
    #[allow(unsafe_code)]
    let failed = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at.as_raw_fd(),
            path.as_ptr(),
            flags,
            std::ptr::from_ref(attr),
            size_of::<MountAttr>(),
        ) != 0
    };
    if failed { Err(errno_of(&std::io::Error::last_os_error())) } else { Ok(()) }
}

/// Mounts a new file system of a kind.
pub(super) fn new(kind: &str, at: &str, flags: MountFlags, options: &std::ffi::CStr) -> Result<(), Errno> {
    rustix::mount::mount(kind, at, kind, flags | MountFlags::NOSUID, options)
}

/// Makes what is mounted at a place, and not what is mounted below it, unwritable.
pub(super) fn close(at: &str, flags: MountFlags) -> Result<(), Errno> {
    let flags = flags | MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID;
    rustix::mount::mount_remount(at, flags, c"")
}

/// Covers a place with a copy of itself, so that it can be neither renamed nor removed.
pub(super) fn pin(place: BorrowedFd<'_>) -> Result<(), Errno> {
    attach(&copy(place)?, place)
}

/// Covers a place with a copy of itself that cannot be written.
pub(super) fn seal(place: BorrowedFd<'_>) -> Result<(), Errno> {
    let copy = copy(place)?;
    restrict(&copy, SEALED)?;
    attach(&copy, place)
}
