//! `-c` before the mode and behind it counts in both places. The parser keeps only those behind where both are given, so
//! those before it are moved: the first of what is configured, in their order.

use std::ffi::{OsStr, OsString};

/// Modes with modes of their own.
const NESTED: [&str; 2] = ["threads", "rules"];

/// Options of every mode that take a value of their own.
const WITH_VALUE: [&str; 8] = ["-c", "--config", "-p", "--profile", "-m", "--model", "-C", "--cd"];

/// The command line with each `-c` that stands before the mode right behind it.
pub(crate) fn gathered(arguments: Vec<OsString>) -> Vec<OsString> {
    let (mut before, mut moved) = (Vec::new(), Vec::new());
    let mut rest = arguments.into_iter().peekable();
    before.extend(rest.next());
    while let Some(argument) = rest.next_if(|argument| is_option(argument)) {
        let word = argument.to_string_lossy().into_owned();
        let value = if WITH_VALUE.contains(&word.as_str()) { rest.next() } else { None };
        let is_config = word.starts_with("-c") || word == "--config" || word.starts_with("--config=");
        let to = if is_config { &mut moved } else { &mut before };
        to.push(argument);
        to.extend(value);
    }
    let mode = rest.next();
    let is_nested = mode.as_deref().and_then(OsStr::to_str).is_some_and(|mode| NESTED.contains(&mode));
    if mode.is_none() {
        // Nothing to move them behind; the parser says what is missing.
        before.append(&mut moved);
    }
    before.extend(mode);
    if is_nested {
        before.extend(rest.next_if(|argument| !is_option(argument)));
    }
    before.into_iter().chain(moved).chain(rest).collect()
}

fn is_option(argument: &OsStr) -> bool {
    let bytes = argument.as_encoded_bytes();
    bytes.starts_with(b"-") && bytes != b"-" && bytes != b"--"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(line: &str) -> String {
        let words = gathered(line.split(' ').map(OsString::from).collect());
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_configured_before_the_mode_stands_behind_it_and_first() {
        for (given, means) in [
            ("o -c a=1 -c b=2 config -c c=3", "o config -c a=1 -c b=2 -c c=3"),
            ("o -ca=1 -v -m x mcp-server -c c=3", "o -v -m x mcp-server -ca=1 -c c=3"),
            ("o --config a=1 --config=b=2 sandbox -- ls -c", "o sandbox --config a=1 --config=b=2 -- ls -c"),
            ("o -c a=1 threads list -c b=2", "o threads list -c a=1 -c b=2"),
            ("o mcp-server -c a=1", "o mcp-server -c a=1"),
            ("o -c a=1", "o -c a=1"),
            ("o --version", "o --version"),
        ] {
            assert_eq!(gather(given), means);
        }
    }
}
