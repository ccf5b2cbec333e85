//! The workspace has what it had, however a command ends, and what stands in for missing names stands as long as needed.

use std::io::Write as _;
use std::process::{Child, Stdio};

use crate::support::house::{House, WORKSPACE_WRITE};
use crate::support::{mark, marked, pids, state, until};

/// The supervisor that a helper has started: its only child.
fn supervisor(helper: &Child) -> u32 {
    pids()
        .find(|pid| state(*pid).is_some_and(|(_, parent)| parent == helper.id()))
        .expect("the helper has a supervisor")
}

fn wait_until(what: &str, holds: impl FnMut() -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(until(what, holds));
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process id is not zero");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it may be killed");
}

/// A command that runs until its input ends, with a process of the mark in a session of its own.
fn lasting(house: &House, mode: &str, mark: &str) -> Child {
    let script = format!("setsid sleep {mark} & read line; mkdir .codex/x 2>/dev/null && echo made; exit 0");
    let mut command = house.command("run", "ws", mode, &script);
    let child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the helper starts");
    wait_until("it runs", || marked(mark).len() == 1);
    child
}

pub fn nothing_is_left_after_the_end(house: &House) {
    let before = house.names("ws");
    let text = house.run(WORKSPACE_WRITE, "ls -d .codex .agents .openoxide | wc -l").success();
    assert_eq!(text.trim(), "3", "they stand while the command runs");
    assert_eq!(house.names("ws"), before);
    house.run(WORKSPACE_WRITE, "kill -9 $$");
    assert_eq!(house.names("ws"), before);
    // A command that is not found is no exception.
    let mut helper = house.program(&house.at("bin/helper"));
    let output = helper.arg("run").args(house.confined("ws", WORKSPACE_WRITE)).arg("no-such-command").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(house.names("ws"), before);
}

pub fn nothing_is_left_after_many_at_once(house: &House) {
    let before = house.names("ws");
    let start = |_| house.command("run", "ws", WORKSPACE_WRITE, "mkdir .codex/x 2>/dev/null").spawn().unwrap();
    let all: Vec<Child> = (0..16).map(start).collect();
    for mut child in all {
        assert_eq!(child.wait().unwrap().code(), Some(1), "none of them makes it");
    }
    assert_eq!(house.names("ws"), before);
}

pub fn what_a_killed_supervisor_left_goes_with_the_next_command(house: &House) {
    let (before, mark) = (house.names("ws"), mark());
    let mut child = lasting(house, WORKSPACE_WRITE, &mark);
    kill(supervisor(&child));
    wait_until("nothing of it runs", || marked(&mark).is_empty());
    child.wait().unwrap();
    assert!(house.names("ws").len() > before.len(), "nobody was left to take them away");
    // A lock that the dead still held would keep them: what was inside is gone as soon as its processes are.
    wait_until("they are gone after another command", || {
        house.run(WORKSPACE_WRITE, "true").success();
        house.names("ws") == before
    });
}

pub fn what_one_command_relies_on_stays_when_another_ends(house: &House) {
    let (before, mark) = (house.names("ws"), mark());
    let mut first = lasting(house, WORKSPACE_WRITE, &mark);
    house.run(WORKSPACE_WRITE, "true").success();
    assert!(house.names("ws").contains(&".codex".to_owned()));
    house.refuses(WORKSPACE_WRITE, &[("make one", "mkdir .codex")]);
    first.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    let output = first.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b""[..]));
    assert_eq!(house.names("ws"), before);
}

pub fn everything_ends_with_a_killed_supervisor(house: &House) {
    for mode in house.modes() {
        let mark = mark();
        let mut child = lasting(house, mode, &mark);
        kill(supervisor(&child));
        wait_until("nothing of it runs", || marked(&mark).is_empty());
        assert!(!child.wait().unwrap().success());
    }
}

pub fn everything_ends_with_a_killed_server(house: &House) {
    for mode in house.modes() {
        let (before, mark) = (house.names("ws"), mark());
        let mut child = lasting(house, mode, &mark);
        kill(child.id());
        child.wait().unwrap();
        wait_until("nothing of it runs", || marked(&mark).is_empty());
        wait_until("nothing of it is left", || house.names("ws") == before);
    }
}

pub fn what_leaves_the_session_ends_with_the_command(house: &House) {
    for mode in house.modes() {
        let mark = mark();
        let script = format!(
            "setsid sleep {mark} & nohup sleep {mark} >/dev/null 2>&1 & (setsid bash -c '(sleep {mark} &) ; exit' &)
             until [ $(grep -al '^sleep.{mark}' /proc/[0-9]*/cmdline 2>/dev/null | wc -l) = 3 ]; do :; done; kill -9 $PPID 2>/dev/null; echo end"
        );
        let text = house.run(mode, &script).success();
        assert_eq!(text, "end\n");
        assert_eq!(marked(&mark), Vec::<u32>::new(), "in {mode}");
    }
}
