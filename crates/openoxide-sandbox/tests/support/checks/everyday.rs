//! Work that a developer asks for every day goes on within `workspace-write`; and what of git's work does not.

use std::path::Path;

use crate::support::house::{House, Ran, User, WORKSPACE_WRITE};

/// A repository of several packages, one of which has a repository of its own.
const MONOREPO: &str = r#"
    set -e
    export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e
    mkdir -p $base/mono/packages/{inner,other}/src && cd $base/mono
    echo inner > packages/inner/src/a.txt; echo other > packages/other/src/a.txt
    git init -q . && git add . && git commit -qm one
    git -C packages/inner init -q . && git -C packages/inner add . && git -C packages/inner commit -qm one
"#;

impl House {
    /// Runs a script of bash in `workspace-write`, with nobody else's `/tmp`.
    fn everyday(&self, workspace: &str, script: &str) -> Ran {
        let script = format!("set -e -o pipefail\n{script}");
        self.started(self.confined_script(workspace, WORKSPACE_WRITE, &script))
    }
}

fn fresh(house: &House, build: &str) -> House {
    let house = house.another().with_attempts();
    house.host(build).success();
    house
}

/// The programs of the toolchain that builds this test, where the user of the house can run them: the home of whoever
/// installed them may be closed to others, so that these get links to the files.
fn toolchain(house: &House) -> String {
    let cargo = Path::new(env!("CARGO"));
    let root = cargo.parent().and_then(Path::parent).expect("cargo lies in a toolchain");
    if house.user == User::Own {
        return root.join("bin").display().to_string();
    }
    #[expect(clippy::disallowed_methods, reason = "copies what is worked with")]
    let mut copy = std::process::Command::new("cp");
    let own = house.at("toolchain");
    std::fs::create_dir(&own).expect("the house is ours");
    // As links where that can be, for it is half a gigabyte.
    let places = [root.join("bin"), root.join("lib")];
    let linked = copy.args(["-a", "--link"]).args(&places).arg(&own).output().expect("cp starts");
    if !linked.status.success() {
        #[expect(clippy::disallowed_methods, reason = "copies what is worked with")]
        let mut copy = std::process::Command::new("cp");
        let copied = copy.args(["-a", "--force"]).args(&places).arg(&own).output().expect("cp starts");
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    }
    own.join("bin").display().to_string()
}

pub fn cargo_tests_a_crate(house: &House) {
    let build = r#"
        mkdir -p $base/ws/crate/src && cd $base/ws/crate
        printf '[package]\nname = "everyday"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
        printf 'pub fn two() -> u32 { 2 }\n#[test]\nfn it_is_two() { assert_eq!(two(), 2); }\n' > src/lib.rs
    "#;
    let house = fresh(house, build);
    let text = house.everyday("ws", &format!("PATH={}:$PATH; cd crate; cargo test 2>&1", toolchain(&house))).success();
    assert!(text.contains("test it_is_two ... ok"), "{text}");
}

/// From a repository on the same machine, first fetched and then built anew, with cargo's own home in the workspace: that
/// of the user is not written.
pub fn cargo_builds_with_a_git_dependency(house: &House) {
    let build = r#"
        export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e
        set -e
        mkdir -p $base/dependency/src $base/mono/packages/app/src && cd $base/dependency
        printf '[package]\nname = "dependency"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
        echo 'pub fn three() -> u32 { 3 }' > src/lib.rs
        git init -q . && git add . && git commit -qm one
        cd $base/mono/packages/app
        printf '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n' > Cargo.toml
        echo "dependency = { git = \"file://$base/dependency\" }" >> Cargo.toml
        echo 'fn main() { assert_eq!(dependency::three(), 3); println!("built") }' > src/main.rs
    "#;
    let house = fresh(house, &format!("{MONOREPO}\n{build}"));
    let path = toolchain(&house);
    let script = format!("PATH={path}:$PATH; export CARGO_HOME=$PWD/.cargo-home; cd packages/app; cargo run -q 2>&1");
    assert_eq!(house.everyday("mono", &script).success(), "built\n");
    // Its checkout is now there when the command starts; a newer one comes beside it.
    let commit =
        "cd $base/dependency && echo '// more' >> src/lib.rs && git -c user.name=n -c user.email=e commit -qam two";
    house.host(commit).success();
    let script = format!(
        "PATH={path}:$PATH; export CARGO_HOME=$PWD/.cargo-home; cd packages/app; cargo update -q 2>&1; cargo run -q 2>&1"
    );
    assert_eq!(house.everyday("mono", &script).success(), "built\n");
}

pub fn npm_installs_a_local_package(house: &House) {
    let build = r#"
        mkdir -p $base/ws/app $base/ws/dependency && cd $base/ws
        echo '{"name":"dependency","version":"1.0.0","main":"index.js"}' > dependency/package.json
        echo 'module.exports = "installed"' > dependency/index.js
        echo '{"name":"app","version":"1.0.0","dependencies":{"dependency":"file:../dependency"}}' > app/package.json
    "#;
    let script = "cd app; npm install --offline --no-audit --no-fund >/dev/null
        node -e 'console.log(require(\"dependency\"))'";
    assert_eq!(fresh(house, build).everyday("ws", script).success(), "installed\n");
}

/// By the standard library, for which nothing is installed, in an environment of its own.
pub fn python_tests_run(house: &House) {
    let build = r#"
        mkdir -p $base/ws/python && cd $base/ws/python
        printf 'import tempfile, unittest\n\n\nclass Everyday(unittest.TestCase):\n    def test_it(self):\n' > test_it.py
        printf '        with tempfile.TemporaryDirectory() as directory:\n            open(directory + "/x", "w").close()\n' >> test_it.py
    "#;
    let script = "cd python; python3 -m venv --without-pip environment
        environment/bin/python -m unittest -v 2>&1; ls __pycache__ | wc -l";
    let text = fresh(house, build).everyday("ws", script).success();
    assert!(text.contains("test_it (test_it.Everyday") && text.contains("\nOK\n") && text.ends_with("1\n"), "{text}");
}

pub fn git_tells_of_its_repository(house: &House) {
    let script = "echo more >> packages/other/src/a.txt
        git status --short; git diff --stat | tail -1; git log --oneline | wc -l; git show --stat HEAD >/dev/null
        git branch --show-current >/dev/null; git blame -s packages/other/src/a.txt >/dev/null; git ls-files | wc -l
        git -C packages/inner status --short; git -C packages/inner log --oneline | wc -l";
    let text = fresh(house, MONOREPO).everyday("mono", script).success();
    assert_eq!(text, " M packages/other/src/a.txt\n 1 file changed, 1 insertion(+)\n1\n2\n1\n");
}

/// The index and the history are in `.git`, which is only read: what would write them is refused in the box.
pub fn git_does_not_change_its_repository(house: &House) {
    let house = fresh(house, MONOREPO);
    let before = house.snapshot("mono/.git");
    for line in [
        "git add .",
        "git commit -qm x --allow-empty",
        "git mv packages/other/src/a.txt packages/other/src/b.txt",
        "git mv packages/inner packages/moved",
        "git rm -q packages/other/src/a.txt",
        "git checkout -q -b other",
        "git stash",
        "git tag x",
        "git config a.b c",
        "cd packages/inner && git mv src/a.txt src/b.txt",
        "cd packages/inner && git add .",
    ] {
        let ran = house.everyday("mono", &format!("echo more >> packages/other/src/a.txt; {line}"));
        assert_ne!(ran.code, 0, "{line}: {ran:?}");
    }
    assert_eq!(house.snapshot("mono/.git"), before);
}

pub fn make_builds(house: &House) {
    let build = r#"
        mkdir -p $base/ws/c && cd $base/ws/c
        printf 'all: program\nprogram: main.o other.o\n\tcc -o $@ $^\n%%.o: %%.c\n\tcc -c -o $@ $<\nclean:\n\trm -f *.o\n' > Makefile
        printf 'int other(void);\nint main(void) { return other(); }\n' > main.c
        printf 'int other(void) { return 0; }\n' > other.c
    "#;
    let script = "cd c; make -s -j2; ./program; make -q; make -s clean; ls";
    assert_eq!(fresh(house, build).everyday("ws", script).success(), "Makefile\nmain.c\nother.c\nprogram\n");
}

pub fn c_is_built_in_tmpdir(house: &House) {
    let house = fresh(house, "mkdir $base/own-tmp");
    let script = "place=$(mktemp -d); cd $place; echo 'int main(void) { return 0; }' > main.c
        cc -o program main.c; ./program; cd /; case $place in $TMPDIR/*) echo built;; esac; rm -r $place";
    let script = format!("set -e\nexport TMPDIR=$base/own-tmp\n{script}");
    let mut command = house.confined_script("ws", WORKSPACE_WRITE, &script);
    let ran = Ran::of(command.env("TMPDIR", house.at("own-tmp")).output().expect("the helper starts"));
    assert_eq!(ran.success(), "built\n");
}

/// What package managers do: a store, links to its files or copies where that is another mount, and a rename from the
/// name under which a package is put together.
const INSTALL: &str = r#"
import errno, os, shutil, sys

def place(source, target):
    try:
        os.link(source, target)
        return "linked"
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
            raise
        shutil.copyfile(source, target)
        return "copied"

os.makedirs("store/files", exist_ok=True)
for number in range(20):
    with open(f"store/files/{number}.js.tmp", "w") as file:
        file.write(f"module.exports = {number}\n")
    os.rename(f"store/files/{number}.js.tmp", f"store/files/{number}.js")
for package in sys.argv[1:]:
    modules = f"{package}/node_modules"
    staged, final = f"{modules}/.pnpm/dependency_tmp", f"{modules}/.pnpm/dependency@1.0.0"
    os.makedirs(staged)
    for number in range(20):
        place(f"store/files/{number}.js", f"{staged}/{number}.js")
    os.rename(staged, final)
    os.symlink(".pnpm/dependency@1.0.0", f"{modules}/dependency")
    with open(f"{modules}/dependency/7.js") as file:
        print(file.read().strip())
"#;

pub fn packages_are_linked_and_renamed_beside_a_nested_repository(house: &House) {
    let house = fresh(house, MONOREPO);
    std::fs::write(house.at("install.py"), INSTALL).expect("the house is ours");
    let script = "python3 ../install.py . packages/inner packages/other
        rm -r packages/inner/node_modules packages/other/node_modules node_modules
        python3 ../install.py . packages/inner packages/other
        mv packages/other/node_modules packages/other/old; mv packages/other/src/a.txt packages/inner/src/b.txt";
    let line = "module.exports = 7\n";
    assert_eq!(house.everyday("mono", script).success(), line.repeat(6));
}

/// Its files may be removed; what git takes orders from stays, and with it the directories on the way.
pub fn a_nested_repository_is_not_taken_away(house: &House) {
    let house = fresh(house, MONOREPO);
    let before = house.snapshot("mono/packages/inner/.git");
    let ran = house.everyday("mono", "rm -rf packages/inner");
    assert_ne!(ran.code, 0, "{ran:?}");
    assert_eq!(house.snapshot("mono/packages/inner/.git"), before);
    assert_eq!(house.names("mono/packages/inner"), [".git"]);
    // A package without a repository is moved and removed.
    house
        .everyday("mono", "mv packages/other packages/moved; rm -rf packages/moved; test ! -e packages/moved")
        .success();
}

pub fn a_new_repository_is_used_by_the_command_that_made_it(house: &House) {
    let house = fresh(house, MONOREPO);
    let script = "temporary=$(mktemp -d); for place in $PWD/packages/clone $temporary/clone; do
            git clone -q . $place; cd $place; echo x > y; git add y
            git -c user.name=n -c user.email=e commit -qm two; git log --oneline | wc -l; cd ../..; cd $ws/../mono
        done; rm -rf $temporary";
    assert_eq!(house.everyday("mono", script).success(), "2\n2\n");
}
