//! Starting many commands costs this process nothing that stays. One test alone, because it counts what the whole
//! process has.

mod support;

use std::future::Future;
use std::task::{Context, Waker};

use support::{code, finish, launcher, script, spec, state, until};

fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc is there").count()
}

fn children() -> Vec<u32> {
    let own = std::process::id();
    support::pids().filter(|pid| state(*pid).is_some_and(|(_, parent)| parent == own)).collect()
}

#[tokio::test]
async fn nothing_stays_of_many_commands() {
    assert_eq!(finish(spec(&["true"])).await.0, code(0));
    until("no child is left", || children().is_empty()).await;
    let before = open_fds();
    for number in 0..200 {
        match number % 5 {
            0 => assert!(launcher().spawn(spec(&["no-such-command-here"])).await.is_err()),
            1 => drop(launcher().spawn(script("sleep 1000 & sleep 1000")).await.unwrap()),
            2 => {
                // Given up before the supervisor has answered.
                let launcher = launcher();
                let mut spawn = Box::pin(launcher.spawn(script("sleep 1000")));
                let mut context = Context::from_waker(Waker::noop());
                assert!(spawn.as_mut().poll(&mut context).is_pending());
            }
            3 => {
                let mut spec = spec(&["true"]);
                spec.tty = true;
                assert_eq!(finish(spec).await.0, code(0));
            }
            _ => assert_eq!(finish(spec(&["true"])).await.0, code(0)),
        }
    }
    until("no child is left, not even a zombie", || children().is_empty()).await;
    until("no descriptor is left", || open_fds() <= before).await;
}
