//! A thread's own directory for temporary files: `openoxide-<thread>` in the server's, for its user alone. It is made for
//! the first command, found again by the thread's id, and removed when the thread is closed or leaves memory otherwise, when
//! the server ends, and when the thread is deleted. What a killed server leaves is removed by the next start on the same home
//! (`temporary/left.rs`).

pub(super) mod left;
pub(super) mod place;

use std::io;

use openoxide_sandbox::HostPaths;

use self::place::place;
use crate::ThreadId;

/// Removes what a thread has left in its own directory for temporary files. Links are removed and not followed. Blocks on
/// the disk.
pub fn remove_temporary(host_paths: &HostPaths, id: ThreadId) {
    let place = place(host_paths, id);
    match std::fs::remove_dir_all(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(place = %place.display(), %error, "a thread's temporary files were not removed");
        }
        Ok(()) | Err(_) => left::forget(host_paths, id),
    }
}

#[cfg(test)]
mod tests {
    use super::place::make;
    use super::*;

    #[test]
    fn it_is_the_users_own_or_it_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let host_paths = HostPaths { tmpdir: Some(dir.path().into()), ..HostPaths::default() };
        let id = ThreadId::new();
        let place = place(&host_paths, id);
        make(&place).unwrap();
        make(&place).unwrap();
        std::fs::create_dir(place.join("deep")).unwrap();
        std::fs::write(dir.path().join("kept"), "").unwrap();
        std::os::unix::fs::symlink(dir.path(), place.join("deep/link")).unwrap();
        remove_temporary(&host_paths, id);
        assert!(!place.exists() && dir.path().join("kept").exists());
        remove_temporary(&host_paths, id);
        std::os::unix::fs::symlink(dir.path(), &place).unwrap();
        assert!(make(&place).is_err(), "a link");
        std::fs::remove_file(&place).unwrap();
        std::fs::create_dir(&place).unwrap();
        std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(make(&place).is_err(), "open to others");
    }
}
