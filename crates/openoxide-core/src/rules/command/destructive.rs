//! Commands that are not run whoever asks, because there is no way back: the system or the home directory removed, a disk
//! overwritten, the machine stopped. A guard against accidents: it does not see everything, and the sandbox is what holds.

use super::program::base_name;
use super::scan::Guess;

/// What a line would destroy: the id of the rule, and the reason.
pub(super) fn find(line: &str, guesses: &[Guess]) -> Option<(String, String)> {
    if is_fork_bomb(line) {
        return Some(("destructive:fork-bomb".to_owned(), "it starts processes without end".to_owned()));
    }
    guesses.iter().filter(|guess| guess.is_command()).find_map(judge)
}

fn judge(guess: &Guess) -> Option<(String, String)> {
    if let Some(target) = guess.writes.iter().find(|target| is_disk(target) || is_trigger(target)) {
        return Some(("destructive:redirection".to_owned(), format!("it writes to {target}")));
    }
    let texts = guess.texts();
    let (program, words) = texts.split_first()?;
    let name = base_name(program);
    let found = |reason: String| Some((format!("destructive:{name}"), reason));
    let operands: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let has = |letter: char, long: &str| words.iter().any(|word| has_option(word, letter, long));
    let wide = |targets: &[&str]| {
        targets.iter().copied().find(|target| is_system(target, guess.directory.as_deref())).map(str::to_owned)
    };
    match name {
        "rm" => {
            if words.iter().any(|word| word == "--no-preserve-root") {
                return found("it is told to remove the root directory".to_owned());
            }
            let is_recursive = has('r', "recursive") || has('R', "recursive");
            let target = operands.iter().find(|target| is_home(target)).map(|target| (*target).to_owned());
            let target = target.or_else(|| wide(&operands)).filter(|_| is_recursive)?;
            found(format!("it removes {target} and everything in it"))
        }
        "find" => {
            let starts: Vec<&str> =
                words.iter().map(String::as_str).take_while(|word| !word.starts_with(['-', '('])).collect();
            let deletes = words.iter().any(|word| word == "-delete");
            let target = wide(&starts).filter(|_| deletes)?;
            found(format!("it deletes everything below {target}"))
        }
        "chmod" | "chown" | "chgrp" if has('R', "recursive") => {
            let target = wide(operands.get(1..).unwrap_or_default())?;
            found(format!("it changes the rights of everything below {target}"))
        }
        "mv" => {
            let sources = operands.split_last().map_or(&[][..], |(_, sources)| sources);
            let source = sources.iter().find(|source| is_home(source)).map(|source| (*source).to_owned());
            let source = source.or_else(|| wide(sources))?;
            found(format!("it moves {source} away"))
        }
        "rsync" if words.iter().any(|word| word.starts_with("--delete")) => {
            let target = wide(operands.last().map_or(&[][..], std::slice::from_ref))?;
            found(format!("it deletes what is in {target}"))
        }
        "dd" => {
            let target = words.iter().filter_map(|word| word.strip_prefix("of=")).find(|target| is_disk(target))?;
            found(format!("it overwrites {target}"))
        }
        "tee" | "cp" | "install" | "truncate" | "cat" => {
            let target = operands.iter().find(|target| name != "cat" && (is_disk(target) || is_trigger(target)))?;
            found(format!("it writes to {target}"))
        }
        "wipefs" | "blkdiscard" | "shred" | "sfdisk" | "sgdisk" | "mkswap" | "parted" | "fdisk" | "badblocks" => {
            let is_listing = has('l', "list") || operands.contains(&"print");
            let target = operands.iter().find(|target| is_disk(target)).filter(|_| !is_listing)?;
            found(format!("it erases or changes {target}"))
        }
        "cryptsetup" if words.iter().any(|word| matches!(word.as_str(), "luksFormat" | "erase" | "luksErase")) => {
            found("it makes an encrypted disk unreadable".to_owned())
        }
        name if name == "mkfs" || name.starts_with("mkfs.") || name == "mke2fs" => {
            found("it makes a file system where another may be".to_owned())
        }
        "shutdown" | "reboot" | "halt" | "poweroff" => found("it stops the machine".to_owned()),
        "init" | "telinit" if operands.first().is_some_and(|level| matches!(*level, "0" | "6")) => {
            found("it stops the machine".to_owned())
        }
        "systemctl" => {
            const STOPS: [&str; 7] = ["poweroff", "reboot", "halt", "kexec", "emergency", "rescue", "soft-reboot"];
            operands.first().filter(|verb| STOPS.contains(verb))?;
            found("it stops the machine".to_owned())
        }
        "kill" if words.last().is_some_and(|word| word == "-1") && words.len() > 1 => {
            found("it kills every process".to_owned())
        }
        "killall5" => found("it kills every process".to_owned()),
        _ => None,
    }
}

/// Whether a word holds an option, by its letter in a bundle or by its name, which may be cut short.
fn has_option(word: &str, letter: char, long: &str) -> bool {
    match word.strip_prefix("--") {
        Some(name) => name.len() >= 3 && long.starts_with(name),
        None => word.starts_with('-') && word.contains(letter),
    }
}

/// A home directory, or all that is in it.
fn is_home(target: &str) -> bool {
    let target = target.trim_end_matches("/*").trim_end_matches("/.").trim_end_matches('/');
    let is_user = target.strip_prefix('~').is_some_and(|user| !user.contains('/'));
    is_user
        || matches!(target, "$HOME" | "$home")
        || target.strip_prefix("/home/").is_some_and(|user| !user.contains('/'))
}

/// The root directory or one that the system is made of, or all that is in it.
fn is_system(target: &str, directory: Option<&str>) -> bool {
    const SYSTEM: [&str; 19] = [
        "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "opt", "proc", "root", "run", "sbin", "srv",
        "sys", "usr", "var", "Users", "System",
    ];
    if let (Some(directory), "*" | "." | "./" | "./*" | ".*") = (directory, target) {
        return is_system(directory, None) || is_home(directory);
    }
    let Some(path) = target.strip_prefix('/') else { return false };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    if parts.last().is_some_and(|last| matches!(*last, "*" | ".*" | "?*")) {
        parts.pop();
    }
    match parts.as_slice() {
        [] => true,
        [only] => SYSTEM.contains(only),
        _ => false,
    }
}

/// A device that is not one of the harmless ones.
fn is_disk(target: &str) -> bool {
    const HARMLESS: [&str; 13] = [
        "null", "zero", "full", "random", "urandom", "tty", "stdin", "stdout", "stderr", "fd", "pts", "shm", "console",
    ];
    let Some(name) = target.strip_prefix("/dev/") else { return false };
    let first = name.split('/').next().unwrap_or_default();
    // These are the shell's own names for connections.
    !matches!(first, "tcp" | "udp" | "") && !HARMLESS.contains(&first)
}

/// A file by which the machine is stopped.
fn is_trigger(target: &str) -> bool {
    target == "/proc/sysrq-trigger"
}

/// A function that starts itself twice: `:(){ :|:& };:` under any name.
fn is_fork_bomb(line: &str) -> bool {
    let text: String = line.chars().filter(|c| !c.is_whitespace()).collect();
    text.match_indices("(){").any(|(at, _)| {
        let name: String =
            text[..at].chars().rev().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '.')).collect();
        let name: String = name.chars().rev().collect();
        let name = name.strip_prefix("function").filter(|name| !name.is_empty()).unwrap_or(&name);
        !name.is_empty() && text[at..].contains(&format!("{name}|{name}&"))
    })
}
