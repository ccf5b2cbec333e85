//! Opens and reads files of configuration: regular ones, of a bounded size, without waiting. What others may write or read is
//! judged on the open file (`config/home.rs`), so that it cannot be exchanged in between.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Component, Path};

use anyhow::{Context as _, bail};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::home::{self, Privacy};

/// The most bytes of one file.
const LARGEST: u64 = 1 << 20;

/// A FIFO without a writer is opened at once, and a terminal does not become this process's own.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// The text of a file of the machine or the user, links followed; `None` where it does not exist. With a privacy it has to have
/// that.
///
/// # Errors
/// No regular file, too large, not UTF-8, not readable, or open to others.
pub(crate) fn read(path: &Path, privacy: Option<Privacy>) -> anyhow::Result<Option<String>> {
    let file = match rustix::fs::open(path, FLAGS, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(errno) => return Err(errno).context(format!("cannot read {}", path.display())),
    };
    if let Some(privacy) = privacy {
        let metadata = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
        if let Some(fault) = home::fault_of(path, &metadata, privacy) {
            bail!("{fault}");
        }
    }
    text_of(file, path).map(Some)
}

/// The text of a file beneath a directory; `None` where it does not exist. A link within the directory is followed, one that leads
/// out of it is an error.
///
/// # Errors
/// As [`read`], and a link that leads out.
pub(crate) fn read_beneath(directory: &Path, name: &Path) -> anyhow::Result<Option<String>> {
    let shown = directory.join(name);
    let opened = rustix::fs::open(directory, FLAGS | OFlags::DIRECTORY, Mode::empty())
        .and_then(|directory| open_beneath(directory, name));
    match opened {
        Ok(file) => text_of(File::from(file), &shown).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(Errno::XDEV | Errno::LOOP) => bail!(
            "{} is a link that leads out of the project {}, to a configuration that is not the project's own; put a file there, \
             or remove the link",
            shown.display(),
            directory.display()
        ),
        Err(errno) => Err(errno).context(format!("cannot read {}", shown.display())),
    }
}

#[cfg(target_os = "linux")]
fn open_beneath(directory: OwnedFd, name: &Path) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(&directory, name, FLAGS, Mode::empty(), resolve) {
        // The kernel is older than 5.6, or a container's filter does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => open_without_links(directory, name),
        done => done,
    }
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(directory: OwnedFd, name: &Path) -> Result<OwnedFd, Errno> {
    open_without_links(directory, name)
}

/// One component after the other, none of which may be a link.
fn open_without_links(mut directory: OwnedFd, name: &Path) -> Result<OwnedFd, Errno> {
    for component in name.components() {
        let Component::Normal(component) = component else { return Err(Errno::XDEV) };
        directory = rustix::fs::openat(directory.as_fd(), component, FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(directory)
}

fn text_of(file: File, path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let failed = || format!("cannot read {shown}");
    if !file.metadata().with_context(failed)?.is_file() {
        bail!("{shown} is no regular file; put one in its place, or remove it");
    }
    let mut text = String::new();
    let read = file.take(LARGEST + 1).read_to_string(&mut text).with_context(failed)?;
    if read as u64 > LARGEST {
        bail!("{shown} has more than {LARGEST} bytes, which no configuration has; make it smaller");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read_and_nothing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let told = |name: &str| format!("{:#}", read(&at(name), None).unwrap_err());
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), Mode::from_raw_mode(0o600)).unwrap();
        assert!(told("fifo").contains("no regular file"));
        assert!(told("").contains("no regular file"));
        symlink("/dev/zero", at("endless")).unwrap();
        assert!(told("endless").contains("no regular file"));
        std::fs::write(at("large"), vec![b'#'; 1 + (1 << 20)]).unwrap();
        assert!(told("large").contains("1048576 bytes"));
        std::fs::write(at("bytes"), b"\xff").unwrap();
        assert!(told("bytes").contains("cannot read"));
        std::fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        assert_eq!(read(&at("link"), None).unwrap().as_deref(), Some("text"));
        assert_eq!(read(&at("missing"), None).unwrap(), None);
    }

    #[test]
    fn a_link_out_of_the_directory_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("project/inner")).unwrap();
        std::fs::create_dir_all(at("other")).unwrap();
        std::fs::write(at("other/config"), "hijack").unwrap();
        std::fs::write(at("project/inner/config"), "own").unwrap();
        for (name, target) in [
            ("project/up", "../other"),
            ("project/absolute", at("other").to_str().unwrap()),
            ("project/within", "inner"),
        ] {
            symlink(target, at(name)).unwrap();
        }
        symlink("/proc/self/root", at("project/magic")).unwrap();
        let beneath = |name: &str| read_beneath(&at("project"), Path::new(name));
        for name in ["up/config", "absolute/config", "magic/etc/passwd", "../other/config"] {
            let told = format!("{:#}", beneath(name).unwrap_err());
            assert!(told.contains(name.split('/').next().unwrap()) && told.contains("leads out of"), "{name}: {told}");
        }
        assert_eq!(beneath("within/config").unwrap().as_deref(), Some("own"));
        assert_eq!(beneath("inner/config").unwrap().as_deref(), Some("own"));
        assert_eq!(beneath("inner/missing").unwrap(), None);
        let without = |name: &str| {
            let project = rustix::fs::open(at("project"), FLAGS, Mode::empty()).unwrap();
            open_without_links(project, Path::new(name)).map(|_| ())
        };
        assert_eq!(without("inner/config"), Ok(()));
        for name in ["up/config", "within/config", "../other/config"] {
            assert!(without(name).is_err(), "{name}");
        }
    }
}
