//! Where the repository of a directory begins: the nearest directory at or above it that git takes for one.

use openoxide_sandbox::is_repository_root;

use super::{FileView, OpenError, OpenedDirectory};

/// The most directories that are looked at on the way up.
const MAX_LEVELS: usize = 128;

/// The directories from the root of the repository down to the workspace, both included. Without a repository that is
/// the workspace alone.
pub(crate) fn path_to_workspace(view: &FileView) -> Result<Vec<OpenedDirectory>, OpenError> {
    let mut way = vec![view.open_workspace()?];
    while let Some(top) = way.last() {
        if is_repository_root(top.path()) {
            way.reverse();
            return Ok(way);
        }
        if way.len() == MAX_LEVELS {
            break;
        }
        match view.open_parent(top) {
            Ok(parent) => way.push(parent),
            // What may not be looked at holds no repository for this thread.
            Err(_) => break,
        }
    }
    way.truncate(1);
    Ok(way)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use openoxide_sandbox::Workspace;

    use super::*;

    fn way(workspace: &Path, allowed: &Path) -> Vec<PathBuf> {
        let view = FileView::new(Arc::new(Workspace::resolve(workspace).unwrap()), Vec::new());
        let view = view.with_parents_beneath(Some(vec![allowed.to_owned()]));
        let way = path_to_workspace(&view).unwrap();
        way.iter().map(|directory| directory.path().to_owned()).collect()
    }

    #[test]
    fn a_repository_has_a_head_or_points_to_one_and_is_not_looked_for_beyond_what_is_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let inner = top.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(way(&inner, &top), std::slice::from_ref(&inner));
        fs::create_dir(top.join("a/.git")).unwrap();
        assert_eq!(way(&inner, &top), std::slice::from_ref(&inner), "an empty `.git` is no repository");
        fs::create_dir(top.join(".git")).unwrap();
        fs::write(top.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        assert_eq!(way(&inner, &top), [top.clone(), top.join("a"), inner.clone()]);
        assert_eq!(way(&inner, &top.join("a")), std::slice::from_ref(&inner), "beyond what is allowed");
        fs::remove_dir(top.join("a/.git")).unwrap();
        fs::create_dir_all(top.join(".git/worktrees/a")).unwrap();
        fs::write(top.join(".git/worktrees/a/HEAD"), "ref: refs/heads/a\n").unwrap();
        fs::write(top.join("a/.git"), "gitdir: ../.git/worktrees/a\n").unwrap();
        assert_eq!(way(&inner, &top), [top.join("a"), inner.clone()]);
        // A link in a circle is nothing.
        std::os::unix::fs::symlink(".git", inner.join(".git")).unwrap();
        assert_eq!(way(&inner, &top), [top.join("a"), inner]);
    }
}
