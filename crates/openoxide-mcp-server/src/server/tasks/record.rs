//! A task as it is kept: one JSON file of its own, only for the user to read.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use openoxide_core::{ThreadId, TurnId};
use openoxide_mcp_protocol::tasks::{TaskState, TaskStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::clock::unix_ms;
use crate::random;

/// The format written.
const FORMAT: u32 = 1;

/// What is kept of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    /// Random, and the name of the file.
    pub(super) task_id: String,
    /// Whose it is.
    pub(super) principal: String,
    pub(super) thread_id: ThreadId,
    pub(super) turn_id: TurnId,
    /// Milliseconds of the Unix epoch.
    pub(super) created_ms: u64,
    updated_ms: u64,
    /// Whether its creator can be asked.
    pub(super) can_be_asked: bool,
    #[serde(default)]
    pub(super) cancelled: bool,
    /// What the call would have answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Value>,
}

fn timestamp(ms: u64) -> String {
    let since = time::Duration::milliseconds(i64::try_from(ms).unwrap_or(0));
    let at = OffsetDateTime::UNIX_EPOCH.checked_add(since).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    at.format(&Rfc3339).unwrap_or_default()
}

fn file(directory: &Path, id: &str) -> PathBuf {
    directory.join(format!("{id}.json"))
}

impl Record {
    /// A task that begins now.
    pub(super) fn new(principal: &str, thread_id: ThreadId, turn_id: TurnId, can_be_asked: bool) -> Self {
        let now = unix_ms();
        Self {
            format: FORMAT,
            task_id: random::id(),
            principal: principal.to_owned(),
            thread_id,
            turn_id,
            created_ms: now,
            updated_ms: now,
            can_be_asked,
            cancelled: false,
            result: None,
        }
    }

    /// Notes that something changed.
    pub(super) fn touch(&mut self) {
        self.updated_ms = unix_ms().max(self.updated_ms);
    }

    /// Whether it has a result or was cancelled.
    pub(super) fn is_over(&self) -> bool {
        self.cancelled || self.result.is_some()
    }

    /// Whether its time is over.
    pub(super) fn is_expired(&self, ttl: Duration) -> bool {
        u128::from(unix_ms().saturating_sub(self.created_ms)) > ttl.as_millis()
    }

    /// It as the wire shows it, as far as the record alone tells.
    pub(super) fn shown(&self, ttl: Duration, poll: Duration) -> TaskState {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let (thread, turn) = (self.thread_id.to_string(), self.turn_id.to_string());
        let mut shown =
            TaskState::new(self.task_id.clone(), &thread, &turn, timestamp(self.created_ms), ms(ttl), ms(poll));
        shown.last_updated_at = timestamp(self.updated_ms);
        match &self.result {
            Some(result) => (shown.status, shown.result) = (TaskStatus::Completed, Some(result.clone())),
            None if self.cancelled => shown.status = TaskStatus::Cancelled,
            None => {}
        }
        shown
    }

    /// Writes it, so that a reader finds the old or the new.
    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let (to, beside) = (file(directory, &self.task_id), directory.join(format!("{}.new", self.task_id)));
        let mut new = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        new.write_all(&serde_json::to_vec(self)?)?;
        drop(new);
        fs::rename(beside, to)
    }

    /// The task of this id; none where there is none, or none that can be read.
    pub(super) fn read(directory: &Path, id: &str) -> Option<Self> {
        // What is no id of ours is no file name of ours.
        if id.len() != random::ID_DIGITS || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let record: Self = serde_json::from_slice(&fs::read(file(directory, id)).ok()?).ok()?;
        (record.format == FORMAT && record.task_id == id).then_some(record)
    }
}

/// Deletes the files of tasks whose time is over.
pub(super) fn sweep(directory: &Path, ttl: Duration) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|data| data.modified()).ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > ttl)
            && let Err(error) = fs::remove_file(entry.path())
        {
            tracing::debug!(%error, "the file of a task that has expired was not deleted");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_task_is_read_as_it_was_written_and_by_nobody_else() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("tasks");
        let mut record = Record::new("local", ThreadId::new(), TurnId::new(), true);
        record.write(&directory).unwrap();
        assert_eq!(Record::read(&directory, &record.task_id), Some(record.clone()));
        record.result = Some(serde_json::json!({ "isError": false }));
        record.write(&directory).unwrap();
        assert_eq!(Record::read(&directory, &record.task_id), Some(record.clone()));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&file(&directory, &record.task_id))), (0o700, 0o600));
        for other in ["../tasks", "", "0123", &"g".repeat(32), &record.task_id.to_uppercase()] {
            assert_eq!(Record::read(&directory, other).filter(|_| other != record.task_id), None, "{other}");
        }
    }

    #[test]
    fn what_is_over_is_swept() {
        let home = tempfile::tempdir().unwrap();
        let record = Record::new("local", ThreadId::new(), TurnId::new(), true);
        record.write(home.path()).unwrap();
        sweep(home.path(), Duration::from_secs(60));
        assert!(Record::read(home.path(), &record.task_id).is_some() && !record.is_expired(Duration::from_secs(60)));
        std::thread::sleep(Duration::from_millis(5));
        sweep(home.path(), Duration::ZERO);
        assert!(Record::read(home.path(), &record.task_id).is_none() && record.is_expired(Duration::ZERO));
    }
}
