//! `grep`: lines that match a pattern, with ripgrep's own libraries; ignore files are respected.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::overrides::OverrideBuilder;
use openoxide_display::quote_path;
use openoxide_llm::ToolSpec;
use serde_json::json;

use super::ToolCall;
use super::args::Args;
use super::blocking;
use super::files::walk::{Choice, Walk};
use super::files::{FileView, Opened, OpenedDirectory, OpenedFile, repository};
use super::output::{StopFlag, truncate};
use super::reading::{self, ReadingCall, max_text};
use super::reads::wire::wire_fields;
use super::reads::{ReadKind, ReadWork};
use super::turn_diff::relative;
use super::{PreparedCall, ToolAccess, ToolEnv};

/// Its name.
const NAME: &str = "grep";

const DEFAULT_RESULTS: u64 = 100;
const MAX_RESULTS: u64 = 2000;
/// A longer line is cut.
const MAX_LINE_BYTES: usize = 400;
/// The most memory that one line may take; a file with a longer one is passed over.
const MAX_HEAP: usize = 16 << 20;
/// How many places are named that were passed over.
const MAX_NAMED: usize = 5;

/// What is offered to the model.
fn spec() -> ToolSpec {
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
        Ok(Box::new(Grep::new(env, &mut Args::parse(&call.input)?)?))
    }
}

/// A call whose arguments are understood.
#[derive(Debug, Clone)]
pub(super) struct Grep {
    pattern: String,
    shown: String,
    path: PathBuf,
    root: PathBuf,
    include: Option<String>,
    max_results: u64,
    max_bytes: usize,
}
wire_fields!(Grep { pattern, shown, path, root, include, max_results, max_bytes });

impl ReadingCall for Grep {
    const NAME: &'static str = NAME;

    fn summary(&self) -> String {
        format!("searching for {}", openoxide_display::visible_text(&self.pattern))
    }
}

impl ReadWork for Grep {
    type Found = String;

    const KIND: ReadKind = ReadKind::Search;

    /// Searches, until there are enough results, nobody waits for them, or the time is over.
    fn read(&self, view: &FileView, stop: &StopFlag) -> Result<String, String> {
        let matcher = RegexMatcherBuilder::new()
            .line_terminator(Some(b'\n'))
            .build(&self.pattern)
            .map_err(|error| format!("`pattern` is not a regular expression that can be used: {error}."))?;
        let root = match view.open(&self.path).map_err(|error| reading::refusal(&self.shown, error))? {
            Opened::File(file) => {
                let mut search = Search::new(self, matcher, stop);
                search.file(&self.path, &file);
                return Ok(truncate(&search.into_text(), self.max_bytes));
            }
            Opened::Directory(directory) => directory,
        };
        let choice = Choice { skips_dot_names: true, include: self.overrides(root.path())?, ..Choice::default() };
        let mut walk = Walk::new(view, root, &directories_above(view, &self.path), choice);
        let mut search = Search::new(self, matcher, stop);
        for found in walk.by_ref() {
            if stop.is_raised() || search.found > self.max_results {
                break;
            }
            // A file that cannot be read is passed over, like one that does not match.
            if let Ok(file) = found.open(view) {
                search.file(&found.path(), &file);
            }
        }
        let (unused, cut) = walk.left_out();
        search.name("not used as an ignore file, because it is no small regular file", unused);
        search.name("not searched whole, because it is too large or too deep", cut);
        Ok(truncate(&search.into_text(), self.max_bytes))
    }

    fn max_answer(&self) -> usize {
        max_text(self.max_bytes)
    }

    fn accepts(&self, _: &String) -> bool {
        true
    }
}

impl Grep {
    /// Understands a call.
    fn new(env: &ToolEnv, args: &mut Args) -> Result<Self, String> {
        let pattern = args.text("pattern")?;
        let shown =
            args.optional_text("path")?.filter(|path| !path.trim().is_empty()).unwrap_or_else(|| ".".to_owned());
        Ok(Self {
            pattern,
            path: env.resolve(&shown),
            shown,
            root: env.cwd().to_owned(),
            include: args.optional_text("include")?.filter(|glob| !glob.trim().is_empty()),
            max_results: args.optional_number("max_results")?.unwrap_or(DEFAULT_RESULTS).clamp(1, MAX_RESULTS),
            max_bytes: env.output_limit(),
        })
    }

    fn overrides(&self, root: &Path) -> Result<Option<ignore::overrides::Override>, String> {
        let Some(include) = &self.include else { return Ok(None) };
        let mut overrides = OverrideBuilder::new(root);
        let overrides = overrides.add(include).and_then(|overrides| overrides.build());
        overrides.map(Some).map_err(|error| format!("`include` is not a glob that can be used: {error}."))
    }
}

/// The directories whose ignore files hold in a directory of the workspace too: from the root of the repository down.
fn directories_above(view: &FileView, path: &Path) -> Vec<OpenedDirectory> {
    let Ok(mut above) = repository::path_to_workspace(view) else { return Vec::new() };
    let Ok(below) = path.strip_prefix(view.workspace().path()) else { return Vec::new() };
    let mut so_far = PathBuf::new();
    for part in below.components() {
        so_far.push(part);
        above.extend(view.open_directory(&so_far));
    }
    above
}

/// A search under way.
struct Search<'a> {
    grep: &'a Grep,
    stop: &'a StopFlag,
    matcher: RegexMatcher,
    searcher: Searcher,
    text: String,
    found: u64,
    passed_over: Vec<PathBuf>,
    notes: String,
}

impl<'a> Search<'a> {
    fn new(grep: &'a Grep, matcher: RegexMatcher, stop: &'a StopFlag) -> Self {
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_HEAP))
            .build();
        let (text, notes) = (String::new(), String::new());
        Self { grep, stop, matcher, searcher, text, found: 0, passed_over: Vec::new(), notes }
    }

    /// Searches one file.
    fn file(&mut self, path: &Path, file: &OpenedFile) {
        let Self { grep, stop, text, found, .. } = self;
        let shown = quote_path(&relative(&grep.root, path));
        let sink = Lossy(|number, line| {
            *found += 1;
            if *found > grep.max_results {
                return Ok(false);
            }
            let line = line.trim_end_matches(['\n', '\r']);
            let kept = &line[..line.floor_char_boundary(MAX_LINE_BYTES.min(line.len()))];
            let cut = if kept.len() < line.len() { " [line cut]" } else { "" };
            text.push_str(&format!("{shown}:{number}: {kept}{cut}\n"));
            Ok(!stop.is_raised())
        });
        let reader = Stoppable { file: file.file(), stop };
        if self.searcher.search_reader(&self.matcher, reader, sink).is_err() && !self.stop.is_raised() {
            self.passed_over.push(path.to_owned());
        }
    }

    /// Names places, the first few of them.
    fn name(&mut self, what: &str, places: &[PathBuf]) {
        for place in places.iter().take(MAX_NAMED) {
            self.notes.push_str(&format!("[{}: {what}]\n", quote_path(&relative(&self.grep.root, place))));
        }
        if places.len() > MAX_NAMED {
            self.notes.push_str(&format!("[and {} more of that kind]\n", places.len() - MAX_NAMED));
        }
    }

    fn into_text(mut self) -> String {
        let passed_over = std::mem::take(&mut self.passed_over);
        self.name("not searched, because it cannot be read or has a line of more than 16 MiB", &passed_over);
        let Self { mut text, notes, found, grep, stop, .. } = self;
        if stop.is_late() {
            let seconds = blocking::READ_LIMIT.as_secs();
            text.push_str(&format!("[stopped after {seconds} s, before all was searched; narrow the path]\n"));
        } else if found == 0 {
            text.push_str("[no line matches]\n");
        }
        if found > grep.max_results {
            text.push_str(&format!("[more than {} lines match; narrow the pattern or the path]\n", grep.max_results));
        }
        text + &notes
    }
}

/// A file that ends with an error once nobody waits for it.
struct Stoppable<'a> {
    file: &'a std::fs::File,
    stop: &'a StopFlag,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_raised() {
            return Err(io::Error::other("stopped"));
        }
        self.file.read(buffer)
    }
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
        grep(root.path(), pattern, include, max_results)
    }

    fn grep(root: &Path, pattern: &str, include: Option<&str>, max_results: u64) -> Result<String, String> {
        let view = reading::tests::view(root, &[]);
        let root = view.workspace().path().to_owned();
        let (pattern, include) = (pattern.into(), include.map(Into::into));
        Grep { pattern, shown: ".".into(), path: root.join("."), root, include, max_results, max_bytes: 10_000 }
            .read(&view, &StopFlag::default())
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

    #[test]
    fn a_line_without_an_end_takes_no_memory_and_its_file_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.txt"), "found\n").unwrap();
        let endless = fs::File::create(root.path().join("b.txt")).unwrap();
        use std::io::Write as _;
        for _ in 0..3 * (MAX_HEAP >> 20) {
            (&endless).write_all(&[b'a'; 1 << 20]).unwrap();
        }
        let text = grep(root.path(), "found", None, 10).unwrap();
        assert!(text.starts_with("a.txt:1: found\n") && text.contains("[b.txt: not searched"), "{text}");
    }

    #[test]
    fn ignore_files_that_are_no_files_are_named_and_names_are_quoted() {
        use std::os::unix::ffi::OsStrExt as _;
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/zero", root.path().join(".gitignore")).unwrap();
        fs::write(root.path().join(std::ffi::OsStr::from_bytes(b"\xff\n")), "found\n").unwrap();
        let text = grep(root.path(), "found", None, 10).unwrap();
        assert!(text.starts_with(r#""\377\n":1: found"#), "{text}");
        assert!(text.contains("[.gitignore: not used as an ignore file"), "{text}");
    }

    #[test]
    fn a_search_that_nobody_waits_for_stops_in_the_middle_of_a_file() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.txt"), "found\n").unwrap();
        let view = reading::tests::view(root.path(), &[]);
        let (root, stop) = (view.workspace().path().to_owned(), StopFlag::until(tokio::time::Instant::now()));
        let grep = Grep {
            pattern: "found".into(),
            shown: ".".into(),
            path: root.clone(),
            root,
            include: None,
            max_results: 1,
            max_bytes: 1000,
        };
        assert!(grep.read(&view, &stop).unwrap().starts_with("[stopped after"));
    }
}
