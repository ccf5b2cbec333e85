//! What a command asks for beside what its sandbox lets it do: read from the call, and found on the disk.

use std::path::{Path, PathBuf};

use openoxide_display::quote_path;
use openoxide_sandbox::PROTECTED_NAMES;
use serde_json::Value;

use super::args::Args;
use super::env::Files;
use crate::{Widening, git_starts};

/// How far a command wants to reach.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Permissions {
    /// As far as the sandbox lets it.
    Default,
    /// Outside of the sandbox.
    Escalated,
    /// Inside the sandbox, with one thing more; and the first words of the commands that are to get it for the thread.
    Widened(Widening, Vec<String>),
}

/// Reads `sandbox_permissions`, and what goes with it. A directory is taken as it is named.
pub(super) fn read(args: &mut Args, cwd: &Path) -> Result<Permissions, String> {
    let asked = args.optional_text("sandbox_permissions")?;
    let (more, prefix) = (args.take("additional_permissions"), prefix(args.take("prefix_rule"))?);
    match (asked.as_deref(), more) {
        (None | Some("use_default"), None) => Ok(Permissions::Default),
        (Some("require_escalated"), None) => Ok(Permissions::Escalated),
        (None | Some("with_additional_permissions"), Some(more)) => {
            Ok(Permissions::Widened(widening(&more, cwd)?, prefix))
        }
        (Some("with_additional_permissions"), None) => {
            Err(format!("`additional_permissions` is missing; give {EXAMPLE}."))
        }
        (Some("use_default" | "require_escalated"), Some(_)) => Err(
            "`additional_permissions` goes with `sandbox_permissions` `with_additional_permissions`, and the command then \
             stays in the sandbox."
                .to_owned(),
        ),
        (Some(other), _) => Err(format!(
            "`sandbox_permissions` must be `use_default`, `with_additional_permissions` or `require_escalated`, not \
             `{other}`."
        )),
    }
}

const EXAMPLE: &str = "`{\"network\": true}`, `{\"git\": true}` or `{\"write\": \"/a/directory\"}`";

fn widening(more: &Value, cwd: &Path) -> Result<Widening, String> {
    let wrong = || format!("`additional_permissions` must be one of {EXAMPLE}, not {more}.");
    let fields = more.as_object().filter(|fields| fields.len() == 1).ok_or_else(wrong)?;
    match (fields.get("network"), fields.get("git"), fields.get("write")) {
        (Some(Value::Bool(true)), None, None) => Ok(Widening::Network),
        (None, Some(Value::Bool(true)), None) => Ok(Widening::Git),
        (None, None, Some(Value::String(path))) if !path.trim().is_empty() => Ok(Widening::Directory(cwd.join(path))),
        _ => Err(wrong()),
    }
}

fn prefix(value: Option<Value>) -> Result<Vec<String>, String> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let words: Option<Vec<String>> = value
        .as_array()
        .and_then(|words| words.iter().map(|word| Some(word.as_str()?.to_owned())).collect::<Option<Vec<String>>>());
    match words {
        Some(words) if words.iter().all(|word| !word.trim().is_empty()) => Ok(words),
        _ => Err(format!(
            "`prefix_rule` must be the first words of the command, as [\"npm\", \"install\"], not {value}."
        )),
    }
}

/// Whether git is all that the command is, as far as the repository is opened for it.
pub(super) fn check_git(argv: &[String], cwd: &Path, tty: bool) -> Result<(), String> {
    if !tty && !git_starts(argv, cwd).is_empty() {
        return Ok(());
    }
    Err("the repository is opened only for a line whose every part is git with add, commit, rm, mv, restore, checkout, \
         switch, branch, tag, merge, rebase, stash or worktree add, written plainly and without a terminal"
        .to_owned())
}

/// The same with the directory as it really is. What the sandbox hides or protects is nobody's to give. Blocks on the disk.
pub(super) fn resolve(
    files: &Files,
    widening: Widening,
    directory_of: impl FnOnce(&Path) -> Result<PathBuf, String>,
) -> Result<Widening, String> {
    let Widening::Directory(named) = widening else { return Ok(widening) };
    let real = directory_of(&named)?;
    let is_protected = |part: &std::ffi::OsStr| PROTECTED_NAMES.iter().any(|name| part.eq_ignore_ascii_case(name));
    let is_hidden = files.confinement().is_none_or(|confinement| confinement.hides(&real));
    if real.parent().is_none() || real.iter().any(is_protected) || is_hidden {
        return Err(format!("{} is not opened for writing to a command in the sandbox", quote_path(&real)));
    }
    Ok(Widening::Directory(real))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Permissions, String> {
        super::read(&mut Args::parse(text).unwrap(), Path::new("/w"))
    }

    #[test]
    fn a_call_asks_for_one_thing() {
        assert_eq!(read("{}"), Ok(Permissions::Default));
        assert_eq!(read(r#"{"sandbox_permissions": "require_escalated"}"#), Ok(Permissions::Escalated));
        let network = r#"{"sandbox_permissions": "with_additional_permissions", "additional_permissions": {"network": true}, "prefix_rule": ["npm", "ci"]}"#;
        let prefix = vec!["npm".to_owned(), "ci".to_owned()];
        assert_eq!(read(network), Ok(Permissions::Widened(Widening::Network, prefix)));
        let git = r#"{"additional_permissions": {"git": true}}"#;
        assert_eq!(read(git), Ok(Permissions::Widened(Widening::Git, Vec::new())));
        let directory = r#"{"additional_permissions": {"write": "../x"}}"#;
        assert_eq!(read(directory), Ok(Permissions::Widened(Widening::Directory("/w/../x".into()), Vec::new())));
        for (wrong, told) in [
            (r#"{"sandbox_permissions": "all"}"#, "require_escalated"),
            (r#"{"sandbox_permissions": "with_additional_permissions"}"#, "`additional_permissions` is missing"),
            (
                r#"{"sandbox_permissions": "require_escalated", "additional_permissions": {"network": true}}"#,
                "stays in",
            ),
            (r#"{"additional_permissions": {"network": true, "write": "/x"}}"#, "one of"),
            (r#"{"additional_permissions": {"network": false}}"#, "one of"),
            (r#"{"additional_permissions": {"write": ""}}"#, "one of"),
            (r#"{"additional_permissions": {"network": true}, "prefix_rule": "npm"}"#, "prefix_rule"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }
}
