//! `grep`: lines that match a pattern, with ripgrep's own libraries; ignore files are respected.

use std::path::PathBuf;

use grep_regex::RegexMatcherBuilder;
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, SearcherBuilder};
use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use openoxide_model::ToolSpec;
use serde_json::json;

use super::ToolContext;
use super::args::Args;
use super::hidden;
use super::output::StopFlag;
use crate::diff::relative;

/// Its name.
pub(super) const NAME: &str = "grep";

const DEFAULT_RESULTS: u64 = 100;
const MAX_RESULTS: u64 = 2000;
/// A longer line is cut.
const MAX_LINE_BYTES: usize = 400;

/// What is offered to the model.
pub(super) fn spec() -> ToolSpec {
    ToolSpec::Function {
        name: NAME.to_owned(),
        description:
            "Searches files for lines that match a regular expression. Each is returned as `path:line: text`. \
                      Hidden files and what ignore files name are left out."
                .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "A regular expression in Rust's syntax."},
                "path": {"type": "string", "description": "A file or directory to search. Default: the thread's directory."},
                "include": {"type": "string", "description": "Search only files whose path matches this glob, such as `*.rs`."},
                "max_results": {"type": "integer", "description": "The most lines to return. Default: 100."}
            },
            "required": ["pattern"],
            "additionalProperties": false
        }),
    }
}

/// A call whose arguments are understood.
#[derive(Debug, Clone)]
pub(crate) struct Grep {
    pattern: String,
    shown: String,
    path: PathBuf,
    root: PathBuf,
    include: Option<String>,
    max_results: u64,
    hidden: Vec<PathBuf>,
}

impl Grep {
    /// Understands a call.
    pub(super) fn new(context: &ToolContext, args: &mut Args) -> Result<Self, String> {
        let pattern = args.text("pattern")?;
        let shown =
            args.optional_text("path")?.filter(|path| !path.trim().is_empty()).unwrap_or_else(|| ".".to_owned());
        Ok(Self {
            pattern,
            path: context.resolve(&shown),
            shown,
            root: context.thread.config().cwd.clone(),
            include: args.optional_text("include")?.filter(|glob| !glob.trim().is_empty()),
            max_results: args.optional_number("max_results")?.unwrap_or(DEFAULT_RESULTS).clamp(1, MAX_RESULTS),
            hidden: context.hidden(),
        })
    }

    /// What it shows.
    pub(super) fn summary(&self) -> String {
        format!("searching for {}", crate::approvals::visible(&self.pattern))
    }

    /// Searches, until there are enough results or nobody waits for them.
    pub(super) fn run(&self, stop: &StopFlag) -> Result<String, String> {
        let matcher = RegexMatcherBuilder::new()
            .line_terminator(Some(b'\n'))
            .build(&self.pattern)
            .map_err(|error| format!("`pattern` is not a regular expression that can be used: {error}."))?;
        if !self.path.exists() {
            return Err(format!("`path` {} does not exist.", self.shown));
        }
        hidden::check_path(&self.path, &self.shown, &self.hidden)?;
        let mut walk = WalkBuilder::new(&self.path);
        if !self.hidden.is_empty() {
            let hidden = self.hidden.clone();
            walk.filter_entry(move |entry| !hidden::is_hidden(entry.path(), &hidden));
        }
        // The user's own ignore file is found through the environment, which is not read here.
        walk.git_global(false).require_git(false).sort_by_file_path(|a, b| a.cmp(b));
        if let Some(include) = &self.include {
            let mut overrides = OverrideBuilder::new(&self.path);
            let overrides = overrides.add(include).and_then(|overrides| overrides.build());
            walk.overrides(overrides.map_err(|error| format!("`include` is not a glob that can be used: {error}."))?);
        }
        let mut searcher = SearcherBuilder::new().line_number(true).binary_detection(BinaryDetection::quit(0)).build();
        let (mut text, mut found) = (String::new(), 0);
        for entry in walk.build().filter_map(Result::ok) {
            if stop.is_raised() || found > self.max_results {
                break;
            }
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            let path = relative(&self.root, &normal(entry.path()));
            let sink = Lossy(|number, line| {
                found += 1;
                if found > self.max_results {
                    return Ok(false);
                }
                let line = line.trim_end_matches(['\n', '\r']);
                let shown = &line[..line.floor_char_boundary(MAX_LINE_BYTES.min(line.len()))];
                let cut = if shown.len() < line.len() { " [line cut]" } else { "" };
                text.push_str(&format!("{}:{number}: {shown}{cut}\n", path.display()));
                Ok(!stop.is_raised())
            });
            // A file that cannot be read is passed over, like one that does not match.
            let _ = searcher.search_path(&matcher, entry.path(), sink);
        }
        if found == 0 {
            return Ok("[no line matches]\n".to_owned());
        }
        if found > self.max_results {
            text.push_str(&format!("[more than {} lines match; narrow the pattern or the path]\n", self.max_results));
        }
        Ok(text)
    }
}

/// A path without the `.` components that a relative start leaves in it.
fn normal(path: &std::path::Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn search(pattern: &str, include: Option<&str>, max_results: u64) -> Result<String, String> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("a.rs", "fn one() {}\nfn two() {}\n"),
            ("b.txt", "fn three\n"),
            ("ignored.rs", "fn hidden\n"),
            (".gitignore", "ignored.rs\n"),
        ] {
            fs::write(root.path().join(path), text).unwrap();
        }
        fs::write(root.path().join("z.bin"), b"fn \0 binary\n").unwrap();
        Grep {
            pattern: pattern.into(),
            shown: ".".into(),
            path: root.path().join("."),
            root: root.path().into(),
            include: include.map(Into::into),
            max_results,
            hidden: Vec::new(),
        }
        .run(&StopFlag::default())
    }

    #[test]
    fn lines_come_with_their_place_and_ignore_files_are_respected() {
        assert_eq!(search("fn t", None, 10).unwrap(), "a.rs:2: fn two() {}\nb.txt:1: fn three\n");
        assert_eq!(search("fn t", Some("*.rs"), 10).unwrap(), "a.rs:2: fn two() {}\n");
        assert_eq!(search("hidden", None, 10).unwrap(), "[no line matches]\n");
    }

    #[test]
    fn the_bound_is_told_and_a_bad_pattern_named() {
        let text = search("fn", None, 2).unwrap();
        assert!(text.starts_with("a.rs:1: ") && text.contains("[more than 2 lines match"), "{text}");
        assert!(!search("fn", None, 3).unwrap().contains("more than"));
        assert!(search("(", None, 2).unwrap_err().starts_with("`pattern`"));
    }
}
