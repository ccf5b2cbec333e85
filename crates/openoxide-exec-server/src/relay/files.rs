//! The worker that changes files: takes one order after the other and answers each. The sandbox decides what it may do, as it
//! decides for commands.
//!
//! A file that is written takes the place of what was there at once, or not at all: it is written beside it under a name of
//! its own and renamed. When the server is gone, or the tree is being ended, that name is taken away.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::frames::{FromRelay, Lines, ToRelay};
use super::{open_pipe, tell};

/// Directories below each other that are copied.
const DEEPEST: usize = 128;

/// A file operation. Paths are absolute.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "do")]
pub(crate) enum Order {
    /// Writes a whole file.
    Write {
        /// The file.
        path: PathBuf,
        /// Base64.
        data: String,
    },
    /// Begins to write a file by blocks.
    Begin {
        /// The file.
        path: PathBuf,
    },
    /// Writes a block of it.
    Block {
        /// Where to.
        offset: u64,
        /// Base64.
        data: String,
    },
    /// Puts it in place.
    Commit,
    /// Makes a directory.
    MakeDirectory {
        /// The directory.
        path: PathBuf,
        /// Whether those above it are made as well.
        recursive: bool,
    },
    /// Removes a file or directory.
    Remove {
        /// What goes.
        path: PathBuf,
        /// Whether a directory goes with all that is in it.
        recursive: bool,
        /// Whether it is no error that there is nothing.
        force: bool,
    },
    /// Copies a file or directory.
    Copy {
        /// From where.
        source: PathBuf,
        /// To where.
        destination: PathBuf,
        /// Whether a directory is copied with all that is in it.
        recursive: bool,
    },
}

/// What an order came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// There is nothing of that name.
    NotFound {
        /// What the system says.
        why: String,
    },
    /// The sandbox or the owner of the place says no.
    Denied {
        /// What the system says.
        why: String,
    },
    /// It cannot be done so.
    Invalid {
        /// Why, and what to do.
        why: String,
    },
    /// It failed.
    Failed {
        /// What the system says.
        why: String,
    },
}

/// What goes wrong.
enum Wrong {
    Io(io::Error),
    Invalid(String),
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Wrong> for Answer {
    fn from(wrong: Wrong) -> Self {
        let error = match wrong {
            Wrong::Invalid(why) => return Self::Invalid { why },
            Wrong::Io(error) => error,
        };
        let why = error.to_string();
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound { why },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied { why },
            _ => Self::Failed { why },
        }
    }
}

/// Serves until the server is gone.
pub(super) fn serve(pipe: &OsString) -> i32 {
    let mut worker = Worker::default();
    let ended = worker.run(pipe);
    worker.draft = None;
    i32::from(ended.is_err())
}

#[derive(Default)]
struct Worker {
    draft: Option<Draft>,
}

impl Worker {
    fn run(&mut self, pipe: &OsString) -> io::Result<()> {
        let signals = openoxide_sandbox::ending_signals()?;
        let mut server = open_pipe(pipe)?;
        tell(&FromRelay::Ready.encode())?;
        let (mut lines, mut bytes) = (Lines::default(), vec![0; 64 << 10]);
        loop {
            let mut fds = [PollFd::new(&signals, PollFlags::IN), PollFd::new(&server, PollFlags::IN)];
            match poll(&mut fds, None) {
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
                Ok(_) if !fds[0].revents().is_empty() => return Ok(()),
                Ok(_) => {}
            }
            match server.read(&mut bytes)? {
                0 => return Ok(()),
                read => lines.push(&bytes[..read]),
            }
            while let Some(line) = lines.next() {
                let Some(ToRelay::Order(json)) = ToRelay::parse(&line) else { continue };
                let answer = match serde_json::from_str(&json) {
                    Ok(order) => self.obey(order).map_or_else(Answer::from, |()| Answer::Done),
                    Err(error) => Answer::Failed { why: error.to_string() },
                };
                let json = serde_json::to_string(&answer).map_err(io::Error::other)?;
                tell(&FromRelay::Answer(json).encode())?;
            }
        }
    }

    fn obey(&mut self, order: Order) -> Result<(), Wrong> {
        match order {
            Order::Write { path, data } => {
                let mut draft = Draft::beside(&path)?;
                draft.file.write_all(&decoded(&data)?)?;
                draft.put_in_place()?;
            }
            Order::Begin { path } => self.draft = Some(Draft::beside(&path)?),
            Order::Block { offset, data } => {
                let draft = self.draft.as_mut().ok_or_else(no_draft)?;
                draft.file.seek(SeekFrom::Start(offset))?;
                draft.file.write_all(&decoded(&data)?)?;
            }
            Order::Commit => self.draft.take().ok_or_else(no_draft)?.put_in_place()?,
            Order::MakeDirectory { path, recursive } => {
                fs::DirBuilder::new().recursive(recursive).mode(0o777).create(path)?;
            }
            Order::Remove { path, recursive, force } => match remove(&path, recursive) {
                Err(error) if force && error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            },
            Order::Copy { source, destination, recursive } => {
                let metadata = fs::metadata(&source)?;
                if metadata.is_dir() && !recursive {
                    return Err(Wrong::Invalid(format!(
                        "{} is a directory; copy it with recursive: true",
                        source.display()
                    )));
                }
                copy(&source, &metadata, &destination, 0)?;
            }
        }
        Ok(())
    }
}

fn decoded(data: &str) -> Result<Vec<u8>, Wrong> {
    STANDARD.decode(data).map_err(|error| Wrong::Invalid(format!("the data is not base64: {error}")))
}

fn no_draft() -> Wrong {
    Wrong::Invalid("no file is being written by this handle".to_owned())
}

/// A file that is being written beside its place.
struct Draft {
    file: File,
    written: PathBuf,
    place: PathBuf,
    is_in_place: bool,
}

impl Draft {
    fn beside(path: &Path) -> Result<Self, Wrong> {
        // What a link leads to is written, not the link.
        let place = match path.canonicalize() {
            Ok(place) => place,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
            Err(error) => return Err(error.into()),
        };
        let mode = match fs::symlink_metadata(&place) {
            Ok(metadata) if metadata.is_file() => metadata.mode() & 0o7777,
            Ok(_) => return Err(Wrong::Invalid(format!("{} is not a file", place.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0o666,
            Err(error) => return Err(error.into()),
        };
        let name = format!(".openoxide-{}", uuid::Uuid::new_v4().simple());
        let written = place.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&written)?;
        let draft = Self { file, written, place, is_in_place: false };
        if mode != 0o666 {
            // The mask of new files is not that of the one that was there. Where nobody may set modes it stays as it is.
            let _ = rustix::fs::fchmod(&draft.file, rustix::fs::Mode::from_raw_mode(mode));
        }
        Ok(draft)
    }

    fn put_in_place(mut self) -> io::Result<()> {
        self.file.sync_data()?;
        fs::rename(&self.written, &self.place)?;
        self.is_in_place = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_in_place {
            let _ = fs::remove_file(&self.written);
        }
    }
}

fn remove(path: &Path, recursive: bool) -> io::Result<()> {
    match fs::symlink_metadata(path)?.is_dir() {
        false => fs::remove_file(path),
        true if recursive => fs::remove_dir_all(path),
        true => fs::remove_dir(path),
    }
}

fn copy(source: &Path, metadata: &Metadata, destination: &Path, depth: usize) -> Result<(), Wrong> {
    if depth > DEEPEST {
        return Err(Wrong::Invalid(format!("{} is deeper than {DEEPEST} directories", source.display())));
    }
    if metadata.is_dir() {
        return copy_directory(source, destination, depth);
    }
    if !metadata.is_file() {
        return Err(Wrong::Invalid(format!("{} is neither a file nor a directory", source.display())));
    }
    let is_itself =
        fs::metadata(destination).is_ok_and(|other| (other.dev(), other.ino()) == (metadata.dev(), metadata.ino()));
    if is_itself {
        return Ok(());
    }
    // A pipe that has taken the place since would be waited for.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
    let mut from: File = rustix::fs::open(source, flags, rustix::fs::Mode::empty()).map_err(io::Error::from)?.into();
    let mut draft = Draft::beside(destination)?;
    io::copy(&mut from, &mut draft.file)?;
    let _ = rustix::fs::fchmod(&draft.file, rustix::fs::Mode::from_raw_mode(metadata.mode() & 0o777));
    draft.put_in_place()?;
    Ok(())
}

fn copy_directory(source: &Path, destination: &Path, depth: usize) -> Result<(), Wrong> {
    let inner = destination.ancestors().find_map(|above| above.canonicalize().ok());
    if depth == 0 && inner.is_some_and(|inner| source.canonicalize().is_ok_and(|source| inner.starts_with(source))) {
        return Err(Wrong::Invalid(format!("{} lies in {}", destination.display(), source.display())));
    }
    match fs::create_dir(destination) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        let (from, to) = (entry.path(), destination.join(entry.file_name()));
        let metadata = fs::symlink_metadata(&from)?;
        if metadata.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, to)?;
        } else {
            copy(&from, &metadata, &to, depth + 1)?;
        }
    }
    Ok(())
}
