//! Runs the direct attempts at leaving the sandbox (`tests/attempts/*.c`) and judges them from outside: by canaries, by what
//! a process outside received, by secrets in what was printed. Which attempts there are, the program itself says.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use openoxide_sandbox::Backend;

use super::house::{FULL_ACCESS, House, ORDINARY, READ_ONLY, Ran, User, WORKSPACE_WRITE};

/// One attempt, as the program lists it.
struct Attempt {
    name: String,
    /// What arrives outside where it gets through.
    token: String,
    effect: String,
    /// Who gets through without a sandbox.
    control: String,
    /// For protected names: the workspace, and what of it shows that it got through.
    workspace: String,
    place: String,
}

/// What came of all attempts of a family.
struct Outcome {
    /// Names of attempts whose canary changed.
    changed: BTreeSet<String>,
    /// What reached the process outside.
    arrived: BTreeSet<String>,
    /// What each attempt said, by its name.
    said: BTreeMap<String, Vec<String>>,
}

/// The built program; a machine without a C compiler fails here.
fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attempts");
        let mut files: Vec<PathBuf> = std::fs::read_dir(sources)
            .expect("the sources are there")
            .map(|entry| entry.expect("it can be read").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
            .collect();
        files.sort();
        // One for each test program, for several may run at once.
        let own = std::env::current_exe().expect("this program has a path");
        let name = format!("attempts-of-{}", own.file_name().and_then(|name| name.to_str()).expect("it has a name"));
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        #[expect(clippy::disallowed_methods, reason = "builds what is tested with")]
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-w", "-o"]).arg(&built).args(files).arg("-lrt");
        let output = compiler.output().expect("these tests need a C compiler, `cc`; install gcc");
        assert!(output.status.success(), "the attempts do not compile: {}", String::from_utf8_lossy(&output.stderr));
        built
    })
}

/// The process outside that attempts reach for (`outside.c`).
pub struct Outside {
    child: Child,
    /// It ends when this does.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Outside {
    pub fn new(house: &House) -> Self {
        let mut command = house.program(&house.at("bin/attempts"));
        command.args(["outside".as_ref(), house.base().as_os_str(), "all".as_ref()]);
        command.env("SECRET", "secret-environment");
        // A word of its command line that must not be seen.
        command.arg("secret-argument");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("it was asked for"));
        let mut outside = Self { child, input, output: BufReader::new(output) };
        let mut line = String::new();
        outside.output.read_line(&mut line).expect("it can be read");
        assert_eq!(line, "ready\n");
        outside
    }

    /// What arrived until now; it ends.
    pub fn arrived(mut self) -> BTreeSet<String> {
        drop(self.input.take());
        let mut text = Vec::new();
        self.output.read_to_end(&mut text).expect("it can be read");
        let text = String::from_utf8_lossy(&text);
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        // At the end of its input it takes away what outlives a process.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

impl House {
    /// Puts the program of attempts where everybody can run it.
    pub fn with_attempts(self) -> Self {
        let place = self.at("bin/attempts");
        if std::fs::hard_link(program(), &place).is_err() {
            // By another process: a file that this one still writes in one thread cannot be run by a fork of another.
            #[expect(clippy::disallowed_methods, reason = "copies what is tested with")]
            let copied = Command::new("cp").arg(program()).arg(&place).status().expect("cp starts");
            assert!(copied.success());
        }
        self
    }

    /// Whether commands can be given a `/tmp` of their own. Without root that takes a user namespace, in which bubblewrap
    /// is not trusted, for it is nobody's there.
    pub fn has_own_tmp(&self) -> bool {
        self.backend != Backend::Bubblewrap || rustix::process::geteuid().is_root()
    }

    /// The helper on its way to a command in a mode. In `workspace-write` the directory `tmp` of this house is its `/tmp`,
    /// where that can be, so that a test depends on no other program's files and leaves none.
    pub fn confining(&self, verb: &str, workspace: &str, mode: &str) -> Command {
        let helper = self.at("bin/helper");
        let mut command = if mode.starts_with(WORKSPACE_WRITE) && self.has_own_tmp() {
            #[expect(clippy::disallowed_methods, reason = "the whole program is under test")]
            let mut command = Command::new(self.at("bin/attempts"));
            let user = if self.user == User::Ordinary { ORDINARY } else { rustix::process::geteuid().as_raw() };
            command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.at("home"));
            command.current_dir(self.base()).arg("tmp").arg(self.base()).arg(user.to_string()).arg(helper);
            command
        } else {
            self.program(&helper)
        };
        command.arg(verb).args(self.confined(workspace, mode));
        command
    }

    /// Runs a script as `confined_script` gives it. What did not start shows nothing, and fails here.
    #[track_caller]
    pub fn started(&self, mut command: Command) -> Ran {
        let ran = Ran::of(command.output().expect("the helper starts"));
        assert_ne!(ran.code, 125, "by {:?} as {:?}: {}", self.backend, self.user, ran.err);
        ran
    }

    /// A script of bash in a mode, with `$base`, `$ws` and `$out` as in `House::run`.
    pub fn confined_script(&self, workspace: &str, mode: &str, script: &str) -> Command {
        let script = format!(
            "base={}; ws=$base/ws out=$base/outside; export HOME=$base/home GIT_CONFIG_NOSYSTEM=1\n\
             try() {{ \"$base/bin/helper\" try \"$@\"; }}\n{script}",
            self.base().display()
        );
        let mut command = self.confining("run", workspace, mode);
        command.args(["bash", "-c", &script]);
        command
    }

    /// Runs the program on the host.
    fn attempts(&self, verb: &str, family: &str) -> String {
        let mut command = self.program(&self.at("bin/attempts"));
        let output = command.arg(verb).arg(self.base()).arg(family).output();
        Ran::of(output.expect("it starts")).success()
    }

    fn listed(&self, family: &str) -> Vec<Attempt> {
        let parse = |line: &str| {
            let mut words = line.split('\t').map(str::to_owned);
            let mut word = || words.next().expect("there are six words");
            Attempt { name: word(), token: word(), effect: word(), control: word(), workspace: word(), place: word() }
        };
        self.attempts("list", family).lines().map(parse).collect()
    }

    /// Makes all attempts of a family in a mode.
    fn tries(&self, verb: &str, mode: &str, family: &str) -> Outcome {
        let outside = Outside::new(self);
        let before = self.snapshot("outside");
        let mut command = self.confining("run", "ws", mode);
        command.arg(self.at("bin/attempts"));
        let output = command.arg(verb).arg(self.base()).arg(family).output().expect("the helper starts");
        let after = self.snapshot("outside");
        let ran = Ran::of(output);
        assert_eq!(ran.code, 0, "in {mode}: {}\n{}", ran.err, ran.out);
        let mut said: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in ran.out.lines() {
            let (name, words) = line.split_once('\t').unwrap_or((line, ""));
            said.entry(name.to_owned()).or_default().push(words.to_owned());
        }
        let different = before.iter().filter(|(path, state)| after.get(*path) != Some(*state)).map(|(path, _)| path);
        let new = after.keys().filter(|path| !before.contains_key(*path));
        let outer = self.at("outside");
        let name_of = |path: &PathBuf| {
            let first = path.strip_prefix(&outer).ok()?.iter().next()?.to_str()?;
            Some(first.to_owned())
        };
        let changed = different.chain(new).map(|path| name_of(path).unwrap_or("the directory".to_owned())).collect();
        Outcome { changed, arrived: outside.arrived(), said }
    }
}

impl Outcome {
    /// Whether an attempt got through, and what shows it.
    fn shows(&self, attempt: &Attempt) -> Option<String> {
        let said = self.said.get(&attempt.name).map(Vec::as_slice).unwrap_or_default();
        let is_through = match attempt.effect.as_str() {
            "canary" => self.changed.contains(&attempt.name),
            "secret" => said.iter().any(|words| words.starts_with("read\t") && words.contains("secret-")),
            "reached" => self.arrived.contains(&attempt.token),
            // An answer that is no refusal says that the call was looked at.
            "answer" => said.iter().any(|words| !words.starts_with("refused\t")),
            other => panic!("no such effect: {other}"),
        };
        is_through.then(|| format!("{} ({})", attempt.name, said.join("; ")))
    }
}

/// How often a suite is gone through: once, or twenty times where `OPENOXIDE_LONG=1` asks for a long run.
pub fn rounds() -> usize {
    #[expect(clippy::disallowed_methods, reason = "whoever runs the tests says so")]
    let long = std::env::var_os("OPENOXIDE_LONG");
    if long.is_some_and(|value| value == "1") { 20 } else { 1 }
}

/// The modes that the means holds, for each round.
fn modes(house: &House) -> impl Iterator<Item = &'static str> {
    (0..rounds()).flat_map(|_| house.modes())
}

/// No attempt of the family gets through in any mode that the means holds.
pub fn none_gets_through(house: &House, family: &str) {
    for mode in modes(house) {
        let house = house.another().with_attempts();
        let attempts = house.listed(family);
        assert!(!attempts.is_empty(), "no attempts of {family}");
        house.attempts("prepare", family);
        let outcome = house.tries("run", mode, family);
        let silent: Vec<_> = attempts.iter().filter(|attempt| !outcome.said.contains_key(&attempt.name)).collect();
        assert!(silent.is_empty(), "{} said nothing, {} the first", silent.len(), silent[0].name);
        let mut through: Vec<String> = attempts.iter().filter_map(|attempt| outcome.shows(attempt)).collect();
        // What no attempt answers for.
        let is_known = |name: &&String| attempts.iter().any(|attempt| attempt.name == **name);
        through.extend(outcome.changed.iter().filter(|name| !is_known(name)).cloned());
        let is_token = |token: &&String| attempts.iter().any(|attempt| attempt.token == **token);
        through.extend(outcome.arrived.iter().filter(|token| !is_token(token)).cloned());
        assert!(
            through.is_empty(),
            "{} of {} {family} got through in {mode} by {:?} as {:?}: {through:#?}",
            through.len(),
            attempts.len(),
            house.backend,
            house.user
        );
        eprintln!("{} {family} refused in {mode}", attempts.len());
    }
}

/// What stands in the workspace of an attempt at protected names, or must not come to stand there.
const GUARDED: [&str; 12] = [
    ".git",
    ".openoxide",
    ".codex",
    ".agents",
    "nested/.git",
    "deep/er/.git",
    "sub/.GIT",
    "module/.git",
    "store",
    "linked/.git",
    "real",
    // A pipe or socket of that name is one as well.
    ".GIT",
];

impl Attempt {
    /// All guarded places that the attempt could change, and what lies in them; what is not there is left out.
    fn guarded(&self, house: &House) -> BTreeMap<PathBuf, String> {
        let is_there = |place: &String| house.at(place).symlink_metadata().is_ok();
        let top = house.at("p").join(&self.workspace).join(&self.place);
        let places = GUARDED.iter().map(|place| format!("p/{}/{place}", self.workspace));
        let all = places.filter(is_there).flat_map(|place| house.snapshot(&place));
        all.filter(|(path, _)| path.starts_with(&top)).collect()
    }
}

/// None of the attempts of a family changes or makes a protected name. Those of one workspace share a command; where
/// nothing may be written at all, one command makes all of them.
pub fn none_changes_protected(house: &House, family: &str) {
    for mode in modes(house) {
        let house = house.another().with_attempts();
        let attempts = house.listed(family);
        assert!(!attempts.is_empty(), "no attempts of {family}");
        house.attempts("prepare", family);
        let before: Vec<_> = attempts.iter().map(|attempt| attempt.guarded(&house)).collect();
        let workspaces: BTreeSet<&str> = attempts.iter().map(|attempt| attempt.workspace.as_str()).collect();
        let batches = if mode == READ_ONLY { vec![None] } else { workspaces.into_iter().map(Some).collect() };
        let mut said = 0;
        for one in batches {
            let workspace = one.map_or("p".to_owned(), |workspace| format!("p/{workspace}"));
            let mut command = house.confining("run", &workspace, mode);
            command.arg(house.at("bin/attempts")).arg("run").arg(house.base()).arg(family).args(one);
            let ran = Ran::of(command.output().expect("the helper starts"));
            assert!(ran.code == 0, "{workspace} in {mode}: {ran:?}");
            said += ran.out.lines().count();
        }
        assert_eq!(said, attempts.len(), "each says one line");
        let mut through = Vec::new();
        for (attempt, before) in attempts.iter().zip(before) {
            let after = attempt.guarded(&house);
            let is_same = |(path, state): &(&PathBuf, &String)| before.get(*path) == Some(*state);
            let first = after.iter().find(|entry| !is_same(entry)).map(|(path, _)| path);
            let gone = before.keys().find(|path| !after.contains_key(*path));
            // It has no way to cover a link with itself, as the documentation says; what the link leads to is covered.
            let is_documented = house.backend == Backend::Bubblewrap && attempt.name == "remove-linked+.git";
            if let Some(path) = first.or(gone).filter(|path| !(is_documented && path.ends_with("linked/.git"))) {
                through.push(format!(
                    "{} ({})",
                    attempt.name,
                    path.strip_prefix(house.base()).unwrap_or(path).display()
                ));
            }
        }
        assert!(
            through.is_empty(),
            "{} of {} {family} got through in {mode} by {:?} as {:?}: {through:#?}",
            through.len(),
            attempts.len(),
            house.backend,
            house.user
        );
        eprintln!("{} {family} refused in {mode}", attempts.len());
    }
}

/// Without a sandbox each of them does.
pub fn they_change_protected_without(house: &House, family: &str) {
    let house = house.another().with_attempts();
    house.attempts("prepare", family);
    let attempts = house.listed(family);
    let made: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.control != "nobody").collect();
    let before: Vec<_> = made.iter().map(|attempt| attempt.guarded(&house)).collect();
    let said = house.attempts("everybody", family);
    let same: Vec<&str> = made
        .iter()
        .zip(before)
        .filter(|(attempt, before)| attempt.guarded(&house) == *before)
        .map(|(attempt, _)| attempt.name.as_str())
        .collect();
    assert!(same.is_empty(), "{} of {} {family} are no attempts: {same:#?}\n{said}", same.len(), made.len());
    eprintln!("{} of {} {family} got through without a sandbox", made.len(), attempts.len());
}

/// The right to more than is left, which even the root of a virtual machine may lack.
const SYS_RESOURCE: u64 = 1 << 24;

/// Whether the user of the test has the rights that a real root has; in most containers it has not.
fn is_real_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("it can be read");
    let mut words = status.split_whitespace().skip_while(|word| *word != "CapEff:");
    let held = words.nth(1).and_then(|word| u64::from_str_radix(word, 16).ok()).unwrap_or(0);
    let last = std::fs::read_to_string("/proc/sys/kernel/cap_last_cap").expect("it can be read");
    let all = (2_u64 << last.trim().parse::<u32>().expect("it is a number")) - 1;
    (held | SYS_RESOURCE) & all == all
}

/// Without a sandbox the attempts get through, so that a refusal above is the sandbox's. Left out are those that the
/// table says nobody may make, and what this kernel or file system does not have.
pub fn they_get_through_without(house: &House, family: &str) {
    let house = house.another().with_attempts();
    house.attempts("prepare", family);
    let verb = if house.user == User::Own && is_real_root() { "root" } else { "everybody" };
    let outcome = house.tries(verb, FULL_ACCESS, family);
    let made = |attempt: &&Attempt| {
        let is_lacking = |words: &String| ["ENOSYS", "EOPNOTSUPP", "ENOTTY"].iter().any(|why| words.ends_with(why));
        let said = outcome.said.get(&attempt.name);
        attempt.control != "nobody" && said.is_some_and(|said| !said.iter().any(is_lacking))
    };
    let attempts = house.listed(family);
    let refused: Vec<String> = attempts
        .iter()
        .filter(made)
        .filter(|attempt| outcome.shows(attempt).is_none())
        .map(|attempt| format!("{} {:?}", attempt.name, outcome.said.get(&attempt.name)))
        .collect();
    let count = attempts.iter().filter(made).count();
    assert!(refused.is_empty(), "{} of {count} {family} are no attempts as {verb}: {refused:#?}", refused.len());
    eprintln!("{count} of {} {family} got through without a sandbox", attempts.len());
}
