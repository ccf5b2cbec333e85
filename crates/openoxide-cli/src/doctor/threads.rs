//! Whether the threads that are kept can be read: which rollouts hold damaged lines, and what to do about them.

use std::path::Path;

use openoxide_core::{Damage, JsonlStore, ThreadId, ThreadStore as _};

use super::{Finding, State};

/// Bytes of rollouts that are read, those used last first.
const MAX_BYTES: u64 = 1 << 30;

/// Damaged threads that are named.
const NAMED: usize = 10;

/// Looks through the threads below a home.
pub(super) fn check(home: &Path) -> Finding {
    let what = "threads".to_owned();
    let store = JsonlStore::new(home);
    let mut threads = match store.list() {
        Ok(threads) => threads,
        Err(error) => {
            let fix = Some("check the permissions of the sessions directory".to_owned());
            return Finding { what, state: State::Fails, detail: format!("cannot be listed: {error}"), fix };
        }
    };
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.modified));
    let (mut read, mut bytes, mut damaged) = (0, 0_u64, Vec::new());
    for thread in &threads {
        bytes = bytes.saturating_add(thread.bytes);
        if bytes > MAX_BYTES {
            break;
        }
        read += 1;
        match store.read(thread.id) {
            // One that is being written has its lines in a moment.
            Ok(reading) if reading.lines.is_empty() && reading.damage.is_empty() => {
                if store.holder(thread.id).is_none() {
                    let id = thread.id;
                    damaged.push(format!(
                        "{id}: its file is empty, nothing of it is left (`openoxide threads delete {id}`)"
                    ));
                }
            }
            Ok(reading) => damaged.extend(of_reading(thread.id, reading.has_owner(), &reading.damage)),
            // It was deleted meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => damaged.push(format!("{}: {error}", thread.id)),
        }
    }
    let looked_at = match threads.len() - read {
        0 => format!("{read} can be read"),
        rest => format!("{read} were read, {rest} older ones were not, for their size"),
    };
    if damaged.is_empty() {
        return Finding { what, state: State::Works, detail: looked_at, fix: None };
    }
    let more = damaged.len().saturating_sub(NAMED);
    damaged.truncate(NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let detail = format!("{looked_at}; damaged: {}{more}", damaged.join("; "));
    let fix = "the rest of each can still be used: reply to it, or copy it with `openoxide threads fork ID`; \
                `openoxide threads export ID` prints its lines";
    Finding { what, state: State::Note, detail, fix: Some(fix.to_owned()) }
}

fn of_reading(id: ThreadId, has_owner: bool, damage: &[Damage]) -> Option<String> {
    let lines = match damage {
        [] => "its first line does not say whose it is".to_owned(),
        [one] => format!("a line at byte {} ({})", one.at, one.why),
        [one, more @ ..] => format!("a line at byte {} ({}) and {} more", one.at, one.why, more.len()),
    };
    match (damage.is_empty(), has_owner) {
        (true, true) => None,
        (_, true) => Some(format!("{id}: {lines}")),
        (_, false) => Some(format!("{id}: {lines}; it can only be copied")),
    }
}

#[cfg(test)]
mod tests {
    use openoxide_core::{RolloutItem, TurnContext};

    use super::*;

    #[test]
    fn damaged_threads_are_named_and_whole_ones_are_counted() {
        let home = tempfile::tempdir().unwrap();
        let store = JsonlStore::new(home.path());
        assert_eq!(check(home.path()).detail, "0 can be read");
        let context = TurnContext {
            directory: None,
            turn_id: openoxide_core::TurnId::new(),
            cwd: "/w".into(),
            model: "m".into(),
            sandbox: openoxide_core::SandboxMode::ReadOnly,
            approval_policy: openoxide_core::ApprovalPolicy::Never,
        };
        let id = ThreadId::new();
        let writer = store.lock(id).unwrap();
        assert_eq!(check(home.path()).detail, "1 can be read", "it is being begun");
        drop(writer);
        let emptied = check(home.path()).detail;
        assert!(emptied.contains(&id.to_string()) && emptied.contains("is empty"), "{emptied}");
        store.lock(id).unwrap().append(&RolloutItem::TurnContext(context)).unwrap();
        let headless = check(home.path());
        assert!(headless.detail.contains(&id.to_string()) && headless.detail.contains("only be copied"));
        let path = store.path_of(id).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{{\"timestamp\":\"x\",\"type\":\"turn_context\"}}\n")).unwrap();
        let finding = check(home.path());
        assert!(finding.state == State::Note && finding.fix.is_some());
        assert!(finding.detail.contains(&format!("a line at byte {}", text.len())), "{}", finding.detail);
    }
}
