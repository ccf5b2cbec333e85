//! One home, several processes: what is idle is free for everybody, what is in use is named, and what happened to a rollout
//! behind the back of whoever has its thread in memory is noticed at the next turn.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::support::*;
use crate::turn::TurnHost as _;
use crate::{
    ApprovalPolicy, CoreError, JsonlStore, Op, Thread, ThreadAccess, ThreadId, ThreadManager, ThreadStore, TurnResult,
    TurnStatus,
};

struct House {
    bench: Bench,
    home: tempfile::TempDir,
}

impl House {
    fn new(steps: Vec<Say>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let bench = Bench::with(steps, |config| config.home = Some(home.path().into()));
        Self { bench, home }
    }

    /// A manager as another process has it.
    fn other(&self) -> Arc<ThreadManager> {
        ThreadManager::with_runner(self.bench.manager.config().clone(), Arc::clone(&self.bench.runner) as _)
    }

    fn store(&self) -> JsonlStore {
        JsonlStore::new(self.home.path())
    }

    fn path(&self, id: ThreadId) -> PathBuf {
        self.store().path_of(id).unwrap()
    }

    /// Locks that are there.
    fn locks(&self) -> usize {
        let entries = fs::read_dir(self.home.path().join("run/threads")).unwrap().flatten();
        entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "lock")).count()
    }

    /// A thread with one turn, which is idle.
    async fn idle(&self) -> Watched {
        let mut thread = self.bench.thread(ApprovalPolicy::Never);
        thread.prompt("one");
        assert_eq!(thread.ended().await.status, TurnStatus::Completed);
        thread
    }
}

/// Runs a turn as a caller from outside does; what came of it and of the thread.
async fn turn(
    manager: &Arc<ThreadManager>,
    id: ThreadId,
    text: &str,
    patience: Duration,
) -> Result<(Arc<TurnResult>, Arc<Thread>), CoreError> {
    let (mut thread, pass) = match manager.enter(id) {
        ThreadAccess::Open(thread) => (Watched::new(thread), None),
        ThreadAccess::Queued(ticket) => {
            let (thread, pass) = ticket.open(patience).await;
            (Watched::new(thread?), Some(pass))
        }
    };
    thread.prompt(text);
    drop(pass);
    let result = thread.ended().await;
    Ok((result, thread.thread))
}

fn history(thread: &Thread) -> Vec<String> {
    thread.history().iter().map(|item| short(item)).collect()
}

const AT_ONCE: Duration = Duration::ZERO;

#[tokio::test]
async fn two_processes_take_turns_on_a_thread_and_each_knows_what_the_other_did() {
    let house = House::new(vec![]);
    let id = house.idle().await.thread.id();
    assert_eq!(house.locks(), 0, "an idle thread holds none");
    let (here, there) = (Arc::clone(&house.bench.manager), house.other());
    for (manager, text) in [(&there, "two"), (&here, "three"), (&here, "four"), (&there, "five"), (&here, "six")] {
        let (result, thread) = turn(manager, id, text, AT_ONCE).await.unwrap();
        assert_eq!(result.content, format!("re: {text}"));
        assert!(result.warnings.is_empty(), "{:?}", result.warnings);
        let said = history(&thread);
        let prompts = said.iter().filter_map(|line| line.strip_prefix("User: ")).collect::<Vec<_>>();
        assert_eq!(prompts.last(), Some(&text));
        let all = ["one", "two", "three", "four", "five", "six"];
        assert_eq!(prompts, all[..prompts.len()], "{said:?}");
        let tokens = result.thread_usage.input_tokens;
        assert_eq!(tokens, 10 * prompts.len() as u64, "tokens of both are counted");
        assert_eq!(house.locks(), 0);
    }
    // A query reads what is on disk, also where this process's memory is older.
    let fork = there.fork_for_query(id).unwrap();
    assert!(history(&fork).contains(&"User: six".to_owned()));
}

#[tokio::test]
async fn whoever_wants_a_thread_in_use_is_told_by_whom_and_may_wait() {
    let house = House::new(vec![Say::Text("one"), Say::Hang(vec![])]);
    let thread = house.idle().await;
    let id = thread.thread.id();
    house.bench.model.asked.notified().await;
    thread.thread.used_by(Some("zed\u{1b}[2J"));
    thread.prompt("two");
    house.bench.model.asked.notified().await;
    let there = house.other();
    let error = turn(&there, id, "three", AT_ONCE).await.err().unwrap();
    let CoreError::ThreadBusy { holder: Some(holder), .. } = &error else { panic!("{error}") };
    assert_eq!(holder.pid, std::process::id());
    let told = error.to_string();
    assert!(
        told.contains(&format!("process {}", holder.pid)) && told.contains("zed") && !told.contains('\u{1b}'),
        "{told}"
    );
    assert!(error.hint().unwrap().contains("wait_seconds"));
    // Neither undone nor put aside nor deleted now.
    assert_eq!(house.store().delete(id).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    let aside = JsonlStore::archived(house.home.path());
    assert_eq!(house.store().move_to(id, &aside).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert!(matches!(crate::undo_turn(&house.store(), id, None, false), Err(CoreError::ThreadBusy { .. })));

    // The end of a process waits for nobody.
    let ending = house.other();
    let ThreadAccess::Queued(ticket) = ending.enter(id) else { panic!("it is in use elsewhere") };
    let ended = tokio::spawn(async move { ticket.open(Duration::MAX).await.0.err().unwrap() });
    ending.shutdown(&crate::Interruption::ServerStopped).await;
    assert!(matches!(ended.await.unwrap(), CoreError::ThreadBusy { .. }));

    let waiting = tokio::spawn(async move { turn(&there, id, "three", Duration::MAX).await.unwrap() });
    thread.thread.submit(Op::Interrupt { turn_id: None, why: crate::Interruption::Asked }).unwrap();
    let (result, thread) = waiting.await.unwrap();
    assert_eq!(result.content, "re: three");
    assert_eq!(history(&thread).iter().filter(|line| *line == "<turn_interrupted>").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_live_background_command_keeps_a_thread_in_use_and_is_named() {
    let calls = vec![("exec_command", r#"{"cmd":"later 9","yield_time_ms":250}"#.to_owned())];
    let house = House::new(vec![Say::Calls(calls), Say::Text("left")]);
    let thread = house.idle().await;
    let id = thread.thread.id();
    let there = house.other();
    let error = turn(&there, id, "two", AT_ONCE).await.err().unwrap().to_string();
    assert!(error.contains("background command") && error.contains("later 9"), "{error}");
    // Not with its process, but with the command it is over.
    let session = thread.thread.commands.background(1).unwrap();
    session.command.terminate().await;
    let (result, _) = turn(&there, id, "two", Duration::from_secs(5)).await.unwrap();
    assert_eq!(result.content, "re: two");
}

#[tokio::test]
async fn a_deleted_thread_is_gone_and_one_put_aside_waits_to_be_taken_back() {
    let house = House::new(vec![]);
    let (deleted, aside) = (house.idle().await.thread.id(), house.idle().await.thread.id());
    let (store, archive) = (house.store(), JsonlStore::archived(house.home.path()));
    store.delete(deleted).unwrap();
    store.move_to(aside, &archive).unwrap();
    let manager = &house.bench.manager;
    assert!(matches!(turn(manager, deleted, "two", AT_ONCE).await, Err(CoreError::ThreadNotFound { .. })));
    assert!(!house.path(deleted).exists() && manager.in_memory(deleted).is_none());
    for manager in [manager, &house.other()] {
        let error = turn(manager, aside, "two", AT_ONCE).await.err().unwrap();
        assert!(matches!(error, CoreError::ThreadArchived { .. }), "{error}");
    }
    archive.move_to(aside, &store).unwrap();
    let (result, _) = turn(manager, aside, "two", AT_ONCE).await.unwrap();
    assert_eq!((result.content.as_str(), result.warnings.len()), ("re: two", 0));
}

/// What somebody does to a rollout behind the store's back.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Harm {
    Removed,
    AllRemoved,
    Moved,
    Emptied,
    CutInALine,
    CutBetweenLines,
    FirstLineSpoiled,
}

#[tokio::test]
async fn what_is_done_to_a_rollout_behind_the_server_is_noticed_and_nothing_is_lost() {
    use Harm::*;
    for harm in [Removed, AllRemoved, Moved, Emptied, CutInALine, CutBetweenLines, FirstLineSpoiled] {
        let house = House::new(vec![
            Say::Calls(vec![exec("echo a")]),
            Say::Text("first"),
            Say::Calls(vec![exec("echo b")]),
            Say::Text("second"),
        ]);
        let thread = house.idle().await;
        let id = thread.thread.id();
        let manager = &house.bench.manager;
        turn(manager, id, "two", AT_ONCE).await.unwrap();
        let before = thread.history();
        let path = house.path(id);
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        match harm {
            Removed => fs::remove_file(&path).unwrap(),
            AllRemoved => fs::remove_dir_all(house.home.path().join("sessions")).unwrap(),
            Moved => fs::rename(&path, house.home.path().join("elsewhere")).unwrap(),
            Emptied => fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap(),
            CutInALine => fs::File::options().write(true).open(&path).unwrap().set_len(lines[7] as u64 + 20).unwrap(),
            CutBetweenLines => fs::File::options().write(true).open(&path).unwrap().set_len(lines[9] as u64).unwrap(),
            FirstLineSpoiled => fs::write(&path, text.replacen('{', "[[", 1)).unwrap(),
        }
        let (result, thread) = turn(manager, id, "three", AT_ONCE).await.unwrap();
        assert_eq!(result.content, "re: three", "{harm:?}");
        assert_eq!(result.warnings.len(), 1, "{harm:?}: {:?}", result.warnings);
        assert!(result.warnings[0].contains("again") || result.warnings[0].contains("anew"), "{:?}", result.warnings);
        let now = history(&thread);
        assert_eq!(now[..before.len()], before, "{harm:?}");
        // Another process finds all of it.
        let (last, elsewhere) = turn(&house.other(), id, "four", AT_ONCE).await.unwrap();
        assert_eq!(history(&elsewhere)[..now.len()], now, "{harm:?}");
        assert_eq!(last.thread_usage.input_tokens, result.thread_usage.input_tokens + 10, "{harm:?}");
        assert!(last.warnings.is_empty(), "{harm:?}: {:?}", last.warnings);
    }
}

#[tokio::test]
async fn a_rollout_that_is_gone_is_noticed_also_where_a_command_keeps_it_open() {
    let calls = vec![("exec_command", r#"{"cmd":"sleep","yield_time_ms":250}"#.to_owned())];
    let house = House::new(vec![Say::Calls(calls), Say::Text("left")]);
    let thread = house.idle().await;
    let id = thread.thread.id();
    assert_eq!(house.locks(), 1, "the command keeps it in use");
    let before = thread.history();
    fs::remove_dir_all(house.home.path().join("sessions")).unwrap();
    let (result, _) = turn(&house.bench.manager, id, "two", AT_ONCE).await.unwrap();
    assert!(result.warnings.len() == 1 && result.warnings[0].contains("anew"), "{:?}", result.warnings);
    let lines = house.store().load(id).unwrap();
    let items = lines.iter().filter_map(|line| match &line.item {
        crate::RolloutItem::ResponseItem(item) => Some(short(item)),
        _ => None,
    });
    assert_eq!(items.collect::<Vec<_>>()[..before.len()], before);
}

#[tokio::test]
async fn a_long_thread_that_was_cut_short_is_made_whole_with_all_its_tokens() {
    let house = House::new(vec![]);
    let id = house.idle().await.thread.id();
    let manager = &house.bench.manager;
    let length = fs::metadata(house.path(id)).unwrap().len();
    for number in 2..=24 {
        turn(manager, id, &number.to_string(), AT_ONCE).await.unwrap();
    }
    // Only the first turn is left, which memory has no result of any more.
    fs::File::options().write(true).open(house.path(id)).unwrap().set_len(length).unwrap();
    let (result, thread) = turn(manager, id, "25", AT_ONCE).await.unwrap();
    assert!(result.warnings.len() == 1 && result.thread_usage.input_tokens == 250, "{result:?}");
    let before = history(&thread);
    let (last, elsewhere) = turn(&house.other(), id, "26", AT_ONCE).await.unwrap();
    assert_eq!(history(&elsewhere)[..before.len()], before);
    assert_eq!(last.thread_usage.input_tokens, 260);
    assert!(!history(&elsewhere).contains(&"<turn_interrupted>".to_owned()));
}

#[tokio::test]
async fn a_damaged_line_is_told_and_the_rest_goes_on() {
    let house = House::new(vec![Say::Calls(vec![exec("echo a")]), Say::Text("first")]);
    let id = house.idle().await.thread.id();
    let path = house.path(id);
    let text = fs::read_to_string(&path).unwrap();
    let output = text.lines().find(|line| line.contains("tool_output")).unwrap();
    fs::write(&path, text.replace(output, &output.replace("\"output\":", "\"outpux\":"))).unwrap();
    let mut file = fs::File::options().append(true).open(&path).unwrap();
    writeln!(file, r#"{{"timestamp":"x","type":"made_later","payload":{{"a":1}}}}"#).unwrap();
    writeln!(file, r#"{{"timestamp":"x","type":"event_msg","payload":{{"type":"made_later"}}}}"#).unwrap();
    let (result, thread) = turn(&house.other(), id, "two", AT_ONCE).await.unwrap();
    assert_eq!(result.warnings.len(), 1, "{:?}", result.warnings);
    let at = text.find(output).unwrap();
    assert!(
        result.warnings[0].contains("1 damaged") && result.warnings[0].contains(&format!("byte {at} ")),
        "{result:?}"
    );
    assert!(history(&thread).contains(&"Assistant: first".to_owned()));
    assert_eq!(house.store().read(id).unwrap().damage.len(), 1);
    // Without its first line nobody knows whose it is; the operator can copy the rest.
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen('{', "[", 1)).unwrap();
    let error = turn(&house.other(), id, "three", AT_ONCE).await.err().unwrap();
    assert!(matches!(error, CoreError::ThreadDamaged { .. }) && error.hint().unwrap().contains("fork"), "{error}");
    let fork = crate::fork_rollout(&house.store(), id, None, None).unwrap();
    let (_, thread) = turn(&house.other(), fork, "three", AT_ONCE).await.unwrap();
    assert!(history(&thread).contains(&"Assistant: first".to_owned()));
}

#[tokio::test]
async fn idle_threads_hold_no_descriptors() {
    let house = House::new(vec![]);
    let open = || {
        let links =
            fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        links.filter(|path| path.starts_with(house.home.path())).count()
    };
    let mut threads = Vec::new();
    for _ in 0..50 {
        threads.push(house.idle().await);
    }
    // What makes the last lines durable still has them for a moment.
    while open() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!((house.locks(), threads.len()), (0, 50));
}
