//! Commands that only read, with the options with which they only read. Whoever adds one has to know what each of its
//! options can do: run a program, write a file, or read what is nobody's business.

use super::git;
use super::lexer::{Command, Word};
use super::place::CommandPlace;
use super::program::system_name;
use super::reach::{self, Recursion, is_secret};
use super::readers::SPECS;

/// What makes a command safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Safe {
    /// It only reads.
    Always,
    /// It only reads, but files of the workspace may make it run programs; those then run in the sandbox.
    InSandbox,
}

/// Whether a command only reads, or why that is not known. `place` is where it runs; none where that is not told.
pub(super) fn judge(command: &Command, place: Option<CommandPlace<'_>>) -> Result<Safe, String> {
    let Some((program, words)) = command.split_first() else { return Err("there is no command".to_owned()) };
    let name = match system_name(&program.text) {
        Some(name) if !program.is_pattern => name,
        _ => return Err(format!("`{}` may be any program", program.text)),
    };
    if let Some(word) = words.iter().find(|word| is_secret(word)) {
        return Err(format!("`{}` may hold credentials", word.text));
    }
    match name {
        "git" => git::judge(words).map(|()| Safe::InSandbox),
        "find" => {
            find(words)?;
            let starts: Vec<&str> = words
                .iter()
                .map(|word| word.text.as_str())
                .filter(|word| !matches!(*word, "-L" | "-H" | "-P"))
                .take_while(|word| !word.starts_with('-') && !matches!(*word, "!" | "("))
                .collect();
            reach::check(name, &starts, place).map(|()| Safe::Always)
        }
        "sed" => sed(words).map(|()| Safe::Always),
        "test" => test(words).map(|()| Safe::Always),
        "echo" => Ok(Safe::Always),
        "cd" => cd(words).map(|()| Safe::InSandbox),
        _ => {
            let spec = SPECS.iter().find(|spec| spec.name == name);
            let spec = spec.ok_or_else(|| format!("`{name}` is not on the list of commands that only read"))?;
            let given = spec.read(words)?;
            let recursion = reach::recursion(name, &given.options);
            if recursion != Recursion::None {
                reach::check(name, reach::places(name, &given.options, &given.operands), place)?;
            }
            // What it comes by may be anybody's secret; only a sandbox hides those.
            Ok(if recursion == Recursion::Contents { Safe::InSandbox } else { Safe::Always })
        }
    }
}

/// `cd` into a directory below the present one, by its plain name.
fn cd(words: &[Word]) -> Result<(), String> {
    let [directory] = words else { return Err("`cd` without one plain directory may lead anywhere".to_owned()) };
    let text = directory.text.as_str();
    let is_plain = !text.is_empty() && !directory.is_pattern && !text.starts_with(['-', '/', '~', '+']);
    if is_plain && text.split('/').all(|part| part != "..") {
        return Ok(());
    }
    Err(format!("`cd {text}` may lead out of the thread's directory"))
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
