//! The sample project of `openoxide try`: two Python files with a bug that three tests see, and the prompt that
//! spells out its fix. The provider knows nothing of them; all it is told is the prompt.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// The project's files by name.
const FILES: [(&str, &str); 2] =
    [("shop.py", include_str!("../../sample/shop.py")), ("test_shop.py", include_str!("../../sample/test_shop.py"))];

/// What the agent is asked by default. The replacement has another length than what it replaces: Python tells a stale
/// bytecode file by the source's size and its time in whole seconds, and the whole turn fits in one second.
pub(super) const PROMPT: &str = "Run the tests with `python3 -m unittest -q`, then replace `price * percent / 100` \
by `price * (100 - percent) / 100` in shop.py, then run them again.";

/// Writes the project to a fresh directory that stays after the program ends, and returns its path.
pub(super) fn copy_to_fresh_directory() -> anyhow::Result<PathBuf> {
    let directory = tempfile::Builder::new()
        .prefix("openoxide-try-")
        .tempdir()
        .context("cannot make a temporary directory for the sample; give one with --cwd DIR")?;
    write_files(directory.path())?;
    Ok(directory.keep())
}

fn write_files(directory: &Path) -> anyhow::Result<()> {
    for (name, text) in FILES {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_names_what_the_files_hold() {
        let directory = tempfile::tempdir().unwrap();
        write_files(directory.path()).unwrap();
        let source = std::fs::read_to_string(directory.path().join("shop.py")).unwrap();
        let quoted: Vec<&str> = PROMPT.split('`').skip(1).step_by(2).collect();
        let [_, wrong, right] = quoted[..] else { panic!("{quoted:?}") };
        assert_eq!(source.matches(wrong).count(), 1);
        assert!(!source.contains(right));
        assert_ne!(wrong.len(), right.len());
    }
}
