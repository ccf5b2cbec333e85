//! What lists of threads show beside their ids: where each works and what was asked first. Both never change once they are
//! there, so they are kept in one file, `index.jsonl` beside the rollouts, and read from a rollout only once. The file is a
//! cache: without it, or with a part of it, everything is read from the rollouts again.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use openoxide_llm::{HistoryItem, Role};
use serde::{Deserialize, Serialize};

use super::{JsonlStore, RolloutItem, StoredThread, ThreadStore as _, json};
use crate::ThreadId;
use crate::mutex::lock;

/// Lines of a rollout that are read for its first prompt.
const HEAD_LINES: usize = 16;

/// The most characters of a prompt that are kept.
const PROMPT: usize = 200;

/// A thread in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSummary {
    /// The thread.
    pub id: ThreadId,
    /// Bytes that its rollout takes.
    pub bytes: u64,
    /// When it was last written.
    pub modified: SystemTime,
    /// Its directory.
    pub cwd: PathBuf,
    /// The first line of its first prompt, cut at 200 characters.
    pub prompt: String,
    /// Whose it is, where the server has more than one user.
    pub owner: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    #[serde(with = "json::Text")]
    id: ThreadId,
    #[serde(with = "json::Path")]
    cwd: PathBuf,
    prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
}

/// The threads used last, the latest first, at most so many.
///
/// # Errors
/// The directory cannot be read. An index that cannot be read or written only costs time.
pub fn summaries(store: &JsonlStore, limit: usize) -> io::Result<Vec<ThreadSummary>> {
    Listing::of(store)?.read(store, 0, limit, |_| true).map(|(found, _)| found)
}

/// The threads there are at one moment, the one used last first.
pub(crate) struct Listing {
    threads: Vec<StoredThread>,
    known: Mutex<HashMap<ThreadId, Entry>>,
    /// Lines of the index.
    lines: usize,
}

impl Listing {
    /// Those of now.
    pub(crate) fn of(store: &JsonlStore) -> io::Result<Self> {
        let mut threads = store.list()?;
        threads.sort_by_key(|thread| std::cmp::Reverse((thread.modified, thread.id)));
        let (known, lines) = read(&store.index());
        Ok(Self { threads, known: Mutex::new(known), lines })
    }

    /// As many threads as are asked for of those that are `wanted`, from a place on, and the place where to go on; none
    /// at the end. A thread that is gone by now is left out.
    pub(crate) fn read(
        &self,
        store: &JsonlStore,
        from: usize,
        limit: usize,
        wanted: impl Fn(&ThreadSummary) -> bool,
    ) -> io::Result<(Vec<ThreadSummary>, Option<usize>)> {
        let (mut found, mut fresh, mut next) = (Vec::new(), Vec::new(), None);
        let mut known = lock(&self.known);
        for (at, StoredThread { id, .. }) in self.threads.iter().enumerate().skip(from) {
            if found.len() == limit {
                next = Some(at);
                break;
            }
            let path = store.path_of(*id)?;
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let entry = match known.get(id) {
                Some(entry) => entry.clone(),
                None => {
                    // One that was deleted meanwhile is left out.
                    let Ok((entry, is_whole)) = head(&path, *id) else { continue };
                    if is_whole {
                        fresh.push(entry.clone());
                        known.insert(*id, entry.clone());
                    }
                    entry
                }
            };
            let Entry { id, cwd, prompt, owner } = entry;
            let (bytes, modified) = (metadata.len(), metadata.modified()?);
            let summary = ThreadSummary { id, bytes, modified, cwd, prompt, owner };
            if wanted(&summary) {
                found.push(summary);
            }
        }
        if let Err(error) = keep(&store.index(), &fresh, self.lines > 2 * self.threads.len() + 100) {
            tracing::debug!("the index of threads was not written: {error}");
        }
        Ok((found, next))
    }
}

/// Whose a thread is, where its first line can be read and says so.
pub(crate) fn owner_of(store: &JsonlStore, id: ThreadId) -> Option<String> {
    head(&store.path_of(id).ok()?, id).ok()?.0.owner
}

/// What the index holds, and how many lines it has.
fn read(path: &Path) -> (HashMap<ThreadId, Entry>, usize) {
    let Ok(text) = fs::read(path) else { return (HashMap::new(), 0) };
    let lines = text.split(|byte| *byte == b'\n');
    let entries = lines.clone().filter_map(|line| serde_json::from_slice::<Entry>(line).ok());
    (entries.map(|entry| (entry.id, entry)).collect(), lines.count())
}

/// Adds entries. An index with many threads that are gone begins anew.
fn keep(path: &Path, fresh: &[Entry], is_stale: bool) -> io::Result<()> {
    if is_stale {
        return fs::remove_file(path);
    }
    if fresh.is_empty() {
        return Ok(());
    }
    let mut text = Vec::new();
    for entry in fresh {
        serde_json::to_writer(&mut text, entry)?;
        text.push(b'\n');
    }
    // One write: what another process adds at the same time stands before it or after it.
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)?.write_all(&text)
}

/// Reads on to the first prompt; whether there is one.
fn head(path: &Path, id: ThreadId) -> io::Result<(Entry, bool)> {
    let mut entry = Entry { id, cwd: PathBuf::new(), prompt: String::new(), owner: None };
    for line in BufReader::new(File::open(path)?).split(b'\n').take(HEAD_LINES) {
        let Ok(line) = json::read_line(&line?) else { continue };
        match line.item {
            RolloutItem::SessionMeta(meta) => (entry.cwd, entry.owner) = (meta.cwd, meta.owner),
            RolloutItem::ResponseItem(item) => {
                if let HistoryItem::Message { role: Role::User, text, .. } = &*item {
                    entry.prompt = text.lines().next().unwrap_or_default().chars().take(PROMPT).collect();
                    return Ok((entry, true));
                }
            }
            RolloutItem::TurnContext(_) | RolloutItem::EventMsg(_) | RolloutItem::Compacted(_) => {}
        }
    }
    Ok((entry, false))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::SessionMeta;

    fn add(store: &JsonlStore, prompt: Option<&str>) -> ThreadId {
        let meta = SessionMeta::sample();
        let id = meta.id;
        let mut writer = store.lock(id).unwrap();
        writer.append(&RolloutItem::SessionMeta(meta)).unwrap();
        let note = HistoryItem::Note { text: "<environment_context>".to_owned() };
        let prompt = prompt.map(|text| HistoryItem::Message { role: Role::User, text: text.to_owned(), carried: None });
        for item in [note].into_iter().chain(prompt) {
            writer.append(&RolloutItem::ResponseItem(Arc::new(item))).unwrap();
        }
        id
    }

    fn prompts(store: &JsonlStore) -> Vec<String> {
        summaries(store, 10).unwrap().into_iter().map(|summary| summary.prompt).collect()
    }

    #[test]
    fn prompts_are_read_once_and_again_without_the_index() {
        let home = tempfile::tempdir().unwrap();
        let store = JsonlStore::new(home.path());
        assert!(prompts(&store).is_empty());
        let first = add(&store, Some("one\nmore"));
        add(&store, None);
        assert_eq!(prompts(&store), ["", "one"]);
        let index = fs::read_to_string(store.index()).unwrap();
        let only = format!("{{\"id\":\"{first}\",\"cwd\":\"/w\",\"prompt\":\"one\"}}\n");
        assert_eq!(index, only, "a thread without a prompt may still get one");
        // The index is believed, ...
        fs::write(store.index(), index.replace("\"one\"", "\"uno\"")).unwrap();
        assert_eq!(prompts(&store), ["", "uno"]);
        // ... a torn one is read around, and a missing one is made again.
        fs::write(store.index(), "{\"id\":").unwrap();
        assert_eq!(prompts(&store), ["", "one"]);
        fs::remove_file(store.index()).unwrap();
        assert_eq!(prompts(&store), ["", "one"]);
        store.delete(first).unwrap();
        assert_eq!(prompts(&store), [""]);
        assert_eq!(summaries(&store, 0).unwrap().len(), 0);
    }
}
