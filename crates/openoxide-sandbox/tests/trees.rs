//! Nothing is left behind: whatever a command started, and however its server ends.

mod support;

use std::time::Duration;

use openoxide_sandbox::{ExitStatus, WaitOutcome};
use support::{HELPER, LONG, code, launcher, mark, marked, script, state, until};

const KILLED: ExitStatus = ExitStatus { code: None, signal: Some(9) };

/// A script whose processes leave their parent, group, session or terminal in every usual way; seven of them.
fn escapees(mark: &str) -> String {
    format!(
        "sleep {mark} & \
         nohup sleep {mark} >/dev/null 2>&1 & \
         setsid sleep {mark} & \
         (setsid bash -c '(sleep {mark} & sleep {mark} &) ; exit' &) \n\
         bash -c 'trap \"\" HUP; sleep {mark} & disown -a; exit' \n\
         sleep {mark}"
    )
}
const ESCAPEES: usize = 7;

#[tokio::test]
async fn everything_ends_with_terminate() {
    let mark = mark();
    let command = launcher().spawn(script(&escapees(&mark))).await.unwrap();
    until("all run", || marked(&mark).len() == ESCAPEES).await;
    command.terminate().await;
    assert_eq!(marked(&mark), Vec::<u32>::new());
    assert!(!command.tree_alive());
    assert_eq!(command.wait(LONG).await, WaitOutcome::Exited(ExitStatus { code: None, signal: Some(15) }));
    // A second order has nothing to do.
    command.terminate().await;
}

#[tokio::test]
async fn everything_ends_with_the_last_handle() {
    let mark = mark();
    let command = launcher().spawn(script(&escapees(&mark))).await.unwrap();
    until("all run", || marked(&mark).len() == ESCAPEES).await;
    drop(command);
    until("none runs", || marked(&mark).is_empty()).await;
}

#[test]
fn everything_ends_with_the_runtime() {
    let mark = mark();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let command = runtime.block_on(async {
        let command = launcher().spawn(script(&escapees(&mark))).await.unwrap();
        until("all run", || marked(&mark).len() == ESCAPEES).await;
        command
    });
    drop(command);
    drop(runtime);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(until("none runs", || marked(&mark).is_empty()));
}

#[tokio::test]
async fn everything_ends_with_a_killed_server() {
    let (mark, home) = (mark(), tempfile::tempdir().unwrap());
    #[expect(clippy::disallowed_methods, reason = "the server has to be another process")]
    let mut server =
        std::process::Command::new(HELPER).arg("hold").arg(home.path()).arg(escapees(&mark)).spawn().unwrap();
    until("all run", || marked(&mark).len() == ESCAPEES).await;
    let is_supervisor = |pid: &u32| state(*pid).is_some_and(|(_, parent)| parent == server.id());
    let supervisors: Vec<u32> = support::pids().filter(is_supervisor).collect();
    assert_eq!(supervisors.len(), 1);
    server.kill().unwrap();
    server.wait().unwrap();
    until("none runs", || marked(&mark).is_empty()).await;
    until("the supervisor ends", || state(supervisors[0]).is_none_or(|(state, _)| state == 'Z')).await;
}

#[tokio::test]
async fn what_ignores_sigterm_is_killed() {
    let mark = mark();
    let ignoring = format!("trap '' TERM HUP INT; setsid sleep {mark} & sleep {mark}; sleep {mark}");
    let command = launcher().spawn(script(&ignoring)).await.unwrap();
    until("both run", || marked(&mark).len() == 2).await;
    command.terminate().await;
    assert_eq!(marked(&mark), Vec::<u32>::new());
    assert_eq!(command.wait(LONG).await, WaitOutcome::Exited(KILLED));
}

#[tokio::test]
async fn what_is_stopped_is_woken_to_end() {
    let mark = mark();
    let command = launcher().spawn(script(&format!("sleep {mark} & kill -STOP $! $$"))).await.unwrap();
    until("it is stopped", || state(command.pid()).is_some_and(|(state, _)| state == 'T')).await;
    command.terminate().await;
    assert_eq!(marked(&mark), Vec::<u32>::new());
    assert_eq!(command.exit_status().map(|exit| exit.signal), Some(Some(15)));
}

#[tokio::test]
async fn what_flees_by_forking_is_caught() {
    let (mark, directory) = (mark(), tempfile::tempdir().unwrap());
    // Each process starts the next and ends, deaf to SIGTERM.
    let path = directory.path().join("flee");
    std::fs::write(&path, "trap '' TERM\nbash \"$0\" \"$1\" &\n").unwrap();
    let command = launcher().spawn(script(&format!("bash {} {mark}", path.display()))).await.unwrap();
    until("it runs", || command.exit_status().is_some() && !marked(&mark).is_empty()).await;
    command.terminate().await;
    assert!(!command.tree_alive());
    assert_eq!(marked(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn a_wide_tree_ends() {
    let mark = mark();
    let wide = format!(
        "trap '' TERM; for i in {{1..10}}; do bash -c 'for j in {{1..10}}; do sleep {mark} & done; wait' & done; wait"
    );
    let command = launcher().spawn(script(&wide)).await.unwrap();
    until("all run", || marked(&mark).len() == 100).await;
    command.terminate().await;
    assert_eq!(marked(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn what_goes_on_in_the_background_does_not_delay_the_exit() {
    let mark = mark();
    let command = launcher().spawn(script(&format!("sleep {mark} & echo started; exit 3"))).await.unwrap();
    assert_eq!(command.wait(LONG).await, WaitOutcome::Exited(code(3)));
    assert_eq!(command.take_output().text, "started\n");
    assert!(command.tree_alive());
    assert_eq!(marked(&mark).len(), 1);
    command.terminate().await;
    assert!(!command.tree_alive());
    assert_eq!(marked(&mark), Vec::<u32>::new());
    assert_eq!(command.exit_status(), Some(code(3)));
}

#[tokio::test]
async fn output_of_the_background_is_still_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut spec = script("(until [ -e go ]; do :; done; echo late) & echo early");
    spec.cwd = directory.path().to_path_buf();
    let command = launcher().spawn(spec).await.unwrap();
    assert_eq!(command.wait(LONG).await, WaitOutcome::Exited(code(0)));
    assert_eq!(command.take_output().text, "early\n");
    std::fs::write(directory.path().join("go"), "").unwrap();
    let mut late = String::new();
    while late.is_empty() {
        command.changed().await;
        late.push_str(&command.take_output().text);
    }
    assert_eq!(late, "late\n");
    until("the tree ends by itself", || !command.tree_alive()).await;
}

#[tokio::test]
async fn a_killed_supervisor_takes_the_session_along() {
    let mark = mark();
    let command = launcher().spawn(script(&format!("sleep {mark} & sleep {mark}; true"))).await.unwrap();
    until("both run", || marked(&mark).len() == 2).await;
    let (_, supervisor) = state(command.pid()).unwrap();
    kill(supervisor);
    assert_eq!(command.wait(LONG).await, WaitOutcome::Exited(KILLED));
    until("none runs", || marked(&mark).is_empty()).await;
    until("it is known", || !command.tree_alive()).await;
}

#[tokio::test]
async fn the_supervisor_does_not_listen_to_signals_for_the_server() {
    let command =
        launcher().spawn(script("kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; echo on")).await.unwrap();
    assert_eq!(command.wait(LONG).await, WaitOutcome::Exited(code(0)));
    assert_eq!(command.take_output().text, "on\n");
}

#[tokio::test]
async fn waiting_may_be_given_up() {
    let command = launcher().spawn(script("read < <(sleep 1000)")).await.unwrap();
    assert_eq!(command.wait(Duration::ZERO).await, WaitOutcome::StillRunning);
    assert_eq!(command.wait(Duration::from_millis(1)).await, WaitOutcome::StillRunning);
    assert_eq!(command.exit_status(), None);
}

/// SIGKILL for one process.
fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process id is not zero");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it may be killed");
}

/// What leaves a session twice and does not listen to SIGTERM.
fn stubborn(mark: &str) -> String {
    format!("trap '' TERM\n{}", escapees(mark))
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process id is not zero");
    rustix::process::kill_process(pid, signal).expect("it may be signalled");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn either_of_two_supervisors_that_is_killed_takes_everything_along_in_full_access() {
    for is_above in [false, true] {
        let mark = mark();
        let command = launcher().spawn(script(&stubborn(&mark))).await.unwrap();
        until("all run", || marked(&mark).len() == ESCAPEES).await;
        let (_, below) = state(command.pid()).unwrap();
        let (_, above) = state(below).unwrap();
        assert_eq!(state(above).unwrap().1, std::process::id());
        kill(if is_above { above } else { below });
        until("none runs", || marked(&mark).is_empty()).await;
        assert_eq!(command.wait(LONG).await, WaitOutcome::Exited(KILLED));
        until("none is left", || !command.tree_alive()).await;
        for pid in [above, below] {
            until("no supervisor is left", || state(pid).is_none_or(|(state, _)| state == 'Z')).await;
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_supervisor_that_is_stopped_in_full_access_goes_on() {
    let mark = mark();
    let command = launcher().spawn(script(&stubborn(&mark))).await.unwrap();
    until("all run", || marked(&mark).len() == ESCAPEES).await;
    let (_, below) = state(command.pid()).unwrap();
    signal(below, rustix::process::Signal::STOP);
    command.terminate().await;
    assert_eq!(marked(&mark), Vec::<u32>::new());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stopped_supervisor_above_ends_with_its_command() {
    let mark = mark();
    let command = launcher().spawn(script(&escapees(&mark))).await.unwrap();
    until("all run", || marked(&mark).len() == ESCAPEES).await;
    let (_, below) = state(command.pid()).unwrap();
    let (_, above) = state(below).unwrap();
    signal(above, rustix::process::Signal::STOP);
    command.terminate().await;
    assert_eq!(marked(&mark), Vec::<u32>::new());
    until("it ends", || state(above).is_none()).await;
}
