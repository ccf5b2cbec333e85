//! `openoxide sandbox`, `doctor` and `rules test` as a user runs them: what a command may touch, what is told of it, and
//! what would be asked.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;

/// A user's directories. They are not below /tmp, where every command may write.
struct House {
    place: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        let house = Self { place: tempfile::tempdir_in("/var/tmp").unwrap() };
        for directory in ["home/.ssh", "home/.openoxide", "work/.git", "outside"] {
            std::fs::create_dir_all(house.path(directory)).unwrap();
        }
        std::fs::write(house.path("home/.ssh/id"), "secret").unwrap();
        std::fs::write(house.path("work/.git/config"), "mine").unwrap();
        house
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn run(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = support::openoxide(&self.path("home/.openoxide"))
            .args(arguments)
            .env("HOME", self.path("home"))
            .current_dir(self.path("work"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// Runs a script in a mode; its output and exit code.
    fn script(&self, mode: &str, script: &str) -> (String, i32) {
        let output = self.run(&["sandbox", "--sandbox", mode, "--", "bash", "-c", script], "");
        let text = [output.stdout, output.stderr].concat();
        (String::from_utf8_lossy(&text).into_owned(), output.status.code().unwrap())
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_workspace_is_written_and_nothing_beside_it() {
    let house = House::new();
    let (shown, code) =
        house.script("workspace-write", "echo a > in.txt && cat in.txt && rm in.txt && echo b > kept.txt");
    assert_eq!((shown.as_str(), code), ("a\n", 0));
    assert_eq!(read(&house.path("work/kept.txt")), "b\n");
    for attempt in [
        "echo x > ../outside/new",
        "echo x >> .git/config",
        "mkdir .codex",
        "ln -s ../outside out; echo x > out/new",
        "mv .git elsewhere",
        "echo x > .git/hooks/post-checkout",
        "touch ~/.bashrc",
    ] {
        let (shown, code) = house.script("workspace-write", attempt);
        assert_ne!(code, 0, "{attempt}: {shown}");
    }
    assert_eq!(read(&house.path("work/.git/config")), "mine");
    assert_eq!(std::fs::read_dir(house.path("outside")).unwrap().count(), 0);
    let left = |name: &str| house.path("work").join(name).symlink_metadata().is_ok();
    assert!(!left(".codex") && !left(".agents") && !left(".openoxide"), "placeholders are taken away");
}

#[test]
fn read_only_writes_nowhere_and_full_access_everywhere() {
    let house = House::new();
    let (shown, code) = house.script("read-only", "cat .git/config && echo x > in.txt");
    assert!(shown.starts_with("mine") && code != 0, "{shown}");
    let (shown, code) = house.script("danger-full-access", "echo x > ../outside/new && cat ~/.ssh/id");
    assert_eq!((shown.as_str(), code), ("secret", 0));
}

#[test]
fn credentials_and_the_agents_own_home_are_out_of_sight() {
    let house = House::new();
    for attempt in ["cat ~/.ssh/id", "ls ~/.ssh/id", "cat ~/.openoxide/config.toml"] {
        let (shown, code) = house.script("read-only", attempt);
        assert!(code != 0 && !shown.contains("secret"), "{attempt}: {shown}");
    }
}

#[test]
fn the_network_ends_at_the_loopback_inside() {
    let house = House::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    assert_ne!(house.script("workspace-write", &connect).1, 0);
    assert_eq!(house.script("danger-full-access", &connect).1, 0);
    let inside = "import socket, threading\n\
                  s = socket.create_server(('127.0.0.1', 0))\n\
                  threading.Thread(target=lambda: s.accept()[0].sendall(b'hello')).start()\n\
                  print(socket.create_connection(s.getsockname()).recv(5).decode())";
    let output = house.run(&["sandbox", "--sandbox", "workspace-write", "--", "python3", "-c", inside], "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello\n", "{output:?}");
}

#[test]
fn streams_and_exit_codes_are_the_commands_own() {
    let house = House::new();
    for mode in ["read-only", "workspace-write", "danger-full-access"] {
        let output = house.run(&["sandbox", "--sandbox", mode, "--", "sh", "-c", "cat; echo e >&2; exit 7"], "given");
        assert_eq!(output.status.code(), Some(7), "{mode}");
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"given"[..], &b"e\n"[..]), "{mode}");
        let killed = house.run(&["sandbox", "--sandbox", mode, "--", "sh", "-c", "kill -TERM $$"], "");
        assert_eq!(killed.status.code(), Some(128 + 15), "{mode}");
        let missing = house.run(&["sandbox", "--sandbox", mode, "--", "no-such-program"], "");
        assert_eq!(missing.status.code(), Some(125), "{mode}");
        assert!(String::from_utf8_lossy(&missing.stderr).contains("no-such-program"), "{mode}");
    }
}

#[test]
fn git_and_a_build_work_inside() {
    let house = House::new();
    std::fs::remove_dir_all(house.path("work/.git")).unwrap();
    let made = "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first && echo 1 > a";
    assert_eq!(house.script("danger-full-access", made), (String::new(), 0));
    let (shown, code) = house.script("workspace-write", "git status --short && git diff && git log --format=%s");
    assert_eq!((shown.as_str(), code), ("?? a\nfirst\n", 0));
    let build = "printf 'int main(void){return 3;}' > m.c && cc -o m m.c && ./m";
    assert_eq!(house.script("workspace-write", build).1, 3);
}

#[test]
fn doctor_tells_by_which_means_each_mode_is_held() {
    let house = House::new();
    let output = house.run(&["doctor", "--json"], "");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert!(output.status.success(), "something is not enforced on this machine: {report:#}");
    for mode in ["read-only", "workspace-write"] {
        let held =
            findings.iter().any(|found| found["what"].as_str().unwrap().contains(mode) && found["state"] == "ok");
        assert!(held, "{mode}: {report:#}");
    }
    let text = house.run(&["doctor"], "");
    assert!(String::from_utf8_lossy(&text.stdout).contains("workspace-write"), "{text:?}");
}

#[test]
fn rules_are_told_for_lines_and_for_standard_input() {
    let house = House::new();
    std::fs::write(
        house.path("home/.openoxide/config.toml"),
        "[[rules]]\nprefix = [\"make\"]\ndecision = \"allow\"\n\n[[rules]]\nprefix = [\"git\", \"push\"]\ndecision = \"forbid\"\n",
    )
    .unwrap();
    let lines = "ls -l\nmake test\nmake && curl x\ngit push\nls\\nrm -rf /\n";
    let output = house.run(&["rules", "test", "--policy", "untrusted", "--stdin", "--json"], lines);
    let verdicts: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let decisions: Vec<_> = verdicts.iter().map(|verdict| verdict["decision"].as_str().unwrap()).collect();
    assert_eq!(decisions, ["allow", "allow", "ask", "forbid", "forbid"], "{verdicts:#?}");
    assert!(verdicts[2]["reason"].as_str().unwrap().contains("curl"), "the part in the way is named: {verdicts:#?}");
    assert_eq!(verdicts[4]["line"], "ls\nrm -rf /");
    assert!(verdicts.iter().all(|verdict| !verdict["reason"].as_str().unwrap().is_empty()));
    let outside = house.run(&["rules", "test", "--escalated", "make"], "");
    assert!(outside.stdout.starts_with(b"ask\tsandbox\t"), "{outside:?}");
    let unread = house.run(&["rules", "test", "git $(cat x)"], "");
    assert!(unread.stdout.starts_with(b"ask\tunread\t"), "{unread:?}");
    let one = house.run(&["rules", "test", "--policy", "never", "git push"], "");
    assert!(one.stdout.starts_with(b"forbid\t"), "{one:?}");
    let bad = house.run(&["rules", "test", "--stdin"], "a\\x\n");
    assert!(!bad.status.success() && String::from_utf8_lossy(&bad.stderr).contains("line 1"), "{bad:?}");
}
