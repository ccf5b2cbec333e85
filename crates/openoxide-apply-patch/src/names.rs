//! The names that a path in a patch may mean besides itself.
//!
//! A name of a file that is there is never read otherwise. Which of the others are there is found out in `verify`.

use std::path::{Component, Path, PathBuf};

/// What may be meant by a path that leads to no file: without quotes, with `/` for `\`, without the prefix of a diff,
/// without the name of the root itself.
pub(crate) fn readings(path: &Path, root: &Path) -> Vec<PathBuf> {
    let Some(text) = path.to_str() else { return Vec::new() };
    let mut found: Vec<PathBuf> = Vec::new();
    let plain = unquoted(text);
    let slashed = plain.replace('\\', "/");
    for text in [plain, &slashed] {
        let path = Path::new(text);
        found.push(path.to_path_buf());
        found.extend(without_prefix(path));
        found.extend(root.file_name().and_then(|name| path.strip_prefix(name).ok()).map(Path::to_path_buf));
    }
    found.retain(|reading| reading != path && !reading.as_os_str().is_empty());
    let mut unique: Vec<PathBuf> = Vec::new();
    for reading in found {
        if !unique.contains(&reading) {
            unique.push(reading);
        }
    }
    unique
}

/// A path without `a/` or `b/`.
pub(crate) fn without_prefix(path: &Path) -> Option<PathBuf> {
    let first = path.components().next()?;
    let is_side = matches!(first, Component::Normal(name) if name == "a" || name == "b");
    let rest = is_side.then(|| path.components().skip(1).collect::<PathBuf>())?;
    (!rest.as_os_str().is_empty()).then_some(rest)
}

/// A path without quotes, or marks of Markdown, around it.
pub(crate) fn unquoted(text: &str) -> &str {
    let mut text = text.trim();
    for mark in ["**", "`", "'", "\"", "<>"] {
        let (open, close) = if mark == "<>" { ("<", ">") } else { (mark, mark) };
        if let Some(inner) = text.strip_prefix(open).and_then(|text| text.strip_suffix(close)).filter(|t| !t.is_empty())
        {
            text = inner.trim();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_in_a_few_ways() {
        let read = |text: &str| {
            let found = readings(Path::new(text), Path::new("/home/me/project"));
            found.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(read("src/x.rs"), [""; 0]);
        assert_eq!(read("`src/x.rs`"), ["src/x.rs"]);
        assert_eq!(read("'b/src/x.rs'"), ["b/src/x.rs", "src/x.rs"]);
        assert_eq!(read("a/src/x.rs"), ["src/x.rs"]);
        assert_eq!(read("src\\x.rs"), ["src/x.rs"]);
        assert_eq!(read("project/src/x.rs"), ["src/x.rs"]);
        assert_eq!(read("b"), [""; 0]);
    }
}
