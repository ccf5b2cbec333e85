//! A house to confine commands in: a workspace with a repository, a directory outside of it, a home with secrets. It stands
//! in `/var/tmp`, because `/tmp` is writable in `workspace-write`. Commands run in it through the test helper, as the
//! user of the test and, where that is root, once more as an ordinary user.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use openoxide_sandbox::{Backend, SandboxMode};

use super::HELPER;

pub const READ_ONLY: &str = "read-only";
pub const WORKSPACE_WRITE: &str = "workspace-write";
pub const FULL_ACCESS: &str = "danger-full-access";

/// A user and group that no other program runs as.
pub const ORDINARY: u32 = 12345;

/// The version of Landlock that is a boundary by itself; Linux 6.12 has it.
const LANDLOCK_ENOUGH: i64 = 6;

/// Who runs the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// Whoever runs the tests.
    Own,
    /// An ordinary user, where root runs the tests.
    Ordinary,
}

/// Whether commands run in the box of a thread, each in one of its own: in the test program that is named so.
pub const KEPT: bool = matches!(env!("CARGO_CRATE_NAME").as_bytes(), b"kept");

pub struct House {
    dir: tempfile::TempDir,
    pub user: User,
    pub backend: Backend,
}

/// What came of a command.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; 128 and more for signals, 125 where it was not started.
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Builds what stands in a house; `$base` is its place.
const BUILD: &str = r#"
    set -e
    cd "$base"
    export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e
    mkdir -p ws/sub/.GIT/hooks bare outside/inner home/.ssh home/.openoxide tmp
    echo secret-key > home/.ssh/id
    echo secret-auth > home/.openoxide/auth.json
    echo secret-token > home/.netrc
    echo rc > home/.bashrc
    echo outside > outside/file
    echo outside > outside/victim
    cd ws
    echo text > file
    ln -s "$base/outside" link-out
    git init -q . && git add file && git commit -qm first
    git init -q nested
    mkdir -p .git/hooks nested/.git/hooks module
    echo 'gitdir: ../nested/.git' > module/.Git
"#;

/// Begins every script: names for the places, and `attempt NAME SCRIPT`, which says what came of it.
const PRELUDE: &str = r#"
    ws=$base/ws out=$base/outside
    export HOME=$base/home GIT_CONFIG_NOSYSTEM=1
    try() { "$base/bin/helper" try "$@"; }
    attempt() {
        local why code
        why=$( (eval "$2") 2>&1 )
        code=$?
        case $code in
            0) echo "worked: $1" ;;
            3) echo "unclear: $1: ${why//$'\n'/ }" ;;
            *) echo "refused: $1: $code ${why//$'\n'/ }" ;;
        esac
    }
"#;

impl House {
    pub fn new(user: User, backend: Backend) -> Self {
        let dir = tempfile::Builder::new().prefix("house-").tempdir_in("/var/tmp").expect("a house can be built");
        let house = Self { dir, user, backend };
        std::fs::set_permissions(house.base(), PermissionsExt::from_mode(0o755)).expect("the house is ours");
        let bin = house.base().join("bin");
        std::fs::create_dir(&bin).expect("the house is ours");
        // Not everybody can enter the directory that it was built in.
        if std::fs::hard_link(HELPER, bin.join("helper")).is_err() {
            std::fs::copy(HELPER, bin.join("helper")).expect("the helper can be copied");
        }
        if user == User::Ordinary {
            std::os::unix::fs::chown(house.base(), Some(ORDINARY), Some(ORDINARY)).expect("root may give it away");
        }
        let built = house.host(BUILD);
        assert_eq!(built.code, 0, "building the house: {}", built.err);
        house
    }

    /// A new house for the same user, with more built in it.
    pub fn another_with(&self, build: impl Fn(&Self)) -> Self {
        let house = self.another();
        build(&house);
        house
    }

    /// A new house for the same user.
    pub fn another(&self) -> Self {
        Self::new(self.user, self.backend)
    }

    pub fn base(&self) -> &Path {
        self.dir.path()
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.base().join(path)
    }

    /// The modes that the means can hold.
    pub fn modes(&self) -> Vec<&'static str> {
        let modes = [(SandboxMode::ReadOnly, READ_ONLY), (SandboxMode::WorkspaceWrite, WORKSPACE_WRITE)];
        modes.into_iter().filter(|(mode, _)| self.backend.can_hold(*mode)).map(|(_, name)| name).collect()
    }

    /// Runs a script without a sandbox.
    pub fn host(&self, script: &str) -> Ran {
        let mut command = self.program(Path::new("/bin/bash"));
        let script = format!("base={}\n{script}", self.base().display());
        Ran::of(command.args(["-c", &script]).output().expect("bash starts"))
    }

    /// Runs a script in the workspace under a mode, with options after a `+`, by this house's means.
    pub fn run(&self, mode: &str, script: &str) -> Ran {
        self.run_in("ws", mode, script)
    }

    /// The same, in another directory of the house.
    pub fn run_in(&self, workspace: &str, mode: &str, script: &str) -> Ran {
        let output = self.command("run", workspace, mode, script).output();
        Ran::of(output.expect("the helper starts"))
    }

    /// The helper with one of its verbs, not started yet.
    pub fn command(&self, verb: &str, workspace: &str, mode: &str, script: &str) -> Command {
        let script = format!("base={}\n{PRELUDE}\n{script}", self.base().display());
        let mut command = self.program(&self.at("bin/helper"));
        command.args(verb.split(' ')).args(self.confined(workspace, mode)).args(["bash", "-c", &script]);
        command
    }

    /// The helper's words before the command.
    pub fn confined(&self, workspace: &str, mode: &str) -> [String; 3] {
        let (mode, options) =
            mode.split_once('+').map_or((mode, String::new()), |(mode, more)| (mode, format!("+{more}")));
        let options = if KEPT { format!("{options}+kept") } else { options };
        let path = |name: &str| self.at(name).to_str().expect("the path is text").to_owned();
        [format!("{mode}@{}{options}", self.backend.as_str()), path(workspace), path("home")]
    }

    /// A program as this house's user.
    pub fn program(&self, path: &Path) -> Command {
        #[expect(clippy::disallowed_methods, reason = "the whole program is under test")]
        let mut command = Command::new(path);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.at("home"));
        command.current_dir(self.base());
        if self.user == User::Ordinary {
            command.uid(ORDINARY).gid(ORDINARY);
        }
        command
    }

    /// Makes a place of the host the property of this house's user.
    pub fn own(&self, path: &Path) {
        if self.user == User::Ordinary {
            std::os::unix::fs::chown(path, Some(ORDINARY), Some(ORDINARY)).expect("root may give it away");
        }
    }

    /// Gives a place to somebody else, where this is root; a link itself and not where it leads.
    pub fn give_away(&self, path: &str) {
        let other = if self.user == User::Ordinary { 0 } else { ORDINARY };
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(self.at(path), Some(other), Some(other)).expect("root may give it away");
        }
    }

    /// Everything at and below a path. The time of the last change to each cannot be set by anybody.
    pub fn snapshot(&self, path: &str) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        let mut waiting = vec![self.at(path)];
        while let Some(path) = waiting.pop() {
            let data = path.symlink_metadata().expect("it is there");
            if data.is_dir() {
                waiting.extend(
                    std::fs::read_dir(&path)
                        .expect("it can be read")
                        .map(|entry| entry.expect("it can be read").path()),
                );
            }
            let state =
                format!("{:o} {} {} {}.{:09}", data.mode(), data.uid(), data.size(), data.ctime(), data.ctime_nsec());
            all.insert(path, state);
        }
        all
    }

    /// The names in a directory, sorted.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.at(path)).expect("it can be read");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("it can be read").file_name().into_string().expect("it is text"))
            .collect();
        names.sort();
        names
    }
}

impl Ran {
    pub fn of(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let code = output.status.code().or(output.status.signal().map(|signal| 128 + signal));
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: code.unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Its output, where it succeeded.
    #[track_caller]
    pub fn success(self) -> String {
        assert_eq!(self.code, 0, "out: {}\nerr: {}", self.out, self.err);
        self.out
    }
}

/// Something to try, by name.
pub type Attempt<'a> = (&'a str, &'a str);

impl House {
    /// Tries each, and gives one line for each that says what came of it.
    fn tried(&self, workspace: &str, mode: &str, attempts: &[Attempt<'_>]) -> Vec<String> {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        let line = |(name, script): &Attempt<'_>| format!("attempt {} {}", quoted(name), quoted(script));
        let script: Vec<String> = attempts.iter().map(line).collect();
        let ran = self.run_in(workspace, mode, &script.join("\n"));
        let lines: Vec<String> = ran.out.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), attempts.len(), "in {mode} by {:?}: {ran:?}", self.backend);
        lines
    }

    /// None of them works.
    #[track_caller]
    pub fn refuses_in(&self, workspace: &str, mode: &str, attempts: &[Attempt<'_>]) {
        let mut lines = self.tried(workspace, mode, attempts);
        lines.retain(|line| !line.starts_with("refused: "));
        assert!(lines.is_empty(), "not refused in {mode}: {lines:#?}");
    }

    /// None of them works in the workspace.
    #[track_caller]
    pub fn refuses(&self, mode: &str, attempts: &[Attempt<'_>]) {
        self.refuses_in("ws", mode, attempts);
    }

    /// Each of them works.
    #[track_caller]
    pub fn allows(&self, mode: &str, attempts: &[Attempt<'_>]) {
        self.allows_in("ws", mode, attempts);
    }

    /// Each of them works in a directory of the house.
    #[track_caller]
    pub fn allows_in(&self, workspace: &str, mode: &str, attempts: &[Attempt<'_>]) {
        let mut lines = self.tried(workspace, mode, attempts);
        lines.retain(|line| !line.starts_with("worked: "));
        assert!(lines.is_empty(), "not allowed in {mode}: {lines:#?}");
    }

    /// None of them works in any sandbox, and each would without one: the attempts are real.
    #[track_caller]
    pub fn refuses_what_works_outside(&self, attempts: &[Attempt<'_>]) {
        for mode in self.modes() {
            self.refuses(mode, attempts);
        }
        self.another().allows(FULL_ACCESS, attempts);
    }
}

/// Makes one check in a house of each user.
pub fn for_each_user(backend: Backend, check: fn(&House)) {
    let users: &[User] = if rustix::process::geteuid().is_root() { &[User::Own, User::Ordinary] } else { &[User::Own] };
    for user in users {
        eprintln!("with {backend:?}, as {user:?}");
        let house = House::new(*user, backend);
        if backend == Backend::Landlock && openoxide_sandbox::landlock_version() < LANDLOCK_ENOUGH {
            // What is too old to hold a command must not be tried.
            let ran = house.run(READ_ONLY, "echo started");
            assert_eq!((ran.code, ran.out.as_str()), (125, ""), "{ran:?}");
            assert!(ran.err.contains("Landlock version"), "{ran:?}");
            continue;
        }
        check(&house);
    }
}

/// Makes a test of each check, by one means of confinement.
#[macro_export]
macro_rules! checks {
    ($backend:expr; $($group:ident { $($check:ident),+ $(,)? })+) => {
        $($(
            #[test]
            fn $check() {
                support::house::for_each_user($backend, support::checks::$group::$check);
            }
        )+)+
    };
}
