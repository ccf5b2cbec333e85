//! Rollouts as files: `<home>/sessions/YYYY/MM/DD/rollout-<time>-<thread id>.jsonl`, one line of JSON for each item.
//!
//! The time in the path is that in the thread's id (UUID v7, UTC), so an id alone leads to its file. Directories have
//! mode 0700 and files 0600. The one writer holds an exclusive `flock`, which ends with its process however that ends.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use time::OffsetDateTime;
use time::macros::format_description;

use super::{Opened, RolloutItem, RolloutLine, StoredThread, Syncer, ThreadStore, ThreadWriter};
use crate::ThreadId;

/// The longest line that is read back; longer ones are left out.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// Keeps each rollout in a file of its own under one directory.
#[derive(Debug, Clone)]
pub struct JsonlStore {
    sessions: PathBuf,
}

impl JsonlStore {
    /// A store under `<home>/sessions`; nothing is created before the first line is written.
    pub fn new(home: &Path) -> Self {
        Self { sessions: home.join("sessions") }
    }

    /// Where what lists show is kept; see [`super::summaries`].
    pub(super) fn index(&self) -> PathBuf {
        self.sessions.join("index.jsonl")
    }

    /// The store of threads that were put aside, under `<home>/archived_sessions`.
    pub fn archived(home: &Path) -> Self {
        Self { sessions: home.join("archived_sessions") }
    }

    /// Moves a thread to another store of the same file system; [`io::ErrorKind::WouldBlock`] while a writer holds it.
    pub fn move_to(&self, id: ThreadId, other: &Self) -> io::Result<()> {
        let (from, to) = (self.path_of(id)?, other.path_of(id)?);
        let file = File::open(&from)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        if let Some(directory) = to.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        fs::rename(from, to)
    }

    /// Where the rollout of a thread is, whether or not it exists. Fails for an id that carries no time.
    pub fn path_of(&self, id: ThreadId) -> io::Result<PathBuf> {
        let time = id
            .unix_seconds()
            .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the thread id is not a UUID v7"))?;
        let (directory, name) = (
            time.format(format_description!("[year]/[month]/[day]")).map_err(io::Error::other)?,
            time.format(format_description!("[year]-[month]-[day]T[hour]-[minute]-[second]"))
                .map_err(io::Error::other)?,
        );
        Ok(self.sessions.join(directory).join(format!("rollout-{name}-{id}.jsonl")))
    }
}

impl ThreadStore for JsonlStore {
    fn lock(&self, id: ThreadId) -> io::Result<Box<dyn ThreadWriter>> {
        let path = self.path_of(id)?;
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        end_torn_line(&mut file)?;
        Ok(Box::new(JsonlWriter { file: Arc::new(file) }))
    }

    fn open(&self, id: ThreadId) -> io::Result<Opened> {
        let mut file = OpenOptions::new().read(true).append(true).open(self.path_of(id)?)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        end_torn_line(&mut file)?;
        file.seek(SeekFrom::Start(0))?;
        let lines = read_lines(file.try_clone()?)?;
        Ok((Box::new(JsonlWriter { file: Arc::new(file) }), lines))
    }

    fn contains(&self, id: ThreadId) -> bool {
        self.path_of(id).is_ok_and(|path| path.is_file())
    }

    fn holder(&self, id: ThreadId) -> Option<u32> {
        // Linux lists every lock: `1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF`.
        let inode = fs::metadata(self.path_of(id).ok()?).ok()?.ino();
        let locks = fs::read_to_string("/proc/locks").ok()?;
        locks.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let (kind, pid, place) = (words.next()?, words.nth(2)?, words.next()?);
            let is_it = kind == "FLOCK" && place.rsplit(':').next()?.parse() == Ok(inode);
            is_it.then(|| pid.parse().ok())?
        })
    }

    fn load(&self, id: ThreadId) -> io::Result<Vec<RolloutLine>> {
        read_lines(File::open(self.path_of(id)?)?)
    }

    fn list(&self) -> io::Result<Vec<StoredThread>> {
        let mut found = Vec::new();
        collect(&self.sessions, 3, &mut found)?;
        found.sort_by_key(|thread| std::cmp::Reverse(thread.id));
        Ok(found)
    }

    fn delete(&self, id: ThreadId) -> io::Result<()> {
        let path = self.path_of(id)?;
        let file = File::open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        fs::remove_file(path)?;
        // Its prompt goes with it; the rest of the index is read anew.
        match fs::remove_file(self.index()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// A crash may leave a line without its end; what follows must not become part of it.
fn end_torn_line(file: &mut File) -> io::Result<()> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(());
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    if last != *b"\n" { file.write_all(b"\n") } else { Ok(()) }
}

fn read_lines(file: File) -> io::Result<Vec<RolloutLine>> {
    let mut reader = BufReader::new(file);
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        if reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
            return Ok(lines);
        }
        if line.ends_with(b"\n")
            && let Ok(parsed) = serde_json::from_slice(&line)
        {
            lines.push(parsed);
        }
    }
}

fn collect(directory: &Path, depth: u32, found: &mut Vec<StoredThread>) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && depth > 0 {
            collect(&entry.path(), depth - 1, found)?;
        } else if kind.is_file()
            && let Some(name) = entry.file_name().to_str()
            && let Some(stem) = name.strip_prefix("rollout-").and_then(|rest| rest.strip_suffix(".jsonl"))
            && let Some(id) = stem.len().checked_sub(36).and_then(|at| stem.get(at..)?.parse().ok())
        {
            let metadata = entry.metadata()?;
            found.push(StoredThread { id, bytes: metadata.len(), modified: metadata.modified()? });
        }
    }
    Ok(())
}

struct JsonlWriter {
    file: Arc<File>,
}

impl ThreadWriter for JsonlWriter {
    fn append(&mut self, item: &RolloutItem) -> io::Result<()> {
        #[derive(Serialize)]
        struct Line<'a> {
            timestamp: &'a str,
            #[serde(flatten)]
            item: &'a RolloutItem,
        }
        let timestamp = OffsetDateTime::now_utc()
            .format(format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z"))
            .map_err(io::Error::other)?;
        let mut line = serde_json::to_vec(&Line { timestamp: &timestamp, item })?;
        line.push(b'\n');
        // One write for the whole line: with O_APPEND it lands in one piece or, when the disk is full, is torn and
        // left out when the file is read.
        (&*self.file).write_all(&line)
    }

    fn syncer(&self) -> io::Result<Syncer> {
        let file = Arc::clone(&self.file);
        Ok(Box::new(move || file.sync_data()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use openoxide_model::{HistoryItem, Role};

    use super::*;

    fn message(text: &str) -> RolloutItem {
        RolloutItem::ResponseItem(Arc::new(HistoryItem::Message { role: Role::User, text: text.to_owned() }))
    }

    #[test]
    fn lines_come_back_in_order_from_a_file_that_only_the_owner_can_read() {
        let home = tempfile::tempdir().unwrap();
        let store = JsonlStore::new(home.path());
        let id = ThreadId::new();
        let mut writer = store.lock(id).unwrap();
        writer.append(&message("one")).unwrap();
        writer.append(&message("two\nlines")).unwrap();
        writer.syncer().unwrap()().unwrap();

        let items: Vec<_> = store.load(id).unwrap().into_iter().map(|line| line.item).collect();
        assert_eq!(items, [message("one"), message("two\nlines")]);
        let path = store.path_of(id).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        for directory in path.ancestors().skip(1).take(4) {
            assert_eq!(fs::metadata(directory).unwrap().permissions().mode() & 0o777, 0o700, "{directory:?}");
        }
        assert_eq!(store.list().unwrap().iter().map(|thread| thread.id).collect::<Vec<_>>(), [id]);
    }

    #[test]
    fn a_torn_last_line_is_left_out_and_does_not_spoil_what_follows() {
        let home = tempfile::tempdir().unwrap();
        let store = JsonlStore::new(home.path());
        let id = ThreadId::new();
        store.lock(id).unwrap().append(&message("whole")).unwrap();
        let path = store.path_of(id).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"timestamp\":\"x\",\"ty").unwrap();
        assert_eq!(store.load(id).unwrap().len(), 1);

        store.lock(id).unwrap().append(&message("after")).unwrap();
        let items: Vec<_> = store.load(id).unwrap().into_iter().map(|line| line.item).collect();
        assert_eq!(items, [message("whole"), message("after")]);
    }

    #[test]
    fn there_is_one_writer_at_a_time() {
        let home = tempfile::tempdir().unwrap();
        let store = JsonlStore::new(home.path());
        let id = ThreadId::new();
        let writer = store.lock(id).unwrap();
        assert_eq!(store.lock(id).err().unwrap().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(store.delete(id).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(writer);
        store.delete(id).unwrap();
        assert!(store.list().unwrap().is_empty());
    }
}
