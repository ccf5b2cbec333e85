//! Notes of the directories for temporary files that servers have made: `<home>/run/temporary/<thread>.<pid>`, one for each
//! thread and server. A note names the server's process and the directory, and goes with the directory. The next start removes
//! what servers that are gone have left.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use openoxide_sandbox::{HostPaths, Life, ProcessId, run_directory};

use super::place::is_ours;
use crate::ThreadId;

fn directory(host_paths: &HostPaths) -> Option<PathBuf> {
    Some(run_directory(host_paths.state.as_deref()?).join("temporary"))
}

fn own_note(host_paths: &HostPaths, id: ThreadId) -> Option<PathBuf> {
    Some(directory(host_paths)?.join(format!("{id}.{}", std::process::id())))
}

/// Writes down that this process makes the directory, or uses it from now on.
pub(crate) fn note(host_paths: &HostPaths, id: ThreadId, place: &Path) {
    let (Some(path), Some(own)) = (own_note(host_paths, id), ProcessId::own()) else { return };
    let text = [own.to_string().as_bytes(), b"\n", place.as_os_str().as_bytes()].concat();
    let written = fs::write(&path, &text).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let parent = path.parent().unwrap_or(&path);
            fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
            fs::write(&path, &text)
        }
        _ => Err(error),
    });
    if let Err(error) = written {
        tracing::debug!(path = %path.display(), %error, "a directory for temporary files was not written down");
    }
}

/// The directory is gone.
pub(crate) fn forget(host_paths: &HostPaths, id: ThreadId) {
    if let Some(path) = own_note(host_paths, id) {
        // There is none where another process has made the directory.
        let _ = fs::remove_file(path);
    }
}

/// A note as it was found.
struct Note {
    path: PathBuf,
    id: ThreadId,
    life: Life,
    place: PathBuf,
}

impl Note {
    fn read(path: PathBuf) -> Option<Self> {
        let id: ThreadId = path.file_name()?.to_str()?.split('.').next()?.parse().ok()?;
        let mut bytes = fs::read(&path).ok()?;
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let place = PathBuf::from(std::ffi::OsString::from_vec(bytes.split_off(end + 1)));
        let server: ProcessId = std::str::from_utf8(&bytes[..end]).ok()?.parse().ok()?;
        // A command in full access can write a note: it is believed of a thread's own directory alone.
        let is_apt = place.is_absolute() && place.file_name() == Some(OsStr::new(&format!("openoxide-{id}")));
        is_apt.then(|| Self { path, id, life: server.life(), place })
    }

    /// Takes the directory out of the way of whoever uses the thread next; where it is then, if it is there at all.
    fn put_aside(&self) -> io::Result<Option<PathBuf>> {
        let aside = self.place.with_extension("old");
        match is_ours(&self.place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(true) => {
                if fs::rename(&self.place, &aside).is_err() {
                    // What an earlier start has put aside, and was killed over.
                    remove(&aside)?;
                    fs::rename(&self.place, &aside)?;
                }
            }
            Ok(false) => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(is_ours(&aside).is_ok_and(|is_ours| is_ours).then_some(aside))
    }
}

/// Removes a note that its server was killed over while it wrote it. The directory was not made yet.
fn forget_torn(note: &Path) {
    let pid = note.extension().and_then(OsStr::to_str).and_then(|pid| pid.parse().ok());
    if pid.is_some_and(|pid| ProcessId::of(pid).is_none()) {
        // What cannot be removed is looked at again by the next start.
        let _ = fs::remove_file(note);
    }
}

/// Removes a directory of ours. Links are removed and not followed.
fn remove(place: &Path) -> io::Result<()> {
    match is_ours(place) {
        Ok(true) => fs::remove_dir_all(place),
        Ok(false) => Err(io::Error::other("it is not the user's own directory of mode 0700")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes what servers that are gone have left. The directories are out of the way on return; removing what is in them goes
/// on in a thread, because there may be much. What that does not come to is done by the next start.
pub(crate) fn sweep(host_paths: &HostPaths) -> Option<std::thread::JoinHandle<()>> {
    let entries = fs::read_dir(directory(host_paths)?).ok()?;
    let read = |path: PathBuf| {
        let note = Note::read(path.clone());
        if note.is_none() {
            forget_torn(&path);
        }
        note
    };
    let notes: Vec<Note> = entries.flatten().filter_map(|entry| read(entry.path())).collect();
    let (left, used): (Vec<_>, Vec<_>) = notes.into_iter().partition(|note| note.life == Life::Ended);
    let mut aside = Vec::new();
    for note in left {
        // Another server goes on with the thread, and with what is there.
        let is_used = used.iter().any(|used| used.id == note.id);
        match if is_used { Ok(None) } else { note.put_aside() } {
            Ok(place) => aside.push((note.path, place)),
            Err(error) => {
                tracing::warn!(place = %note.place.display(), %error, "a thread's temporary files were not removed");
            }
        }
    }
    if aside.is_empty() {
        return None;
    }
    let work = move || {
        for (note, place) in aside {
            let removed = place.map_or(Ok(()), |place| remove(&place)).and_then(|()| fs::remove_file(&note));
            if let Err(error) = removed {
                tracing::debug!(note = %note.display(), %error, "temporary files are left to the next start");
            }
        }
    };
    std::thread::Builder::new().name("temporary-sweep".to_owned()).spawn(work).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    struct Bench {
        directory: tempfile::TempDir,
        host_paths: HostPaths,
    }

    impl Bench {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let state = Some(directory.path().join("home"));
            let host_paths = HostPaths { tmpdir: Some(directory.path().into()), state, ..HostPaths::default() };
            Self { directory, host_paths }
        }

        /// A directory with a file, which a server that is gone has made.
        fn left(&self) -> (ThreadId, PathBuf) {
            let id = ThreadId::new();
            let place = crate::thread::temporary::place(&self.host_paths, id);
            super::super::place::make(&place).unwrap();
            fs::write(place.join("file"), "").unwrap();
            std::os::unix::fs::symlink(self.directory.path(), place.join("link")).unwrap();
            self.note(id, &place, "boot-of-yesterday pid:[1] 1 1");
            (id, place)
        }

        fn note(&self, id: ThreadId, place: &Path, server: &str) {
            let notes = directory(&self.host_paths).unwrap();
            fs::create_dir_all(&notes).unwrap();
            fs::write(notes.join(format!("{id}.1")), format!("{server}\n{}", place.display())).unwrap();
        }

        fn torn_note(&self, pid: u32) {
            let notes = directory(&self.host_paths).unwrap();
            fs::create_dir_all(&notes).unwrap();
            fs::write(notes.join(format!("{}.{pid}", ThreadId::new())), "").unwrap();
        }

        fn sweep(&self) {
            sweep(&self.host_paths).into_iter().for_each(|thread| thread.join().unwrap());
        }

        fn notes(&self) -> usize {
            fs::read_dir(directory(&self.host_paths).unwrap()).unwrap().count()
        }
    }

    #[test]
    fn a_note_that_was_not_finished_goes_unless_its_server_may_still_be_at_it() {
        let bench = Bench::new();
        bench.torn_note(u32::try_from(i32::MAX).unwrap());
        bench.torn_note(std::process::id());
        bench.sweep();
        assert_eq!(bench.notes(), 1);
    }

    #[test]
    fn what_a_server_that_is_gone_has_left_goes_and_nothing_else() {
        let bench = Bench::new();
        let (_, place) = bench.left();
        // A sweep that was killed has put another one of its name aside.
        fs::create_dir(place.with_extension("old")).unwrap();
        fs::set_permissions(place.with_extension("old"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(place.with_extension("old").join("file"), "").unwrap();
        let (own, kept) = bench.left();
        note(&bench.host_paths, own, &kept);
        bench.sweep();
        assert!(!place.exists() && !place.with_extension("old").exists());
        assert!(kept.join("file").exists() && bench.directory.path().exists(), "this process uses it");
        assert_eq!(bench.notes(), 1);
        forget(&bench.host_paths, own);
        assert_eq!(bench.notes(), 0);
    }

    #[test]
    fn a_note_is_believed_of_a_threads_own_directory_alone() {
        let bench = Bench::new();
        let gone = "boot-of-yesterday pid:[1] 1 1";
        let precious = bench.directory.path().join("precious");
        super::super::place::make(&precious).unwrap();
        bench.note(ThreadId::new(), &precious, gone);
        // Of another thread.
        let (_, other) = bench.left();
        fs::remove_dir_all(directory(&bench.host_paths).unwrap()).unwrap();
        bench.note(ThreadId::new(), &other, gone);
        // Open to others, and a link to one that is not.
        let (_, open) = bench.left();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let (_, link) = bench.left();
        fs::remove_dir_all(&link).unwrap();
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        bench.sweep();
        assert!(precious.exists() && other.exists() && open.exists() && link.exists());
    }
}
