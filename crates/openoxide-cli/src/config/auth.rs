//! Keys that `openoxide login` has stored: `auth.json` in the home of OpenOxide, readable by its owner alone. Commands of
//! the agent never see the file: the whole home is hidden from them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use openoxide_providers::Secret;

use super::home::{self, Privacy};
use super::reading;

fn file(home: &Path) -> PathBuf {
    home.join("auth.json")
}

fn read(home: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let path = file(home);
    let Some(text) = reading::read(&path, Some(Privacy::Alone))? else { return Ok(BTreeMap::new()) };
    // What the parser says may quote a key.
    serde_json::from_str(&text).map_err(|_| {
        anyhow::anyhow!("{} is not a JSON object of providers and keys; remove it and log in again", path.display())
    })
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
    home::prepare(home)?;
    let shown = file(home);
    let failed = || format!("cannot write {}", shown.display());
    // Held until the new file is in its place; it is let go of with the descriptor.
    let lock = lock(home).with_context(failed)?;
    let mut keys = read(home)?;
    let before = keys.clone();
    match key {
        Some(key) => keys.insert(provider.to_owned(), key),
        None => keys.remove(provider),
    };
    if keys == before {
        return Ok(false);
    }
    write(home, &keys).with_context(failed)?;
    drop(lock);
    Ok(true)
}

/// Waits for other logins to be done. The file stays: removing it would let two logins go on at once.
fn lock(home: &Path) -> std::io::Result<File> {
    let lock = File::options().create(true).truncate(false).write(true).mode(0o600).open(home.join("auth.lock"))?;
    lock.lock()?;
    Ok(lock)
}

/// Writes a new file beside the old one, and puts it in its place when it is whole and on disk.
fn write(home: &Path, keys: &BTreeMap<String, String>) -> std::io::Result<()> {
    // Readable by its owner alone from the beginning, and removed where it does not become the file.
    let mut new = tempfile::Builder::new().prefix(".auth-").tempfile_in(home)?;
    new.write_all(serde_json::to_string_pretty(keys).map_err(std::io::Error::other)?.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist(file(home))?;
    File::open(home)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn keys_are_kept_for_the_owner_alone_and_can_be_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let home = &dir.path().join("home");
        assert!(store(home, "openai", Some("sk-1".into())).unwrap());
        assert!(store(home, "anthropic", Some("sk-2".into())).unwrap());
        assert_eq!(std::fs::metadata(file(home)).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(load(Some(home), "openai").unwrap().is_some() && is_stored(Some(home), "anthropic"));
        assert!(store(home, "openai", None).unwrap() && !store(home, "openai", None).unwrap());
        assert!(load(Some(home), "openai").unwrap().is_none());
        assert_eq!(std::fs::read_dir(home).unwrap().count(), 2, "nothing else is left but the lock");
        std::fs::write(file(home), r#"{"openai": ["sk-1"]}"#).unwrap();
        let told = format!("{:#}", load(Some(home), "x").map(|_| ()).unwrap_err());
        assert!(told.contains("log in again") && !told.contains("sk-1"), "{told}");
    }

    #[test]
    fn logins_at_once_are_all_kept() {
        const LOGINS: usize = 20;
        let dir = tempfile::tempdir().unwrap();
        let home = &dir.path().join("home");
        let at_once = std::sync::Barrier::new(LOGINS);
        std::thread::scope(|scope| {
            for number in 0..LOGINS {
                let at_once = &at_once;
                scope.spawn(move || {
                    at_once.wait();
                    assert!(store(home, &format!("p{number}"), Some("sk".into())).unwrap());
                });
            }
        });
        assert_eq!(read(home).unwrap().len(), LOGINS);
    }

    #[test]
    fn keys_that_others_can_read_are_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let home = &dir.path().join("home");
        store(home, "openai", Some("sk-1".into())).unwrap();
        std::fs::set_permissions(file(home), std::fs::Permissions::from_mode(0o644)).unwrap();
        for told in [load(Some(home), "openai").map(|_| ()), store(home, "x", Some("y".into())).map(|_| ())] {
            assert!(format!("{:#}", told.unwrap_err()).contains("chmod 600"));
        }
    }
}
