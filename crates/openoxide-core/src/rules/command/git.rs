//! The commands of git that only read. Configuration and attributes of a repository can make even those run programs (a
//! file-system monitor, an external diff, a text converter), so that they are safe in a sandbox only.

use super::lexer::Word;
use super::options::{Given, Operands, Spec};

/// Whether `git` with these words only reads.
pub(super) fn judge(words: &[Word]) -> Result<(), String> {
    // The only option ahead of the command that changes neither the repository nor its configuration.
    let words = match words.split_first() {
        Some((first, rest)) if first.text == "--no-pager" => rest,
        _ => words,
    };
    let Some((command, words)) = words.split_first() else { return Err("`git` without a command".to_owned()) };
    let name = command.text.as_str();
    if name.starts_with('-') || command.is_pattern {
        return Err(format!("`{name}` changes how `git` works"));
    }
    if name == "stash" {
        return match words {
            [list] if list.text == "list" => Ok(()),
            _ => Err("`git stash` changes files".to_owned()),
        };
    }
    if name == "remote" {
        return match words {
            [] => Ok(()),
            [flag] if matches!(flag.text.as_str(), "-v" | "--verbose") => Ok(()),
            _ => Err("`git remote` may change or reach remotes".to_owned()),
        };
    }
    let spec = SPECS.iter().find(|spec| spec.name == name);
    let spec = spec.ok_or_else(|| format!("`git {name}` is not on the list of commands that only read"))?;
    let given = spec.read(words)?;
    check(name, &given)
}

fn check(name: &str, given: &Given<'_>) -> Result<(), String> {
    // Outside of the work tree `git diff` compares any two files.
    if let Some(path) = given
        .operands
        .iter()
        .find(|path| path.starts_with('/') || path.split('/').any(|part| part == "..") && !is_range(path))
    {
        return Err(format!("`{path}` may lie outside of the repository"));
    }
    // These run the program that checks signatures.
    if let Some(format) = given.values.iter().find(|value| value.contains("%G")) {
        return Err(format!("`{format}` checks signatures by a configured program"));
    }
    let has = |option: &str| given.options.iter().any(|given| given == option);
    match name {
        "branch" if has("show-current") => Ok(()),
        "branch" | "tag" if given.operands.is_empty() || has("list") || has("l") => Ok(()),
        "branch" | "tag" => Err(format!("`git {name}` with a name makes one")),
        "cat-file" if has("t") || has("s") || has("p") || has("e") => Ok(()),
        "cat-file" => Err("`git cat-file` without -t, -s, -p or -e may convert what it shows".to_owned()),
        _ => Ok(()),
    }
}

/// `a..b`, and nothing that looks like a path.
fn is_range(word: &str) -> bool {
    !word.contains("../") && !word.ends_with("/..") && word != ".."
}

const fn spec(
    name: &'static str,
    flags: &'static str,
    valued: &'static str,
    long: &'static [&'static str],
    long_valued: &'static [&'static str],
) -> Spec {
    Spec { name, flags, valued, long, long_valued, operands: Operands::Any }
}

/// Options that `diff`, `log` and `show` share. Left out on purpose: `--ext-diff`, `--textconv`, `--output`, `--no-index`,
/// `-O`, `--show-signature`.
const DIFF_LONG: &[&str] = &[
    "abbrev",
    "abbrev-commit",
    "all",
    "branches",
    "cached",
    "check",
    "color",
    "color-words",
    "compact-summary",
    "cc",
    "date-order",
    "decorate",
    "dirstat",
    "exit-code",
    "find-copies",
    "find-renames",
    "first-parent",
    "follow",
    "full-index",
    "function-context",
    "graph",
    "histogram",
    "ignore-all-space",
    "ignore-blank-lines",
    "ignore-space-at-eol",
    "ignore-space-change",
    "left-right",
    "merge-base",
    "merges",
    "minimal",
    "name-only",
    "name-status",
    "no-abbrev-commit",
    "no-color",
    "no-decorate",
    "no-ext-diff",
    "no-merges",
    "no-patch",
    "no-renames",
    "no-textconv",
    "numstat",
    "oneline",
    "patch",
    "patch-with-stat",
    "patience",
    "pickaxe-all",
    "pickaxe-regex",
    "quiet",
    "raw",
    "relative",
    "remotes",
    "reverse",
    "shortstat",
    "staged",
    "stat",
    "summary",
    "tags",
    "text",
    "topo-order",
    "unified",
    "walk-reflogs",
    "word-diff",
];
const DIFF_VALUED: &[&str] = &[
    "abbrev",
    "after",
    "author",
    "before",
    "color",
    "committer",
    "date",
    "decorate",
    "diff-algorithm",
    "diff-filter",
    "find-copies",
    "find-renames",
    "format",
    "grep",
    "inter-hunk-context",
    "max-count",
    "pretty",
    "relative",
    "since",
    "skip",
    "stat",
    "unified",
    "until",
    "word-diff",
    "word-diff-regex",
];

const SPECS: &[Spec] = &[
    spec(
        "blame",
        "bcefFlnpstw",
        "L",
        &["color-by-age", "line-porcelain", "porcelain", "root", "show-email", "show-name", "show-number"],
        &["abbrev", "date"],
    ),
    spec(
        "branch",
        "arvl",
        "",
        &["all", "ignore-case", "list", "no-color", "remotes", "show-current", "verbose"],
        &["contains", "format", "merged", "no-contains", "no-merged", "points-at", "sort"],
    ),
    spec("cat-file", "tspe", "", &[], &[]),
    spec("describe", "", "", &["all", "always", "contains", "dirty", "long", "tags"], &["abbrev", "exclude", "match"]),
    spec("diff", "abBcCMpRuwWz", "GSU", DIFF_LONG, DIFF_VALUED),
    spec(
        "grep",
        "#acEFhHiIlLnopPqvwWz",
        "ABCem",
        &[
            "all-match",
            "and",
            "break",
            "cached",
            "column",
            "count",
            "extended-regexp",
            "files-with-matches",
            "files-without-match",
            "fixed-strings",
            "full-name",
            "heading",
            "ignore-case",
            "invert-match",
            "line-number",
            "name-only",
            "no-color",
            "not",
            "null",
            "only-matching",
            "or",
            "perl-regexp",
            "quiet",
            "show-function",
            "untracked",
            "word-regexp",
        ],
        &["after-context", "before-context", "context", "max-count", "max-depth"],
    ),
    spec("log", "#abBcCgimMpRuwWz", "GLnSU", DIFF_LONG, DIFF_VALUED),
    spec(
        "ls-files",
        "cdikmostuvz",
        "x",
        &[
            "cached",
            "deleted",
            "directory",
            "error-unmatch",
            "exclude-standard",
            "full-name",
            "ignored",
            "killed",
            "modified",
            "others",
            "stage",
            "unmerged",
        ],
        &["exclude"],
    ),
    spec("ls-tree", "dlrtz", "", &["full-name", "full-tree", "long", "name-only", "name-status"], &["abbrev"]),
    spec("merge-base", "a", "", &["all", "fork-point", "independent", "is-ancestor", "octopus"], &[]),
    spec(
        "rev-parse",
        "q",
        "",
        &[
            "abbrev-ref",
            "absolute-git-dir",
            "git-dir",
            "is-bare-repository",
            "is-inside-git-dir",
            "is-inside-work-tree",
            "quiet",
            "short",
            "show-prefix",
            "show-toplevel",
            "symbolic-full-name",
            "verify",
        ],
        &["short"],
    ),
    spec("show", "abBcCmMpRuwWz", "GSU", DIFF_LONG, DIFF_VALUED),
    spec(
        "status",
        "bsuvz",
        "",
        &[
            "ahead-behind",
            "branch",
            "ignored",
            "long",
            "no-ahead-behind",
            "no-renames",
            "porcelain",
            "renames",
            "short",
            "show-stash",
            "untracked-files",
            "verbose",
        ],
        &["ignored", "porcelain", "untracked-files"],
    ),
    spec("tag", "l", "", &["ignore-case", "list"], &["contains", "merged", "no-merged", "points-at", "sort"]),
];
