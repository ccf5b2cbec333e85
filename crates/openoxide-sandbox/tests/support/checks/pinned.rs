//! What a command may write is the directory that was meant, and stays where it is: by whatever name, while others swap what
//! lies above it.

use std::process::{Child, Stdio};

use openoxide_sandbox::Backend;

use crate::support::house::{FULL_ACCESS, House, WORKSPACE_WRITE};
use crate::support::until;

/// How often a command is started while directories are swapped.
const STARTS: usize = 60;

/// Which directory a path of the house leads to.
fn id(house: &House, path: &str) -> String {
    let output = house.program(&house.at("bin/helper")).arg("identify").arg(house.at(path)).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A command of another thread, which may write `outer` as well, that exchanges two places in it until it is killed.
struct Swaps(Child);

impl Swaps {
    fn start(house: &House) -> Self {
        let script = "try swap $base/outer/x $base/outer/z";
        let child = house.command("run", "ws", &with_outer(house), script).stderr(Stdio::null()).spawn();
        let swaps = Self(child.expect("the helper starts"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(until("it swaps", || house.at("outer/x/proj").is_symlink()));
        swaps
    }
}

impl Drop for Swaps {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The mode with `outer` to write in as well.
fn with_outer(house: &House) -> String {
    format!("{WORKSPACE_WRITE}+without-tmp+root={}", house.at("outer").display())
}

fn build(house: &House) {
    house.host("cd $base && mkdir -p outer/x/proj outer/z victim && ln -s $base/victim outer/z/proj && echo v > victim/file").success();
}

pub fn no_ancestor_of_a_workspace_is_replaced(house: &House) {
    build(house);
    let attempts = [
        ("rename its parent", "try rename $base/outer/x $base/outer/y && try rename $base/outer/y $base/outer/x"),
        ("exchange its parent", "try exchange $base/outer/x $base/outer/z && try exchange $base/outer/x $base/outer/z"),
        (
            "rename it",
            "try rename $base/outer/x/proj $base/outer/x/old && try rename $base/outer/x/old $base/outer/x/proj",
        ),
    ];
    house.refuses_in("outer/x/proj", &with_outer(house), &attempts);
    house.another_with(build).allows_in("outer/x/proj", FULL_ACCESS, &attempts);
    // The rest of the outer one is as free as it was.
    let script =
        "echo x > $base/outer/x/beside && mkdir $base/outer/new && mv $base/outer/new $base/outer/newer && echo ok";
    assert_eq!(house.run_in("outer/x/proj", &with_outer(house), script).success(), "ok\n");
}

pub fn another_directory_of_the_same_path_is_not_written(house: &House) {
    build(house);
    let mode = format!("{}+id={}", with_outer(house), id(house, "outer/x/proj"));
    assert_eq!(house.run_in("outer/x/proj", &mode, "echo x > new && cat new").success(), "x\n");
    let before = house.snapshot("victim");
    house.host("cd $base/outer && mv x y && mkdir x && ln -s $base/victim x/proj").success();
    for mode in [mode.as_str(), &mode.replace(WORKSPACE_WRITE, "read-only")] {
        let ran = house.run_in("outer/x/proj", mode, "echo started; echo x > evil");
        assert_eq!((ran.code, ran.out.as_str()), (125, ""), "{ran:?}");
        assert!(ran.err.contains("outer/x/proj was moved"), "{ran:?}");
    }
    house.host("cd $base/outer && rm -r x && mkdir -p x/proj").success();
    let ran = house.run_in("outer/x/proj", &mode, "echo started; echo x > evil");
    assert_eq!((ran.code, ran.out.as_str()), (125, ""), "{ran:?}");
    assert!(ran.err.contains("outer/x/proj was replaced"), "{ran:?}");
    assert_eq!(house.snapshot("victim"), before);
}

/// At the worst moment: while the launcher, the supervisor and the view look at it.
pub fn a_race_of_ancestors_leads_nowhere(house: &House) {
    build(house);
    let before = house.snapshot("victim");
    let mode = format!("{}+id={}", with_outer(house), id(house, "outer/x/proj"));
    let swaps = Swaps::start(house);
    let mut started = 0;
    for _ in 0..STARTS {
        let ran =
            house.run_in("outer/x/proj", &mode, "echo started; echo x > evil; echo x > $base/victim/evil; exit 0");
        match (ran.code, ran.out.as_str()) {
            (0, "started\n") => started += 1,
            (125, "") => {}
            _ => panic!("{ran:?}"),
        }
    }
    drop(swaps);
    eprintln!("{started} of {STARTS} were started");
    assert_eq!(house.snapshot("victim"), before);
}

pub fn what_lies_above_a_repository_stays(house: &House) {
    house
        .host("mkdir -p $base/ws/a/b && cd $base/ws/a/b && git init -q . && echo x > ../file && echo x > file")
        .success();
    let (nested, deep) = (house.snapshot("ws/nested/.git"), house.snapshot("ws/a/b/.git"));
    let attempts = [
        ("rename a repository", "try rename nested moved && try rename moved nested"),
        ("rename one that lies deeper", "try rename a/b a/c && try rename a/c a/b"),
        ("rename what it lies in", "try rename a moved && try rename moved a"),
        ("exchange what it lies in", "mkdir -p evil && try exchange a evil && try exchange a evil"),
        ("rename over it", "mkdir -p empty && try rename nested empty && try rename empty nested"),
        (
            "copy and replace",
            "cp -r nested copy && try rename nested old && try rename copy nested && try rename old copy",
        ),
    ];
    house.refuses(WORKSPACE_WRITE, &attempts);
    assert_eq!((house.snapshot("ws/nested/.git"), house.snapshot("ws/a/b/.git")), (nested, deep));
    house
        .another_with(|house| {
            house.host("mkdir -p $base/ws/a/b && cd $base/ws/a/b && git init -q .").success();
        })
        .allows(FULL_ACCESS, &attempts);
    // Work goes on in them: files are made, changed, moved and removed, also from one to another.
    house.allows_in(
        "ws",
        WORKSPACE_WRITE,
        &[
            ("write", "echo more >> a/b/file && echo more >> a/file && echo new > nested/new"),
            ("move within", "mv a/b/file a/b/file2 && try rename a/b/file2 a/b/file3"),
            ("move from one to another", "mv a/b/file3 a/moved && mv a/moved moved && mv moved nested/moved"),
            ("move a directory across", "mkdir nested/d && echo x > nested/d/f && mv nested/d d && mv d a/b/d"),
            ("remove", "rm -r a/b/d a/file nested/new nested/moved"),
            ("status", "git -C nested status --short && git status --short >/dev/null"),
        ],
    );
    // Nothing of a plain workspace is mounted but its protected names.
    if house.backend == Backend::Namespaces {
        house.host("mkdir -p $base/plain/src/deep").success();
        let text = house.run_in("plain", WORKSPACE_WRITE, "grep -c \" $base/plain/[a-z]\" /proc/self/mountinfo; true");
        assert_eq!(text.success(), "0\n");
    }
}

pub fn many_repositories_are_covered(house: &House) {
    let build =
        "mkdir $base/many && cd $base/many && for i in $(seq 1200); do mkdir -p r$i/.git; done; echo x > r7/.git/HEAD";
    house.host(build).success();
    let script =
        "echo started; mkdir r1200/.git/hooks 2>/dev/null || echo refused; mv r7 r8x 2>/dev/null || echo stays";
    assert_eq!(house.run_in("many", WORKSPACE_WRITE, script).success(), "started\nrefused\nstays\n");
}

pub fn a_tmp_of_its_own_stands_for_the_systems(house: &House) {
    let name = format!("house-private-{}", crate::support::mark());
    let shared = std::path::Path::new("/tmp").join(&name);
    house
        .host(&format!("mkdir -p $base/own /tmp/{name}/ws && echo theirs > /tmp/{name}/file && chmod 700 $base/own"))
        .success();
    let mode = format!("{WORKSPACE_WRITE}+private+own={}", house.at("own").display());
    let script = format!(
        "ls /tmp; cat /tmp/{name}/file; echo $TMPDIR; echo mine > /tmp/mine; mktemp >/dev/null && echo made
         mkdir /tmp/.git 2>/dev/null || echo refused; git init -q /tmp 2>/dev/null || echo no repository"
    );
    let ran = house.run(&mode, &script);
    assert_eq!(ran.out, "/tmp\nmade\nrefused\nno repository\n", "{ran:?}");
    assert_eq!(std::fs::read_to_string(house.at("own/mine")).unwrap(), "mine\n");
    assert!(!shared.with_file_name("mine").exists());
    // A workspace that lies in the system's is there as well, and only that.
    let workspace = format!("../../../tmp/{name}/ws");
    let ran = house.run_in(
        &workspace,
        &mode,
        &format!("pwd; echo x > new; cat new; ls /tmp/{name}; mv /tmp/{name} /tmp/y || echo stays"),
    );
    let seen = ran.out.clone();
    assert!(seen.starts_with(&format!("/tmp/{name}/ws\nx\nws\n")) && seen.ends_with("stays\n"), "{ran:?}");
    assert!(shared.join("ws/new").exists());
    assert_eq!(house.names("own").iter().filter(|name| name.starts_with('.')).count(), 0, "placeholders are gone");
    std::fs::remove_dir_all(shared).unwrap();
}
