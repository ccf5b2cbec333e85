//! What comes back from a confined command is what would come back without a sandbox.

use std::io::Write as _;
use std::process::Stdio;

use openoxide_sandbox::Backend;

use crate::support::house::{House, Ran};

pub fn exits_and_signals_are_told(house: &House) {
    for mode in house.modes() {
        for (script, code) in
            [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -SEGV $$", 139), ("kill -9 $$", 137)]
        {
            let ran = house.run(mode, script);
            assert_eq!(ran.code, code, "{script} in {mode}: {}", ran.err);
            let ran = Ran::of(house.command("spawn", "ws", mode, script).output().unwrap());
            assert_eq!(ran.code, code, "{script} in {mode}, spawned: {}", ran.err);
        }
        // A command whose children go on after it has ended is not waited for.
        assert_eq!(house.run(mode, "sleep 1000 & exit 3").code, 3, "in {mode}");
    }
}

pub fn a_missing_command_is_named(house: &House) {
    for mode in house.modes() {
        for verb in ["run", "spawn"] {
            let mut helper = house.program(&house.at("bin/helper"));
            let ran =
                Ran::of(helper.arg(verb).args(house.confined("ws", mode)).arg("no-such-command").output().unwrap());
            assert_eq!(ran.code, 125, "{ran:?}");
            assert!(ran.err.contains("`no-such-command`"), "{ran:?}");
        }
    }
}

pub fn streams_are_passed_through(house: &House) {
    for mode in house.modes() {
        let mut command = house.command("run", "ws", mode, "cat; echo error >&2");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"typed\n").unwrap();
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "typed\n", "error\n"), "in {mode}");
        let ran = house.run(mode, "head -c 10485760 /dev/zero | tr '\\0' x");
        assert_eq!((ran.code, ran.out.len()), (0, 10 << 20), "in {mode}: {}", ran.err);
        let spawned = "cat; seq 1 100000 | tail -1; echo error >&2";
        let ran = Ran::of(house.command("spawn", "ws", mode, spawned).output().unwrap());
        assert_eq!((ran.code, ran.out.as_str()), (0, "100000\nerror\n"), "in {mode}: {}", ran.err);
    }
}

pub fn terminals_work(house: &House) {
    for mode in house.modes() {
        let script = "test -t 0 && test -t 1 && test -t 2 && stty size && : > /dev/tty && echo yes";
        let ran = Ran::of(house.command("spawn", "ws", &format!("{mode}+tty"), script).output().unwrap());
        assert_eq!((ran.code, ran.out.as_str()), (0, "24 80\r\nyes\r\n"), "in {mode}: {}", ran.err);
    }
}

pub fn what_ignores_sigterm_is_killed(house: &House) {
    for mode in house.modes() {
        let script = "trap '' TERM HUP INT; setsid sleep 1000 & echo ready; while :; do sleep 1000; done";
        let ran = Ran::of(house.command("terminate", "ws", mode, script).output().unwrap());
        assert_eq!(ran.code, 137, "in {mode}: {ran:?}");
    }
}

pub fn what_listens_to_sigterm_ends_by_it(house: &House) {
    for mode in house.modes() {
        let ran = Ran::of(house.command("terminate", "ws", mode, "echo ready; exec sleep 1000").output().unwrap());
        assert_eq!(ran.code, 143, "in {mode}: {ran:?}");
    }
}

/// The exit of a short command may be told before its start is.
pub fn short_commands_are_told_whole(house: &House) {
    for mode in house.modes() {
        let times = if house.backend == Backend::Namespaces { "200" } else { "50" };
        let mut helper = house.program(&house.at("bin/helper"));
        let words = house.confined("ws", mode);
        let ran = Ran::of(helper.args(["often", times]).args(&words).args(["/bin/echo", "x"]).output().unwrap());
        assert_eq!((ran.code, ran.err.trim()), (0, r#""x\n""#), "in {mode}");
        let mut helper = house.program(&house.at("bin/helper"));
        let ran = Ran::of(helper.args(["often", times]).args(words).arg("/bin/true").output().unwrap());
        assert_eq!((ran.code, ran.err.trim()), (0, "\"\""), "in {mode}");
    }
}
