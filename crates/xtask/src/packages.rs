//! What others may depend on, packed as for a registry and built from the packages: with their default features, which no build
//! of the workspace takes alone.
//!
//! cargo unpacks the packages from a registry of its own making below the target directory, and takes what it once unpacked for
//! a version from then on, whatever the package holds now. So what it unpacked before goes first.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// In the order in which they need each other.
const CRATES: [&str; 2] = ["openoxide-rpc", "openoxide-mcp-protocol"];

/// The arguments of cargo that pack and build them.
pub(crate) fn arguments() -> Vec<&'static str> {
    let packed = CRATES.iter().flat_map(|name| ["-p", name]);
    ["package", "--locked", "--allow-dirty", "--quiet"].into_iter().chain(packed).collect()
}

/// Removes from cargo's home what it unpacked of these packages from a registry without a host, as one in a directory is.
///
/// # Errors
///
/// Names what cannot be read or removed.
pub(crate) fn forget_unpacked(cargo_home: &Path) -> Result<(), String> {
    let sources = cargo_home.join("registry/src");
    for registry in listed(&sources)?.iter().filter(|path| name_of(path).starts_with('-')) {
        for unpacked in listed(registry)?.iter().filter(|path| is_ours(&name_of(path))) {
            match fs::remove_dir_all(unpacked) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(format!("cannot remove {}: {error}", unpacked.display()));
                }
                Ok(()) | Err(_) => {}
            }
        }
    }
    Ok(())
}

/// `NAME-VERSION` of one of the packages.
fn is_ours(name: &str) -> bool {
    CRATES.iter().any(|ours| {
        let version = name.strip_prefix(ours).and_then(|rest| rest.strip_prefix('-'));
        version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
    })
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What a directory holds; nothing where there is none.
fn listed(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: io::Error| format!("cannot read {}: {error}", directory.display());
    match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_unpacked_of_these_packages_from_a_directory_goes() {
        let home = std::env::temp_dir().join(format!("openoxide-xtask-packages-{}", std::process::id()));
        let of = |path: &str| home.join("registry/src").join(path);
        let kept = ["-1f/openoxide-rpc-macros-0.1.0", "-1f/serde-1.0.0", "index-1f/openoxide-rpc-0.1.0"];
        let gone = ["-1f/openoxide-rpc-0.1.0", "-2e/openoxide-mcp-protocol-0.2.0-rc.1"];
        for path in kept.iter().chain(&gone) {
            fs::create_dir_all(of(path).join("src")).unwrap();
        }
        let done = forget_unpacked(&home);
        let is_there = |paths: &[&str]| paths.iter().map(|path| of(path).exists()).collect::<Vec<_>>();
        let (kept, gone) = (is_there(&kept), is_there(&gone));
        fs::remove_dir_all(&home).unwrap();
        assert_eq!((done, kept, gone), (Ok(()), vec![true; 3], vec![false; 2]));
    }

    #[test]
    fn a_home_that_is_not_there_holds_nothing() {
        assert_eq!(forget_unpacked(Path::new("/nonexistent/cargo")), Ok(()));
    }
}
