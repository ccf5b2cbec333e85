//! Keeps the reading tools from what the sandbox hides from commands: credentials, and the agent's own files.

use std::fs::File;
use std::path::{Path, PathBuf};

/// Refuses a file that was opened and turns out to be hidden, whatever links led to it.
pub(super) fn check(file: &File, path: &Path, shown: &str, hidden: &[PathBuf]) -> Result<(), String> {
    if hidden.is_empty() {
        return Ok(());
    }
    match real_path(file).or_else(|| path.canonicalize().ok()) {
        Some(path) if !is_beneath(&path, hidden) => Ok(()),
        _ => Err(refusal(shown)),
    }
}

/// Where the file that was opened lies. What a link says of a path may have changed since.
#[cfg(target_os = "linux")]
fn real_path(file: &File) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

#[cfg(not(target_os = "linux"))]
fn real_path(_: &File) -> Option<PathBuf> {
    None
}

/// Refuses a path that leads to something hidden. One that leads nowhere is told by whoever opens it.
pub(super) fn check_path(path: &Path, shown: &str, hidden: &[PathBuf]) -> Result<(), String> {
    if is_hidden(path, hidden) { Err(refusal(shown)) } else { Ok(()) }
}

/// Whether a path leads to something hidden.
pub(super) fn is_hidden(path: &Path, hidden: &[PathBuf]) -> bool {
    !hidden.is_empty() && path.canonicalize().is_ok_and(|path| is_beneath(&path, hidden))
}

fn is_beneath(path: &Path, hidden: &[PathBuf]) -> bool {
    hidden.iter().any(|hidden| path.starts_with(hidden))
}

fn refusal(shown: &str) -> String {
    format!("{shown} is not read: it holds credentials or belongs to the agent itself. Go on without it.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_does_not_lead_around() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::create_dir(dir.join("secret")).unwrap();
        std::fs::write(dir.join("secret/key"), "k").unwrap();
        std::fs::write(dir.join("open"), "o").unwrap();
        std::os::unix::fs::symlink(dir.join("secret/key"), dir.join("link")).unwrap();
        let hidden = [dir.join("secret")];
        let check = |name: &str| check(&File::open(dir.join(name)).unwrap(), &dir.join(name), name, &hidden);
        assert!(check("open").is_ok());
        assert!(check("link").unwrap_err().starts_with("link is not read"));
        assert!(check_path(&dir.join("secret"), "secret", &hidden).is_err());
        assert!(check_path(&dir.join("missing"), "missing", &hidden).is_ok());
    }
}
