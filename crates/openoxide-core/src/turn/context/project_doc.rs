//! The project's own instructions: `AGENTS.md` files from the root of the repository down to the thread's directory.
//!
//! In each directory `AGENTS.override.md` takes the place of `AGENTS.md`. One budget of bytes spans all files, spent
//! from the root down; what does not fit is cut off with a note. Without a repository only the thread's directory counts.
//!
//! Anybody may have put the files there, so they are read through the view: a link is followed only where it stays in the
//! repository, and what is no regular file, or hidden, is named and not read.

use std::path::{Path, PathBuf};

use openoxide_display::quote_path;

use crate::tools::files::{FileView, Links, OpenError, repository};

/// File names, the first that exists in a directory wins.
const NAMES: [&str; 2] = ["AGENTS.override.md", "AGENTS.md"];

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Documents {
    /// The files with their text, from the root down.
    pub(super) files: Vec<(PathBuf, String)>,
    /// Whether the budget cut something off.
    pub(super) cut: bool,
    /// Files that were not read, and why.
    pub(super) refused: Vec<(PathBuf, OpenError)>,
}

/// Reads the documents that hold for the view's workspace, at most `budget` bytes of them. Directories above the
/// workspace are looked into up to the root of its repository.
pub(super) fn read(view: &FileView, budget: usize) -> Documents {
    let (mut documents, mut left) = (Documents::default(), budget);
    let way = match repository::path_to_workspace(view) {
        Ok(way) => way,
        Err(error) => {
            documents.refused.push((view.workspace().path().to_owned(), error));
            return documents;
        }
    };
    let Some(root) = way.first() else { return documents };
    for directory in &way {
        // The way leads down, so that each lies beneath the root.
        let below = directory.path().strip_prefix(root.path()).unwrap_or(Path::new(""));
        let found =
            NAMES.into_iter().find_map(|name| match view.file_beneath(root, &below.join(name), Links::Beneath) {
                Ok(file) => Some((directory.path().join(name), file)),
                Err(OpenError::NotFound) => None,
                Err(error) => {
                    documents.refused.push((directory.path().join(name), error));
                    None
                }
            });
        let Some((path, file)) = found else { continue };
        let Ok(mut bytes) = file.read_start(u64::try_from(left).unwrap_or(u64::MAX).saturating_add(1)) else {
            continue;
        };
        let is_cut = bytes.len() > left;
        bytes.truncate(left);
        if is_cut {
            documents.cut = true;
            drop_partial_character(&mut bytes);
        }
        left -= bytes.len();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if !text.trim().is_empty() {
            documents.files.push((path, text));
        }
        if is_cut {
            break;
        }
    }
    documents
}

/// Removes the beginning of a character whose rest was cut off.
fn drop_partial_character(bytes: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
}

/// The message that carries the user's and the project's documents; `None` when there are none.
pub(super) fn message(cwd: &Path, user: Option<&str>, documents: &Documents) -> Option<String> {
    let user = user.map(str::trim).filter(|text| !text.is_empty());
    if user.is_none() && documents.files.is_empty() {
        return None;
    }
    let mut text = format!("# AGENTS.md instructions for {}\n\n<INSTRUCTIONS>\n", quote_path(cwd));
    if let Some(user) = user {
        text.push_str("--- the user's own ---\n");
        text.push_str(user);
        text.push('\n');
    }
    for (path, content) in &documents.files {
        text.push_str("--- ");
        text.push_str(&quote_path(path));
        text.push_str(" ---\n");
        text.push_str(content.trim_end());
        text.push('\n');
    }
    if documents.cut {
        text.push_str("[cut off here: the documents are longer than may be sent; read the files for the rest]\n");
    }
    text.push_str("</INSTRUCTIONS>");
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use openoxide_sandbox::Workspace;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn read_at(cwd: &Path, budget: usize) -> Documents {
        let view = FileView::new(Arc::new(Workspace::resolve(cwd).unwrap()), Vec::new());
        read(&view, budget)
    }

    fn texts(documents: &Documents) -> Vec<&str> {
        documents.files.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn from_the_root_down_and_an_override_wins_in_its_directory() {
        let root = tree(&[
            (".git/HEAD", ""),
            ("AGENTS.md", "root"),
            ("a/AGENTS.md", "hidden"),
            ("a/AGENTS.override.md", "a"),
            ("a/b/AGENTS.md", "b"),
            ("c/AGENTS.md", "elsewhere"),
        ]);
        let documents = read_at(&root.path().join("a/b"), 1000);
        assert_eq!(texts(&documents), ["root", "a", "b"]);
        assert!(!documents.cut);
    }

    #[test]
    fn one_budget_spans_all_files_and_cuts_with_a_note() {
        let root = tree(&[(".git/HEAD", ""), ("AGENTS.md", "12345"), ("a/AGENTS.md", "67é"), ("a/b/AGENTS.md", "no")]);
        let cwd = root.path().join("a/b");
        let documents = read_at(&cwd, 8);
        assert_eq!(texts(&documents), ["12345", "67"], "a character is not cut in two");
        assert!(documents.cut);
        assert!(message(&cwd, None, &documents).unwrap().contains("[cut off here"));

        let exact = read_at(&root.path().join("a"), 9);
        assert_eq!((texts(&exact), exact.cut), (vec!["12345", "67é"], false));
    }

    #[test]
    fn without_a_repository_only_the_directory_itself_counts() {
        let root = tree(&[("AGENTS.md", "above"), ("a/AGENTS.md", "here"), (".git/placeholder", "")]);
        assert_eq!(texts(&read_at(&root.path().join("a"), 1000)), ["here"]);
        assert_eq!(message(root.path(), None, &Documents::default()), None);
    }

    #[test]
    fn a_link_out_of_the_repository_and_what_is_no_file_are_named_and_not_read() {
        let root = tree(&[("repo/.git/HEAD", ""), ("repo/docs/agents.md", "kept"), ("outside", "SECRET")]);
        for (name, to) in [("a", "../../outside"), ("b", "/proc/self/environ"), ("c", "/dev/zero"), ("d", "AGENTS.md")]
        {
            let directory = root.path().join("repo").join(name);
            fs::create_dir(&directory).unwrap();
            std::os::unix::fs::symlink(to, directory.join("AGENTS.md")).unwrap();
            let documents = read_at(&directory, 1000);
            assert_eq!((texts(&documents), documents.refused.len()), (vec![], 1), "{name}");
        }
        let pipe = root.path().join("repo/AGENTS.md");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(read_at(&root.path().join("repo"), 1000).refused.len(), 1);
        fs::remove_file(&pipe).unwrap();
        std::os::unix::fs::symlink("docs/agents.md", &pipe).unwrap();
        assert_eq!(texts(&read_at(&root.path().join("repo"), 1000)), ["kept"]);
    }
}
