//! `list_dir`: what is in a directory, some levels deep.

use std::path::PathBuf;

use openoxide_display::quote_path;
use openoxide_llm::ToolSpec;
use serde_json::json;

use super::ToolCall;
use super::args::Args;
use super::blocking;
use super::files::{EntryKind, FileView, OpenError, Opened, OpenedDirectory};
use super::output::{StopFlag, truncate};
use super::reading::{self, ReadingCall, max_text};
use super::reads::wire::wire_fields;
use super::reads::{ReadKind, ReadWork};
use super::{PreparedCall, ToolAccess, ToolEnv};

/// Its name.
const NAME: &str = "list_dir";

const DEFAULT_DEPTH: u64 = 2;
const MAX_DEPTH: u64 = 20;
const DEFAULT_ENTRIES: u64 = 200;
const MAX_ENTRIES: u64 = 5000;

/// What is offered to the model.
fn spec() -> ToolSpec {
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

/// See the module.
pub(super) struct Tool;

impl super::tool::Tool for Tool {
    fn spec(&self) -> ToolSpec {
        spec()
    }

    fn access(&self) -> ToolAccess {
        ToolAccess::Read
    }

    fn gives_pictures(&self) -> bool {
        false
    }

    fn parse(&self, env: &ToolEnv, call: &ToolCall) -> Result<Box<dyn PreparedCall>, String> {
        Ok(Box::new(ListDir::new(env, &mut Args::parse(&call.input)?)?))
    }
}

/// A call whose arguments are understood.
#[derive(Debug, Clone)]
pub(super) struct ListDir {
    shown: String,
    path: PathBuf,
    depth: u64,
    max_entries: u64,
    max_bytes: usize,
}
wire_fields!(ListDir { shown, path, depth, max_entries, max_bytes });

impl ReadingCall for ListDir {
    const NAME: &'static str = NAME;

    fn summary(&self) -> String {
        format!("listing {}", self.shown)
    }
}

impl ReadWork for ListDir {
    type Found = String;

    const KIND: ReadKind = ReadKind::List;

    fn read(&self, view: &FileView, stop: &StopFlag) -> Result<String, String> {
        let root = view.open_directory(&self.path).map_err(|error| match error {
            OpenError::NotFound => format!("There is no directory {}.", self.shown),
            OpenError::NotDirectory => format!("{} is a file; use `read_file`.", self.shown),
            OpenError::Hidden => reading::refusal(&self.shown, OpenError::Hidden),
            error => format!("{} cannot be listed: {error}.", self.shown),
        })?;
        let mut listing = Listing { view, stop, depth: self.depth, left: self.max_entries, text: String::new() };
        let is_whole = listing.add(&root, 1).map_err(|error| format!("{} cannot be listed: {error}.", self.shown))?;
        let mut text = listing.text;
        if !is_whole {
            text.push_str(&match stop.is_late() {
                true => format!("[stopped after {} s]\n", blocking::READ_LIMIT.as_secs()),
                false => {
                    format!("[only the first {} entries; list a deeper directory for the rest]\n", self.max_entries)
                }
            });
        } else if text.is_empty() {
            text.push_str("[the directory is empty]\n");
        }
        Ok(truncate(&text, self.max_bytes))
    }

    fn max_answer(&self) -> usize {
        max_text(self.max_bytes)
    }

    fn accepts(&self, _: &String) -> bool {
        true
    }
}

impl ListDir {
    /// Understands a call.
    fn new(env: &ToolEnv, args: &mut Args) -> Result<Self, String> {
        let shown =
            args.optional_text("path")?.filter(|path| !path.trim().is_empty()).unwrap_or_else(|| ".".to_owned());
        Ok(Self {
            path: env.resolve(&shown),
            shown,
            depth: args.optional_number("depth")?.unwrap_or(DEFAULT_DEPTH).clamp(1, MAX_DEPTH),
            max_entries: args.optional_number("max_entries")?.unwrap_or(DEFAULT_ENTRIES).clamp(1, MAX_ENTRIES),
            max_bytes: env.output_limit(),
        })
    }
}

/// A listing under way.
struct Listing<'a> {
    view: &'a FileView,
    stop: &'a StopFlag,
    depth: u64,
    left: u64,
    text: String,
}

impl Listing<'_> {
    /// Adds the entries of a directory; `false` when there is no room for more. A directory beneath the first that
    /// cannot be read is left at its name.
    fn add(&mut self, directory: &OpenedDirectory, level: u64) -> std::io::Result<bool> {
        // One more than is shown, so that it is known whether there are more.
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).saturating_add(1);
        let (entries, _) = directory.entries(most)?;
        for entry in entries {
            if self.left == 0 || self.stop.is_raised() {
                return Ok(false);
            }
            self.left -= 1;
            for _ in 1..level {
                self.text.push_str("  ");
            }
            self.text.push_str(&quote_path(entry.name.as_ref()));
            self.text.push_str(match entry.kind {
                EntryKind::Directory => "/\n",
                EntryKind::Link => "@\n",
                EntryKind::File | EntryKind::Other => "\n",
            });
            if entry.kind == EntryKind::Directory
                && level < self.depth
                && let Ok(Opened::Directory(inner)) = self.view.open_entry(directory, &entry.name)
                && !self.add(&inner, level + 1).unwrap_or(true)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn levels_are_indented_and_the_bound_is_told() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("b/c/d")).unwrap();
        fs::write(root.path().join("a.txt"), "").unwrap();
        fs::write(root.path().join("b/x"), "").unwrap();
        let view = reading::tests::view(root.path(), &["b/c/d"]);
        let list = |shown: &str, depth, max_entries| {
            let path = view.workspace().path().join(shown);
            ListDir { shown: shown.into(), path, depth, max_entries, max_bytes: 1000 }.read(&view, &StopFlag::default())
        };
        assert_eq!(list(".", 2, 100).unwrap(), "a.txt\nb/\n  c/\n  x\n");
        assert!(list(".", 3, 100).unwrap().contains("    d/\n"));
        assert!(list(".", 2, 2).unwrap().starts_with("a.txt\nb/\n[only the first 2 entries"));
        assert!(list("no", 1, 1).unwrap_err().starts_with("There is no directory no"));
        assert!(list("a.txt", 1, 1).unwrap_err().contains("use `read_file`"));
        assert!(list("b/c/d", 1, 1).unwrap_err().contains("credentials"));
    }
}
