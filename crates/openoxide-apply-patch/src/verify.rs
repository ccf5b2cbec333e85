//! [`Patch`] -> [`VerifiedPatch`]: reads every file, places every chunk, computes every new content. Writes nothing.
//!
//! Several operations on one file: updates compose, in order, each on the result of the one before; a delete followed by
//! an add replaces the whole content. Every other combination is refused, because its meaning depends on an order
//! that models do not keep.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use openoxide_display::quote_path;

use crate::{
    MAX_TOTAL_BYTES, PatchError, diff, edit,
    lines::Document,
    matcher, names,
    patch::{Chunk, FileOp, Patch},
    place::Walk,
    resolve::{self, Base, Snapshot, Target, Tree},
};

const NOT_FREE: &str = "something was put there meanwhile; it is left as it is";
const MOVE_ELSEWHERE: &str = "move to a path that is free, or delete that file first in a patch of its own";

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is created.
    Add,
    /// Its content, its name or both change.
    Update,
    /// It is removed.
    Delete,
}

/// One file's change, computed and not yet written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// As to show: relative to the root when beneath it, else absolute. Links on the way are resolved, so this is the
    /// place that is written, whatever the patch called it.
    pub path: PathBuf,
    /// The same place as an absolute path, beneath the root as the caller spelled it.
    pub absolute: PathBuf,
    /// The same place without any link: exactly what is written.
    pub real: PathBuf,
    /// What happens.
    pub kind: ChangeKind,
    /// Where it moves to, as to show.
    pub move_to: Option<PathBuf>,
    /// Where it moves to, absolute.
    pub move_to_absolute: Option<PathBuf>,
    /// Where it moves to, without any link.
    pub move_to_real: Option<PathBuf>,
    /// Content before; `None` for an added file.
    pub old: Option<String>,
    /// Content after; `None` for a deleted file.
    pub new: Option<String>,
    /// Permissions before; `None` for an added file.
    pub mode: Option<u32>,
}

impl Change {
    /// Its diff in git's format. Places beneath `root` are shown relative to it, others as they are.
    #[must_use]
    pub fn diff_from(&self, root: &Path) -> String {
        let from = self.absolute.strip_prefix(root).unwrap_or(&self.absolute);
        let to = self.move_to_absolute.as_deref().map_or(from, |to| to.strip_prefix(root).unwrap_or(to));
        diff::render(from, to, self.old.as_deref(), self.new.as_deref())
    }
}

/// A patch that fits the tree. Nothing has been written; [`VerifiedPatch::apply`] does it.
#[derive(Debug)]
pub struct VerifiedPatch {
    pub(crate) tree: Tree,
    pub(crate) changes: Vec<Change>,
    /// One per change, in the same order.
    pub(crate) plans: Vec<Plan>,
}

/// What the writer must know of a change besides what it shows.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The path as the patch wrote it, and its line, so that it can be resolved again before writing.
    pub(crate) source: (PathBuf, usize),
    pub(crate) target: Target,
    /// The same for the path it moves to.
    pub(crate) destination: Option<(PathBuf, usize, Target)>,
    /// The permissions that a new file is to have, where they are not the usual ones.
    pub(crate) mode: Option<u32>,
    /// Device and inode of the file that was read; `None` for an added file.
    pub(crate) id: Option<(u64, u64)>,
}

impl Patch {
    /// Checks the whole patch against the tree at `root` and computes the outcome. Writes nothing.
    ///
    /// `root` is an absolute path to a directory; relative paths of the patch are beneath it. Absolute paths are accepted
    /// wherever they lead; see [`VerifiedPatch::outside_root`].
    ///
    /// # Errors
    /// The first operation that cannot be done, worded for the model.
    pub fn verify(&self, root: &Path) -> Result<VerifiedPatch, PatchError> {
        self.verify_where(root, None, &|_| true)
    }

    /// The same with a directory that is held open already: what lies beneath its path is reached from it, whatever the
    /// path leads to by now. Files for which `may_read` says no are not read: what they hold goes into diffs and messages.
    /// It is asked about absolute paths without links.
    ///
    /// # Errors
    /// As above; [`PatchError::Refused`] for such a file.
    pub fn verify_where(
        &self,
        root: &Path,
        base: Option<Base>,
        may_read: &dyn Fn(&Path) -> bool,
    ) -> Result<VerifiedPatch, PatchError> {
        self.verify_by(root, base, may_read, Walk::Kernel)
    }

    pub(crate) fn verify_by(
        &self,
        root: &Path,
        base: Option<Base>,
        may_read: &dyn Fn(&Path) -> bool,
        walk: Walk,
    ) -> Result<VerifiedPatch, PatchError> {
        let mut verifier = Verifier {
            patch: VerifiedPatch { tree: Tree::new(root, base, walk)?, changes: Vec::new(), plans: Vec::new() },
            ops: &self.hunks,
            root,
            may_read,
            named: HashMap::new(),
            ids: HashMap::new(),
            held: 0,
        };
        for op in &self.hunks {
            match op {
                FileOp::Add { line, path, content, mode, replaces } => {
                    verifier.add(*line, path, content, *mode, *replaces)?;
                }
                FileOp::Delete { line, path } => verifier.delete(*line, path)?,
                FileOp::Edit { line, path, old, new, all } => verifier.edit(*line, path, old, new, *all)?,
                FileOp::Update { line, path, move_to, chunks } => {
                    verifier.update(*line, path, move_to.as_deref(), chunks)?;
                }
            }
        }
        verifier.check_nesting()?;
        verifier.check_effect()?;
        Ok(verifier.patch)
    }
}

struct Verifier<'a> {
    patch: VerifiedPatch,
    ops: &'a [FileOp],
    root: &'a Path,
    may_read: &'a dyn Fn(&Path) -> bool,
    /// Every absolute path the patch has named so far -> its change and the patch line.
    named: HashMap<PathBuf, (usize, usize)>,
    /// Every file read so far -> its change: two names of one file (hard links, a file system that ignores case) show here.
    ids: HashMap<(u64, u64), usize>,
    /// Bytes of old and new contents held.
    held: u64,
}

impl Verifier<'_> {
    fn add(
        &mut self,
        line: usize,
        path: &Path,
        content: &str,
        mode: Option<u32>,
        replaces: bool,
    ) -> Result<(), PatchError> {
        let (path, target) = if replaces { self.new_name(path, line)? } else { self.literal(path, line)? };
        self.hold(&target.shown, content)?;
        if let Some(&(index, first)) = self.named.get(&target.absolute) {
            let change = &mut self.patch.changes[index];
            if change.kind == ChangeKind::Delete {
                change.kind = ChangeKind::Update;
                change.new = Some(content.to_owned());
                self.patch.plans[index].mode = mode;
                return Ok(());
            }
            return Err(conflict(&target, first, line, "write one operation that gives the file its final content"));
        }
        if replaces && self.patch.tree.occupant(&target)?.is_some() {
            // It is shown as what it is: a change of the file that stands there.
            let old = self.read(&target, line, "update")?;
            let new = Document::new(&old.text).dressed(content);
            self.push(line, &path, target, None, Some(old), ChangeKind::Update, Some(new));
            return Ok(());
        }
        self.check_free(&target, NOT_FREE)?;
        self.push(line, &path, target, None, None, ChangeKind::Add, Some(content.to_owned()));
        if let Some(plan) = self.patch.plans.last_mut() {
            plan.mode = mode;
        }
        Ok(())
    }

    fn literal(&self, path: &Path, line: usize) -> Result<(PathBuf, Target), PatchError> {
        Ok((path.to_owned(), self.patch.tree.resolve(path, line)?))
    }

    /// The file that an operation means: the one that is called so, else the only one that a reading of the path leads to.
    fn existing(&self, path: &Path, line: usize) -> Result<(PathBuf, Target), PatchError> {
        let literal = self.literal(path, line)?;
        let is_there = |target: &Target| {
            self.named.contains_key(&target.absolute) || !matches!(self.patch.tree.occupant(target), Ok(None))
        };
        if is_there(&literal.1) {
            return Ok(literal);
        }
        let mut found: Vec<(PathBuf, Target)> = Vec::new();
        for reading in names::readings(path, self.root) {
            if let Ok((reading, target)) = self.literal(&reading, line)
                && is_there(&target)
                && found.iter().all(|(_, other)| *other != target)
            {
                found.push((reading, target));
            }
        }
        match found.len() {
            0 => Ok(literal),
            1 => Ok(found.remove(0)),
            _ => Err(several(path, line, found.iter().map(|(_, target)| &*target.shown))),
        }
    }

    /// The place of a new file. The prefix of a diff before it counts as one where the rest of the patch has them.
    fn new_name(&self, path: &Path, line: usize) -> Result<(PathBuf, Target), PatchError> {
        let plain = path.to_str().map_or(path, |text| Path::new(names::unquoted(text)));
        let (plain, literal) = self.literal(plain, line)?;
        let Some(rest) = names::without_prefix(&plain) else { return Ok((plain, literal)) };
        let first: PathBuf = plain.components().take(1).collect();
        if self.root.join(first).exists() {
            return Ok((plain, literal));
        }
        let (rest, stripped) = self.literal(&rest, line)?;
        let others = self.ops.iter().filter(|op| !matches!(op, FileOp::Add { .. }));
        let mut prefixed = others.filter_map(|op| names::without_prefix(op.path()).map(|rest| (op, rest)));
        if prefixed.any(|(op, rest)| self.existing(op.path(), op.line()).is_ok_and(|(found, _)| found == rest)) {
            return Ok((rest, stripped));
        }
        let parent = rest.parent().filter(|parent| !parent.as_os_str().is_empty());
        if parent.is_some_and(|parent| self.root.join(parent).is_dir()) {
            return Err(several(path, line, [&*literal.shown, &*stripped.shown].into_iter()));
        }
        Ok((plain, literal))
    }

    fn delete(&mut self, line: usize, path: &Path) -> Result<(), PatchError> {
        let (path, target) = self.existing(path, line)?;
        if let Some(&(_, first)) = self.named.get(&target.absolute) {
            return Err(conflict(&target, first, line, "to delete the file, drop its other operation"));
        }
        let old = self.read(&target, line, "delete")?;
        self.push(line, &path, target, None, Some(old), ChangeKind::Delete, None);
        Ok(())
    }

    fn edit(&mut self, line: usize, path: &Path, old: &str, new: &str, all: bool) -> Result<(), PatchError> {
        let (path, target) = self.existing(path, line)?;
        if let Some(&(index, _)) = self.named.get(&target.absolute) {
            let change = &self.patch.changes[index];
            let text = edit::replace(change.new.as_deref().unwrap_or_default(), old, new, all, &target.shown)?;
            self.hold(&target.shown, &text)?;
            self.patch.changes[index].new = Some(text);
            return Ok(());
        }
        if old.is_empty() && self.patch.tree.occupant(&target)?.is_none() {
            self.check_free(&target, NOT_FREE)?;
            self.hold(&target.shown, new)?;
            self.push(line, &path, target, None, None, ChangeKind::Add, Some(new.to_owned()));
            return Ok(());
        }
        let snapshot = self.read(&target, line, "update")?;
        let text = edit::replace(&snapshot.text, old, new, all, &target.shown)?;
        self.hold(&target.shown, &text)?;
        self.push(line, &path, target, None, Some(snapshot), ChangeKind::Update, Some(text));
        Ok(())
    }

    fn update(&mut self, line: usize, path: &Path, move_to: Option<&Path>, chunks: &[Chunk]) -> Result<(), PatchError> {
        let literal = path;
        let (path, target) = self.existing(literal, line)?;
        // The new name has the prefix that the old one had.
        let is_prefixed = names::without_prefix(literal).is_some_and(|rest| rest == path);
        let stripped = move_to.filter(|_| is_prefixed).and_then(names::without_prefix);
        let move_to = stripped.as_deref().or(move_to);
        let composed = match self.named.get(&target.absolute) {
            None => None,
            Some(&(index, first)) => {
                let change = &self.patch.changes[index];
                if change.kind != ChangeKind::Update || change.move_to.is_some() {
                    let hint = "give the file its final content and name in one operation";
                    return Err(conflict(&target, first, line, hint));
                }
                Some(index)
            }
        };
        let destination = match move_to {
            Some(to) => Some((to.to_owned(), line + 1, self.destination(&target, line + 1, to)?)),
            None => None,
        };
        if let Some(index) = composed {
            let base = self.patch.changes[index].new.take().unwrap_or_default();
            let new = self.rewrite(&target, &base, chunks)?;
            self.patch.changes[index].new = Some(new);
            if let Some((to, at, place)) = destination {
                self.named.insert(place.absolute.clone(), (index, at));
                let change = &mut self.patch.changes[index];
                change.move_to = Some(place.shown.clone());
                change.move_to_absolute = Some(place.absolute.clone());
                change.move_to_real = Some(place.real.clone());
                self.patch.plans[index].destination = Some((to, at, place));
            }
            return Ok(());
        }
        let old = self.read(&target, line, "update")?;
        let new = self.rewrite(&target, &old.text, chunks)?;
        self.push(line, &path, target, destination, Some(old), ChangeKind::Update, Some(new));
        Ok(())
    }

    /// The place a file moves to, which must be free on disk and in the patch.
    fn destination(&self, source: &Target, line: usize, to: &Path) -> Result<Target, PatchError> {
        let target = self.patch.tree.resolve(to, line)?;
        if target.absolute == source.absolute {
            return Err(conflict(source, line - 1, line, "the file would move onto itself; drop `*** Move to:`"));
        }
        if let Some(&(_, first)) = self.named.get(&target.absolute) {
            return Err(conflict(&target, first, line, "a file can only move to a path that nothing else names"));
        }
        self.check_free(&target, MOVE_ELSEWHERE)?;
        Ok(target)
    }

    fn check_free(&self, target: &Target, hint: &'static str) -> Result<(), PatchError> {
        self.check_readable(target)?;
        let Some(place) = self.patch.tree.place(target)? else { return Ok(()) };
        let Some(stat) = self.patch.tree.occupant(target)? else { return Ok(()) };
        resolve::check_regular(target, &place, &stat)?;
        Err(PatchError::Exists { path: target.shown.clone(), hint })
    }

    fn read(&mut self, target: &Target, line: usize, verb: &'static str) -> Result<Snapshot, PatchError> {
        self.check_readable(target)?;
        let snapshot = self.patch.tree.read(target, verb)?;
        self.hold(&target.shown, &snapshot.text)?;
        if let Some(&index) = self.ids.get(&snapshot.id) {
            let other = &self.patch.changes[index].path;
            let message = format!("it and `{}` are the same file on disk; use one name", quote_path(other));
            return Err(conflict(target, self.patch.plans[index].source.1, line, &message));
        }
        self.ids.insert(snapshot.id, self.patch.changes.len());
        Ok(snapshot)
    }

    fn check_readable(&self, target: &Target) -> Result<(), PatchError> {
        if (self.may_read)(&target.real) {
            return Ok(());
        }
        let message = "it may hold credentials, which neither patches nor commands in the sandbox see".to_owned();
        Err(PatchError::Refused { path: target.shown.clone(), message })
    }

    fn rewrite(&mut self, target: &Target, old: &str, chunks: &[Chunk]) -> Result<String, PatchError> {
        let document = Document::new(old);
        let placements = matcher::place(&document, chunks, &target.shown)?;
        let new = document.rebuild(&placements, &target.shown)?;
        self.hold(&target.shown, &new)?;
        Ok(new)
    }

    /// Counts a content against the limits.
    fn hold(&mut self, shown: &Path, text: &str) -> Result<(), PatchError> {
        resolve::check_size(shown, text.len() as u64)?;
        self.held += text.len() as u64;
        if self.held > MAX_TOTAL_BYTES {
            let hint = "the limit is for all contents of one patch together; split the patch";
            return Err(PatchError::TooLarge { path: shown.into(), size: self.held, limit: MAX_TOTAL_BYTES, hint });
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "one place that fills the two parallel records")]
    fn push(
        &mut self,
        line: usize,
        path: &Path,
        target: Target,
        destination: Option<(PathBuf, usize, Target)>,
        old: Option<Snapshot>,
        kind: ChangeKind,
        new: Option<String>,
    ) {
        let (id, mode) = (old.as_ref().map(|old| old.id), old.as_ref().map(|old| old.mode));
        let index = self.patch.changes.len();
        self.named.insert(target.absolute.clone(), (index, line));
        if let Some((_, at, place)) = &destination {
            self.named.insert(place.absolute.clone(), (index, *at));
        }
        self.patch.changes.push(Change {
            path: target.shown.clone(),
            absolute: target.absolute.clone(),
            real: target.real.clone(),
            kind,
            move_to: destination.as_ref().map(|(_, _, place)| place.shown.clone()),
            move_to_absolute: destination.as_ref().map(|(_, _, place)| place.absolute.clone()),
            move_to_real: destination.as_ref().map(|(_, _, place)| place.real.clone()),
            old: old.map(|old| old.text),
            new,
            mode,
        });
        self.patch.plans.push(Plan { source: (path.to_owned(), line), target, destination, mode: None, id });
    }

    /// Refuses a path that lies inside another path of the patch: one would have to be a file and a directory.
    fn check_nesting(&self) -> Result<(), PatchError> {
        for (path, &(index, second)) in &self.named {
            let above = path.ancestors().skip(1).find_map(|above| self.named.get(above));
            if let Some(&(_, first)) = above {
                let message = "another path of the patch is a file where this one needs a directory";
                return Err(conflict(&self.patch.plans[index].target, first, second, message));
            }
        }
        Ok(())
    }

    /// Refuses an update that neither changes nor moves its file.
    fn check_effect(&self) -> Result<(), PatchError> {
        for (change, plan) in self.patch.changes.iter().zip(&self.patch.plans) {
            if change.kind == ChangeKind::Update && change.move_to.is_none() && change.old == change.new {
                return Err(PatchError::NoChange { path: change.path.clone(), line: plan.source.1 });
            }
        }
        Ok(())
    }
}

fn conflict(target: &Target, first: usize, second: usize, message: &str) -> PatchError {
    PatchError::Conflict { path: target.shown.clone(), first, second, message: message.into() }
}

/// The error for a path that may be more than one file.
fn several<'a>(path: &Path, line: usize, places: impl Iterator<Item = &'a Path>) -> PatchError {
    let places: Vec<String> = places.map(|place| format!("`{}`", quote_path(place))).collect();
    let message =
        format!("it may mean {}; write `./` and the path from the root of the workspace", places.join(" or "));
    PatchError::InvalidPath { path: path.into(), line, message }
}

impl Plan {
    /// Whether the file that was read is still the one that stands there.
    pub(crate) fn is_same_file(&self, id: (u64, u64)) -> bool {
        self.id == Some(id)
    }
}

impl VerifiedPatch {
    /// The changes, in the order of the patch.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The absolute paths outside the root that the patch would write, move or delete; empty for most patches.
    #[must_use]
    pub fn outside_root(&self) -> Vec<PathBuf> {
        let targets = self
            .plans
            .iter()
            .flat_map(|plan| std::iter::once(&plan.target).chain(plan.destination.as_ref().map(|(_, _, place)| place)));
        targets.filter(|target| target.outside).map(|target| target.absolute.clone()).collect()
    }

    /// All changes as one unified diff in git's format.
    #[must_use]
    pub fn unified_diff(&self) -> String {
        let one = |change: &Change| {
            let to = change.move_to.as_ref().unwrap_or(&change.path);
            diff::render(&change.path, to, change.old.as_deref(), change.new.as_deref())
        };
        self.changes.iter().map(one).collect()
    }
}
