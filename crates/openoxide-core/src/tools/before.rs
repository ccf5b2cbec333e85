//! What a directory held before a turn's first command that may write, so that what commands changed can be told.
//!
//! Looked at are files that version control would not ignore, outside of `.git`; the content of text files is kept for as
//! long as the turn lasts. Of ignored files beside them only that they are gone is told, so that nobody takes them for
//! restored. The disk is read by [`Look`] and [`LookAgain`], wherever the thread's reads are done.

use std::path::{Path, PathBuf};

use openoxide_sandbox::PROTECTED_NAMES;

use super::files::FileView;
use super::look::{Different, Known, Look, LookAgain, Seen};
use super::reads::ReadPlace;
use super::reads::wire::List;
use crate::CoreError;

/// A directory at one moment.
#[derive(Debug)]
pub(crate) struct Before {
    view: FileView,
    files: Vec<Seen>,
    /// Whether that is what a process in the thread's box says.
    by_helper: bool,
}

/// A file that is not as it was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
    /// Its permissions before; none where there was no file.
    pub(crate) mode: Option<u32>,
}

/// What is different in a directory.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// In the order of paths.
    pub(crate) files: Vec<Changed>,
    /// Bare repositories that were made: git takes orders from one, hooks and all, wherever it is called below it.
    pub(crate) repositories: Vec<PathBuf>,
}

/// What is known of a changed file's content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Before and after; none where there was, or is, no file.
    Known(Option<String>, Option<String>),
    /// Nothing.
    Opaque,
    /// It is a file that commands may not write, and what it held is the word of a process in their box alone. What the
    /// server knows of it counts; else nothing is known.
    Unproven,
}

impl Before {
    /// Looks at a view's workspace. None where it is too large, or cannot be looked at.
    pub(crate) async fn look(
        place: &ReadPlace,
        view: impl FnOnce() -> Result<FileView, CoreError> + Send + 'static,
    ) -> Option<Self> {
        // The workspace is held from here to the end of the turn, wherever it is moved meanwhile.
        let view = place.view(view).await.ok()?;
        let looking = view.clone();
        let told = place.read(move || Ok(looking), Look {}).await.ok()?;
        let List(files) = told.answer.ok()??;
        let files = files.into_iter().filter(|seen| !view.hides(&view.workspace().path().join(&seen.path))).collect();
        Some(Self { view, files, by_helper: told.by_helper })
    }

    /// What is different now. None where the directory has become too large, or cannot be looked at.
    pub(crate) async fn changes(self, place: &ReadPlace) -> Option<Changes> {
        let Self { view, files, by_helper } = self;
        let again = LookAgain { known: List(files.iter().map(Known::of).collect()) };
        let looking = view.clone();
        let told = place.read(move || Ok(looking), again).await.ok()?;
        let is_own = !by_helper && !told.by_helper;
        let found = told.answer.ok()??;
        let root = view.workspace().path();
        let mut files: Vec<Option<Seen>> = files.into_iter().map(Some).collect();
        let mut take = |at: u32| files.get_mut(usize::try_from(at).ok()?).and_then(Option::take);
        let mut changes = Vec::new();
        for Different { path, known, text } in found.different.0 {
            let seen = known.and_then(&mut take);
            let mode = seen.as_ref().map(|seen| seen.mode);
            let content = match (seen.map(|seen| seen.text), text) {
                (Some(Some(old)), Some(new)) if old == new => continue,
                (Some(Some(old)), Some(new)) => Content::Known(Some(old), Some(new)),
                (None, Some(new)) => Content::Known(None, Some(new)),
                (Some(None), _) | (_, None) => Content::Opaque,
            };
            changes.push((path, content, mode));
        }
        for seen in found.gone.0.into_iter().filter_map(&mut take) {
            let content = seen.text.map_or(Content::Opaque, |old| Content::Known(Some(old), None));
            changes.push((seen.path, content, Some(seen.mode)));
        }
        changes.sort_by(|a, b| a.0.cmp(&b.0));
        let changed = changes.into_iter().map(|(path, content, mode)| {
            let content = if is_own || !is_protected(&path) { content } else { Content::Unproven };
            Changed { path: root.join(path), content, mode }
        });
        Some(Changes {
            files: changed.filter(|changed| !view.hides(&changed.path)).collect(),
            repositories: found.repositories.0.iter().map(|path| root.join(path)).collect(),
        })
    }
}

/// Whether commands may not write a file, by the names on its way.
fn is_protected(path: &Path) -> bool {
    path.components().any(|part| PROTECTED_NAMES.iter().any(|name| part.as_os_str().eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use openoxide_sandbox::Workspace;

    use super::super::look::MAX_FILES;
    use super::super::reads::tests::{both, in_server, root};
    use super::*;

    async fn look(place: &ReadPlace, root: &Path, hidden: Vec<PathBuf>) -> Option<Before> {
        let view = FileView::new(Arc::new(Workspace::resolve(root).unwrap()), hidden);
        Before::look(place, move || Ok(view)).await
    }

    fn known(old: Option<&str>, new: Option<&str>) -> Content {
        Content::Known(old.map(str::to_owned), new.map(str::to_owned))
    }

    #[tokio::test]
    async fn what_was_written_made_and_removed_is_told_and_what_is_ignored_is_not() {
        for (_, place) in both() {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            let write = |name: &str, text: &[u8]| {
                fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
                fs::write(root.join(name), text).unwrap();
            };
            write(".gitignore", b"target\n*.key\n");
            write("a.key", b"old\n");
            write("b.key", b"old\n");
            for name in ["same", "touched", "changed", "removed", "secret/key", "target/x", ".git/config", ".dot"] {
                write(name, b"old\n");
            }
            write("binary", b"\0\x01");
            let before = look(&place, &root, vec![root.join("secret")]).await.unwrap();
            for name in ["touched", "secret/key"] {
                write(name, b"old\n");
            }
            for name in ["changed", "deep/made", "target/x", ".git/config", ".dot"] {
                write(name, b"new\n");
            }
            write("binary", b"\0\x02");
            fs::remove_file(root.join("removed")).unwrap();
            fs::remove_file(root.join("a.key")).unwrap();
            write("b.key", b"new\n");
            let changes = before.changes(&place).await.unwrap().files;
            let shown: Vec<_> = changes
                .iter()
                .map(|change| (change.path.strip_prefix(&root).unwrap().to_str().unwrap(), &change.content))
                .collect();
            assert_eq!(
                shown,
                [
                    (".dot", &known(Some("old\n"), Some("new\n"))),
                    ("a.key", &Content::Opaque),
                    ("binary", &Content::Opaque),
                    ("changed", &known(Some("old\n"), Some("new\n"))),
                    ("deep/made", &known(None, Some("new\n"))),
                    ("removed", &known(Some("old\n"), None)),
                ]
            );
        }
    }

    #[tokio::test]
    async fn a_directory_that_is_too_large_is_not_looked_at() {
        for (_, place) in both() {
            let dir = tempfile::tempdir().unwrap();
            for number in 0..=MAX_FILES {
                fs::write(dir.path().join(number.to_string()), "").unwrap();
            }
            assert!(look(&place, dir.path(), Vec::new()).await.is_none());
        }
    }

    #[tokio::test]
    async fn a_bare_repository_that_was_made_is_told() {
        for (_, place) in both() {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            let bare = |name: &str| {
                fs::create_dir_all(root.join(name).join("objects")).unwrap();
                fs::create_dir_all(root.join(name).join("refs")).unwrap();
                fs::write(root.join(name).join("HEAD"), "ref: refs/heads/main\n").unwrap();
            };
            bare("there-before");
            fs::write(root.join("HEAD"), "no repository").unwrap();
            let before = look(&place, &root, Vec::new()).await.unwrap();
            bare("deep/made");
            fs::write(root.join("deep/HEAD"), "no repository").unwrap();
            assert_eq!(before.changes(&place).await.unwrap().repositories, [root.join("deep/made")]);
        }
    }

    #[tokio::test]
    async fn what_commands_may_not_write_is_only_named_where_a_process_of_their_box_tells_it() {
        for (name, place) in both() {
            let (_dir, root) = root();
            fs::create_dir_all(root.join("deep/.Codex")).unwrap();
            let paths = ["deep/.Codex/removed", "deep/.Codex/written", "plain"];
            paths.iter().for_each(|path| fs::write(root.join(path), "old\n").unwrap());
            let before = look(&place, &root, Vec::new()).await.unwrap();
            fs::remove_file(root.join(paths[0])).unwrap();
            paths[1..].iter().for_each(|path| fs::write(root.join(path), "new\n").unwrap());
            let changed = before.changes(&place).await.unwrap().files;
            let content = |known| if name == "in the server" { known } else { Content::Unproven };
            let expected = [
                content(known(Some("old\n"), None)),
                content(known(Some("old\n"), Some("new\n"))),
                known(Some("old\n"), Some("new\n")),
            ];
            assert_eq!(changed.iter().map(|file| &file.content).collect::<Vec<_>>(), expected.each_ref(), "{name}");
        }
    }

    #[tokio::test]
    async fn a_workspace_that_is_moved_by_a_command_has_its_changes_told_in_the_server() {
        let (_dir, root) = root();
        let work = root.join("work");
        fs::create_dir(&work).unwrap();
        fs::write(work.join("a"), "old\n").unwrap();
        let before = look(&in_server(), &work, Vec::new()).await.unwrap();
        fs::write(work.join("a"), "new\n").unwrap();
        fs::rename(&work, root.join("moved")).unwrap();
        let changed = before.changes(&in_server()).await.unwrap().files;
        assert_eq!(changed.len(), 1);
        assert_eq!((&changed[0].path, &changed[0].content), (&work.join("a"), &known(Some("old\n"), Some("new\n"))));
    }
}
