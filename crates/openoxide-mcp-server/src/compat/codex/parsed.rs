//! What a command does, as Codex told it in `parsed_cmd`: files that are read, listed and searched; all else is unknown.
//!
//! It is for show. Whether a command may run is decided by core's rules, from the words themselves.

use std::path::Path;

use serde_json::{Value, json};

/// The parts of a command. A shell's line is taken apart; one that holds anything that is not told is unknown as a whole.
pub(super) fn parsed(argv: &[String]) -> Value {
    let line = match argv {
        [shell, flag, line] if is_shell(shell) && matches!(flag.as_str(), "-c" | "-lc") => line.as_str(),
        _ => return json!([unknown(&openoxide_core::visible(argv))]),
    };
    parts(line).unwrap_or_else(|| json!([unknown(line)]))
}

fn is_shell(program: &str) -> bool {
    matches!(Path::new(program).file_name().and_then(|name| name.to_str()), Some("bash" | "sh" | "zsh"))
}

fn unknown(line: &str) -> Value {
    json!({ "type": "unknown", "cmd": line })
}

fn parts(line: &str) -> Option<Value> {
    let commands = openoxide_core::plain_commands(line)?;
    let is_one = commands.len() == 1;
    let (mut told, mut directory) = (Vec::new(), None);
    for words in &commands {
        let (program, arguments) = words.split_first()?;
        let program = program.as_str();
        match program {
            "cd" => directory = arguments.last().map(String::as_str),
            "echo" | "true" if !is_one => {}
            // What only cuts the output of the command before it.
            "head" | "tail" if !told.is_empty() && operands(program, arguments).is_empty() => {}
            _ => told.push(part(words, program, arguments, directory)?),
        }
    }
    Some(Value::Array(told))
}

/// One command; none where it is not among those that are told.
fn part(words: &[String], program: &str, arguments: &[String], directory: Option<&str>) -> Option<Value> {
    let cmd = openoxide_core::command_line(words);
    let given = operands(program, arguments);
    let list = |path: Option<&str>| json!({ "type": "list_files", "cmd": cmd, "path": path });
    let search = |query: &str, path: Option<&str>| json!({ "type": "search", "cmd": cmd, "query": query, "path": path.map(last) });
    Some(match (program, given.as_slice()) {
        ("cat" | "nl" | "less" | "bat" | "head" | "tail", [file]) => read(&cmd, file, directory),
        ("sed", [script, file]) if has(arguments, "-n") && script.ends_with('p') => read(&cmd, file, directory),
        ("ls" | "tree", paths) => list(paths.first().copied()),
        ("rg", paths) if has(arguments, "--files") => list(paths.first().copied()),
        ("rg" | "grep" | "fd", [query, paths @ ..]) => search(query, paths.first().copied()),
        ("git", ["ls-files", paths @ ..]) => list(paths.first().copied()),
        ("git", ["grep", query, paths @ ..]) => search(query, paths.first().copied()),
        ("find", [path, ..]) => match name_of(arguments) {
            Some(query) => search(query, Some(path)),
            None => list(Some(path)),
        },
        _ => return None,
    })
}

fn read(cmd: &str, file: &str, directory: Option<&str>) -> Value {
    let path = directory.map_or_else(|| file.into(), |directory| Path::new(directory).join(file));
    json!({ "type": "read", "cmd": cmd, "name": last(file), "path": openoxide_core::quote_path(&path) })
}

/// The last part of a path, as it was shown.
fn last(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}

fn has(arguments: &[String], option: &str) -> bool {
    arguments.iter().any(|argument| argument == option)
}

/// What a `find` looks for by name.
fn name_of(arguments: &[String]) -> Option<&str> {
    let at = arguments.iter().position(|argument| argument == "-name" || argument == "-iname")?;
    arguments.get(at + 1).map(String::as_str)
}

/// The arguments that are neither options nor values of theirs.
fn operands<'a>(program: &str, arguments: &'a [String]) -> Vec<&'a str> {
    let valued: &[&str] = match program {
        "head" | "tail" => &["-n", "-c"],
        "rg" | "grep" => &["-A", "-B", "-C", "-g", "-m", "-t", "--glob", "--type"],
        "find" => &["-name", "-iname", "-type", "-maxdepth", "-mindepth", "-path", "-size", "-mtime"],
        _ => &[],
    };
    let (mut found, mut is_value) = (Vec::new(), false);
    for argument in arguments {
        let is_option = argument.len() > 1 && argument.starts_with('-');
        if !is_value && !is_option {
            found.push(argument.as_str());
        }
        is_value = !is_value && valued.contains(&argument.as_str());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_told_as_codex_told_it() {
        let read =
            |cmd: &str, name: &str, path: &str| json!({ "type": "read", "cmd": cmd, "name": name, "path": path });
        let list = |cmd: &str, path: Value| json!({ "type": "list_files", "cmd": cmd, "path": path });
        let search =
            |cmd: &str, query: &str, path: Value| json!({ "type": "search", "cmd": cmd, "query": query, "path": path });
        for (line, told) in [
            ("cat notes.txt", json!([read("cat notes.txt", "notes.txt", "notes.txt")])),
            ("cd src && cat main.rs", json!([read("cat main.rs", "main.rs", "src/main.rs")])),
            ("cat /etc/hostname", json!([read("cat /etc/hostname", "hostname", "/etc/hostname")])),
            ("head -n 1 notes.txt", json!([read("head -n 1 notes.txt", "notes.txt", "notes.txt")])),
            ("cat notes.txt | head -n 1", json!([read("cat notes.txt", "notes.txt", "notes.txt")])),
            ("cat a && ls src", json!([read("cat a", "a", "a"), list("ls src", json!("src"))])),
            ("ls", json!([list("ls", Value::Null)])),
            ("ls -la src", json!([list("ls -la src", json!("src"))])),
            ("rg --files src", json!([list("rg --files src", json!("src"))])),
            ("find .", json!([list("find .", json!("."))])),
            ("find . -name '*.rs'", json!([search("find . -name '*.rs'", "*.rs", json!("."))])),
            ("grep -rn one src", json!([search("grep -rn one src", "one", json!("src"))])),
            (
                "grep -R 'two words' src/x.rs",
                json!([search("grep -R 'two words' src/x.rs", "two words", json!("x.rs"))]),
            ),
            ("rg one", json!([search("rg one", "one", Value::Null)])),
            ("git grep one", json!([search("git grep one", "one", Value::Null)])),
            ("echo one; cat a", json!([read("cat a", "a", "a")])),
            ("cd src", json!([])),
        ] {
            let argv = ["/bin/bash", "-lc", line].map(str::to_owned);
            assert_eq!(parsed(&argv), told, "{line}");
        }
    }

    #[test]
    fn what_is_not_told_is_unknown_as_a_whole() {
        for line in [
            "echo a | wc -l",
            "git status && ls",
            "cat a > b",
            "cat $HOME/x",
            "cat a b",
            "echo one",
            "printf x",
            "ls && rm x",
            "sed -i s/a/b/p x",
            "",
        ] {
            let argv = ["bash", "-c", line].map(str::to_owned);
            assert_eq!(parsed(&argv), json!([{ "type": "unknown", "cmd": line }]), "{line}");
        }
        let argv = ["write_stdin", "1", "y\n"].map(str::to_owned);
        assert_eq!(parsed(&argv)[0]["type"], "unknown");
    }
}
