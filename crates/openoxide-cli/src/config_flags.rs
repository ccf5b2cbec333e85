//! `-c` before the mode and behind it counts in both places. The parser keeps only those behind where both are given, so
//! those before it are moved: the first of what is configured, in their order.

use std::ffi::{OsStr, OsString};

use clap::Command;

/// The command line with each `-c` that stands before the mode right behind it. `parser` says which options take a value
/// and which modes have modes of their own.
pub(crate) fn gathered(arguments: Vec<OsString>, parser: impl FnOnce() -> Command) -> Vec<OsString> {
    if !arguments.get(1).is_some_and(|first| is_option(first)) {
        return arguments;
    }
    let parser = parser();
    let (mut before, mut moved) = (Vec::new(), Vec::new());
    let mut rest = arguments.into_iter().peekable();
    before.extend(rest.next());
    while let Some(argument) = rest.next_if(|argument| is_option(argument)) {
        let word = argument.to_string_lossy().into_owned();
        let value = if takes_value(&parser, &word) { rest.next() } else { None };
        let is_config = word.starts_with("-c") || word == "--config" || word.starts_with("--config=");
        let to = if is_config { &mut moved } else { &mut before };
        to.push(argument);
        to.extend(value);
    }
    let mode = rest.next();
    if mode.is_none() {
        // Nothing to move them behind; the parser says what is missing.
        before.append(&mut moved);
    }
    let is_nested = mode.as_deref().and_then(|mode| parser.find_subcommand(mode)).is_some_and(Command::has_subcommands);
    before.extend(mode);
    if is_nested {
        before.extend(rest.next_if(|argument| !is_option(argument)));
    }
    before.into_iter().chain(moved).chain(rest).collect()
}

/// Whether the word behind this option is its value.
fn takes_value(parser: &Command, word: &str) -> bool {
    parser.get_arguments().filter(|option| option.get_action().takes_values()).any(|option| {
        let is_short = option.get_short().is_some_and(|short| word == format!("-{short}"));
        is_short || option.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long))
    })
}

fn is_option(argument: &OsStr) -> bool {
    let bytes = argument.as_encoded_bytes();
    bytes.starts_with(b"-") && bytes != b"-" && bytes != b"--"
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn gather(line: &str) -> String {
        let words = gathered(line.split(' ').map(OsString::from).collect(), crate::Cli::command);
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
