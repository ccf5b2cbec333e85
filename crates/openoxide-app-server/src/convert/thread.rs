//! Threads and turns.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use openoxide_core::{
    Config, JsonlStore, Snapshot, Thread as CoreThread, ThreadId, ThreadSummary, Transcript, TranscriptEntry, TurnId,
    TurnResult, TurnStatus as CoreStatus, quote_path,
};
use serde_json::Value;

use super::item;
use super::question::flags_of;
use crate::types::thread::{ItemsView, Thread, ThreadItem, ThreadStatus, Turn, TurnError, TurnStatus};

/// Milliseconds of the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    ms_of(SystemTime::now())
}

fn ms_of(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// When an id was made, in seconds: its first 48 bits are milliseconds (RFC 9562 section 5.7).
fn made_at(id: &str) -> u64 {
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    u64::from_str_radix(&digits, 16).unwrap_or_default() / 1000
}

/// A thread of which little is known but its id and directory.
fn bare(id: ThreadId, config: &Config, cwd: &Path) -> Thread {
    let (text, home) = (id.to_string(), config.home.as_deref());
    let path = home.and_then(|home| JsonlStore::new(home).path_of(id).ok()).filter(|path| path.is_file());
    let created_at = made_at(&text);
    Thread {
        session_id: text.clone(),
        id: text,
        forked_from_id: None,
        parent_thread_id: None,
        project_id: None,
        preview: String::new(),
        ephemeral: home.is_none(),
        model_provider: config.provider.id().to_owned(),
        model: None,
        created_at,
        updated_at: created_at,
        status: ThreadStatus::NotLoaded,
        path: path.as_deref().map(quote_path),
        cwd: quote_path(cwd),
        cli_version: env!("CARGO_PKG_VERSION"),
        source: "appServer",
        git_info: Value::Null,
        name: None,
        turns: Vec::new(),
    }
}

/// A thread in memory, without its turns.
pub(crate) fn loaded(thread: &CoreThread, config: &Config, snapshot: &Snapshot) -> Thread {
    let told = bare(thread.id(), config, &thread.config().cwd);
    Thread {
        model: Some(thread.config().model.clone()),
        status: status_of(snapshot),
        updated_at: now_ms() / 1000,
        ..told
    }
}

/// A thread in a list.
pub(crate) fn listed(summary: &ThreadSummary, config: &Config, status: ThreadStatus, path: Option<PathBuf>) -> Thread {
    let told = bare(summary.id, config, &summary.cwd);
    Thread {
        preview: summary.prompt.clone(),
        updated_at: ms_of(summary.modified) / 1000,
        status,
        path: path.as_deref().map(quote_path).or(told.path),
        ..told
    }
}

/// A thread as its rollout tells it.
pub(crate) fn recorded(id: ThreadId, transcript: &Transcript, config: &Config, status: ThreadStatus) -> Thread {
    let cwd = openoxide_core::unquote_path(&transcript.cwd);
    Thread { preview: preview(transcript), status, model: Some(transcript.model.clone()), ..bare(id, config, &cwd) }
}

/// The first line of the first prompt.
pub(crate) fn preview(transcript: &Transcript) -> String {
    let prompt = transcript.entries.iter().find_map(|entry| match entry {
        TranscriptEntry::Person(text) => Some(text.lines().next().unwrap_or_default()),
        _ => None,
    });
    prompt.unwrap_or_default().chars().take(200).collect()
}

/// What a thread is doing.
pub(crate) fn status_of(snapshot: &Snapshot) -> ThreadStatus {
    match snapshot.running.is_some() || !snapshot.queued.is_empty() {
        true => ThreadStatus::Active { active_flags: flags_of(snapshot.pending.iter().map(AsRef::as_ref)) },
        false => ThreadStatus::Idle,
    }
}

/// A turn that has only begun.
pub(crate) fn begun(turn: TurnId) -> Turn {
    Turn {
        id: turn.to_string(),
        items: Vec::new(),
        items_view: ItemsView::NotLoaded,
        status: TurnStatus::InProgress,
        error: None,
        started_at: Some(now_ms() / 1000),
        completed_at: None,
        duration_ms: None,
    }
}

/// A turn that has ended just now, with its last message.
pub(crate) fn ended(result: &TurnResult, last: Option<ThreadItem>) -> Turn {
    let now = SystemTime::now();
    let began = now.checked_sub(Duration::from_millis(result.duration_ms)).unwrap_or(now);
    Turn {
        id: result.turn_id.to_string(),
        items: last.into_iter().collect(),
        items_view: ItemsView::Summary,
        status: turn_status(result.status),
        error: error_of(result),
        started_at: Some(ms_of(began) / 1000),
        completed_at: Some(ms_of(now) / 1000),
        duration_ms: Some(result.duration_ms),
    }
}

/// Why a turn failed; none where it did not.
pub(crate) fn error_of(result: &TurnResult) -> Option<TurnError> {
    (result.status == CoreStatus::Failed).then(|| TurnError {
        message: result.content.clone(),
        codex_error_info: Value::from("other"),
        additional_details: None,
    })
}

fn turn_status(status: CoreStatus) -> TurnStatus {
    match status {
        CoreStatus::Completed => TurnStatus::Completed,
        CoreStatus::Interrupted => TurnStatus::Interrupted,
        CoreStatus::Failed => TurnStatus::Failed,
    }
}

/// The turns of a thread as its rollout tells them: what was said in each. The rollout keeps no ids of items, so that these
/// have ids of their own.
pub(crate) fn turns(transcript: &Transcript, running: Option<TurnId>) -> Vec<Turn> {
    let (mut turns, mut said) = (Vec::new(), Vec::new());
    let turn = |id: String, said: Vec<(bool, String)>, status, error| {
        let items = said.into_iter().enumerate().map(|(at, (is_person, text))| {
            let item_id = format!("{id}/{at}");
            match is_person {
                true => item::user_message(item_id, None, &text),
                false => ThreadItem::AgentMessage { id: item_id, text },
            }
        });
        let items = items.collect();
        let started_at = Some(made_at(&id));
        Turn {
            id,
            items,
            items_view: ItemsView::Summary,
            status,
            error,
            started_at,
            completed_at: None,
            duration_ms: None,
        }
    };
    for entry in &transcript.entries {
        match entry {
            TranscriptEntry::Person(text) => said.push((true, text.clone())),
            TranscriptEntry::Agent(text) => said.push((false, text.clone())),
            TranscriptEntry::End { turn: id, status, .. } => {
                let status = match *status {
                    "completed" => TurnStatus::Completed,
                    "interrupted" => TurnStatus::Interrupted,
                    _ => TurnStatus::Failed,
                };
                let error = (status == TurnStatus::Failed).then(|| TurnError {
                    message: "the turn failed".to_owned(),
                    codex_error_info: Value::from("other"),
                    additional_details: None,
                });
                turns.push(turn(id.clone(), std::mem::take(&mut said), status, error));
            }
            // What was done, which has no item without its id.
            _ => {}
        }
    }
    if let Some(id) = running {
        turns.push(turn(id.to_string(), said, TurnStatus::InProgress, None));
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_when_it_was_made() {
        let now = now_ms() / 1000;
        assert!(made_at(&ThreadId::new().to_string()).abs_diff(now) <= 1);
    }

    #[test]
    fn a_turn_has_what_was_said_in_it() {
        let end = |turn: &str, status| TranscriptEntry::End { turn: turn.into(), status, diff: None, tokens: 1 };
        let transcript = Transcript {
            entries: vec![
                TranscriptEntry::Person("go\non".into()),
                TranscriptEntry::Agent("gone".into()),
                end("a", "completed"),
                TranscriptEntry::Person("again".into()),
                end("b", "interrupted"),
            ],
            ..Transcript::default()
        };
        let told = serde_json::to_value(turns(&transcript, None)).unwrap();
        assert_eq!(told[0]["items"][1]["text"], "gone");
        assert_eq!(
            (&told[1]["status"], &told[1]["items"][0]["id"]),
            (&Value::from("interrupted"), &Value::from("b/0"))
        );
        assert_eq!(preview(&transcript), "go");
    }
}
