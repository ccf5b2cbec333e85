//! Taking back what one turn changed on disk, by what its rollout says of it: file by file, and only where a file still is
//! as the turn left it. Whatever was changed since is left alone and named.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use openoxide_apply_patch::{Base, FileOp, MAX_FILE_BYTES, Patch};
use openoxide_llm::HistoryItem;
use openoxide_sandbox::Workspace;

use crate::store::{EventRecord, FileRecord, PatchLedger, PatchNote, Patched, RolloutItem, ThreadStore, hash};
use crate::tools::files::{FileView, Links, OpenError};
use crate::{CoreError, RolloutLine, ThreadId, TurnId, TurnStatus, instructions};

/// What was taken back.
#[derive(Debug, PartialEq, Eq)]
pub struct Undone {
    /// Whose changes.
    pub turn_id: TurnId,
    /// Files that are as they were before the turn.
    pub restored: Vec<PathBuf>,
    /// Files that were left alone, and why.
    pub left: Vec<(PathBuf, &'static str)>,
}

/// Takes back what a turn of a thread has changed, the last one that changed something unless another is named. With
/// `dry_run` it only says what would be done. The model is told with the thread's next turn.
///
/// # Errors
/// There is no such thread or turn, another process has the thread, or a file cannot be written; then none is.
pub fn undo_turn(
    store: &dyn ThreadStore,
    id: ThreadId,
    turn: Option<TurnId>,
    dry_run: bool,
) -> Result<Undone, CoreError> {
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidInput => CoreError::ThreadNotFound { id },
        std::io::ErrorKind::WouldBlock => CoreError::ThreadBusy { id, holder: store.holder(id) },
        _ => CoreError::Rollout { id, source },
    };
    let (mut writer, lines) = store.open(id).map_err(failed)?;
    let (turn_id, files) = changes_of(&lines, turn).ok_or(CoreError::NothingToUndo { id })?;
    let root = cwd_of(&lines).ok_or(CoreError::NothingToUndo { id })?;
    // The path was without links when the turn ran, and a link in it now would lead somewhere else.
    let workspace = Workspace::open(&root, None).map_err(|source| CoreError::DirectoryChanged { source })?;
    let directory_id = workspace.id().as_str().to_owned();
    let base = Base { directory: workspace.try_clone().map_err(failed)?, path: root.clone() };
    let view = FileView::new(Arc::new(workspace), Vec::new());
    let mut undone = Undone { turn_id, restored: Vec::new(), left: Vec::new() };
    let mut hunks = Vec::new();
    for file in files {
        match plan(&view, &file) {
            Ok(()) => {
                hunks.extend(operations(&file, hunks.len()));
                undone.restored.push(file.path);
            }
            Err(why) => undone.left.push((file.path, why)),
        }
    }
    if dry_run || hunks.is_empty() {
        return Ok(undone);
    }
    // The patch writer looks at every file again, follows no link, and writes all or none.
    let verified = Patch { hunks }.verify_where(&root, Some(base), &|_| true);
    let verified = verified.map_err(|error| CoreError::Undo { id, reason: error.to_string() })?;
    let note = HistoryItem::Note { text: instructions::undone_note(&undone.restored) };
    let line = RolloutItem::ResponseItem(note.into());
    let note = PatchNote { directory: root, directory_id, line };
    let mut ledger = store.ledger(id, &note).map_err(failed)?;
    let committed = match verified.commit(ledger.as_mut().and_then(PatchLedger::take)) {
        Ok(committed) => committed,
        Err(error) => {
            ledger.into_iter().for_each(PatchLedger::remove);
            return Err(CoreError::Undo { id, reason: error.to_string() });
        }
    };
    let noted = writer.append(&note.line);
    let _ = committed.finish();
    // Where the note could not be written, whoever takes the thread into use next finds it in the ledger.
    noted.map_err(failed)?;
    ledger.into_iter().for_each(PatchLedger::remove);
    Ok(undone)
}

/// What the last turn that changed something has changed, or the one that is named. A turn that a crash has ended has
/// what its patches have noted.
fn changes_of(lines: &[RolloutLine], turn: Option<TurnId>) -> Option<(TurnId, Vec<FileRecord>)> {
    let mut ended_itself = HashSet::new();
    // Of the turn whose lines are being passed, last first.
    let mut patched: Option<(TurnId, Vec<Vec<FileRecord>>)> = None;
    for line in lines.iter().rev() {
        let RolloutItem::EventMsg(record) = &line.item else {
            // No patch of an earlier turn follows.
            if matches!(line.item, RolloutItem::TurnContext(_))
                && let Some((turn_id, files)) = patched.take()
            {
                let mut all = Patched::default();
                files.into_iter().rev().for_each(|files| all.add(files));
                let changed: Vec<FileRecord> = all.changed().cloned().collect();
                if !changed.is_empty() {
                    return Some((turn_id, changed));
                }
            }
            continue;
        };
        match record {
            EventRecord::Changes { turn_id, files } if turn.is_none_or(|turn| turn == *turn_id) => {
                return Some((*turn_id, files.clone()));
            }
            EventRecord::TurnEnded { turn_id, status, .. } if *status != TurnStatus::Interrupted => {
                ended_itself.insert(*turn_id);
            }
            EventRecord::Patched { turn_id, files, .. }
                if turn.is_none_or(|turn| turn == *turn_id) && !ended_itself.contains(turn_id) =>
            {
                match &mut patched {
                    Some((known, all)) if known == turn_id => all.push(files.clone()),
                    _ => patched = Some((*turn_id, vec![files.clone()])),
                }
            }
            // Of another turn, or of one whose `Changes` say it all.
            EventRecord::Changes { .. } | EventRecord::TurnEnded { .. } | EventRecord::Patched { .. } => {}
            EventRecord::ApprovalDecided { .. }
            | EventRecord::Remembered { .. }
            | EventRecord::Checkpoint { .. }
            | EventRecord::Prefix { .. } => {}
        }
    }
    None
}

fn cwd_of(lines: &[RolloutLine]) -> Option<PathBuf> {
    lines.iter().rev().find_map(|line| match &line.item {
        RolloutItem::TurnContext(context) => Some(context.cwd.clone()),
        _ => None,
    })
}

/// Whether a file can be taken back, or why not.
fn plan(view: &FileView, file: &FileRecord) -> Result<(), &'static str> {
    let Ok(below) = file.path.strip_prefix(view.workspace().path()) else {
        return Err("it is outside of the thread's directory");
    };
    if !file.is_kept {
        return Err("what it held before was not kept: it is no text, too large, or ignored by version control");
    }
    let root = view.open_workspace().map_err(|_| "the thread's directory cannot be opened")?;
    let now = match view.file_beneath(&root, below, Links::Refused) {
        Err(OpenError::NotFound) => None,
        Ok(now) => {
            let bytes = now.read_whole(MAX_FILE_BYTES).map_err(|_| "it cannot be read")?;
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            Some(text.ok_or("it cannot be read as text any more")?)
        }
        Err(OpenError::Link) => return Err("a symbolic link stands on the way to it"),
        Err(_) => return Err("it is no file any more"),
    };
    if now.map(|text| hash(&text)) == file.after { Ok(()) } else { Err("it was changed since") }
}

/// What makes the file what it was, its permissions included.
fn operations(file: &FileRecord, count: usize) -> Vec<FileOp> {
    let (path, mode) = (file.path.clone(), file.mode);
    let delete = file.after.as_ref().map(|_| FileOp::Delete { line: count + 1, path: path.clone() });
    let add = file.before.clone().map(|content| FileOp::Add { line: count + 2, path, content, mode, replaces: false });
    delete.into_iter().chain(add).collect()
}
