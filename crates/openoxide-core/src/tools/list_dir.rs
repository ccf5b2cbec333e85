//! `list_dir`: what is in a directory, some levels deep.

use std::fs;
use std::path::{Path, PathBuf};

use openoxide_model::ToolSpec;
use serde_json::json;

use super::ToolContext;
use super::args::Args;
use super::hidden;

/// Its name.
pub(super) const NAME: &str = "list_dir";

const DEFAULT_DEPTH: u64 = 2;
const MAX_DEPTH: u64 = 20;
const DEFAULT_ENTRIES: u64 = 200;
const MAX_ENTRIES: u64 = 5000;

/// What is offered to the model.
pub(super) fn spec() -> ToolSpec {
    ToolSpec::Function {
        name: NAME.to_owned(),
        description: "Lists a directory, sorted; directories end with `/`, symbolic links with `@`.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The directory. Default: the thread's directory."},
                "depth": {"type": "integer", "description": "How many levels to show. Default: 2."},
                "max_entries": {"type": "integer", "description": "The most entries to show. Default: 200."}
            },
            "additionalProperties": false
        }),
    }
}

/// A call whose arguments are understood.
#[derive(Debug, Clone)]
pub(crate) struct ListDir {
    shown: String,
    path: PathBuf,
    depth: u64,
    max_entries: u64,
    hidden: Vec<PathBuf>,
}

impl ListDir {
    /// Understands a call.
    pub(super) fn new(context: &ToolContext, args: &mut Args) -> Result<Self, String> {
        let shown =
            args.optional_text("path")?.filter(|path| !path.trim().is_empty()).unwrap_or_else(|| ".".to_owned());
        Ok(Self {
            path: context.resolve(&shown),
            shown,
            hidden: context.hidden(),
            depth: args.optional_number("depth")?.unwrap_or(DEFAULT_DEPTH).clamp(1, MAX_DEPTH),
            max_entries: args.optional_number("max_entries")?.unwrap_or(DEFAULT_ENTRIES).clamp(1, MAX_ENTRIES),
        })
    }

    /// What it shows.
    pub(super) fn summary(&self) -> String {
        format!("listing {}", self.shown)
    }

    /// Lists.
    pub(super) fn run(&self) -> Result<String, String> {
        if self.path.is_file() {
            return Err(format!("{} is a file; use `read_file`.", self.shown));
        }
        hidden::check_path(&self.path, &self.shown, &self.hidden)?;
        let mut text = String::new();
        let mut left = self.max_entries;
        let root = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        match list(&root, 1, self.depth, &self.hidden, &mut left, &mut text) {
            Err(error) => Err(format!("{} cannot be listed: {error}.", self.shown)),
            Ok(true) if text.is_empty() => Ok("[the directory is empty]\n".to_owned()),
            Ok(true) => Ok(text),
            Ok(false) => {
                text.push_str(&format!(
                    "[only the first {} entries; list a deeper directory for the rest]\n",
                    self.max_entries
                ));
                Ok(text)
            }
        }
    }
}

/// Adds the entries of a directory; `false` when there is no room for more. A directory beneath the first that cannot
/// be read is left at its name.
fn list(
    directory: &Path,
    level: u64,
    depth: u64,
    hidden: &[PathBuf],
    left: &mut u64,
    text: &mut String,
) -> std::io::Result<bool> {
    let mut entries: Vec<_> = fs::read_dir(directory)?.filter_map(Result::ok).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if *left == 0 {
            return Ok(false);
        }
        *left -= 1;
        let kind = entry.file_type();
        let (is_dir, is_link) = kind.map_or((false, false), |kind| (kind.is_dir(), kind.is_symlink()));
        for _ in 1..level {
            text.push_str("  ");
        }
        text.push_str(&crate::approvals::visible(&entry.file_name().to_string_lossy()));
        text.push_str(if is_dir {
            "/\n"
        } else if is_link {
            "@\n"
        } else {
            "\n"
        });
        let is_entered = is_dir && level < depth && !hidden.contains(&entry.path());
        if is_entered && !list(&entry.path(), level + 1, depth, hidden, left, text).unwrap_or(true) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_indented_and_the_bound_is_told() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("b/c/d")).unwrap();
        fs::write(root.path().join("a.txt"), "").unwrap();
        fs::write(root.path().join("b/x"), "").unwrap();
        let tool = |depth, max_entries| ListDir {
            shown: ".".into(),
            path: root.path().into(),
            depth,
            max_entries,
            hidden: Vec::new(),
        };
        assert_eq!(tool(2, 100).run().unwrap(), "a.txt\nb/\n  c/\n  x\n");
        assert!(tool(3, 100).run().unwrap().contains("    d/\n"));
        assert!(tool(2, 2).run().unwrap().starts_with("a.txt\nb/\n[only the first 2 entries"));
        let missing =
            ListDir { shown: "no".into(), path: root.path().join("no"), depth: 1, max_entries: 1, hidden: Vec::new() };
        assert!(missing.run().unwrap_err().starts_with("no cannot be listed"));
    }
}
