//! Copies of threads that are kept on disk, made on disk.

use std::path::Path;

use openoxide_llm::HistoryItem;
use openoxide_sandbox::{HostPaths, SandboxMode};

use crate::store::{RolloutItem, ThreadStore};
use crate::thread::{ThreadDirectory, check_place_offline, failure, salvaged_meta, up_to};
use crate::{CoreError, RolloutLine, ThreadId, TurnId, instructions};

/// Copies a thread as it is in its rollout, to a new one, whole or up to the end of a turn. The original may be in use, and
/// may be damaged: what can be read is copied, without the instructions and limits of a first line that cannot. With `cwd`
/// the new one goes on in that directory, which must be one that the server with these host paths lets it work in.
///
/// # Errors
/// There is no such thread, turn or directory, no thread may work in it, or the disk fails.
pub fn fork_rollout(
    store: &dyn ThreadStore,
    id: ThreadId,
    turn: Option<TurnId>,
    cwd: Option<(&Path, &HostPaths)>,
) -> Result<ThreadId, CoreError> {
    let resolve = |(cwd, _)| ThreadDirectory::resolve(Path::new("/"), cwd);
    let directory = cwd.map(resolve).transpose()?;
    let failed = |source: std::io::Error| failure(store, id, source);
    let reading = store.read(id).map_err(failed)?;
    let mut lines = reading.lines;
    if !matches!(lines.first().map(|line| &line.item), Some(RolloutItem::SessionMeta(_))) {
        let meta = salvaged_meta(id, &lines).ok_or(CoreError::ThreadDamaged { id })?;
        lines.insert(0, RolloutLine::now(RolloutItem::SessionMeta(meta)));
    }
    let lines = match turn {
        Some(turn_id) => up_to(lines, turn).ok_or(CoreError::TurnNotFound { id, turn_id })?,
        None => lines,
    };
    if let (Some(directory), Some((_, host_paths))) = (&directory, cwd) {
        // Each later use would refuse it.
        check_place_offline(directory.path(), mode_of(&lines), host_paths)?;
    }
    let fork = ThreadId::new();
    let mut writer = store.lock(fork).map_err(failed)?;
    for mut line in lines {
        match &mut line.item {
            RolloutItem::SessionMeta(meta) => {
                (meta.id, meta.forked_from) = (fork, Some(id));
                if let Some(directory) = &directory {
                    directory.path().clone_into(&mut meta.cwd);
                }
            }
            RolloutItem::TurnContext(context) => {
                if let Some(directory) = &directory {
                    directory.path().clone_into(&mut context.cwd);
                    context.directory = Some(directory.id().as_str().to_owned());
                }
            }
            RolloutItem::ResponseItem(_) | RolloutItem::EventMsg(_) | RolloutItem::Compacted(_) => {}
        }
        writer.append_line(&line).map_err(failed)?;
    }
    if let Some(directory) = &directory {
        let note = HistoryItem::Note { text: instructions::moved_note(directory.path()) };
        writer.append(&RolloutItem::ResponseItem(note.into())).map_err(failed)?;
    }
    writer.syncer().and_then(|sync| sync()).map_err(failed)?;
    Ok(fork)
}

/// What commands of the thread may touch when it goes on.
fn mode_of(lines: &[RolloutLine]) -> SandboxMode {
    let mode = |line: &RolloutLine| match &line.item {
        RolloutItem::TurnContext(context) => Some(context.sandbox),
        RolloutItem::SessionMeta(_)
        | RolloutItem::ResponseItem(_)
        | RolloutItem::EventMsg(_)
        | RolloutItem::Compacted(_) => None,
    };
    lines.iter().rev().find_map(mode).unwrap_or(SandboxMode::ReadOnly)
}
