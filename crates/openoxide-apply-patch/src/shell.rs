//! Finds a patch inside a shell command, so that it is checked and shown as a patch instead of run as a command.
//!
//! This is no shell. It knows a few spellings in which models call `apply_patch`, each with nothing else around it, and
//! says `None` to everything it is not sure of; such a command then goes the way of all commands.

/// A patch that was written as a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellPatch {
    /// The directory of a leading `cd DIR &&`, as written after unquoting; relative to the command's own directory.
    pub workdir: Option<String>,
    /// The text of the patch, to be given to [`crate::parse`].
    pub patch: String,
}

const COMMANDS: [&str; 2] = ["apply_patch", "applypatch"];
const SHELLS: [&str; 3] = ["sh", "bash", "zsh"];

/// Recognises a command that does nothing but apply a patch.
///
/// Forms: `apply_patch <<'EOF'` with its body, `apply_patch '...'`, either after `cd DIR &&`, and each of these inside
/// `bash -lc '...'`. The body of an unquoted heredoc is taken as it stands, because no model means its patch to be
/// expanded. Anything before or after the patch, a pipe, an expansion or an open quote gives `None`.
#[must_use]
pub fn extract_from_shell(script: &str) -> Option<ShellPatch> {
    extract(script, true)
}

fn extract(script: &str, may_nest: bool) -> Option<ShellPatch> {
    let mut rest = script.trim_start();
    let (mut command, mut after) = word(rest)?;
    if may_nest && SHELLS.contains(&command.rsplit('/').next().unwrap_or_default()) {
        let (flag, after) = word(after)?;
        let (inner, after) = word(after)?;
        let runs_script = flag.starts_with('-') && flag.ends_with('c') && !flag.starts_with("--");
        return (runs_script && after.trim().is_empty()).then(|| extract(&inner, false)).flatten();
    }
    let mut workdir = None;
    if command == "cd" {
        let (dir, tail) = word(after)?;
        if dir.is_empty() || dir.starts_with('-') {
            return None;
        }
        workdir = Some(dir);
        rest = tail.trim_start().strip_prefix("&&")?.trim_start();
        (command, after) = word(rest)?;
    }
    if !COMMANDS.contains(&command.as_str()) {
        return None;
    }
    let after = after.trim_start_matches([' ', '\t']);
    let patch = if after.starts_with("<<") {
        heredoc_body(after)?
    } else {
        let (patch, after) = word(after)?;
        if !after.trim().is_empty() || patch.is_empty() {
            return None;
        }
        patch
    };
    Some(ShellPatch { workdir, patch })
}

/// The body of a text that is one heredoc: `<<WORD`, its lines, and the delimiter with nothing but white space after it.
///
/// A heredoc that is never closed ends with the text, as it does in a shell.
pub(crate) fn heredoc_body(text: &str) -> Option<String> {
    let rest = text.strip_prefix("<<")?;
    let (strip_tabs, rest) = match rest.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (opening, body) = rest.split_once('\n')?;
    let (delimiter, after) = word(opening)?;
    if delimiter.is_empty() || !after.trim().is_empty() {
        return None;
    }
    let mut patch = String::new();
    let mut lines = body.split('\n');
    for line in lines.by_ref() {
        let line = if strip_tabs { line.trim_start_matches('\t') } else { line };
        if line.strip_suffix('\r').unwrap_or(line) == delimiter {
            break;
        }
        patch.push_str(line);
        patch.push('\n');
    }
    lines.all(|line| line.trim().is_empty()).then_some(patch)
}

/// Reads one shell word and unquotes it; the rest starts right after it.
///
/// `None` where a shell would expand something, where a quote stays open, and where there is no word.
fn word(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start_matches([' ', '\t', '\r']);
    let mut out = String::new();
    let mut chars = text.char_indices().peekable();
    let mut started = false;
    while let Some(&(at, c)) = chars.peek() {
        match c {
            ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => {
                return started.then(|| (out, &text[at..]));
            }
            '$' | '`' | '*' | '?' | '[' | '{' | '!' => return None,
            '~' | '#' if !started => return None,
            '\'' => {
                chars.next();
                loop {
                    match chars.next()?.1 {
                        '\'' => break,
                        c => out.push(c),
                    }
                }
            }
            '"' => {
                chars.next();
                double_quoted(&mut chars, &mut out)?;
            }
            '\\' => {
                chars.next();
                match chars.next()?.1 {
                    '\n' => {}
                    c => out.push(c),
                }
            }
            c => {
                chars.next();
                out.push(c);
            }
        }
        started = true;
    }
    started.then_some((out, ""))
}

/// Reads up to the closing double quote. Only the characters a shell unescapes there lose their backslash.
fn double_quoted(chars: &mut std::iter::Peekable<std::str::CharIndices<'_>>, out: &mut String) -> Option<()> {
    loop {
        match chars.next()?.1 {
            '"' => return Some(()),
            '$' | '`' => return None,
            '\\' => match chars.next()?.1 {
                '\n' => {}
                c @ ('"' | '\\' | '$' | '`') => out.push(c),
                c => {
                    out.push('\\');
                    out.push(c);
                }
            },
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "*** Begin Patch\n*** Add File: a\n+it's $HOME\n*** End Patch\n";

    fn found(script: &str) -> Option<(Option<String>, String)> {
        extract_from_shell(script).map(|found| (found.workdir, found.patch))
    }

    #[test]
    fn heredocs_are_recognised() {
        for script in [
            format!("apply_patch <<'EOF'\n{BODY}EOF"),
            format!("apply_patch <<'EOF'\n{BODY}EOF\n\n"),
            format!("  applypatch << \"END\"\n{BODY}END\n"),
            format!("apply_patch <<EOF\n{BODY}EOF\n"),
            format!("apply_patch <<-EOF\n{BODY}\tEOF\n"),
            format!("apply_patch <<'EOF'\n{BODY}"),
        ] {
            let (workdir, patch) = found(&script).unwrap_or_else(|| panic!("{script}"));
            assert_eq!(workdir, None);
            assert_eq!(patch.trim_end(), BODY.trim_end());
        }
    }

    #[test]
    fn a_leading_cd_is_kept_apart() {
        for (dir, expected) in
            [("src/a", "src/a"), ("'my dir'", "my dir"), ("\"my dir\"", "my dir"), ("my\\ dir", "my dir")]
        {
            let (workdir, patch) = found(&format!("cd {dir} && apply_patch <<'EOF'\n{BODY}EOF\n")).unwrap();
            assert_eq!(workdir.as_deref(), Some(expected));
            assert_eq!(patch, BODY);
        }
    }

    #[test]
    fn quoted_arguments_are_recognised() {
        let patch = "*** Begin Patch\n*** Add File: a\n+say \"x\"\n*** End Patch";
        assert_eq!(found(&format!("apply_patch '{patch}'")), Some((None, patch.into())));
        let escaped = patch.replace('"', "\\\"");
        assert_eq!(found(&format!("apply_patch \"{escaped}\"\n")), Some((None, patch.into())));
        assert_eq!(found(&format!("cd x && apply_patch '{patch}'")), Some((Some("x".into()), patch.into())));
    }

    #[test]
    fn a_shell_inside_the_command_is_looked_into_once() {
        let inner = "apply_patch <<EOF\n*** Begin Patch\n*** Delete File: a\n*** End Patch\nEOF";
        let expected = Some((None, "*** Begin Patch\n*** Delete File: a\n*** End Patch\n".to_owned()));
        assert_eq!(found(&format!("bash -lc '{inner}'")), expected);
        assert_eq!(found(&format!("/bin/sh -c \"{inner}\"")), expected);
        assert_eq!(found(&format!("bash -c \"bash -c '{inner}'\"")), None);
    }

    #[test]
    fn everything_else_stays_a_command() {
        for script in [
            "",
            "ls",
            "apply_patch",
            "apply_patch < file",
            "echo '*** Begin Patch' | apply_patch",
            "apply_patch \"$PATCH\"",
            "apply_patch `cat p`",
            "apply_patch 'open",
            "apply_patch 'a' 'b'",
            "apply_patch 'a' && rm x",
            "cd ~/x && apply_patch 'a'",
            "cd $X && apply_patch 'a'",
            "cd x; apply_patch 'a'",
            "cd x || apply_patch 'a'",
            "X=1 apply_patch 'a'",
            "apply_patch <<'EOF' && rm x\nbody\nEOF",
            "apply_patch <<'EOF'\nbody\nEOF\nrm -rf x",
            "bash script.sh 'apply_patch x'",
        ] {
            assert_eq!(found(script), None, "{script}");
        }
    }
}
