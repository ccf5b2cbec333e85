//! Commands that only read, with the options with which they only read. Whoever adds one has to know what each of its
//! options can do: run a program, write a file, or read what is nobody's business.

use super::git;
use super::lexer::{Command, Word};
use super::options::{Operands, Spec};
use super::system_name;

/// What makes a command safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Safe {
    /// It only reads.
    Always,
    /// It only reads, but files of the workspace may make it run programs; those then run in the sandbox.
    InSandbox,
}

/// Whether a command only reads, or why that is not known.
pub(super) fn judge(command: &Command) -> Result<Safe, String> {
    let Some((program, words)) = command.split_first() else { return Err("there is no command".to_owned()) };
    let name = match system_name(&program.text) {
        Some(name) if !program.is_pattern => name,
        _ => return Err(format!("`{}` may be any program", program.text)),
    };
    if let Some(word) = words.iter().find(|word| is_secret(&word.text)) {
        return Err(format!("`{}` may hold credentials", word.text));
    }
    match name {
        "git" => git::judge(words).map(|()| Safe::InSandbox),
        "find" => find(words).map(|()| Safe::Always),
        "sed" => sed(words).map(|()| Safe::Always),
        "test" => test(words).map(|()| Safe::Always),
        "echo" => Ok(Safe::Always),
        _ => match SPECS.iter().find(|spec| spec.name == name) {
            Some(spec) => spec.read(words).map(|_| Safe::Always),
            None => Err(format!("`{name}` is not on the list of commands that only read")),
        },
    }
}

/// Names of files and directories that hold keys, wherever they stand.
const SECRET_NAMES: [&str; 21] = [
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".docker",
    ".password-store",
    "keyrings",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "auth.json",
    "credentials",
    "credentials.toml",
    ".credentials.json",
];

/// Whether a word names something that holds keys. It is a list of names, so that it errs on the side of asking.
fn is_secret(word: &str) -> bool {
    let is_environment = word.contains("/proc/") && (word.contains("environ") || word.contains(['*', '?', '[']));
    // A pattern may name what its text does not.
    let is_dot_pattern = word.split('/').any(|part| part.starts_with('.') && part.contains(['*', '?', '[']));
    let names_secret = word.split(['/', ':', '=']).any(|part| {
        let part = part.to_ascii_lowercase();
        let is_env_file = part == ".env" || part.starts_with(".env.") && !is_sample(&part);
        is_env_file || SECRET_NAMES.contains(&part.as_str()) || part.ends_with(".pem") || part.ends_with(".p12")
    });
    let is_tool_config = [".config/gh", ".config/hub", ".config/gcloud", ".config/git/credentials"]
        .iter()
        .any(|path| word.contains(path));
    is_environment
        || is_dot_pattern
        || names_secret
        || is_tool_config
        || matches!(word, "/etc/shadow" | "/etc/gshadow" | "/etc/sudoers")
}

fn is_sample(name: &str) -> bool {
    ["example", "sample", "template"].iter().any(|kind| name.ends_with(kind))
}

/// Tests of `find` without an argument, and with one.
const FIND_PLAIN: [&str; 25] = [
    "-depth",
    "-prune",
    "-print",
    "-print0",
    "-ls",
    "-empty",
    "-not",
    "-a",
    "-o",
    "-and",
    "-or",
    "!",
    "(",
    ")",
    "-follow",
    "-xdev",
    "-mount",
    "-readable",
    "-writable",
    "-executable",
    "-daystart",
    "-true",
    "-false",
    "-quit",
    "-noleaf",
];
const FIND_VALUED: [&str; 26] = [
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-regex",
    "-iregex",
    "-regextype",
    "-type",
    "-xtype",
    "-size",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-newer",
    "-perm",
    "-user",
    "-group",
    "-maxdepth",
    "-mindepth",
    "-links",
    "-inum",
    "-samefile",
];

fn find(words: &[Word]) -> Result<(), String> {
    let mut words = words.iter();
    let mut is_expression = false;
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        if word.is_pattern {
            return Err(format!("the pattern `{text}` may become an action of `find`"));
        }
        let begins_expression = text.starts_with('-') || matches!(text, "!" | "(" | ")");
        match text {
            "-L" | "-H" | "-P" if !is_expression => continue,
            _ if begins_expression => is_expression = true,
            _ if is_expression => return Err(format!("`find` has no test `{text}`")),
            _ => continue,
        }
        if FIND_VALUED.contains(&text) {
            match words.next() {
                Some(value) if !value.is_pattern => {}
                _ => return Err(format!("`{text}` of `find` has no plain value")),
            }
        } else if !FIND_PLAIN.contains(&text) {
            return Err(format!("`{text}` is not on the list of `find`"));
        }
    }
    Ok(())
}

/// `sed -n` with a script that prints lines, and files.
fn sed(words: &[Word]) -> Result<(), String> {
    let [first, script, files @ ..] = words else { return Err("`sed` may change files".to_owned()) };
    if !matches!(first.text.as_str(), "-n" | "-nE" | "-nr" | "--quiet" | "--silent") {
        return Err("`sed` is known to only read with `-n` and a script that prints".to_owned());
    }
    if script.is_pattern || !script.text.split(';').all(|part| prints(part.trim())) {
        return Err(format!("the script `{}` may do more than print lines", script.text));
    }
    match files.iter().find(|file| file.text.starts_with('-') || file.begins_with_pattern) {
        Some(file) => Err(format!("`{}` may be an option or another script of `sed`", file.text)),
        None => Ok(()),
    }
}

/// `ADDRESS[,ADDRESS]p`.
fn prints(part: &str) -> bool {
    let Some(addresses) = part.strip_suffix('p') else { return false };
    let mut rest = addresses;
    for _ in 0..2 {
        match address(rest) {
            Some("") => return true,
            Some(after) => match after.strip_prefix(',') {
                Some(after) => rest = after,
                None => return false,
            },
            None => return false,
        }
    }
    false
}

/// What follows an address: a line number, the last line, or a pattern without anything that could end it early.
fn address(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('$') {
        return Some(rest);
    }
    if let Some(rest) = text.strip_prefix('/') {
        let (pattern, rest) = rest.split_once('/')?;
        return (!pattern.contains(['\\', '\n'])).then_some(rest);
    }
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

/// `test` with the operators that look at files and strings. `-v` evaluates its argument.
fn test(words: &[Word]) -> Result<(), String> {
    const KNOWN: [&str; 14] = ["-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h", "-z", "-n", "-p", "-S", "-c"];
    match words
        .iter()
        .find(|word| word.is_pattern || word.text.starts_with('-') && !KNOWN.contains(&word.text.as_str()))
    {
        Some(word) => Err(format!("`{}` is not on the list of `test`", word.text)),
        None => Ok(()),
    }
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

const fn with(operands: Operands, spec: Spec) -> Spec {
    Spec { operands, ..spec }
}

const GREP: (&str, &str, &[&str], &[&str]) = (
    "#abcEFGhHiIlLnoPqrRsTUvVwxyzZ",
    "ABCefmdD",
    &[
        "basic-regexp",
        "byte-offset",
        "color",
        "colour",
        "count",
        "dereference-recursive",
        "extended-regexp",
        "files-with-matches",
        "files-without-match",
        "fixed-strings",
        "ignore-case",
        "initial-tab",
        "invert-match",
        "line-number",
        "line-regexp",
        "no-filename",
        "no-ignore-case",
        "no-messages",
        "null",
        "only-matching",
        "perl-regexp",
        "quiet",
        "recursive",
        "silent",
        "text",
        "with-filename",
        "word-regexp",
    ],
    &[
        "after-context",
        "before-context",
        "binary-files",
        "color",
        "colour",
        "context",
        "exclude",
        "exclude-dir",
        "include",
        "label",
        "max-count",
        "regexp",
    ],
);

/// Digests have the same options.
const SUM: (&str, &str, &[&str], &[&str]) = (
    "bctwz",
    "",
    &["binary", "check", "ignore-missing", "quiet", "status", "strict", "tag", "text", "warn", "zero"],
    &[],
);

/// Each with the options that only read. Left out on purpose: `sort -o`, `-T` and `--compress-program`; `rg --pre`, `-z` and
/// `--hostname-bin`; `tree -o`, `-R`; `file -C`, `-m`, `-f`, `-z`; `diff -l`; `date -s`; `tail -f`, which never ends; all
/// `--files0-from`, which read names from files.
const SPECS: [Spec; 54] = [
    with(Operands::AtMost(0), spec("arch", "", "", &[], &[])),
    with(Operands::AtMost(1), spec("base64", "d", "w", &["decode"], &["wrap"])),
    spec("basename", "az", "s", &["multiple", "zero"], &["suffix"]),
    spec("b2sum", SUM.0, SUM.1, SUM.2, SUM.3),
    spec(
        "cat",
        "AbeEnstTuv",
        "",
        &["number", "number-nonblank", "show-all", "show-ends", "show-nonprinting", "show-tabs", "squeeze-blank"],
        &[],
    ),
    spec("cksum", "", "", &[], &[]),
    with(Operands::AtMost(2), spec("cmp", "bls", "in", &["print-bytes", "quiet", "silent", "verbose"], &["bytes"])),
    with(
        Operands::AtMost(2),
        spec("comm", "123iz", "", &["check-order", "nocheck-order", "total"], &["output-delimiter"]),
    ),
    spec(
        "cut",
        "snz",
        "bcdf",
        &["complement", "only-delimited", "zero-terminated"],
        &["bytes", "characters", "delimiter", "fields", "output-delimiter"],
    ),
    with(
        Operands::Beginning('+'),
        spec("date", "uRI", "dr", &["utc", "universal", "rfc-email"], &["date", "iso-8601", "rfc-3339"]),
    ),
    spec(
        "df",
        "ahHiklPT",
        "Btx",
        &["all", "human-readable", "inodes", "local", "print-type", "si", "total"],
        &["block-size", "output", "type"],
    ),
    with(
        Operands::AtMost(2),
        spec(
            "diff",
            "#abBdEeiNpqrsTtuwyZ",
            "CIUWx",
            &[
                "brief",
                "color",
                "expand-tabs",
                "ignore-all-space",
                "ignore-blank-lines",
                "ignore-case",
                "ignore-space-change",
                "ignore-trailing-space",
                "minimal",
                "new-file",
                "no-dereference",
                "recursive",
                "report-identical-files",
                "show-c-function",
                "side-by-side",
                "suppress-common-lines",
                "text",
                "unified",
            ],
            &["color", "context", "exclude", "ignore-matching-lines", "label", "unified", "width"],
        ),
    ),
    spec("dirname", "z", "", &["zero"], &[]),
    spec(
        "du",
        "0abcDhHkLlmPsSx",
        "Bdt",
        &["all", "apparent-size", "bytes", "count-links", "human-readable", "si", "summarize", "total"],
        &["block-size", "exclude", "max-depth", "threshold"],
    ),
    spec("egrep", GREP.0, GREP.1, GREP.2, GREP.3),
    spec("expand", "i", "t", &["initial"], &["tabs"]),
    with(Operands::AtMost(0), spec("false", "", "", &[], &[])),
    spec("fgrep", GREP.0, GREP.1, GREP.2, GREP.3),
    spec("file", "bhiLN0", "", &["brief", "dereference", "mime", "mime-encoding", "mime-type", "no-dereference"], &[]),
    spec("fold", "bs", "w", &["bytes", "spaces"], &["width"]),
    spec("grep", GREP.0, GREP.1, GREP.2, GREP.3),
    spec("head", "#qvz", "nc", &["quiet", "silent", "verbose", "zero-terminated"], &["bytes", "lines"]),
    with(Operands::AtMost(0), spec("hostname", "", "", &[], &[])),
    spec("id", "Ggnruz", "", &["group", "groups", "name", "real", "user", "zero"], &[]),
    spec(
        "ls",
        "1aAbBcCdfFgGhHikLlmnNopqQrRsStuUvxXZ",
        "ITw",
        &[
            "all",
            "almost-all",
            "author",
            "classify",
            "color",
            "dereference",
            "directory",
            "escape",
            "full-time",
            "group-directories-first",
            "human-readable",
            "inode",
            "literal",
            "no-group",
            "numeric-uid-gid",
            "recursive",
            "reverse",
            "si",
            "size",
            "zero",
        ],
        &[
            "block-size",
            "color",
            "format",
            "hide",
            "ignore",
            "indicator-style",
            "quoting-style",
            "sort",
            "time",
            "time-style",
            "width",
        ],
    ),
    spec("md5sum", SUM.0, SUM.1, SUM.2, SUM.3),
    spec("nl", "p", "bdfhilnsvw", &["no-renumber"], &["body-numbering", "number-format", "number-width"]),
    with(Operands::AtMost(0), spec("nproc", "", "", &["all"], &["ignore"])),
    spec(
        "od",
        "abcdfhilosvx",
        "AjNStw",
        &["output-duplicates"],
        &["address-radix", "format", "read-bytes", "skip-bytes"],
    ),
    spec("paste", "sz", "d", &["serial", "zero-terminated"], &["delimiters"]),
    with(Operands::AtMost(0), spec("pwd", "LP", "", &["logical", "physical"], &[])),
    spec(
        "readlink",
        "efmnqsvz",
        "",
        &["canonicalize", "canonicalize-existing", "canonicalize-missing", "no-newline"],
        &[],
    ),
    spec(
        "realpath",
        "eLmPqsz",
        "",
        &["canonicalize-existing", "canonicalize-missing", "no-symlinks"],
        &["relative-base", "relative-to"],
    ),
    spec("rev", "", "", &[], &[]),
    spec(
        "rg",
        ".0abcFhHiIlLnNopPqsSuUvVwx",
        "ABCdeEgjmMrtT",
        &[
            "count",
            "count-matches",
            "files",
            "files-with-matches",
            "files-without-match",
            "fixed-strings",
            "follow",
            "heading",
            "hidden",
            "ignore-case",
            "invert-match",
            "json",
            "line-number",
            "line-regexp",
            "multiline",
            "multiline-dotall",
            "no-filename",
            "no-heading",
            "no-ignore",
            "no-ignore-vcs",
            "no-line-number",
            "no-messages",
            "null",
            "only-matching",
            "passthru",
            "pcre2",
            "pretty",
            "quiet",
            "smart-case",
            "stats",
            "text",
            "trim",
            "type-list",
            "unrestricted",
            "vimgrep",
            "with-filename",
            "word-regexp",
        ],
        &[
            "after-context",
            "before-context",
            "color",
            "colors",
            "context",
            "encoding",
            "glob",
            "iglob",
            "max-columns",
            "max-count",
            "max-depth",
            "max-filesize",
            "regexp",
            "replace",
            "sort",
            "sortr",
            "threads",
            "type",
            "type-not",
        ],
    ),
    spec("seq", "w", "fs", &["equal-width"], &["format", "separator"]),
    spec("sha1sum", SUM.0, SUM.1, SUM.2, SUM.3),
    spec("sha256sum", SUM.0, SUM.1, SUM.2, SUM.3),
    spec("sha512sum", SUM.0, SUM.1, SUM.2, SUM.3),
    spec(
        "sort",
        "bCcdfghiMmnRrsuVz",
        "kt",
        &[
            "check",
            "dictionary-order",
            "general-numeric-sort",
            "human-numeric-sort",
            "ignore-case",
            "ignore-leading-blanks",
            "month-sort",
            "numeric-sort",
            "random-sort",
            "reverse",
            "stable",
            "unique",
            "version-sort",
            "zero-terminated",
        ],
        &["field-separator", "key", "sort"],
    ),
    spec("stat", "fLt", "c", &["dereference", "file-system", "terse"], &["format", "printf"]),
    spec("tac", "br", "s", &["before", "regex"], &["separator"]),
    spec("tail", "#qvz", "nc", &["quiet", "silent", "verbose", "zero-terminated"], &["bytes", "lines"]),
    with(
        Operands::AtMost(2),
        spec("tr", "cCdst", "", &["complement", "delete", "squeeze-repeats", "truncate-set1"], &[]),
    ),
    spec(
        "tree",
        "aACdDfFghilNpqQrsStuv",
        "ILP",
        &["dirsfirst", "gitignore", "noreport", "prune", "si"],
        &["filelimit", "sort"],
    ),
    with(Operands::AtMost(0), spec("true", "", "", &[], &[])),
    spec("type", "apPt", "", &[], &[]),
    with(
        Operands::AtMost(0),
        spec("uname", "aimnoprsv", "", &["all", "kernel-name", "kernel-release", "machine"], &[]),
    ),
    spec("unexpand", "a", "t", &["all", "first-only"], &["tabs"]),
    with(
        Operands::AtMost(1),
        spec(
            "uniq",
            "cdDiuz",
            "fsw",
            &["count", "ignore-case", "repeated", "unique", "zero-terminated"],
            &["check-chars", "skip-chars", "skip-fields"],
        ),
    ),
    with(Operands::AtMost(0), spec("uptime", "ps", "", &["pretty", "since"], &[])),
    spec("wc", "clLmw", "", &["bytes", "chars", "lines", "max-line-length", "words"], &["total"]),
    spec("which", "a", "", &[], &[]),
    with(Operands::AtMost(0), spec("whoami", "", "", &[], &[])),
];
