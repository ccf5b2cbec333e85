//! Keys that `openoxide login` has stored: `auth.json` in the home of OpenOxide, readable by its owner alone. Commands of
//! the agent never see the file: the whole home is hidden from them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use openoxide_model::Secret;

fn file(home: &Path) -> PathBuf {
    home.join("auth.json")
}

fn read(home: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let path = file(home);
    match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).with_context(|| {
            format!("{} is not a JSON object of providers and keys; remove it and log in again", path.display())
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error).context(format!("cannot read {}", path.display())),
    }
}

/// Whether a key of the provider is stored.
pub(crate) fn is_stored(home: Option<&Path>, provider: &str) -> bool {
    home.and_then(|home| read(home).ok()).is_some_and(|keys| keys.contains_key(provider))
}

/// The key of a provider, where one is stored.
pub(crate) fn load(home: Option<&Path>, provider: &str) -> anyhow::Result<Option<Secret>> {
    let Some(home) = home else { return Ok(None) };
    Ok(read(home)?.remove(provider).map(Secret::new))
}

/// Stores a key, or with `None` forgets the one that is stored. Says whether anything changed.
pub(crate) fn store(home: &Path, provider: &str, key: Option<String>) -> anyhow::Result<bool> {
    let mut keys = read(home)?;
    let before = keys.clone();
    match key {
        Some(key) => keys.insert(provider.to_owned(), key),
        None => keys.remove(provider),
    };
    if keys == before {
        return Ok(false);
    }
    let shown = file(home);
    let failed = || format!("cannot write {}", shown.display());
    std::fs::create_dir_all(home).with_context(failed)?;
    // Beside the old one, and in its place when it is whole.
    let new = home.join(format!(".auth-{}.json", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let written = options.write(true).create_new(true).mode(0o600).open(&new).and_then(|mut file| {
        file.write_all(serde_json::to_string_pretty(&keys).map_err(std::io::Error::other)?.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &shown)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written.with_context(failed)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn keys_are_kept_for_the_owner_alone_and_can_be_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        assert!(store(home, "openai", Some("sk-1".into())).unwrap());
        assert!(store(home, "anthropic", Some("sk-2".into())).unwrap());
        assert_eq!(std::fs::metadata(file(home)).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(load(Some(home), "openai").unwrap().is_some() && is_stored(Some(home), "anthropic"));
        assert!(store(home, "openai", None).unwrap() && !store(home, "openai", None).unwrap());
        assert!(load(Some(home), "openai").unwrap().is_none());
        assert_eq!(std::fs::read_dir(home).unwrap().count(), 1, "nothing else is left");
        std::fs::write(file(home), "[]").unwrap();
        assert!(format!("{:#}", load(Some(home), "x").map(|_| ()).unwrap_err()).contains("log in again"));
    }
}
