//! Programs that run, or obey, what others wrote: shells, interpreters, build tools, what starts other programs, and what takes
//! orders from files of the directory it works in. What they do is not said by their names and arguments. The list is
//! closed: another program is taken to do what it says.

const RUNNERS: [&str; 133] = [
    // Shells.
    "ash",
    "bash",
    "busybox",
    "csh",
    "dash",
    "elvish",
    "fish",
    "ksh",
    "mksh",
    "nu",
    "pwsh",
    "rbash",
    "sh",
    "tcsh",
    "toybox",
    "xonsh",
    "zsh",
    // Interpreters.
    "awk",
    "bun",
    "deno",
    "dotnet",
    "elixir",
    "erl",
    "gawk",
    "ghci",
    "groovy",
    "guile",
    "ipython",
    "irb",
    "java",
    "jshell",
    "julia",
    "kotlin",
    "lua",
    "luajit",
    "m4",
    "mawk",
    "mono",
    "nawk",
    "node",
    "nodejs",
    "ocaml",
    "osascript",
    "perl",
    "php",
    "pypy",
    "python",
    "raku",
    "rscript",
    "ruby",
    "scala",
    "sed",
    "swift",
    "tclsh",
    "ts-node",
    "tsx",
    "wish",
    // Build tools and package managers.
    "ant",
    "autoconf",
    "automake",
    "bazel",
    "buck",
    "bundle",
    "cargo",
    "cmake",
    "composer",
    "conda",
    "ctest",
    "dune",
    "gem",
    "go",
    "gmake",
    "gradle",
    "gradlew",
    "invoke",
    "just",
    "make",
    "mamba",
    "meson",
    "mix",
    "mvn",
    "mvnw",
    "ninja",
    "nox",
    "npm",
    "npx",
    "nx",
    "pip",
    "pipenv",
    "pipx",
    "pnpm",
    "poetry",
    "pytest",
    "rake",
    "rebar3",
    "rustc",
    "rustup",
    "sbt",
    "scons",
    "stack",
    "task",
    "tox",
    "uv",
    "uvx",
    "vite",
    "yarn",
    "zig",
    // Repositories, containers and machines: hooks, configuration and recipes of the directory.
    "ansible",
    "ansible-playbook",
    "docker",
    "docker-compose",
    "gh",
    "git",
    "hg",
    "jj",
    "podman",
    "svn",
    "terraform",
    "tofu",
    "vagrant",
    // What starts other programs, editors and debuggers among them.
    "direnv",
    "emacs",
    "entr",
    "ex",
    "gdb",
    "nvim",
    "parallel",
    "screen",
    "tmux",
    "vi",
    "vim",
    "watch",
    "xargs",
];

/// Whether a program of this name runs or obeys what others wrote. A version at its end does not matter.
#[must_use]
pub fn runs_what_others_wrote(name: &str) -> bool {
    let name = name.to_lowercase();
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    let is_listed = |name: &str| RUNNERS.contains(&name) || super::scan::is_wrapper(name) || name == "find";
    is_listed(&name) || is_listed(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_do_not_matter_and_other_programs_are_what_they_say() {
        for runner in
            ["python3.12", "bash", "node", "gcc-ar-sudo", "sudo", "env", "Rscript", "lua5.4", "xargs", "find", "git"]
        {
            assert_eq!(runs_what_others_wrote(runner), runner != "gcc-ar-sudo", "{runner}");
        }
        for other in ["curl", "systemctl", "cp", "ls", "kubectl", "ps", "2"] {
            assert!(!runs_what_others_wrote(other), "{other}");
        }
    }
}
