//! What a command could do to what its sandbox, or the next command's, is made from: the directories above the workspace,
//! the top of a shared temporary directory, credentials that the host replaces. And what is documented as open.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::process::Stdio;

use crate::support::house::{House, Ran, WORKSPACE_WRITE};

/// The names that no command makes at the top of a writable directory.
const NAMES: [&str; 4] = [".git", ".openoxide", ".codex", ".agents"];

/// The temporary directories of commands: how a command names each, and the house. `/tmp` is left out where it would be
/// everybody's.
fn temporary(house: &House) -> Vec<(&'static str, &'static str)> {
    let all = [("/tmp", "tmp"), ("$base/own-tmp", "own-tmp")];
    all.into_iter().filter(|(place, _)| *place != "/tmp" || house.has_own_tmp()).collect()
}

fn number_of(house: &House, path: &str) -> Option<u64> {
    house.at(path).symlink_metadata().ok().map(|data| data.ino())
}

/// A workspace below `/tmp` stays where it is: nothing that it stands in is moved, so that the next command's workspace is
/// this one's.
pub fn what_a_workspace_stands_in_is_not_moved(house: &House) {
    let ways = [
        ("renamed", "mv $place/a $place/moved"),
        ("renamed, the inner one", "mv $place/a/b $place/a/moved"),
        ("renamed out of it", "mv $place/a/b $place/moved"),
        ("exchanged", "mkdir -p $place/evil/b/ws; try exchange $place/a $place/evil"),
        ("exchanged, the inner one", "mkdir -p $place/evil/ws; try exchange $place/evil $place/a/b"),
        ("exchanged with a link", "ln -s $out $place/evil; try exchange $place/a/b $place/evil"),
        ("renamed by another path", "cd ..; mv /proc/self/cwd/../../a $place/moved"),
        ("renamed itself", "mv $place/a/b/ws $place/a/b/moved"),
        ("replaced", "mv $place/a $place/moved; mkdir -p $place/a/b; ln -s $out $place/a/b/ws"),
    ];
    let mut moved = Vec::new();
    let house = house.another().with_attempts();
    for (place, seen) in temporary(&house) {
        for (name, script) in ways {
            let build =
                format!("rm -rf $base/{{tmp,own-tmp}}/*; mkdir -p $base/own-tmp $base/{seen}/a/b/ws/.git/hooks");
            house.host(&build).success();
            let places = ["a", "a/b", "a/b/ws"].map(|path| format!("{seen}/{path}"));
            let before = places.each_ref().map(|path| number_of(&house, path));
            let workspace = if seen == "tmp" { "/tmp/a/b/ws" } else { "own-tmp/a/b/ws" };
            let script = format!("place={place}\n{script}");
            let mut command = house.confined_script(workspace, WORKSPACE_WRITE, &script);
            command.env("TMPDIR", house.at("own-tmp"));
            house.started(command);
            if before != places.each_ref().map(|path| number_of(&house, path)) {
                moved.push(format!("{seen} {name}"));
            }
        }
    }
    assert!(moved.is_empty(), "by {:?} as {:?}: {moved:#?}", house.backend, house.user);
}

/// What git and agents take orders from is not made at the top of `/tmp` or of `TMPDIR`.
pub fn no_protected_name_is_made_in_a_temporary_directory(house: &House) {
    let mut made = Vec::new();
    let house = house.another().with_attempts();
    for (place, seen) in temporary(&house) {
        for name in NAMES {
            for (way, script) in [
                ("mkdir", format!("mkdir {place}/{name} && echo x > {place}/{name}/config")),
                ("file", format!("echo x > {place}/{name}")),
                ("link", format!("mkdir -p {place}/other; ln -sT other {place}/{name}")),
                ("rename", format!("mkdir -p {place}/other/x; try rename {place}/other {place}/{name}")),
                ("rename a file", format!("echo x > {place}/one; try rename {place}/one {place}/{name}")),
                ("hard link", format!("echo x > {place}/one; try link {place}/one {place}/{name}")),
                ("git", format!("cd {place} && git init -q .")),
            ] {
                if way == "git" && name != ".git" {
                    continue;
                }
                house.host("rm -rf $base/{tmp,own-tmp}; mkdir $base/{tmp,own-tmp}").success();
                let mut command = house.confined_script("ws", WORKSPACE_WRITE, &script);
                command.env("TMPDIR", house.at("own-tmp"));
                house.started(command);
                if number_of(&house, &format!("{seen}/{name}")).is_some() {
                    made.push(format!("{name} in {seen} by {way}"));
                }
            }
        }
    }
    assert!(made.is_empty(), "{} by {:?} as {:?}: {made:#?}", made.len(), house.backend, house.user);
}

/// Repositories below `/tmp` and `TMPDIR` are protected as those below a workspace are.
pub fn repositories_in_temporary_directories_are_not_written(house: &House) {
    let house = house.another().with_attempts();
    house.host("mkdir $base/own-tmp").success();
    for (place, seen) in temporary(&house) {
        let build = format!("mkdir -p $base/{seen}/project && git init -q $base/{seen}/project");
        house.host(&build).success();
        let seen = format!("{seen}/project/.git");
        let before = house.snapshot(&seen);
        let script = format!(
            "cd {place}; echo x > project/.git/hooks/pre-commit; echo x >> project/.git/config
             mv project/.git project/away; mv project moved"
        );
        let mut command = house.confined_script("ws", WORKSPACE_WRITE, &script);
        command.env("TMPDIR", house.at("own-tmp"));
        let ran = house.started(command);
        assert!(number_of(&house, &seen).is_some(), "{seen} is gone: {ran:?}");
        assert_eq!(house.snapshot(&seen), before, "{seen}");
    }
}

/// Files that are hidden, and stay so when the host puts another in their place while a command runs, as every renewal
/// of a token does.
pub fn replaced_credentials_stay_hidden(house: &House) {
    let files = [".netrc", ".npmrc", ".pypirc", ".git-credentials", ".docker/config.json", ".cargo/credentials.toml"];
    for mode in house.modes() {
        let house = house.another().with_attempts();
        let prepare: String = files
            .iter()
            .map(|file| format!("mkdir -p $(dirname $base/home/{file}); echo secret-old > $base/home/{file}\n"))
            .collect();
        house.host(&prepare).success();
        let script = format!(
            "show() {{ for file in {files}; do echo \"$file: $(cat $HOME/$file 2>&1)\"; done; }}
             show; echo replace; read line; show",
            files = files.join(" ")
        );
        let mut command = house.confined_script("ws", mode, &script);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the helper starts");
        let mut output = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut text = String::new();
        while !text.ends_with("replace\n") {
            assert_ne!(output.read_line(&mut text).expect("it can be read"), 0, "it ended: {text}");
        }
        let replace: String = files
            .iter()
            .map(|file| {
                format!("echo secret-new > $base/home/{file}.new; mv $base/home/{file}.new $base/home/{file}\n")
            })
            .collect();
        house.host(&replace).success();
        child.stdin.take().expect("it was asked for").write_all(b"\n").expect("it listens");
        output.read_to_string(&mut text).expect("it can be read");
        assert!(child.wait().expect("it ends").success(), "{text}");
        let shown: Vec<&str> = text.lines().filter(|line| line.contains("secret-")).collect();
        assert!(shown.is_empty(), "in {mode} by {:?} as {:?}: {shown:#?}", house.backend, house.user);
    }
}

/// Documented as open: locks can be taken on what may only be read, and a pipe outside can be read.
pub fn what_is_documented_as_open_is(house: &House) {
    for mode in house.modes() {
        let house = house.another().with_attempts();
        house.host("mkfifo $base/outside/pipe; chmod 666 $base/outside/pipe").success();
        let lock = house.confined_script("ws", mode, "exec 9<$out/file; flock -xn 9 && echo locked").output();
        assert_eq!(Ran::of(lock.expect("the helper starts")).success(), "locked\n", "in {mode}");
        let lease = "python3 -c 'import fcntl, sys; fcntl.fcntl(open(sys.argv[1]), 1024, fcntl.F_RDLCK)' $out/file";
        let lease = house.confined_script("ws", mode, lease).output();
        assert_eq!(Ran::of(lease.expect("the helper starts")).success(), "", "in {mode}");
        // It ends when the writer does.
        let mut writer = house.program("/bin/bash".as_ref());
        let script = format!("echo from-outside > {}", house.at("outside/pipe").display());
        let mut writer = writer.args(["-c", &script]).spawn().expect("bash starts");
        let read = house.confined_script("ws", mode, "cat $out/pipe").output().expect("the helper starts");
        assert!(writer.wait().expect("it ends").success());
        assert_eq!(Ran::of(read).success(), "from-outside\n", "in {mode}");
        let written = house.started(house.confined_script("ws", mode, "echo x 1<>$out/pipe"));
        assert_ne!(written.code, 0, "in {mode}");
    }
}
