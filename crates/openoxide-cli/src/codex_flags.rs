//! The command line of Codex, for hosts that start `codex mcp-server` and cannot be told another command.
//!
//! A link named `codex` that leads to this program is taken for Codex 0.153.4: it says so when asked for its version, and its
//! `mcp-server` has Codex's tools. Flags that Codex took are ours where there are such, and are left out where there are none.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// The release whose command line and tools these are.
const CODEX_VERSION: &str = "0.153.4";

/// Flags that are keys of the configuration here.
const SETTINGS: [(&str, &str); 4] = [
    ("-s", "sandbox_mode"),
    ("--sandbox", "sandbox_mode"),
    ("-a", "approval_policy"),
    ("--ask-for-approval", "approval_policy"),
];

/// Flags without a value that have no counterpart.
const LONE: [&str; 9] = [
    "--dangerously-bypass-approvals-and-sandbox",
    "--dangerously-bypass-hook-trust",
    "--yolo",
    "--full-auto",
    "--strict-config",
    "--skip-git-repo-check",
    "--search",
    "--oss",
    "--no-alt-screen",
];

/// Flags with a value that have no counterpart.
const VALUED: [&str; 7] = ["--enable", "--disable", "--add-dir", "--local-provider", "--remote", "-i", "--image"];

/// A command line as it is read from here on.
pub(crate) struct Given {
    /// In our own flags, the program's name first.
    pub(crate) arguments: Vec<OsString>,
    /// Flags that were left out, as they were given.
    pub(crate) ignored: Vec<String>,
    /// Whether Codex's version is all that is wanted.
    pub(crate) asks_version: bool,
}

/// Reads a command line. One that is not meant for Codex stays as it is.
pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Given {
    let all: Vec<OsString> = arguments.into_iter().collect();
    let is_link = all.first().is_some_and(|name| Path::new(name).file_name() == Some(OsStr::new("codex")));
    let asks_version = is_link && all.len() == 2 && (all[1] == "--version" || all[1] == "-V");
    if !is_link && !names_compat(&all) {
        return Given { arguments: all, ignored: Vec::new(), asks_version };
    }
    let mut given = Given { arguments: Vec::new(), ignored: Vec::new(), asks_version };
    let serves = all.iter().any(|word| word == "mcp-server");
    let adds_compat = is_link && serves && !all.iter().any(|word| is_flag(word, "--compat"));
    let mut words = all.into_iter();
    given.arguments.extend(words.next());
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        // `--flag=value` is one word.
        let (flag, attached) = match text.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
            _ => (text.as_str(), None),
        };
        let mut value = || attached.clone().or_else(|| words.next().map(|word| word.to_string_lossy().into_owned()));
        if let Some((_, key)) = SETTINGS.iter().find(|(name, _)| *name == flag) {
            let value = value().unwrap_or_default();
            given.arguments.extend(["-c".into(), format!("{key}={value}").into()]);
        } else if LONE.contains(&flag) {
            given.ignored.push(flag.to_owned());
        } else if VALUED.contains(&flag) {
            let value = value().unwrap_or_default();
            given.ignored.push(format!("{flag} {value}"));
        } else {
            given.arguments.push(word);
        }
    }
    if adds_compat {
        given.arguments.extend(["--compat".into(), "codex".into()]);
    }
    given
}

/// Whether `--compat` names Codex.
fn names_compat(arguments: &[OsString]) -> bool {
    let values =
        arguments.iter().enumerate().filter(|(_, word)| is_flag(word, "--compat")).filter_map(|(at, word)| match word
            .to_str()?
            .split_once('=')
        {
            Some((_, value)) => Some(value),
            None => arguments.get(at + 1)?.to_str(),
        });
    values.flat_map(|value| value.split(',')).any(|agent| agent == "codex")
}

fn is_flag(word: &OsStr, flag: &str) -> bool {
    word.to_str().is_some_and(|word| word == flag || word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
}

/// What is said of a flag that was left out.
pub(crate) fn ignored(flag: &str) -> String {
    let flag = openoxide_display::visible_text(flag);
    format!(
        "{flag} is a flag of Codex that has no effect here; see docs/migrating-from-codex.md for what to set instead"
    )
}

/// Says which Codex is stood in for, in the form in which Codex said it.
pub(crate) fn print_version() -> ExitCode {
    let line = format!("codex-cli {CODEX_VERSION} (openoxide {})", env!("CARGO_PKG_VERSION"));
    match writeln!(std::io::stdout(), "{line}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(line: &str) -> (String, Vec<String>) {
        let given = read(line.split(' ').map(OsString::from));
        let words: Vec<_> = given.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        (words.join(" "), given.ignored)
    }

    #[test]
    fn a_command_line_of_codex_is_one_of_ours() {
        for (line, ours, ignored) in [
            ("/usr/bin/codex mcp-server", "/usr/bin/codex mcp-server --compat codex", vec![]),
            ("codex -m o3 -c a=b mcp-server", "codex -m o3 -c a=b mcp-server --compat codex", vec![]),
            (
                "codex -s read-only --ask-for-approval=never mcp-server",
                "codex -c sandbox_mode=read-only -c approval_policy=never mcp-server --compat codex",
                vec![],
            ),
            (
                "codex --enable x --strict-config mcp-server --yolo",
                "codex mcp-server --compat codex",
                vec!["--enable x", "--strict-config", "--yolo"],
            ),
            ("codex mcp-server --compat codex,native", "codex mcp-server --compat codex,native", vec![]),
            (
                "openoxide mcp-server --compat=codex -a never",
                "openoxide mcp-server --compat=codex -c approval_policy=never",
                vec![],
            ),
            ("openoxide mcp-server -s read-only", "openoxide mcp-server -s read-only", vec![]),
            ("codex doctor", "codex doctor", vec![]),
        ] {
            assert_eq!(given(line), (ours.to_owned(), ignored.into_iter().map(str::to_owned).collect()), "{line}");
        }
    }

    #[test]
    fn only_the_link_answers_for_codex() {
        let asks = |line: &str| read(line.split(' ').map(OsString::from)).asks_version;
        assert!(asks("codex --version") && asks("/opt/codex -V"));
        assert!(!asks("openoxide --version") && !asks("codex mcp-server --version"));
    }
}
