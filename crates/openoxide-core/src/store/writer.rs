//! The one writer of a rollout's file: it adds lines, each with one `write(2)`, and sees to it that what a failed write
//! leaves behind spoils no other line.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lock::ThreadLock;
use super::{Reading, RolloutLine, Stamp, Syncer, ThreadWriter, json, read};
use crate::Holder;

/// What can fail while lines are written, so that a test can have it fail.
pub(crate) trait Disk: Send + Sync + std::fmt::Debug {
    /// Writes at the end of a file.
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<()>;

    /// Cuts a file.
    fn cut(&self, file: &File, length: u64) -> io::Result<()>;
}

/// The disk as it is.
#[derive(Debug)]
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn cut(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }
}

/// See the module.
pub(super) struct JsonlWriter {
    lock: ThreadLock,
    path: PathBuf,
    file: Arc<File>,
    disk: Arc<dyn Disk>,
    /// Bytes of the file.
    length: u64,
    /// Whether the last of them are the beginning of a line that could neither be finished nor cut off.
    is_torn: bool,
}

impl JsonlWriter {
    /// Goes on with a file. A last line that was cut off is dealt with first.
    pub(super) fn new(lock: ThreadLock, path: PathBuf, file: File, disk: Arc<dyn Disk>) -> io::Result<Self> {
        let mut writer = Self { lock, path, file: Arc::new(file), disk, length: 0, is_torn: false };
        writer.end_torn_line()?;
        Ok(writer)
    }

    /// A crash may leave a line without its end; what follows must not become part of it. One that is whole but for its
    /// end is kept, another one is cut off: it was never announced.
    fn end_torn_line(&mut self) -> io::Result<()> {
        let mut file = &*self.file;
        self.length = file.seek(SeekFrom::End(0))?;
        let begin = match self.last_line()? {
            Some(begin) => begin,
            None => return Ok(()),
        };
        let mut line = Vec::new();
        file.seek(SeekFrom::Start(begin))?;
        file.read_to_end(&mut line)?;
        if json::read_line(&line).is_ok() {
            self.disk.write(&self.file, b"\n")?;
            self.length += 1;
            return Ok(());
        }
        tracing::warn!(path = %self.path.display(), bytes = line.len(), "a last line that was cut off is removed");
        self.disk.cut(&self.file, begin)?;
        self.length = begin;
        Ok(())
    }

    /// Where the last line begins, if it has no end.
    fn last_line(&self) -> io::Result<Option<u64>> {
        const CHUNK: u64 = 64 * 1024;
        let (mut end, mut chunk) = (self.length, Vec::new());
        while end > 0 {
            let begin = end.saturating_sub(CHUNK);
            chunk.resize(usize::try_from(end - begin).unwrap_or_default(), 0);
            self.file.read_exact_at(&mut chunk, begin)?;
            if let Some(at) = chunk.iter().rposition(|byte| *byte == b'\n') {
                let line = begin + at as u64 + 1;
                return Ok((line < self.length).then_some(line));
            }
            end = begin;
        }
        Ok((self.length > 0).then_some(0))
    }

    /// Finds out what a failed write has left, and takes it back if that can be done. Whether the line is there after all.
    fn after_failure(&mut self, wanted: u64) -> bool {
        let there = self.file.metadata().map(|metadata| metadata.len());
        if matches!(there, Ok(length) if length == self.length + wanted) {
            (self.length, self.is_torn) = (self.length + wanted, false);
            return true;
        }
        // A torn line from before stays, so that the next one begins with an end for it.
        let is_clean = matches!(there, Ok(length) if length == self.length) && !self.is_torn;
        if !is_clean && self.disk.cut(&self.file, self.length).is_err() {
            self.is_torn = true;
            self.length = self.file.metadata().map_or(self.length, |metadata| metadata.len());
        }
        false
    }
}

impl ThreadWriter for JsonlWriter {
    fn append_line(&mut self, line: &RolloutLine) -> io::Result<()> {
        let mut bytes = Vec::new();
        if self.is_torn {
            bytes.push(b'\n');
        }
        json::write_line(&mut bytes, line)?;
        bytes.push(b'\n');
        // One write for the whole line: with O_APPEND it lands in one piece or, when the disk is full, is torn.
        match self.disk.write(&self.file, &bytes) {
            Ok(()) => {
                (self.length, self.is_torn) = (self.length + bytes.len() as u64, false);
                Ok(())
            }
            Err(_) if self.after_failure(bytes.len() as u64) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn stamp(&self) -> Stamp {
        // The descriptor is open, so only a broken file system fails here; such a stamp is unlike any other.
        let there = self.file.metadata().map(|metadata| stamp_of(&metadata));
        let Stamp { device, inode, .. } = there.unwrap_or(Stamp { device: 0, inode: 0, length: 0 });
        Stamp { device, inode, length: self.length }
    }

    fn read_back(&self, max_bytes: u64) -> io::Result<Reading> {
        read::tail(&self.file, max_bytes)
    }

    fn begin_anew(&mut self) -> io::Result<Option<PathBuf>> {
        let aside = if self.length > 0 {
            let aside = self.path.with_extension(format!("damaged-{}", uuid::Uuid::now_v7()));
            fs::rename(&self.path, &aside)?;
            Some(aside)
        } else {
            None
        };
        self.file = Arc::new(create(&self.path)?);
        (self.length, self.is_torn) = (0, false);
        Ok(aside)
    }

    fn discard(self: Box<Self>) -> io::Result<()> {
        fs::remove_file(&self.path)
    }

    fn note(&self, holder: &Holder) {
        self.lock.note(holder);
    }

    fn syncer(&self) -> io::Result<Syncer> {
        let file = Arc::clone(&self.file);
        Ok(Box::new(move || file.sync_data()))
    }
}

/// Opens a rollout, making it where there is none.
pub(super) fn create(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

/// What a file is, by what the system says of it.
pub(super) fn stamp_of(metadata: &fs::Metadata) -> Stamp {
    Stamp { device: metadata.dev(), inode: metadata.ino(), length: metadata.len() }
}
