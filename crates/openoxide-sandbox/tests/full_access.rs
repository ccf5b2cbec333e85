//! Commands that nothing confines: they are written down while they live, and none of what they start outlives the end of its
//! supervisors and its server, in whichever way those are killed or stopped.
//!
//! Whether a control group holds them as well depends on where the tests run; each says so in its output.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};

use openoxide_sandbox::{
    Backend, HostPaths, Launcher, ProcessId, RunningCommand, SandboxMode, SandboxPolicy, WorkspaceWrite,
};
use rustix::process::{Pid, Signal, kill_process};
use support::{HELPER, mark, marked, script, state, until};

/// Processes that leave their parent, session, environment and descriptors in every usual way, deaf to SIGTERM; six of
/// them. The last but one is a daemon by the book: forked twice, in a session of its own, without any descriptor.
fn escapees(mark: &str) -> String {
    format!(
        "trap '' TERM\n\
         setsid sleep {mark} & \
         env -i setsid sleep {mark} & \
         (setsid bash -c '(sleep {mark} & env -i sleep {mark} &) ; exit' &) \n\
         (setsid bash -c 'cd /; exec env -i setsid sleep {mark} <&- >&- 2>&-' &) \n\
         sleep {mark}"
    )
}
const ESCAPEES: usize = 6;

/// Says something that is shown of a test that passes, too.
fn say(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{text}");
}

struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        static TOLD: std::sync::Once = std::sync::Once::new();
        let home = Self { directory: tempfile::tempdir().unwrap() };
        TOLD.call_once(|| {
            let told = match home.launcher().groups_commands() {
                Ok(()) => "control groups: delegated here, and in force".to_owned(),
                Err(why) => format!("NOT TESTED HERE: control groups ({why}); supervisors and ledger alone are"),
            };
            say(&told);
        });
        home
    }

    fn launcher(&self) -> Launcher {
        let state = Some(self.directory.path().to_path_buf());
        Launcher::new(HELPER.into(), HostPaths { state, ..HostPaths::default() })
    }

    fn commands(&self) -> PathBuf {
        self.directory.path().join("run/commands")
    }

    fn entries(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.commands()).into_iter().flatten().flatten();
        entries.map(|entry| std::fs::read_to_string(entry.path()).unwrap_or_default()).collect()
    }

    /// A server of another process, whose command runs.
    async fn server(&self, mark: &str) -> std::process::Child {
        #[expect(clippy::disallowed_methods, reason = "the server has to be another process")]
        let mut server = std::process::Command::new(HELPER);
        let server = server.arg("hold").arg(self.directory.path()).arg(escapees(mark)).spawn().unwrap();
        until("all run", || marked(mark).len() == ESCAPEES).await;
        server
    }

    /// A command whose processes all run, and its two supervisors, the one above first.
    async fn command(&self, mark: &str) -> (RunningCommand, [u32; 2]) {
        let command = self.launcher().spawn(script(&escapees(mark))).await.unwrap();
        until("all run", || marked(mark).len() == ESCAPEES).await;
        assert_eq!(command.unlisted(), None);
        let (_, below) = state(command.pid()).unwrap();
        let (_, above) = state(below).unwrap();
        (command, [above, below])
    }

    async fn expect_nothing(&self, mark: &str) {
        until("none runs", || marked(mark).is_empty()).await;
        until("nothing is written down", || self.entries().is_empty()).await;
    }
}

fn send(signal: Signal, pids: &[u32]) {
    for pid in pids {
        let pid = Pid::from_raw(pid.cast_signed()).expect("a process id is not zero");
        kill_process(pid, signal).expect("it may be signalled");
    }
}

/// The groups that entries name.
fn groups(entries: &[String]) -> Vec<PathBuf> {
    entries
        .iter()
        .flat_map(|entry| entry.lines())
        .filter_map(|line| line.strip_prefix("group ").map(Into::into))
        .collect()
}

#[tokio::test]
async fn a_command_is_written_down_with_its_supervisors_for_as_long_as_it_lives() {
    let (home, mark) = (Home::new(), mark());
    let (command, [above, below]) = home.command(&mark).await;
    let expected = [("supervisor", above), ("supervisor", below), ("command", command.pid())];
    until("the supervisors are written down", || home.entries()[0].matches("\nsupervisor ").count() == 2).await;
    let entries = home.entries();
    let [entry] = entries.as_slice() else { panic!("{entries:?}") };
    for (what, pid) in expected {
        let start = ProcessId::of(pid).unwrap().to_string();
        let start = start.rsplit(' ').next().unwrap();
        assert!(entry.contains(&format!("{what} {pid} {start}\n")), "{entry}");
    }
    assert!(entry.contains(&format!("server {}\n", ProcessId::own().unwrap())), "{entry}");
    let groups = groups(&entries);
    assert_eq!(groups.len(), usize::from(home.launcher().groups_commands().is_ok()), "{entry}");
    for group in &groups {
        let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap();
        for pid in marked(&mark) {
            assert!(members.lines().any(|line| line == pid.to_string()), "{pid} in {members}");
        }
    }
    command.terminate().await;
    assert_eq!((marked(&mark), home.entries()), (vec![], vec![]));
    assert!(groups.iter().all(|group| !group.exists()));
}

#[tokio::test]
async fn what_is_written_down_is_there_before_the_program_runs() {
    let home = Home::new();
    let read = format!("cat {}/*", home.commands().display());
    let command = home.launcher().spawn(script(&read)).await.unwrap();
    command.wait(support::LONG).await;
    let text = command.take_output().text;
    assert!(text.contains(&format!("command {} ", command.pid())), "{text}");
    until("nothing is written down", || home.entries().is_empty()).await;
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_not_written_down() {
    let home = Home::new();
    let error = home.launcher().spawn(support::spec(&["/no/such/program"])).await.unwrap_err();
    assert!(error.to_string().contains("/no/such/program"), "{error}");
    until("nothing is written down", || home.entries().is_empty()).await;
}

#[tokio::test]
async fn where_nothing_can_be_written_down_the_command_runs_and_that_is_told() {
    let home = Home::new();
    std::fs::write(home.directory.path().join("run"), "no directory").unwrap();
    let command = home.launcher().spawn(script("echo on")).await.unwrap();
    assert!(command.unlisted().is_some());
    command.wait(support::LONG).await;
    assert_eq!(command.take_output().text, "on\n");
}

#[tokio::test]
async fn both_supervisors_killed_at_once_take_everything_along() {
    let (home, mark) = (Home::new(), mark());
    let (command, supervisors) = home.command(&mark).await;
    send(Signal::STOP, &supervisors);
    send(Signal::KILL, &supervisors);
    home.expect_nothing(&mark).await;
    until("it is known", || !command.tree_alive()).await;
}

#[tokio::test]
async fn either_supervisor_killed_while_the_other_is_stopped_takes_everything_along() {
    for is_above in [false, true] {
        let (home, mark) = (Home::new(), mark());
        let (command, [above, below]) = home.command(&mark).await;
        let (killed, stopped) = if is_above { (above, below) } else { (below, above) };
        send(Signal::STOP, &[stopped]);
        send(Signal::KILL, &[killed]);
        command.terminate().await;
        home.expect_nothing(&mark).await;
        until("it is known", || !command.tree_alive()).await;
    }
}

#[tokio::test]
async fn supervisors_that_are_stopped_end_a_command_that_is_cancelled() {
    let (home, mark) = (Home::new(), mark());
    let (command, supervisors) = home.command(&mark).await;
    send(Signal::STOP, &supervisors);
    command.terminate().await;
    assert_eq!(marked(&mark), Vec::<u32>::new());
    home.expect_nothing(&mark).await;
    assert!(!command.tree_alive());
}

#[tokio::test]
async fn supervisors_that_are_stopped_end_a_command_that_is_dropped() {
    let (home, mark) = (Home::new(), mark());
    let (command, supervisors) = home.command(&mark).await;
    send(Signal::STOP, &supervisors);
    drop(command);
    home.expect_nothing(&mark).await;
}

#[tokio::test]
async fn supervisors_that_are_stopped_again_and_again_are_no_way_out() {
    let (home, mark) = (Home::new(), mark());
    let stops = format!(
        "trap '' TERM\nabove=$(cut -d' ' -f4 /proc/$PPID/stat)\n\
         (trap '' TERM; while kill -STOP $PPID $above 2>/dev/null; do :; done; sleep {mark}) &\n\
         setsid sleep {mark}"
    )
    .replace("$PPID", "${PPID}");
    let command = home.launcher().spawn(script(&stops)).await.unwrap();
    until("it runs", || !marked(&mark).is_empty()).await;
    command.terminate().await;
    home.expect_nothing(&mark).await;
}

#[tokio::test]
async fn the_next_start_ends_what_was_left_when_all_were_killed_at_once() {
    let (home, mark) = (Home::new(), mark());
    let mut server = home.server(&mark).await;
    until("the supervisors are written down", || home.entries()[0].matches("\nsupervisor ").count() == 2).await;
    let entries = home.entries();
    let supervisors: Vec<u32> = entries
        .iter()
        .flat_map(|entry| entry.lines())
        .filter_map(|line| line.strip_prefix("supervisor ")?.split(' ').next()?.parse().ok())
        .collect();
    assert_eq!(supervisors.len(), 2, "{entries:?}");
    // None of them may see the death of another one.
    send(Signal::STOP, &supervisors);
    server.kill().unwrap();
    server.wait().unwrap();
    send(Signal::KILL, &supervisors);
    // The command's own process dies with the supervisor below, and the rest goes on.
    until("the command has ended", || marked(&mark).len() == ESCAPEES - 1).await;
    let leftovers = home.launcher().end_leftovers();
    assert_eq!(marked(&mark), Vec::<u32>::new());
    assert_eq!((leftovers.commands, leftovers.stuck), (1, vec![]));
    assert!(home.entries().is_empty() && groups(&entries).iter().all(|group| !group.exists()));
    assert_eq!(home.launcher().end_leftovers(), openoxide_sandbox::Leftovers::default());
}

#[tokio::test]
async fn another_start_leaves_the_commands_of_a_living_server_alone() {
    let (home, mark) = (Home::new(), mark());
    let mut server = home.server(&mark).await;
    assert_eq!(home.launcher().end_leftovers(), openoxide_sandbox::Leftovers::default());
    // A process that is starting a program shows no environment for a moment.
    until("all of the command is there", || marked(&mark).len() == ESCAPEES).await;
    assert_eq!(home.entries().len(), 1);
    server.kill().unwrap();
    server.wait().unwrap();
    home.expect_nothing(&mark).await;
}

/// A process of nobody's command.
fn bystander() -> std::process::Child {
    #[expect(clippy::disallowed_methods, reason = "it has to be no command of this crate")]
    let mut command = std::process::Command::new("sleep");
    command.arg("1000").spawn().unwrap()
}

/// Writes an entry as if a server that is gone had done so.
fn pretend(commands: &Path, server: &str, pid: u32, start: &str) {
    std::fs::create_dir_all(commands).unwrap();
    let text = format!("server {server}\nsupervisor {pid} {start}\ncommand {pid} {start}\n");
    std::fs::write(commands.join("4000000000000001"), text).unwrap();
}

#[test]
fn a_process_is_ended_only_where_boot_id_and_start_are_the_ones_written_down() {
    let home = Home::new();
    let mut bystander = bystander();
    let pid = bystander.id();
    let words: Vec<String> = ProcessId::of(pid).unwrap().to_string().split(' ').map(str::to_owned).collect();
    let [boot, namespace, _, start] = words.as_slice() else { panic!("{words:?}") };
    let gone = format!("{boot} {namespace} {pid} 1");
    let later = (start.parse::<u64>().unwrap() + 1).to_string();
    for (server, start, is_over) in [
        (gone.clone(), later.as_str(), true),
        (format!("another-boot {namespace} {pid} 1"), start, true),
        // It cannot be told from here whether that server lives.
        (format!("{boot} pid:[1] {pid} 1"), start, false),
        // Written by half.
        (format!("{boot} {namespace}"), start, false),
    ] {
        pretend(&home.commands(), &server, pid, start);
        let leftovers = home.launcher().end_leftovers();
        assert_eq!((leftovers.processes, leftovers.stuck), (0, vec![]), "{server} {start}");
        assert_eq!(bystander.try_wait().unwrap(), None, "{server} {start}");
        assert_eq!(home.entries().is_empty(), is_over, "{server} {start}");
    }
    // All three agree.
    pretend(&home.commands(), &gone, pid, start);
    assert_eq!(home.launcher().end_leftovers().processes, 1);
    assert!(!bystander.wait().unwrap().success());
}

#[test]
fn no_entry_makes_a_start_end_itself_or_a_group_that_is_no_commands() {
    let home = Home::new();
    let own = ProcessId::own().unwrap().to_string();
    let words: Vec<&str> = own.split(' ').collect();
    let [boot, namespace, pid, start] = words.as_slice() else { panic!("{own}") };
    pretend(&home.commands(), &format!("{boot} {namespace} {pid} 1"), pid.parse().unwrap(), start);
    let path = home.commands().join("4000000000000001");
    let group = home.directory.path().join("group");
    std::fs::create_dir(&group).unwrap();
    std::fs::write(group.join("cgroup.kill"), "").unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}group {}\n", group.display())).unwrap();
    assert_eq!(home.launcher().end_leftovers().processes, 0);
    assert_eq!(std::fs::read_to_string(group.join("cgroup.kill")).unwrap(), "");
}

#[tokio::test]
async fn what_landlock_alone_confines_is_written_down_as_well() {
    let (home, mark) = (Home::new(), mark());
    let workspace = tempfile::tempdir_in("/var/tmp").unwrap();
    let policy = SandboxPolicy::new(SandboxMode::ReadOnly, workspace.path().into(), WorkspaceWrite::default());
    let launcher = home.launcher().only(Backend::Landlock);
    if let Err(error) = launcher.probe(&policy) {
        say(&format!("NOT TESTED HERE: Landlock alone: {error}"));
        return;
    }
    let mut spec = script(&format!("trap '' TERM; setsid sleep {mark} & env -i setsid sleep {mark} & sleep {mark}"));
    (spec.cwd, spec.policy) = (workspace.path().into(), policy);
    let command = launcher.spawn(spec).await.unwrap();
    until("all run", || marked(&mark).len() == 3).await;
    let (_, supervisor) = state(command.pid()).unwrap();
    send(Signal::KILL, &[supervisor]);
    home.expect_nothing(&mark).await;
}
