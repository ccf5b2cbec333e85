//! Lines that are nothing but git, for which the repository may be opened where the configuration says `git = "commit"`.
//! Whatever is not read for sure runs as every other command does, with the repository closed.
//!
//! The sandbox holds what git obeys, whoever writes in such a command; that the words are git's own keeps others from it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::decide::{plain, shell_line};
use super::git;
use super::lexer::{self, Word};
use super::program::system_name;

/// The commands that write, for which the repository is opened.
const WRITERS: [&str; 13] = [
    "add", "branch", "checkout", "commit", "merge", "mv", "rebase", "restore", "rm", "stash", "switch", "tag",
    "worktree",
];

/// Options ahead of the command that change nothing of what it does.
const HARMLESS: [&str; 2] = ["--no-pager", "--no-optional-locks"];

/// Where git starts in a command whose every part is git with one of its commands that commit, check out and merge, or
/// that only read, and at least one of the former; `cd` into a directory may stand between them. Absolute, not resolved;
/// empty for every other command.
#[must_use]
pub fn git_starts(argv: &[String], cwd: &Path) -> Vec<PathBuf> {
    let commands = match shell_line(argv) {
        Some(line) => lexer::read(line).ok(),
        None => Some(vec![argv.iter().map(|word| plain(word)).collect()]),
    };
    commands.and_then(|commands| starts(&commands, cwd)).unwrap_or_default().into_iter().collect()
}

fn starts(commands: &[lexer::Command], cwd: &Path) -> Option<BTreeSet<PathBuf>> {
    // Where the shell may be: a `cd` may fail, and a line may go on.
    let mut places = BTreeSet::from([cwd.to_owned()]);
    let mut found = BTreeSet::new();
    for words in commands {
        let (program, words) = words.split_first()?;
        if program.is_pattern {
            return None;
        }
        if program.text == "cd" {
            let [directory] = words else { return None };
            let directory = plain_directory(directory)?;
            places.extend(places.iter().map(|place| place.join(directory)).collect::<Vec<_>>());
            continue;
        }
        (system_name(&program.text) == Some("git")).then_some(())?;
        let (directory, words) = globals(words)?;
        let (command, rest) = words.split_first().filter(|(command, _)| !command.is_pattern)?;
        if writes(&command.text, rest) {
            found.extend(places.iter().map(|place| place.join(&directory)));
        } else {
            git::judge(words).ok()?;
        }
    }
    (!found.is_empty()).then_some(found)
}

/// The directory that options ahead of the command name, and what follows them.
fn globals(mut words: &[Word]) -> Option<(PathBuf, &[Word])> {
    let mut directory = PathBuf::new();
    loop {
        match words {
            [option, rest @ ..] if HARMLESS.contains(&option.text.as_str()) => words = rest,
            [option, value, rest @ ..] if option.text == "-C" => {
                directory.push(plain_directory(value)?);
                words = rest;
            }
            [option, ..] if option.text.starts_with('-') => return None,
            _ => return Some((directory, words)),
        }
    }
}

fn plain_directory(word: &Word) -> Option<&str> {
    let text = word.text.as_str();
    (!text.is_empty() && !text.starts_with('-') && !word.is_pattern).then_some(text)
}

/// Whether git writes with this command, and runs nothing that the words name.
fn writes(command: &str, rest: &[Word]) -> bool {
    let is_listed = WRITERS.contains(&command);
    match command {
        "worktree" => rest.first().is_some_and(|word| word.text == "add" && !word.is_pattern),
        // Its `--exec` runs a program after each commit. Git takes the beginning of a long option for it, and single letters
        // together.
        "rebase" => rest.iter().all(|word| !word.begins_with_pattern && !may_be_exec(&word.text)),
        _ => is_listed,
    }
}

fn may_be_exec(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => {
            let name = long.split_once('=').map_or(long, |(name, _)| name);
            !name.is_empty() && "exec".starts_with(name)
        }
        None => word.starts_with('-') && word.contains('x'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts_of(line: &str) -> Vec<String> {
        let argv = ["bash", "-c", line].map(str::to_owned);
        let starts = git_starts(&argv, Path::new("/w"));
        starts.into_iter().map(|path| path.to_str().unwrap().trim_end_matches('/').to_owned()).collect()
    }

    #[test]
    fn lines_of_git_open_the_repository_where_it_starts() {
        for line in [
            "git commit -m x",
            "git add -A && git commit -m 'a (b) $c'",
            "git add *.rs; git commit -c HEAD",
            "/usr/bin/git --no-pager stash",
            "git status --short && git add . && git commit -qm \"x\" && git log --oneline -3",
            "git rebase --continue",
            "git rebase -i --onto main a b 2>&1",
            "git rebase -Xours main",
            "git worktree add ../x topic",
            "git branch",
            "git commit --amend --no-edit || git stash pop",
        ] {
            assert_eq!(starts_of(line), ["/w"], "{line}");
        }
        assert_eq!(starts_of("git -C a -C b add x"), ["/w/a/b"]);
        assert_eq!(starts_of("git -C /x commit; git tag v1"), ["/w", "/x"]);
        assert_eq!(starts_of("cd sub && git add . && git -C y commit"), ["/w", "/w/sub", "/w/sub/y", "/w/y"]);
        let direct = ["git", "commit", "-m", "$x"].map(str::to_owned);
        assert_eq!(git_starts(&direct, Path::new("/w")), [Path::new("/w/")]);
    }

    #[test]
    fn whatever_else_stands_in_a_line_opens_nothing() {
        for line in [
            "git status",
            "git -c core.hooksPath=x commit",
            "git -ccore.hooksPath=x commit",
            "git --exec-path=. commit",
            "git --exec-path . commit",
            "git --git-dir=x commit",
            "git --git-dir x commit",
            "git --work-tree=/ add x",
            "git --config-env=core.editor=X commit",
            "git --namespace=x commit",
            "git --bare commit",
            "git -p commit",
            "GIT_DIR=x git commit",
            "GIT_EDITOR=./x git commit",
            "env git commit",
            "sudo git commit",
            "./git commit",
            "bin/git commit",
            "git ci",
            "git push",
            "git config user.name x",
            "git submodule update",
            "git add . && git push",
            "git commit -m x && make",
            "git commit -m x | tee log",
            "git commit -m \"$(cat x)\"",
            "git commit -F - <<EOF\nx\nEOF",
            "git commit > log",
            "git commit &",
            "(git commit)",
            "git $(echo commit)",
            "git comm*",
            "git worktree",
            "git worktree remove x",
            "git worktree a*",
            "git worktree move a b",
            "git rebase -x make main",
            "git rebase -xmake",
            "git rebase -ix make",
            "git rebase --exec make",
            "git rebase --exec=make",
            "git rebase --exe make",
            "git rebase --e=make",
            "git rebase * main",
            "git reset --hard",
            "git clean -fd",
            "git stash && git bisect run make",
            "cd - && git commit",
            "cd && git commit",
            "cd a b && git commit",
            "pushd a && git commit",
            "git -C",
            "git -C '' commit",
            "git -C a* commit",
            "git diff --output=x && git commit",
            "git",
            "",
        ] {
            assert_eq!(starts_of(line), [""; 0], "{line}");
        }
    }
}
