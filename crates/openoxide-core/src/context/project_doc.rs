//! The project's own instructions: `AGENTS.md` files from the root of the repository down to the thread's directory.
//!
//! In each directory `AGENTS.override.md` takes the place of `AGENTS.md`. One budget of bytes spans all files, spent
//! from the root down; what does not fit is cut off with a note. Without a repository only the thread's directory counts.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// File names, the first that exists in a directory wins.
const NAMES: [&str; 2] = ["AGENTS.override.md", "AGENTS.md"];

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Documents {
    /// The files with their text, from the root down.
    pub(super) files: Vec<(PathBuf, String)>,
    /// Whether the budget cut something off.
    pub(super) cut: bool,
}

/// Reads the documents that hold for a directory, at most `budget` bytes of them.
pub(super) fn read(cwd: &Path, budget: usize) -> Documents {
    let root = cwd.ancestors().find(|directory| directory.join(".git").exists()).unwrap_or(cwd);
    let mut directories: Vec<&Path> = cwd.ancestors().take_while(|directory| directory.starts_with(root)).collect();
    directories.reverse();

    let (mut documents, mut left) = (Documents::default(), budget);
    for directory in directories {
        // Only a regular file is opened: a pipe or device of that name would never end.
        let Some(path) = NAMES.iter().map(|name| directory.join(name)).find(|path| path.is_file()) else { continue };
        let mut bytes = Vec::new();
        let limit = u64::try_from(left).unwrap_or(u64::MAX).saturating_add(1);
        let Ok(_) = File::open(&path).and_then(|file| file.take(limit).read_to_end(&mut bytes)) else { continue };
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
    let mut text = format!("# AGENTS.md instructions for {}\n\n<INSTRUCTIONS>\n", cwd.display());
    if let Some(user) = user {
        text.push_str("--- the user's own ---\n");
        text.push_str(user);
        text.push('\n');
    }
    for (path, content) in &documents.files {
        text.push_str("--- ");
        text.push_str(&path.to_string_lossy());
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
        let documents = read(&root.path().join("a/b"), 1000);
        assert_eq!(texts(&documents), ["root", "a", "b"]);
        assert!(!documents.cut);
    }

    #[test]
    fn one_budget_spans_all_files_and_cuts_with_a_note() {
        let root = tree(&[(".git/HEAD", ""), ("AGENTS.md", "12345"), ("a/AGENTS.md", "67é"), ("a/b/AGENTS.md", "no")]);
        let cwd = root.path().join("a/b");
        let documents = read(&cwd, 8);
        assert_eq!(texts(&documents), ["12345", "67"], "a character is not cut in two");
        assert!(documents.cut);
        assert!(message(&cwd, None, &documents).unwrap().contains("[cut off here"));

        let exact = read(&root.path().join("a"), 9);
        assert_eq!((texts(&exact), exact.cut), (vec!["12345", "67é"], false));
    }

    #[test]
    fn without_a_repository_only_the_directory_itself_counts() {
        let root = tree(&[("AGENTS.md", "above"), ("a/AGENTS.md", "here")]);
        assert_eq!(texts(&read(&root.path().join("a"), 1000)), ["here"]);
        assert_eq!(message(root.path(), None, &Documents::default()), None);
    }
}
