//! `apply_patch`: changes files by a patch that is checked whole against the files before anything is written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use openoxide_apply_patch::{Base, Change, ChangeKind, Patch, VerifiedPatch};
use openoxide_model::ToolSpec;
use openoxide_sandbox::Confinement;

use super::{ToolContext, reading};
use crate::approvals::Question;
use crate::diff::{TurnDiff, relative};
use crate::directory::Reader;
use crate::events::lock;
use crate::rollout::{EventRecord, PatchLedger, PatchNote, RolloutItem};
use crate::turn::step::{CallOutcome, Prepared};
use crate::{ApprovalAction, FileChange, FileChangeKind, ItemStatus, Thread, TurnItemKind};

/// Its name.
pub(super) const NAME: &str = "apply_patch";

/// What is offered to the model.
pub(super) fn spec() -> ToolSpec {
    ToolSpec::Freeform {
        name: NAME.to_owned(),
        description: "Changes, adds, moves and removes files by a patch. All of it is applied, or nothing. The patch \
                      is plain text from `*** Begin Patch` to `*** End Patch`, not JSON."
            .to_owned(),
        grammar: openoxide_apply_patch::GRAMMAR.to_owned(),
    }
}

/// A patch that was parsed.
#[derive(Debug, Clone)]
pub(crate) struct ApplyPatch {
    patch: Arc<Patch>,
    root: PathBuf,
    /// What it would change, once it was checked. It is shown for a decision, and what is applied must be the same.
    changes: Vec<FileChange>,
}

impl ApplyPatch {
    /// Parses a patch whose paths are relative to the thread's directory.
    pub(super) fn new(context: &ToolContext, text: &str) -> Result<Self, String> {
        Self::at(context.thread.config().cwd.clone(), text)
    }

    /// Parses a patch whose paths are relative to a directory.
    pub(super) fn at(root: PathBuf, text: &str) -> Result<Self, String> {
        let patch =
            openoxide_apply_patch::parse(text).map_err(|error| format!("The patch was not applied: {error}."))?;
        Ok(Self { patch: Arc::new(patch), root, changes: Vec::new() })
    }

    /// Checks the patch against the files as they are now.
    pub(super) async fn prepare(&mut self, context: &ToolContext) -> Prepared {
        let (patch, root, shown_root) =
            (Arc::clone(&self.patch), self.root.clone(), context.thread.config().cwd.clone());
        let thread = Arc::clone(&context.thread);
        let checked = reading::blocking(&context.thread, move |_| {
            let confinement = thread.confinement();
            let verified = verify(&thread, &patch, &root, confinement.as_ref())?;
            // A sandbox that cannot be told lets nothing be written.
            let leaves_sandbox = confinement.is_none_or(|confinement| reaches_beyond(&confinement, verified.changes()));
            let changes: Vec<FileChange> =
                verified.changes().iter().map(|change| file_change(&shown_root, change)).collect();
            Ok::<_, String>((changes, leaves_sandbox))
        })
        .await;
        match checked.unwrap_or_else(|_| Err("the check failed inside".to_owned())) {
            Ok((changes, leaves_sandbox)) => {
                self.changes = changes;
                let unified_diff = self.changes.iter().map(|change| &*change.diff).collect();
                let action = ApprovalAction::Patch { changes: self.changes.clone(), unified_diff };
                Prepared::Ready {
                    item: self.item(context, ItemStatus::InProgress),
                    question: Some(Question { action, leaves_sandbox, justification: None }),
                    exclusive: true,
                }
            }
            Err(error) => Prepared::Refused {
                message: format!(
                    "The patch was not applied: {error}. No file was changed; read the file again and correct the patch."
                ),
                item: self.item(context, ItemStatus::Failed),
                later: true,
            },
        }
    }

    /// Checks once more that the patch still means what was shown, applies it, and notes what it changed.
    pub(super) async fn run(self, context: ToolContext) -> CallOutcome {
        let (patch, root, shown) = (Arc::clone(&self.patch), self.root.clone(), self.changes.clone());
        let (turn_diff, thread_root) = (Arc::clone(&context.diff), context.thread.config().cwd.clone());
        let (turn_id, call_id) = (context.turn_id, context.call_id.clone());
        // The blocking thread notes the changes itself, so that they are known even if nobody waits for it any more.
        let thread = Arc::clone(&context.thread);
        let done = tokio::task::spawn_blocking(move || {
            let confinement = thread.confinement();
            let verified = verify(&thread, &patch, &root, confinement.as_ref())?;
            let is_as_shown = verified.changes().iter().map(|change| file_change(&thread_root, change)).eq(shown);
            if !is_as_shown {
                return Err("a file of it was changed by something else at this moment".to_owned());
            }
            let changes = verified.changes().to_vec();
            let mut patched = TurnDiff::default();
            changes.iter().for_each(|change| patched.record(&thread_root, change));
            let (files, diff) = (patched.records(), patched.unified());
            let line = RolloutItem::EventMsg(EventRecord::Patched { turn_id, call_id, files, diff });
            let mut ledger = thread.begin_ledger(line.clone());
            let committed = verified.commit(ledger.as_mut().and_then(PatchLedger::take));
            let summary = committed.map(|committed| {
                // Before the old files go: from here on it counts, and is known.
                thread.record(&line);
                let mut turn_diff = lock(&turn_diff);
                changes.iter().for_each(|change| turn_diff.record(&thread_root, change));
                committed.finish().summary()
            });
            ledger.into_iter().for_each(PatchLedger::remove);
            summary.map_err(|error| error.to_string())
        })
        .await;
        let (output, status) = match done.unwrap_or_else(|_| Err("applying it failed inside".to_owned())) {
            Ok(summary) => (summary, ItemStatus::Completed),
            Err(error) => (format!("The patch was not applied: {error}."), ItemStatus::Failed),
        };
        CallOutcome::plain(output, self.item(&context, status))
    }

    fn item(&self, context: &ToolContext, status: ItemStatus) -> TurnItemKind {
        TurnItemKind::Patch { call_id: context.call_id.clone(), changes: self.changes.clone(), status }
    }
}

impl Thread {
    /// A ledger for a patch; none where the thread is kept in memory alone, or the ledger cannot be written. `line` is for
    /// the rollout once the patch counts. Blocks on the disk.
    fn begin_ledger(&self, line: RolloutItem) -> Option<PatchLedger> {
        let store = self.store()?;
        let begun = self.hold_directory().map_err(std::io::Error::other).and_then(|workspace| {
            let (directory, directory_id) = (workspace.path().to_owned(), workspace.id().as_str().to_owned());
            store.ledger(self.id(), &PatchNote { directory, directory_id, line })
        });
        begun.unwrap_or_else(|error| {
            // A full disk under the home keeps nobody from working elsewhere.
            tracing::error!(thread = %self.id(), %error, "a patch is applied without a ledger; a kill may leave part of it");
            None
        })
    }
}

/// Checks a patch against the files, from the thread's directory as it is held. Those that the thread may not see are not
/// read.
fn verify(
    thread: &Thread,
    patch: &Patch,
    root: &Path,
    confinement: Option<&Confinement>,
) -> Result<VerifiedPatch, String> {
    let workspace = thread.hold_directory().map_err(|error| error.told())?;
    let directory = workspace.try_clone().map_err(|error| error.to_string())?;
    let base = Base { directory, path: workspace.path().to_owned() };
    let view = thread.view(workspace, Reader::Tool);
    let mapped = confinement.filter(|confinement| confinement.private_tmp.is_some()).map(|confinement| {
        let mut patch = patch.clone();
        patch.hunks.iter_mut().for_each(|op| op.map_paths(|path| confinement.map(path)));
        patch
    });
    let patch = mapped.as_ref().unwrap_or(patch);
    let may_read = |path: &Path| !view.hides(path) && confinement.is_none_or(|confinement| !confinement.hides(path));
    patch.verify_where(root, Some(base), &may_read).map_err(|error| error.to_string())
}

/// Whether any of the changes lies where the sandbox would not let a command write.
fn reaches_beyond(confinement: &Confinement, changes: &[Change]) -> bool {
    let mut places = changes.iter().flat_map(|change| std::iter::once(&change.real).chain(&change.move_to_real));
    places.any(|place| !confinement.may_write(place))
}

fn file_change(root: &Path, change: &Change) -> FileChange {
    FileChange {
        path: relative(root, &change.absolute),
        kind: match change.kind {
            ChangeKind::Add => FileChangeKind::Add,
            ChangeKind::Delete => FileChangeKind::Delete,
            _ => FileChangeKind::Update,
        },
        move_to: change.move_to_absolute.as_ref().map(|to| relative(root, to)),
        diff: change.diff_from(root).into(),
    }
}
