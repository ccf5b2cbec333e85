//! Commands under a real supervisor: what they are given, what comes back, and what is kept from them.

mod support;

use std::os::fd::AsRawFd;
use std::time::Duration;

use openoxide_sandbox::{EnvPolicy, ErrorKind, ExitStatus, SandboxError, WaitOutcome};
use support::{LONG, code, finish, launcher, scope, script, spec};

#[tokio::test]
async fn output_and_exit_code_come_back() {
    let command = launcher().spawn(script("echo one; echo two >&2; echo three; exit 7")).await.unwrap();
    assert_eq!(command.wait(LONG).await, WaitOutcome::Exited(code(7)));
    let output = command.take_output();
    assert_eq!(output.text, "one\ntwo\nthree\n");
    assert_eq!((output.omitted_bytes, output.total_bytes), (0, 14));
    assert_eq!(command.exit_status(), Some(code(7)));
}

#[tokio::test]
async fn a_signal_is_told_as_such() {
    let (exit, _) = finish(script("kill -SEGV $$")).await;
    assert_eq!(exit, ExitStatus { code: None, signal: Some(11) });
}

#[tokio::test]
async fn a_missing_command_is_named() {
    let error = launcher().spawn(spec(&["no-such-command-here"])).await.unwrap_err();
    assert!(
        matches!(&error, SandboxError::CommandNotFound { program } if program == "no-such-command-here"),
        "{error}"
    );
    assert_eq!(error.kind(), ErrorKind::Input);
    let error = launcher().spawn(spec(&["/etc"])).await.unwrap_err();
    assert!(matches!(error, SandboxError::Exec { .. }), "{error}");
}

#[tokio::test]
async fn in_full_access_no_link_leads_to_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().canonicalize().unwrap();
    std::fs::create_dir_all(base.join("real/inner")).unwrap();
    std::os::unix::fs::symlink("real", base.join("link")).unwrap();
    for through in ["link", "link/inner"] {
        let mut spec = script("touch entered");
        spec.cwd = base.join(through);
        let error = launcher().spawn(spec).await.unwrap_err();
        assert!(matches!(&error, SandboxError::Cwd { path, .. } if *path == base.join(through)), "{error}");
    }
    assert!(!base.join("real/entered").exists() && !base.join("real/inner/entered").exists());
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let mut spec = spec(&["true"]);
    spec.cwd = "/no/such/directory".into();
    let error = launcher().spawn(spec).await.unwrap_err();
    assert!(error.to_string().starts_with("working directory /no/such/directory cannot be entered"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Input);
}

#[tokio::test]
async fn the_directory_is_entered() {
    let directory = tempfile::tempdir().unwrap();
    let mut spec = spec(&["pwd"]);
    spec.cwd = directory.path().canonicalize().unwrap();
    let expected = format!("{}\n", spec.cwd.display());
    assert_eq!(finish(spec).await, (code(0), expected));
}

#[tokio::test]
async fn the_environment_is_the_one_given() {
    let parent = [("PATH", "/usr/bin:/bin"), ("API_KEY", "k"), ("KEPT", "yes")];
    let mut spec = spec(&["env"]);
    spec.env = EnvPolicy::default().apply(parent.into_iter().map(|(name, value)| (name.into(), value.into())));
    spec.thread_marker = Some("t-1".to_owned());
    let (_, text) = finish(spec).await;
    assert!(text.contains("KEPT=yes\n") && text.contains("OPENOXIDE_THREAD_ID=t-1\n"), "{text}");
    assert!(!text.contains("API_KEY") && !text.contains("CARGO"), "{text}");
}

#[tokio::test]
async fn the_supervisor_shows_no_environment() {
    let (exit, text) = finish(script("tr '\\0' '\\n' < /proc/$PPID/environ | wc -c")).await;
    assert_eq!((exit, text.trim()), (code(0), "0"));
}

#[tokio::test]
async fn no_descriptor_is_inherited() {
    let file = std::fs::File::open("/dev/null").unwrap();
    // Low and high, without the mark that closes them at exec.
    for fd in [file.as_raw_fd(), 200] {
        scope::inheritable(file.as_raw_fd(), fd);
    }
    // One program without a shell, which has descriptors of its own; the fourth is the listing itself.
    let (_, text) = finish(spec(&["ls", "-l", "/proc/self/fd"])).await;
    let mut targets: Vec<&str> = text.lines().filter_map(|line| line.split_once(" -> ")).map(|(_, to)| to).collect();
    assert!(targets.pop().is_some_and(|listing| listing.ends_with("/fd")), "{text}");
    assert_eq!(targets.len(), 3, "{text}");
    assert_eq!(targets[0], "/dev/null");
    assert!(targets[1].starts_with("pipe:") && targets[1] == targets[2], "{text}");
    assert_eq!(finish(script("test ! -e /proc/$PPID/fd/200")).await.0, code(0));
}

#[tokio::test]
async fn stdin_is_empty_and_cannot_be_typed_into() {
    let command = launcher().spawn(script("cat; echo end")).await.unwrap();
    assert!(matches!(command.write_stdin(b"x").await, Err(SandboxError::StdinClosed)));
    assert_eq!(command.wait(LONG).await, WaitOutcome::Exited(code(0)));
    assert_eq!(command.take_output().text, "end\n");
}

#[tokio::test]
async fn signals_are_in_their_default_state() {
    let (_, text) = finish(spec(&["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"])).await;
    let masks: Vec<u64> =
        text.lines().map(|line| u64::from_str_radix(line.split('\t').nth(1).unwrap(), 16).unwrap()).collect();
    // Two signals belong to the C library, which lets nobody set them.
    let of_the_library = 0b11 << 31;
    assert_eq!(masks.iter().map(|mask| mask & !of_the_library).collect::<Vec<_>>(), [0, 0], "{text}");
}

#[tokio::test]
async fn a_command_has_its_own_session_and_dumps_no_core() {
    let command = launcher().spawn(script("cut -d' ' -f5,6 /proc/$$/stat; ulimit -c")).await.unwrap();
    assert!(matches!(command.wait(LONG).await, WaitOutcome::Exited(_)));
    let pid = command.pid();
    assert_eq!(command.take_output().text, format!("{pid} {pid}\n0\n"));
}

#[tokio::test]
async fn much_output_is_bounded() {
    let mut spec = script("head -c 104857600 /dev/zero | tr '\\0' x; echo; echo the end");
    spec.output_limit = 4096;
    let command = launcher().spawn(spec).await.unwrap();
    assert_eq!(command.wait(LONG).await, WaitOutcome::Exited(code(0)));
    let output = command.take_output();
    assert_eq!(output.total_bytes, (100 << 20) + 9);
    assert_eq!(output.omitted_bytes, output.total_bytes - 4096);
    assert!(output.text.starts_with("xxxx") && output.text.ends_with("x\nthe end\n"));
    assert!(output.text.len() < 5000);
}

#[tokio::test]
async fn large_words_and_environments_pass() {
    let mut spec = spec(&["bash", "-c", "echo ${#0} ${#BIG}"]);
    spec.argv.push("a".repeat(120_000));
    for number in 0..5 {
        spec.env.insert(format!("BIG{number}").into(), "b".repeat(120_000).into());
    }
    spec.env.insert("BIG".into(), "b".repeat(120_000).into());
    assert_eq!(finish(spec).await, (code(0), "120000 120000\n".to_owned()));
}

#[tokio::test]
async fn more_than_the_system_takes_is_an_error() {
    let mut spec = spec(&["true"]);
    spec.argv.push("a".repeat(1 << 20));
    let error = launcher().spawn(spec).await.unwrap_err();
    assert!(matches!(error, SandboxError::Exec { .. }), "{error}");
}

#[tokio::test]
async fn output_streams_while_the_command_runs() {
    let directory = tempfile::tempdir().unwrap();
    let mut spec = script("echo first; while [ ! -e go ]; do :; done; echo second");
    spec.cwd = directory.path().to_path_buf();
    let command = launcher().spawn(spec).await.unwrap();
    let mut text = String::new();
    while text != "first\n" {
        command.changed().await;
        text.push_str(&command.take_output().text);
    }
    assert_eq!(command.exit_status(), None);
    assert_eq!(command.wait(Duration::ZERO).await, WaitOutcome::StillRunning);
    std::fs::write(directory.path().join("go"), "").unwrap();
    while command.exit_status().is_none() {
        command.changed().await;
        text.push_str(&command.take_output().text);
    }
    text.push_str(&command.take_output().text);
    assert_eq!(text, "first\nsecond\n");
}

#[tokio::test]
async fn a_helper_that_is_none_is_an_error() {
    let missing = openoxide_sandbox::Launcher::new("/no/such/helper".into(), Default::default());
    assert!(matches!(missing.spawn(spec(&["true"])).await, Err(SandboxError::HelperStart { .. })));
    let other = openoxide_sandbox::Launcher::new("/bin/true".into(), Default::default());
    assert!(matches!(other.spawn(spec(&["true"])).await, Err(SandboxError::HelperLost { .. })));
}

#[test]
fn the_hidden_name_does_nothing_by_hand() {
    #[expect(clippy::disallowed_methods, reason = "the program itself is under test")]
    let mut helper = std::process::Command::new(support::HELPER);
    let output = helper.arg(openoxide_sandbox::HELPER_ARG).stdin(std::process::Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8(output.stderr).unwrap().contains("not by hand"));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_commands_at_once() {
    let commands: Vec<_> = (0..64)
        .map(|number| tokio::spawn(async move { finish(script(&format!("echo {number}; exit {number}"))).await }))
        .collect();
    for (number, command) in commands.into_iter().enumerate() {
        let expected = (code(i32::try_from(number).unwrap()), format!("{number}\n"));
        assert_eq!(command.await.unwrap(), expected);
    }
}
