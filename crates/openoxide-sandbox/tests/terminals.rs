//! Commands with a terminal: it is theirs, it can be typed into, and it ends with them.

mod support;

use openoxide_sandbox::{ExitStatus, RunningCommand, SandboxError, WaitOutcome};
use support::{LONG, code, finish, launcher, mark, marked, script, spec, until};

fn on_terminal(text: &str) -> openoxide_sandbox::CommandSpec {
    let mut spec = script(text);
    spec.tty = true;
    spec
}

/// Reads until the text has come.
async fn expect(command: &RunningCommand, text: &str) -> String {
    let mut all = String::new();
    while !all.contains(text) {
        command.changed().await;
        all.push_str(&command.take_output().text);
        assert!(command.tree_alive() || all.contains(text), "ended after: {all}");
    }
    all
}

#[tokio::test]
async fn the_terminal_is_its_own() {
    let (exit, text) =
        finish(on_terminal("test -t 0 && test -t 1 && test -t 2 && stty size && : > /dev/tty && echo yes")).await;
    assert_eq!((exit, text.as_str()), (code(0), "24 80\r\nyes\r\n"));
}

#[tokio::test]
async fn a_line_can_be_typed() {
    let command = launcher().spawn(on_terminal("stty -echo; echo ready; read line; echo got $line")).await.unwrap();
    expect(&command, "ready").await;
    command.write_stdin("grüße\n".as_bytes()).await.unwrap();
    assert_eq!(command.wait(LONG).await, WaitOutcome::Exited(code(0)));
    assert_eq!(command.take_output().text.trim(), "got grüße");
    assert!(matches!(command.write_stdin(b"more\n").await, Err(SandboxError::Exited)));
}

#[tokio::test]
async fn the_interrupt_key_interrupts() {
    let mut sleep = spec(&["sleep", "1000"]);
    sleep.tty = true;
    let command = launcher().spawn(sleep).await.unwrap();
    command.write_stdin(b"\x03").await.unwrap();
    assert_eq!(command.wait(LONG).await, WaitOutcome::Exited(ExitStatus { code: None, signal: Some(2) }));
}

#[tokio::test]
async fn an_interactive_shell_ends() {
    let mark = mark();
    let mut shell = spec(&["bash", "--norc", "-i"]);
    shell.tty = true;
    let command = launcher().spawn(shell).await.unwrap();
    command.write_stdin(format!("sleep {mark} &\n").as_bytes()).await.unwrap();
    until("it runs", || marked(&mark).len() == 1).await;
    command.terminate().await;
    assert!(!command.tree_alive());
    assert_eq!(marked(&mark), Vec::<u32>::new());
    // The hang-up ends it; the shell itself does not listen to SIGTERM.
    assert_ne!(command.exit_status().and_then(|exit| exit.signal), Some(9));
}

#[tokio::test]
async fn typing_more_than_the_terminal_takes_does_not_hang() {
    let mut deaf = spec(&["sleep", "1000"]);
    deaf.tty = true;
    let command = launcher().spawn(deaf).await.unwrap();
    // Either the terminal takes it and drops what has no room, or it says that nobody reads.
    let typed = command.write_stdin(&[b'x'; 1 << 20]).await;
    assert!(matches!(typed, Ok(()) | Err(SandboxError::StdinStalled { .. })), "{typed:?}");
}

#[tokio::test]
async fn all_output_is_there_at_the_exit() {
    let (exit, text) = finish(on_terminal("seq 1 20000")).await;
    assert_eq!(exit, code(0));
    assert_eq!(text.lines().count(), 20000);
    assert!(text.ends_with("\r\n20000\r\n"));
}
