//! The key that seals parked calls: 32 random bytes in a file only the user can read.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::random;

/// Reads the key, or makes one. Where it cannot be kept, parked calls are not recognised after a restart, which is
/// logged and harms nothing else.
pub(crate) fn load_or_create(file: Option<&Path>) -> [u8; 32] {
    let Some(file) = file else { return random::bytes() };
    if let Some(key) = read(file) {
        return key;
    }
    let key = random::bytes();
    match create(file, &key) {
        Ok(()) => key,
        // Another server may have made it just now.
        Err(error) => read(file).unwrap_or_else(|| {
            tracing::warn!(%error, file = %file.display(), "the key of parked calls cannot be kept");
            key
        }),
    }
}

fn read(file: &Path) -> Option<[u8; 32]> {
    fs::read(file).ok()?.try_into().ok()
}

fn create(file: &Path, key: &[u8; 32]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_kept_private() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("home/state.key");
        let key = load_or_create(Some(&file));
        assert_eq!(load_or_create(Some(&file)), key);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_ne!(load_or_create(None), key);
    }
}
