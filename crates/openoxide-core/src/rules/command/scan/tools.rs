//! Programs of many commands, with the options that may stand ahead of the command: `git -C x -c a=b push` is `git push`.

use super::word::Word;

/// A program with commands.
struct Tool {
    name: &'static str,
    /// Options ahead of the command that take the next word. Any other option is a word of its own.
    valued: &'static [&'static str],
    /// Other names of commands.
    aliases: &'static [(&'static str, &'static str)],
}

const TOOLS: [Tool; 13] = [
    Tool {
        name: "git",
        valued: &[
            "-C",
            "-c",
            "--git-dir",
            "--work-tree",
            "--namespace",
            "--super-prefix",
            "--config-env",
            "--attr-source",
            "--shallow-file",
        ],
        aliases: &[],
    },
    Tool {
        name: "cargo",
        valued: &["-C", "-Z", "--config", "--color", "--explain"],
        aliases: &[("b", "build"), ("c", "check"), ("d", "doc"), ("r", "run"), ("t", "test"), ("rm", "remove")],
    },
    Tool { name: "npm", valued: NODE, aliases: NPM },
    Tool { name: "pnpm", valued: NODE, aliases: NPM },
    Tool { name: "yarn", valued: &["--cwd", "--registry", "--cache-folder", "--modules-folder"], aliases: &[] },
    Tool { name: "pip", valued: PIP, aliases: &[] },
    Tool { name: "pip3", valued: PIP, aliases: &[] },
    Tool {
        name: "docker",
        valued: &[
            "-c",
            "--context",
            "-H",
            "--host",
            "-l",
            "--log-level",
            "--config",
            "--tlscacert",
            "--tlscert",
            "--tlskey",
        ],
        aliases: &[],
    },
    Tool {
        name: "podman",
        valued: &[
            "-c",
            "--connection",
            "--url",
            "--identity",
            "--root",
            "--runroot",
            "--log-level",
            "--storage-driver",
        ],
        aliases: &[],
    },
    Tool {
        name: "kubectl",
        valued: &[
            "-n",
            "--namespace",
            "--context",
            "--cluster",
            "--user",
            "-s",
            "--server",
            "--kubeconfig",
            "--token",
            "--as",
            "-v",
        ],
        aliases: &[],
    },
    Tool { name: "helm", valued: &["-n", "--namespace", "--kube-context", "--kubeconfig"], aliases: &[] },
    Tool { name: "gh", valued: &["-R", "--repo"], aliases: &[] },
    Tool {
        name: "systemctl",
        valued: &[
            "-H",
            "--host",
            "-M",
            "--machine",
            "-t",
            "--type",
            "-p",
            "--property",
            "-n",
            "--lines",
            "-o",
            "--output",
            "--root",
        ],
        aliases: &[],
    },
];

const NODE: &[&str] = &[
    "--prefix",
    "-C",
    "--dir",
    "-w",
    "--workspace",
    "--registry",
    "--loglevel",
    "--userconfig",
    "--cache",
    "-F",
    "--filter",
];
const NPM: &[(&str, &str)] = &[
    ("i", "install"),
    ("in", "install"),
    ("ins", "install"),
    ("add", "install"),
    ("isntall", "install"),
    ("t", "test"),
    ("tst", "test"),
    ("un", "uninstall"),
    ("rm", "uninstall"),
    ("r", "uninstall"),
    ("up", "update"),
    ("run-script", "run"),
    ("x", "exec"),
];
const PIP: &[&str] = &["--log", "--proxy", "--retries", "--timeout", "--cache-dir", "--python", "--cert"];

/// What a program of many commands is told.
pub(super) struct Told {
    /// The program, its command and what follows, without what stood ahead of the command.
    pub(super) words: Vec<Word>,
    /// The values of options ahead of the command, with those after `=`.
    pub(super) settings: Vec<Word>,
}

/// The words without the options ahead of the command; none where the program is not known, or is told nothing.
pub(super) fn told(name: &str, words: &[Word]) -> Option<Told> {
    let (program, rest) = words.split_first()?;
    // `git-push`, as git has it beside itself.
    let (name, rest) = match name.strip_prefix("git-") {
        Some(command) => ("git", [&[Word::plain(command)], rest].concat()),
        None => (name, rest.to_vec()),
    };
    let tool = TOOLS.iter().find(|tool| tool.name == name)?;
    let (mut at, mut settings) = (0, Vec::new());
    while let Some(word) = rest.get(at).filter(|word| word.text.starts_with(['-', '+']) && !word.hides_what_follows()) {
        let takes_next = tool.valued.contains(&word.text.as_str());
        if takes_next {
            settings.extend(rest.get(at + 1).cloned());
        } else if let Some((_, value)) = word.text.split_once('=') {
            settings.push(if word.is_open() { word.opened() } else { Word::plain(value) });
        } else if let Some(value) = word.text.strip_prefix("-c").filter(|_| name == "git") {
            settings.push(Word::plain(value));
        }
        at += 1 + usize::from(takes_next);
        // A value that may be several words hides where the command begins.
        if takes_next && rest.get(at - 1).is_some_and(Word::splits) {
            return Some(Told { words: vec![Word::plain(name), Word::unknown()], settings });
        }
    }
    let command = rest.get(at)?;
    let alias = tool.aliases.iter().find(|(alias, _)| *alias == command.text);
    let command = alias.map_or_else(|| command.clone(), |(_, whole)| Word::plain(*whole));
    let program = if name == "git" { Word::plain("git") } else { program.clone() };
    let words = [program, command].into_iter().chain(rest.iter().skip(at + 1).cloned()).collect();
    Some(Told { words, settings })
}
