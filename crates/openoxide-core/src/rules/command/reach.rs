//! How far a command that only reads reaches: what lies below the thread's directory is the thread's business, the rest of
//! the machine is not.

use std::path::{Component, Path};

use super::CommandPlace;
use super::lexer::Word;

/// Names of files that hold keys, wherever they stand.
const SECRET_NAMES: [&str; 9] = [
    ".env",
    ".envrc",
    ".htpasswd",
    "kubeconfig",
    "terraform.tfstate",
    "terraform.tfstate.backup",
    "sudoers",
    "gshadow",
    "shadow",
];

/// How such names end.
const SECRET_ENDS: [&str; 9] = [".pem", ".p12", ".pfx", ".key", ".jks", ".keystore", ".kdbx", ".ppk", ".tfstate"];

/// Devices that hold nothing.
const HARMLESS_DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/stdin", "/dev/tty"];

/// Whether a word names something that holds keys. It is a matter of names, so that it errs on the side of asking.
pub(super) fn is_secret(word: &Word) -> bool {
    let text = tidy(&word.text);
    let text = text.as_str();
    let is_environment = text.contains("/proc/") && (text.contains("environ") || text.contains(['*', '?', '[']));
    // A pattern may name what its text does not.
    let is_dot_pattern = text.split('/').any(|part| part.starts_with('.') && part.contains(['*', '?', '[']));
    let is_system_pattern = word.is_pattern && text.starts_with('/') && !text.starts_with("/usr/");
    let is_device = text.starts_with("/dev/") && !HARMLESS_DEVICES.contains(&text);
    // URLs in it may hold tokens.
    let is_git_config = text == ".git/config" || text.ends_with("/.git/config");
    let names_secret = text.split(['/', ':', '=']).any(|part| {
        let part = part.to_ascii_lowercase();
        let is_env_file = part.starts_with(".env.") && !is_sample(&part);
        is_env_file || SECRET_NAMES.contains(&part.as_str()) || SECRET_ENDS.iter().any(|end| part.ends_with(end))
    });
    is_environment
        || is_dot_pattern
        || is_system_pattern
        || is_device
        || is_git_config
        || names_secret
        || openoxide_sandbox::names_credentials(text)
}

fn is_sample(name: &str) -> bool {
    ["example", "sample", "template"].iter().any(|kind| name.ends_with(kind))
}

/// A path without what changes nothing in it.
fn tidy(text: &str) -> String {
    let mut text = text.to_owned();
    while text.contains("//") || text.contains("/./") {
        text = text.replace("/./", "/").replace("//", "/");
    }
    text
}

/// Whether a word, as a path, is known to lie below the thread's directory. Links are not followed.
pub(super) fn is_below(path: &str, place: CommandPlace<'_>) -> bool {
    let has_parents = Path::new(path).components().any(|part| part == Component::ParentDir);
    !has_parents && place.cwd.join(path).starts_with(place.workspace)
}

/// Whether a command goes down into directories and shows what is in them, or only their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recursion {
    None,
    Names,
    Contents,
}

/// How a command goes down into directories, by its name and options.
pub(super) fn recursion(name: &str, options: &[String]) -> Recursion {
    let has = |names: &[&str]| options.iter().any(|option| names.contains(&option.as_str()));
    match name {
        "rg" if has(&["files", "type-list"]) => Recursion::Names,
        "rg" => Recursion::Contents,
        "grep" | "egrep" | "fgrep" if has(&["r", "R", "recursive", "dereference-recursive"]) => Recursion::Contents,
        "diff" if has(&["r", "recursive"]) => Recursion::Contents,
        "find" | "tree" | "du" => Recursion::Names,
        "ls" if has(&["R", "recursive"]) => Recursion::Names,
        _ => Recursion::None,
    }
}

/// The operands that are places: the first of a search is what is searched for.
pub(super) fn places<'a, 'b>(name: &str, options: &[String], operands: &'b [&'a str]) -> &'b [&'a str] {
    let searches = matches!(name, "rg" | "grep" | "egrep" | "fgrep");
    let has_pattern = options.iter().any(|option| matches!(option.as_str(), "e" | "regexp" | "files" | "type-list"));
    let from = usize::from(searches && !has_pattern).min(operands.len());
    &operands[from..]
}

/// Whether everything that is gone down into lies below the thread's directory.
pub(super) fn check(name: &str, places: &[&str], place: Option<CommandPlace<'_>>) -> Result<(), String> {
    // What is typed has no place of its own.
    let Some(place) = place else { return Ok(()) };
    let here = ["."];
    let places = if places.is_empty() { &here } else { places };
    match places.iter().find(|path| !is_below(path, place)) {
        Some(path) => Err(format!("`{name}` goes through `{path}`, which may lie outside of the thread's directory")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_the_threads_directory_is_told_by_its_path() {
        let place = CommandPlace { cwd: Path::new("/w/sub"), workspace: Path::new("/w") };
        for below in ["", ".", "a/b", "/w", "/w/x", "./a"] {
            assert!(is_below(below, place), "{below}");
        }
        for outside in ["..", "../x", "a/../../../etc", "/", "/wx", "/etc"] {
            assert!(!is_below(outside, place), "{outside}");
        }
    }

    #[test]
    fn secrets_are_known_by_their_names_however_they_are_written() {
        let word =
            |text: &str| Word { text: text.to_owned(), is_pattern: text.contains('?'), begins_with_pattern: false };
        for secret in [
            "/etc//shadow",
            "/etc/./shadow",
            "/etc/shado?",
            "/etc/shadow-",
            "server.key",
            "a/b.kdbx",
            ".envrc",
            ".env",
            "kubeconfig",
            "terraform.tfstate",
            "/run/secrets/db",
            "/var/run/secrets/x/token",
            ".git/config",
            "/dev/sda",
            "x/.git//config",
            "/etc/sudoers",
        ] {
            assert!(is_secret(&word(secret)), "{secret}");
        }
        for plain in ["src/main.rs", ".env.example", "keys.rs", "/dev/null", "src/config", "?.rs"] {
            assert!(!is_secret(&word(plain)), "{plain}");
        }
    }
}
