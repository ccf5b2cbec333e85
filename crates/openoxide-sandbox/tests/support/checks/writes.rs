//! Nothing outside of the workspace is written, by whatever way; nothing at all in `read-only`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use openoxide_sandbox::Backend;

use crate::support::house::{FULL_ACCESS, House, READ_ONLY, WORKSPACE_WRITE};
use crate::support::mark;

pub fn nothing_outside_is_written(house: &House) {
    let (before, rc) = (house.snapshot("outside"), house.snapshot("home/.bashrc"));
    house.refuses_what_works_outside(&[
        ("create", "echo x > $out/new"),
        ("append", "echo x >> $out/file"),
        ("append in home", "echo x >> $HOME/.bashrc"),
        ("make a directory", "mkdir $out/directory"),
        ("make a pipe", "mkfifo $out/pipe"),
        ("truncate", "try truncate $out/file"),
        ("through a link that was there", "echo x > link-out/through"),
        ("through the working directory", "echo x > /proc/self/cwd/../outside/through-proc"),
        ("through a new link", "ln -s $out new-link && echo x > new-link/through-new"),
        ("chmod", "chmod 777 $out/file"),
        ("chown", "chown $(id -u) $out/file"),
        ("set times", "touch -d @1 $out/file"),
        ("rename out of the workspace", "echo x > mine && try rename mine $out/moved"),
        ("rename into the workspace", "try rename $out/moved taken || try rename $out/victim taken"),
        ("exchange with a file of the workspace", "echo x > mine && try exchange mine $out/file"),
        ("link in, then write", "try link $out/file linked && echo x >> linked"),
        ("open anew by descriptor", "try reopen $out/file"),
        ("remove a file", "rm $out/file"),
        ("remove a directory", "rmdir $out/inner"),
    ]);
    // Refused, and not shown to work without a sandbox: not every file system has these, nor may every user do them.
    let server = std::process::id();
    for mode in house.modes() {
        house.refuses(
            mode,
            &[
                ("attributes by name", "try xattr $out/file"),
                ("attributes by descriptor", "try attributes $out/file"),
                ("through the root of the first process", "echo x > /proc/1/root$out/first"),
                ("through the root of a host process", &format!("echo x > /proc/{server}/root$out/host")),
                ("through the directory of a host process", &format!("echo x > /proc/{server}/cwd/Cargo.toml.new")),
                ("in the system's directories", "echo x > /etc/house || echo x > /usr/house || echo x > /root/house"),
            ],
        );
    }
    assert_eq!(house.snapshot("outside"), before);
    assert_eq!(house.snapshot("home/.bashrc"), rc);
}

pub fn nothing_is_written_in_read_only(house: &House) {
    let before = house.snapshot("ws");
    let (mark, shared) = (format!("/tmp/house-{}", mark()), format!("/dev/shm/house-{}", mark()));
    let in_tmp = format!("echo x > {mark} && rm {mark}");
    let attempts = [
        ("create", "echo x > new && rm new"),
        ("append", "echo x >> file"),
        ("make a directory", "mkdir directory && rmdir directory"),
        ("chmod", "chmod 600 file"),
        ("set times", "touch file"),
        ("in the temporary directory", &in_tmp),
        ("in a repository", "echo x > .git/new && rm .git/new"),
    ];
    house.refuses(READ_ONLY, &attempts);
    house.run(READ_ONLY, &format!("echo x > {shared}"));
    assert!(!std::path::Path::new(&shared).exists());
    assert_eq!(house.snapshot("ws"), before);
    house.another().allows(FULL_ACCESS, &attempts);
}

pub fn the_workspace_and_the_temporary_directory_are_written(house: &House) {
    let (mark, shared) = (format!("/tmp/house-{}", mark()), format!("/dev/shm/house-{}", mark()));
    house.allows(
        WORKSPACE_WRITE,
        &[
            ("create", "echo x > new"),
            ("append", "echo x >> file"),
            ("make a directory", "mkdir directory"),
            ("chmod", "chmod 700 new"),
            ("set times", "touch -d @1 file"),
            ("rename", "mv new directory/newer"),
            ("link", "ln file linked && ln -s file link"),
            ("remove", "rm -r directory"),
            ("in the temporary directory", &format!("echo x > {mark}")),
            ("in shared memory", &format!("echo x > {shared}")),
            ("names that only look protected", "mkdir .github .gitlab && echo x > .gitignore"),
        ],
    );
    assert!(std::fs::remove_file(mark).is_ok(), "it is the host's");
    assert!(!std::path::Path::new(&shared).exists(), "it is the command's own");
    assert_eq!(house.names("ws/.github"), Vec::<String>::new());
}

pub fn a_race_of_links_leads_nowhere(house: &House) {
    let before = house.snapshot("outside");
    // It succeeds only where some were written: those that met the directory.
    house.run(WORKSPACE_WRITE, "try race $ws $out 20000").success();
    assert_eq!(house.snapshot("outside"), before);
}

pub fn secrets_are_hidden(house: &House) {
    let mut attempts = vec![
        ("read a key", "cat $HOME/.ssh/id"),
        ("read a token", "grep . $HOME/.netrc"),
        ("read the agent's own", "cat $HOME/.openoxide/auth.json"),
        ("through the root of a process", "cat /proc/self/root$HOME/.ssh/id"),
        ("link it in", "ln $HOME/.ssh/id here && cat here"),
        ("by another path", "cat $ws/../home/.ssh/id"),
    ];
    if house.backend != Backend::Landlock {
        attempts.push(("list", "ls $HOME/.ssh | grep ."));
    }
    house.refuses_what_works_outside(&attempts);
    for mode in house.modes() {
        let text = house.run(mode, "cat $HOME/.bashrc $out/file; env").success();
        assert!(text.starts_with("rc\noutside\n"), "{text}");
        assert!(!text.contains("CARGO"), "{text}");
        house.refuses(mode, &[("uncover", "umount $HOME/.ssh || chmod 700 $HOME/.ssh || mv $HOME/.ssh $HOME/keys")]);
    }
}

/// Whose workspace is the home itself, for which they are in the way.
pub fn secrets_are_hidden_within_the_workspace(house: &House) {
    let before = [".ssh/id", ".netrc", ".openoxide/auth.json"].map(|name| house.snapshot(&format!("home/{name}")));
    house.refuses_in(
        "home",
        WORKSPACE_WRITE,
        &[
            ("read a key", "cat .ssh/id"),
            ("read a token", "grep . .netrc"),
            ("read the agent's own", "cat .openoxide/auth.json"),
            ("write a key", "echo x > .ssh/authorized_keys"),
            ("rename them away", "mv .ssh keys"),
            ("replace a token", "echo x > new && try rename new .netrc"),
            ("remove a token", "rm -f .netrc"),
            ("replace the agent's own", "mkdir -p other && try exchange other .openoxide"),
        ],
    );
    let text = house.run_in("home", WORKSPACE_WRITE, "echo more >> .bashrc; cat .bashrc").success();
    assert_eq!(text, "rc\nmore\n");
    let after = [".ssh/id", ".netrc", ".openoxide/auth.json"].map(|name| house.snapshot(&format!("home/{name}")));
    assert_eq!(after, before);
}

/// As every renewal of a token does it.
pub fn secrets_stay_hidden_when_the_host_replaces_them(house: &House) {
    if openoxide_sandbox::landlock_version() == 0 {
        // Mounts alone cover what was there.
        return;
    }
    house
        .host(
            "mkdir -p $base/home/.docker $base/home/store && echo first > $base/home/.docker/config.json
        echo first > $base/home/store/creds && ln -s store/creds $base/home/.git-credentials",
        )
        .success();
    for mode in house.modes() {
        let script = "echo ready; read line; cat $HOME/.netrc $HOME/.docker/config.json $HOME/.git-credentials \
            $HOME/store/creds $HOME/.pgpass $HOME/.ssh/new $HOME/.openoxide/new; cat $HOME/.bashrc; exit 0";
        let mut command = house.command("run", "ws", mode, script);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        house.host("cd $base/home && for file in .netrc .docker/config.json store/creds .pgpass .ssh/new .openoxide/new; do
            echo NEW-SECRET > new && mv new $file; done").success();
        child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        assert_eq!(text, "rc\n", "in {mode}");
        house.host("rm $base/home/.pgpass").success();
    }
}

pub fn nobody_works_in_a_hidden_place(house: &House) {
    house.host("mkdir $base/home/.openoxide/sub && ln -s home/.openoxide/sub $base/sub").success();
    for mode in house.modes() {
        for place in ["home/.openoxide", "home/.openoxide/sub", "sub", "home/.ssh"] {
            let ran = house.run_in(place, mode, "echo started; cat ../auth.json auth.json id");
            assert_eq!((ran.code, ran.out.as_str()), (125, ""), "{place}: {ran:?}");
            assert!(ran.err.contains("kept from commands"), "{ran:?}");
        }
    }
}

pub fn secrets_of_the_system_are_hidden(house: &House) {
    for mode in house.modes() {
        let attempts = [
            ("passwords", "cat /etc/shadow"),
            ("older ones", "cat /etc/shadow-"),
            ("of groups", "cat /etc/gshadow"),
            ("host keys", "cat /etc/ssh/ssh_host_*_key | grep ."),
        ];
        house.refuses(mode, &attempts);
        house.run(mode, "cat /etc/passwd /etc/hosts >/dev/null && ls /etc >/dev/null").success();
    }
}
