//! Rollouts as files: `<home>/sessions/YYYY/MM/DD/rollout-<time>-<thread id>.jsonl`, one line of JSON for each item.
//!
//! The time in the path is that in the thread's id (UUID v7, UTC), so an id alone leads to its file. Directories have
//! mode 0700 and files 0600. The one writer holds a lock below `<home>/run/threads`, which ends with its process however
//! that ends. A file `<id>.deleted` there tells a server that still has a deleted thread in memory not to write it anew.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use time::OffsetDateTime;
use time::macros::format_description;

use super::lock::{self, ThreadLock};
use super::writer::{JsonlWriter, create, stamp_of};
use super::{
    Disk, Fate, PatchLedger, PatchNote, Reading, RealDisk, Stamp, StoredThread, ThreadStore, ThreadWriter, read,
};
use crate::{Holder, ThreadId, TurnId};

/// How long a server may have a deleted thread in memory and still be told so.
const DELETED_KNOWN: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long the last process of a command may take to go away after the end of its turn was told.
const COMMAND_GRACE: Duration = Duration::from_millis(300);

/// From one look whether it is gone to the next.
const COMMAND_ROUND: Duration = Duration::from_millis(10);

/// Keeps each rollout in a file of its own under one directory.
#[derive(Debug, Clone)]
pub struct JsonlStore {
    sessions: PathBuf,
    /// Where threads are that were put aside, or came back from there.
    aside: PathBuf,
    /// Where the locks are.
    pub(super) run: PathBuf,
    disk: Arc<dyn Disk>,
}

impl JsonlStore {
    /// A store under `<home>/sessions`; nothing is created before the first line is written.
    pub fn new(home: &Path) -> Self {
        let (sessions, aside) = (home.join("sessions"), home.join("archived_sessions"));
        Self { sessions, aside, run: openoxide_sandbox::run_directory(home).join("threads"), disk: Arc::new(RealDisk) }
    }

    /// The same on a disk that may fail.
    #[cfg(test)]
    pub(crate) fn on(home: &Path, disk: Arc<dyn Disk>) -> Self {
        Self { disk, ..Self::new(home) }
    }

    /// Where what lists show is kept; see [`super::summaries`].
    pub(super) fn index(&self) -> PathBuf {
        self.sessions.join("index.jsonl")
    }

    /// The store of threads that were put aside, under `<home>/archived_sessions`.
    pub fn archived(home: &Path) -> Self {
        Self::new(home).other()
    }

    /// The archived threads of this store, or the ones of which this store is the archive.
    pub(super) fn other(&self) -> Self {
        let Self { sessions, aside, run, disk } = self.clone();
        Self { sessions: aside, aside: sessions, run, disk }
    }

    /// Moves a thread to another store of the same file system; [`io::ErrorKind::WouldBlock`] while a writer holds it.
    pub fn move_to(&self, id: ThreadId, other: &Self) -> io::Result<()> {
        let (from, to) = (self.path_of(id)?, other.path_of(id)?);
        let _lock = self.take_lock(id)?;
        fs::metadata(&from)?;
        if let Some(directory) = to.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        fs::rename(from, to)
    }

    /// Where the rollout of a thread is, whether or not it exists. Fails for an id that carries no time.
    pub fn path_of(&self, id: ThreadId) -> io::Result<PathBuf> {
        path_in(&self.sessions, id)
    }

    fn lock_path(&self, id: ThreadId) -> PathBuf {
        self.run.join(format!("{id}.lock"))
    }

    /// Takes the lock of a thread. Where no turn of it runs any more and only the last of its commands is not gone yet, that
    /// is waited for.
    pub(super) fn take_lock(&self, id: ThreadId) -> io::Result<ThreadLock> {
        let begun = Instant::now();
        loop {
            match ThreadLock::take(self.lock_path(id)) {
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && begun.elapsed() < COMMAND_GRACE
                        && self.holder(id).is_none_or(|holder| !holder.commands.is_empty()) =>
                {
                    std::thread::sleep(COMMAND_ROUND);
                }
                other => return other,
            }
        }
    }

    fn deleted_path(&self, id: ThreadId) -> PathBuf {
        self.run.join(format!("{id}.deleted"))
    }

    fn writer(&self, lock: ThreadLock, path: PathBuf, file: File) -> io::Result<Box<dyn ThreadWriter>> {
        Ok(Box::new(JsonlWriter::new(lock, path, file, Arc::clone(&self.disk))?))
    }

    /// Forgets deletions that no server needs to be told any more.
    fn forget_deleted(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.run)? {
            let path = entry?.path();
            let is_old = |path: &Path| -> io::Result<bool> {
                let age = SystemTime::now().duration_since(fs::symlink_metadata(path)?.modified()?);
                Ok(age.unwrap_or_default() > DELETED_KNOWN)
            };
            if path.extension().is_some_and(|extension| extension == "deleted") && is_old(&path).unwrap_or(false) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

fn path_in(sessions: &Path, id: ThreadId) -> io::Result<PathBuf> {
    let time = id
        .unix_seconds()
        .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the thread id is not a UUID v7"))?;
    let (directory, name) = (
        time.format(format_description!("[year]/[month]/[day]")).map_err(io::Error::other)?,
        time.format(format_description!("[year]-[month]-[day]T[hour]-[minute]-[second]")).map_err(io::Error::other)?,
    );
    Ok(sessions.join(directory).join(format!("rollout-{name}-{id}.jsonl")))
}

impl ThreadStore for JsonlStore {
    fn lock(&self, id: ThreadId) -> io::Result<Box<dyn ThreadWriter>> {
        let path = self.path_of(id)?;
        let lock = self.take_lock(id)?;
        let file = create(&path)?;
        self.writer(lock, path, file)
    }

    fn claim(&self, id: ThreadId) -> io::Result<Box<dyn ThreadWriter>> {
        let path = self.path_of(id)?;
        // An id that nobody has leaves no trace.
        fs::metadata(&path)?;
        let lock = self.take_lock(id)?;
        let file = OpenOptions::new().read(true).append(true).open(&path)?;
        let mut writer = self.writer(lock, path, file)?;
        self.recover_patches_of(id, Some(writer.as_mut()));
        Ok(writer)
    }

    fn ledger(&self, id: ThreadId, note: &PatchNote) -> io::Result<Option<PatchLedger>> {
        self.begin_ledger(id, note).map(Some)
    }

    fn contains(&self, id: ThreadId) -> bool {
        self.path_of(id).is_ok_and(|path| path.is_file())
    }

    fn holder(&self, id: ThreadId) -> Option<Holder> {
        lock::holder(&self.lock_path(id))
    }

    fn stamp(&self, id: ThreadId) -> io::Result<Stamp> {
        Ok(stamp_of(&fs::metadata(self.path_of(id)?)?))
    }

    fn fate(&self, id: ThreadId) -> Fate {
        if path_in(&self.aside, id).is_ok_and(|path| path.is_file()) {
            Fate::Archived
        } else if self.deleted_path(id).exists() {
            Fate::Deleted
        } else {
            Fate::Lost
        }
    }

    fn read(&self, id: ThreadId) -> io::Result<Reading> {
        read::whole(&File::open(self.path_of(id)?)?)
    }

    fn owner(&self, id: ThreadId) -> io::Result<Option<String>> {
        read::owner(&File::open(self.path_of(id)?)?)
    }

    fn diff_of(&self, id: ThreadId, turn: TurnId, at: Option<u64>) -> io::Result<Option<String>> {
        read::diff_of(&File::open(self.path_of(id)?)?, turn, at)
    }

    fn list(&self) -> io::Result<Vec<StoredThread>> {
        let mut found = Vec::new();
        collect(&self.sessions, 3, &mut found)?;
        found.sort_by_key(|thread| std::cmp::Reverse(thread.id));
        Ok(found)
    }

    fn delete(&self, id: ThreadId) -> io::Result<()> {
        let path = self.path_of(id)?;
        fs::metadata(&path)?;
        let _lock = self.take_lock(id)?;
        self.recover_patches_of(id, None);
        // Before it is gone, so that at no moment it looks lost.
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(self.deleted_path(id))?;
        fs::remove_file(path)?;
        if let Err(error) = self.forget_deleted() {
            tracing::debug!(%error, "old notes of deletions were not removed");
        }
        // Its prompt goes with it; the rest of the index is read anew.
        match fs::remove_file(self.index()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt;

    use openoxide_llm::{HistoryItem, Role};

    use super::*;
    use crate::RolloutItem;

    fn message(text: &str) -> RolloutItem {
        RolloutItem::ResponseItem(Arc::new(HistoryItem::Message {
            role: Role::User,
            text: text.to_owned(),
            carried: None,
        }))
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

    #[test]
    fn a_line_of_any_length_that_was_written_is_read_back() {
        let home = tempfile::tempdir().unwrap();
        let store = JsonlStore::new(home.path());
        let id = ThreadId::new();
        let items = [message("before"), message(&"x".repeat(65 << 20)), message("after")];
        let mut writer = store.lock(id).unwrap();
        items.iter().for_each(|item| writer.append(item).unwrap());
        drop(writer);
        let reading = store.read(id).unwrap();
        let read: Vec<RolloutItem> = reading.lines.into_iter().map(|line| line.item).collect();
        assert!(read == items && reading.damage.is_empty(), "{} lines", read.len());
    }

    #[test]
    fn a_torn_try_is_no_damage_and_what_is_not_understood_is_told_apart() {
        let home = tempfile::tempdir().unwrap();
        let store = JsonlStore::new(home.path());
        let id = ThreadId::new();
        let mut writer = store.lock(id).unwrap();
        writer.append(&message("one")).unwrap();
        drop(writer);
        let path = store.path_of(id).unwrap();
        let line = fs::read_to_string(&path).unwrap();
        let half = &line[..line.len() / 2];
        let later = line.replace("response_item", "response_thing");
        let spoiled = line.replace("\"role\":", "\"rule\":");
        let text = format!("{half}\n{}\n{line}{later}{spoiled}\nno json\n{line}{half}", &half[..10]);
        fs::write(&path, &text).unwrap();
        let reading = store.read(id).unwrap();
        assert_eq!(reading.lines.len(), 2);
        let damaged: Vec<&str> = reading
            .damage
            .iter()
            .map(|damage| &text[damage.at as usize..(damage.at + damage.bytes) as usize])
            .collect();
        assert_eq!(damaged, [spoiled.trim_end(), "no json"]);
    }
}
