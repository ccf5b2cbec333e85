//! `apply_patch`: changes files by a patch that is checked whole against the files before anything is written.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use openoxide_apply_patch::{Base, Change, ChangeKind, FileOp, Patch, VerifiedPatch};
use openoxide_llm::ToolSpec;
use openoxide_sandbox::Confinement;

use super::args::Args;
use super::env::Files;
use super::families::EditStyle;
use super::host::Reader;
use super::turn_diff::{TurnDiff, relative};
use super::{CallOutcome, Prepared, ToolCall};
use super::{PreparedCall, ToolAccess, ToolEnv};
use crate::mutex::lock;
use crate::rules::approvals::{Facts, PatchedFile, Question};
use crate::store::{EventRecord, PatchLedger, RolloutItem};
use crate::{ApprovalAction, FileChange, FileChangeKind, ItemStatus, TurnItemKind};

/// Its name.
pub(super) const NAME: &str = "apply_patch";

/// What is offered to the model.
fn spec() -> ToolSpec {
    ToolSpec::Freeform {
        name: NAME.to_owned(),
        description: "Changes, adds, moves and removes files by a patch. All of it is applied, or nothing. The patch \
                      is plain text from `*** Begin Patch` to `*** End Patch`, not JSON."
            .to_owned(),
        grammar: openoxide_apply_patch::GRAMMAR.to_owned(),
    }
}

/// See the module.
pub(super) struct Tool;

impl super::tool::Tool for Tool {
    fn spec(&self) -> ToolSpec {
        spec()
    }

    fn access(&self) -> ToolAccess {
        ToolAccess::Full
    }

    fn gives_pictures(&self) -> bool {
        false
    }

    fn style(&self) -> Option<EditStyle> {
        Some(EditStyle::Patch)
    }

    fn parse(&self, env: &ToolEnv, call: &ToolCall) -> Result<Box<dyn PreparedCall>, String> {
        let text = if call.custom && !call.input.trim_start().starts_with('{') {
            call.input.clone()
        } else {
            text_of(&mut Args::parse(&call.input)?)?
        };
        Ok(Box::new(ApplyPatch::at(env.cwd().to_owned(), &text)?))
    }
}

/// The patch in the arguments of a call; other harnesses give it under other names, or as the words of a command.
fn text_of(args: &mut Args) -> Result<String, String> {
    for field in ["command", "cmd"] {
        if let Some(serde_json::Value::Array(words)) = args.take(field) {
            return match words.as_slice() {
                [serde_json::Value::String(name), serde_json::Value::String(patch)] if name == NAME => {
                    Ok(patch.clone())
                }
                _ => Err(format!(
                    "`{field}` must be `[\"{NAME}\", PATCH]` when it is a list; give the patch as `input`."
                )),
            };
        }
    }
    args.first_text(&["input", "patch", "patch_text", "patchText", "diff", "content"])
}

/// A patch that was parsed.
#[derive(Debug, Clone)]
pub(super) struct ApplyPatch {
    patch: Arc<Patch>,
    root: PathBuf,
    /// What it is called in messages: patch, edit, file.
    word: &'static str,
    /// What it would change, once it was checked. It is shown for a decision, and what is applied must be the same.
    changes: Vec<FileChange>,
}

impl PreparedCall for ApplyPatch {
    fn prepare<'a>(&'a mut self, env: &'a ToolEnv) -> BoxFuture<'a, Prepared> {
        self.check(env).boxed()
    }

    fn run(self: Box<Self>, env: ToolEnv, _: u64) -> BoxFuture<'static, CallOutcome> {
        self.apply(env).boxed()
    }

    fn again(&self) -> Box<dyn PreparedCall> {
        Box::new(self.clone())
    }

    fn changes_files(&self) -> bool {
        true
    }
}

impl ApplyPatch {
    /// Parses a patch whose paths are relative to a directory.
    pub(super) fn at(root: PathBuf, text: &str) -> Result<Self, String> {
        let patch =
            openoxide_apply_patch::parse(text).map_err(|error| format!("The patch was not applied: {error}."))?;
        Ok(Self { patch: Arc::new(patch), root, word: "patch", changes: Vec::new() })
    }

    /// The same for operations that were not written as a patch.
    pub(super) fn of(root: PathBuf, hunks: Vec<FileOp>, word: &'static str) -> Self {
        Self { patch: Arc::new(Patch { hunks }), root, word, changes: Vec::new() }
    }

    /// Says that nothing was done.
    fn refusal(&self, error: &str) -> String {
        let done = if self.word == "file" { "written" } else { "applied" };
        format!("The {} was not {done}: {error}.", self.word)
    }

    /// Checks the patch against the files as they are now.
    async fn check(&mut self, env: &ToolEnv) -> Prepared {
        let (patch, root, shown_root) = (Arc::clone(&self.patch), self.root.clone(), env.cwd().to_owned());
        let checked = env
            .blocking(move |files, _| {
                let confinement = files.confinement();
                let verified = verify(files, &patch, &root, confinement.as_ref())?;
                let files = patched_files(confinement.as_ref(), verified.changes());
                let changes: Vec<FileChange> =
                    verified.changes().iter().map(|change| file_change(&shown_root, change)).collect();
                Ok::<_, String>((changes, files))
            })
            .await;
        match checked.unwrap_or_else(|_| Err("the check failed inside".to_owned())) {
            Ok((changes, files)) => {
                let leaves_sandbox = files.iter().any(|file| file.is_beyond);
                self.changes = changes;
                let unified_diff = self.changes.iter().map(|change| &*change.diff).collect();
                let action = ApprovalAction::Patch { changes: self.changes.clone(), unified_diff };
                Prepared::Ready {
                    item: self.item(env, ItemStatus::InProgress),
                    question: Some(Question { leaves_sandbox, facts: Facts::Files(files), ..Question::new(action) }),
                    exclusive: true,
                }
            }
            Err(error) => Prepared::Refused {
                message: format!(
                    "{} No file was changed; read the file again and correct the {}.",
                    self.refusal(&error),
                    if self.word == "file" { "call" } else { self.word }
                ),
                item: self.item(env, ItemStatus::Failed),
                later: true,
            },
        }
    }

    /// Checks once more that the patch still means what was shown, applies it, and notes what it changed.
    async fn apply(self, env: ToolEnv) -> CallOutcome {
        let (patch, root, shown) = (Arc::clone(&self.patch), self.root.clone(), self.changes.clone());
        let (turn_diff, thread_root) = (env.diff(), env.cwd().to_owned());
        let (turn_id, call_id) = (env.turn_id(), env.call_id().to_owned());
        // The blocking thread notes the changes itself, so that they are known even if nobody waits for it any more.
        let files = env.files();
        let done = tokio::task::spawn_blocking(move || {
            let confinement = files.confinement();
            let verified = verify(&files, &patch, &root, confinement.as_ref())?;
            let is_as_shown = verified.changes().iter().map(|change| file_change(&thread_root, change)).eq(shown);
            if !is_as_shown {
                return Err("a file of it was changed by something else at this moment".to_owned());
            }
            let changes = verified.changes().to_vec();
            let mut patched = TurnDiff::default();
            changes.iter().for_each(|change| patched.record(&thread_root, change));
            let (records, diff) = (patched.records(), patched.unified());
            let line = RolloutItem::EventMsg(EventRecord::Patched { turn_id, call_id, files: records, diff });
            let mut ledger = files.begin_ledger(line.clone());
            let committed = verified.commit(ledger.as_mut().and_then(PatchLedger::take));
            let summary = committed.map(|committed| {
                // Before the old files go: from here on it counts, and is known.
                files.record(&line);
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
            Err(error) => (self.refusal(&error), ItemStatus::Failed),
        };
        CallOutcome::plain(output, self.item(&env, status))
    }

    fn item(&self, env: &ToolEnv, status: ItemStatus) -> TurnItemKind {
        TurnItemKind::Patch { call_id: env.call_id().to_owned(), changes: self.changes.clone(), status }
    }
}

/// Checks a patch against the files, from the thread's directory as it is held. Those that the thread may not see are not
/// read.
fn verify(
    files: &Files,
    patch: &Patch,
    root: &Path,
    confinement: Option<&Confinement>,
) -> Result<VerifiedPatch, String> {
    let workspace = files.hold_directory().map_err(|error| error.told())?;
    let directory = workspace.try_clone().map_err(|error| error.to_string())?;
    let base = Base { directory, path: workspace.path().to_owned() };
    let view = files.view_of(workspace, Reader::Tool);
    let mapped = confinement.filter(|confinement| confinement.private_tmp.is_some()).map(|confinement| {
        let mut patch = patch.clone();
        patch.hunks.iter_mut().for_each(|op| {
            op.map_paths(|path| {
                // `..` may lead to the command's own `/tmp` as well.
                let cleaned = cleaned(root, path);
                let mapped = confinement.map(&cleaned);
                if mapped == cleaned { path.to_path_buf() } else { mapped }
            });
        });
        patch
    });
    let patch = mapped.as_ref().unwrap_or(patch);
    let may_read = |path: &Path| !view.hides(path) && confinement.is_none_or(|confinement| !confinement.hides(path));
    let verified = patch.verify_where(root, Some(base), &may_read).map_err(|error| error.to_string())?;
    // What a link led to is named by no path that could be mapped.
    let elsewhere = |place: &PathBuf| confinement.is_some_and(|confinement| confinement.map(place) != *place);
    if let Some(place) = places(verified.changes()).find(|place| elsewhere(place)) {
        return Err(format!(
            "{} leads to a directory that commands see as another; name the file by its absolute path",
            openoxide_display::quote_path(place)
        ));
    }
    Ok(verified)
}

/// A path without `..`, as far as its words go.
fn cleaned(root: &Path, path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in root.join(path).components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => clean.push(part),
        }
    }
    clean
}

fn places(changes: &[Change]) -> impl Iterator<Item = &PathBuf> {
    changes.iter().flat_map(|change| std::iter::once(&change.real).chain(&change.move_to_real))
}

/// The files that the changes write, and whether the sandbox would not let a command write them.
fn patched_files(confinement: Option<&Confinement>, changes: &[Change]) -> Vec<PatchedFile> {
    // A sandbox that cannot be told lets nothing be written.
    let is_beyond = |place: &PathBuf| confinement.is_none_or(|confinement| !confinement.may_write(place));
    places(changes).map(|place| PatchedFile { path: place.clone(), is_beyond: is_beyond(place) }).collect()
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
