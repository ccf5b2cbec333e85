//! A scripted model, commands that only pretend, and a thread to drive them with.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use openoxide_llm::{
    HistoryItem, ModelError, ModelEvent, ModelFacts, ModelRequest, ModelStream, Provider, Role, Usage,
};
use openoxide_sandbox::{
    CommandSpec, ExitStatus, HostPaths, Launcher, Output, SandboxMode, SandboxPolicy, WaitOutcome,
};
use tokio::sync::Notify;

use crate::tools::reads::{Helpers, ReadHelper};
use crate::tools::runner::{CommandRunner, Running};
use crate::turn::TurnHost as _;
use crate::{
    ApprovalPolicy, ApprovalRequest, Attachment, Config, Event, EventReceiver, Op, Submitted, Thread, ThreadConfig,
    ThreadId, ThreadManager, TurnId, TurnResult,
};

/// One response of the scripted model.
pub(super) enum Say {
    Text(&'static str),
    /// Calls of tools, each with its arguments; `apply_patch` is called as a freeform tool.
    Calls(Vec<(&'static str, String)>),
    /// These deltas, then nothing more.
    Hang(Vec<&'static str>),
    Fail(&'static str),
    Panic,
    Events(Vec<ModelEvent>),
}

/// Answers by its script; without one, with the last thing it was told.
#[derive(Default)]
pub(super) struct Script {
    steps: Mutex<VecDeque<Say>>,
    pub(super) requests: Mutex<Vec<Vec<Arc<HistoryItem>>>>,
    pub(super) tools: Mutex<Vec<String>>,
    pub(super) asked: Notify,
    pub(super) dropped: Arc<AtomicUsize>,
    calls: AtomicUsize,
}

struct CountsDrop(Arc<AtomicUsize>);

impl Drop for CountsDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Script {
    /// Answers with these as well, after those it has.
    pub(super) fn say(&self, steps: Vec<Say>) {
        self.steps.lock().unwrap().extend(steps);
    }
}

impl Provider for Script {
    fn id(&self) -> &str {
        "script"
    }

    /// A model of this name is one that sees and reads a lot; of any other nothing is known.
    fn facts(&self, model: &str) -> ModelFacts {
        if model.starts_with("gpt-") {
            ModelFacts { context_window: 272_000, images: true, is_known: true, ..ModelFacts::UNKNOWN }
        } else {
            ModelFacts::UNKNOWN
        }
    }

    fn stream(&self, request: ModelRequest<'_>) -> ModelStream {
        self.requests.lock().unwrap().push(request.input.to_vec());
        *self.tools.lock().unwrap() = request.tools.iter().map(|tool| tool.name().to_owned()).collect();
        self.asked.notify_one();
        let step = self.steps.lock().unwrap().pop_front();
        let guard = CountsDrop(Arc::clone(&self.dropped));
        let (events, hangs): (Vec<Result<ModelEvent, ModelError>>, bool) = match step {
            None => {
                let last = request.input.iter().rev().find_map(|item| match &**item {
                    HistoryItem::Message { role: Role::User, text, .. } => Some(text.clone()),
                    _ => None,
                });
                (message(&format!("re: {}", last.unwrap())), false)
            }
            Some(Say::Text(text)) => (message(text), false),
            Some(Say::Events(events)) => (events.into_iter().map(Ok).collect(), false),
            Some(Say::Hang(deltas)) => {
                (deltas.into_iter().map(|delta| Ok(ModelEvent::TextDelta(delta.into()))).collect(), true)
            }
            Some(Say::Fail(reason)) => (vec![Err(ModelError::Config { reason: reason.into() })], false),
            Some(Say::Panic) => panic!("scripted panic"),
            Some(Say::Calls(calls)) => {
                let mut events: Vec<_> = calls
                    .into_iter()
                    .map(|(name, input)| {
                        let call_id = format!("call-{}", self.calls.fetch_add(1, Ordering::SeqCst));
                        Ok(ModelEvent::ItemDone(match name {
                            "apply_patch" => {
                                HistoryItem::CustomToolCall { call_id, name: name.into(), input, carried: None }
                            }
                            _ => HistoryItem::FunctionCall {
                                call_id,
                                name: name.into(),
                                arguments: input,
                                carried: None,
                            },
                        }))
                    })
                    .collect();
                events.push(Ok(completed()));
                (events, false)
            }
        };
        let rest = if hangs { stream::pending().left_stream() } else { stream::empty().right_stream() };
        stream::iter(events)
            .chain(rest)
            .map(move |event| {
                let _held = &guard;
                event
            })
            .boxed()
    }
}

pub(super) fn completed() -> ModelEvent {
    ModelEvent::Completed { usage: Usage { input_tokens: 10, output_tokens: 2, ..Usage::default() } }
}

fn message(text: &str) -> Vec<Result<ModelEvent, ModelError>> {
    vec![
        Ok(ModelEvent::TextDelta(text.into())),
        Ok(ModelEvent::ItemDone(HistoryItem::Message { role: Role::Assistant, text: text.into(), carried: None })),
        Ok(completed()),
    ]
}

/// Starts commands that only pretend: `echo X` prints X and exits, `fail` exits with 3, `sleep` runs until it is
/// ended, `stubborn` takes two seconds to end, `daemon` exits and leaves something behind, `later N` exits after N
/// seconds.
#[derive(Default)]
pub(super) struct Pretend {
    pub(super) log: Arc<Mutex<Vec<String>>>,
    pub(super) spawned: Arc<Notify>,
    /// No mode can be enforced.
    pub(super) refuses: AtomicBool,
    /// Reads are done by these.
    pub(super) helpers: Mutex<Option<Arc<dyn Helpers>>>,
}

impl CommandRunner for Pretend {
    fn start_reader(&self, _: ThreadId, _: SandboxPolicy) -> BoxFuture<'static, Result<Option<ReadHelper>, String>> {
        match &*self.helpers.lock().unwrap() {
            Some(helpers) => helpers.start(),
            None => futures_util::future::ready(Ok(None)).boxed(),
        }
    }

    fn probe(&self, _: &SandboxPolicy) -> Result<(), String> {
        match self.refuses.load(Ordering::SeqCst) {
            true => Err("nothing here can hold it".to_owned()),
            false => Ok(()),
        }
    }

    fn spawn(&self, spec: CommandSpec) -> BoxFuture<'static, Result<Arc<dyn Running>, String>> {
        let text = spec.argv.last().cloned().unwrap_or_default();
        let place = match &spec.policy {
            policy if policy.mode == SandboxMode::DangerFullAccess => " outside".to_owned(),
            policy if policy.widening.network => " with network".to_owned(),
            _ if !spec.git_from.is_empty() => " committing".to_owned(),
            policy if policy.widening.writable_roots.is_empty() => String::new(),
            policy => format!(" writing {:?}", policy.widening.writable_roots),
        };
        self.log.lock().unwrap().push(format!("spawn {text}{place}"));
        self.spawned.notify_one();
        if text == "unstartable" {
            return futures_util::future::ready(Err("no such thing".to_owned())).boxed();
        }
        let command = PretendCommand {
            log: Arc::clone(&self.log),
            state: Mutex::new(PretendState::default()),
            changed: Notify::new(),
            tty: spec.tty,
            text,
        };
        if let Some(said) = command.text.strip_prefix("echo ") {
            command.set(&format!("{said}\n"), Some(0));
        } else if command.text == "fail" {
            command.set("", Some(3));
        } else if command.text == "daemon"
            || ["true", "npm", "git", "./run.sh"].iter().any(|name| command.text.starts_with(name))
        {
            command.set("", Some(0));
        }
        futures_util::future::ready(Ok(Arc::new(command) as Arc<dyn Running>)).boxed()
    }
}

#[derive(Default)]
struct PretendState {
    output: String,
    exit: Option<i32>,
    ended: bool,
}

struct PretendCommand {
    log: Arc<Mutex<Vec<String>>>,
    state: Mutex<PretendState>,
    changed: Notify,
    tty: bool,
    text: String,
}

impl PretendCommand {
    fn set(&self, output: &str, exit: Option<i32>) {
        let mut state = self.state.lock().unwrap();
        state.output.push_str(output);
        state.exit = exit;
        drop(state);
        self.changed.notify_waiters();
    }
}

impl Running for PretendCommand {
    fn wait(&self, timeout: Duration) -> BoxFuture<'_, WaitOutcome> {
        async move {
            if let Some(seconds) = self.text.strip_prefix("later ") {
                let own = Duration::from_secs(seconds.parse().unwrap());
                tokio::time::sleep(own.min(timeout)).await;
                if own <= timeout {
                    self.set("came\n", Some(0));
                }
            }
            match self.exit_status() {
                Some(status) => WaitOutcome::Exited(status),
                None => {
                    tokio::time::sleep(timeout).await;
                    WaitOutcome::StillRunning
                }
            }
        }
        .boxed()
    }

    fn take_output(&self) -> Output {
        let text = std::mem::take(&mut self.state.lock().unwrap().output);
        Output { total_bytes: text.len() as u64, text, omitted_bytes: 0 }
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        self.changed.notified().boxed()
    }

    fn exit_status(&self) -> Option<ExitStatus> {
        self.state.lock().unwrap().exit.map(|code| ExitStatus { code: Some(code), signal: None })
    }

    fn write_stdin<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), String>> {
        let typed = String::from_utf8_lossy(bytes).into_owned();
        let result = if self.tty { Ok(()) } else { Err("stdin is closed".to_owned()) };
        if self.tty {
            self.set(&format!("typed {typed}"), None);
        }
        futures_util::future::ready(result).boxed()
    }

    fn tree_alive(&self) -> bool {
        let state = self.state.lock().unwrap();
        !state.ended && (state.exit.is_none() || self.text == "daemon")
    }

    fn terminate(&self) -> BoxFuture<'_, ()> {
        async move {
            self.log.lock().unwrap().push(format!("term {}", self.text));
            if self.text == "stubborn" {
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            self.state.lock().unwrap().ended = true;
            self.log.lock().unwrap().push(format!("gone {}", self.text));
        }
        .boxed()
    }
}

/// A manager with a scripted model, in a directory of its own.
pub(super) struct Bench {
    pub(super) model: Arc<Script>,
    pub(super) runner: Arc<Pretend>,
    pub(super) manager: Arc<ThreadManager>,
    pub(super) directory: tempfile::TempDir,
}

impl Bench {
    pub(super) fn new(steps: Vec<Say>) -> Self {
        Self::with(steps, |_| {})
    }

    pub(super) fn with(steps: Vec<Say>, change: impl FnOnce(&mut Config)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let cwd = directory.path().join("work");
        std::fs::create_dir_all(cwd.join(".git")).unwrap();
        let model = Arc::new(Script { steps: Mutex::new(steps.into()), ..Script::default() });
        // What threads put there goes with the bench.
        let host_paths = HostPaths { tmpdir: Some(directory.path().into()), ..HostPaths::default() };
        let launcher = Launcher::new("/nowhere".into(), host_paths);
        let mut config = Config::new(cwd, "m".into(), Arc::clone(&model) as Arc<dyn Provider>, launcher);
        change(&mut config);
        let runner = Arc::new(Pretend::default());
        let manager = ThreadManager::with_runner(config, Arc::clone(&runner) as Arc<dyn CommandRunner>);
        Self { model, runner, manager, directory }
    }

    pub(super) fn cwd(&self) -> &Path {
        &self.manager.config().cwd
    }

    pub(super) fn thread(&self, policy: ApprovalPolicy) -> Watched {
        let config = ThreadConfig { approval_policy: policy, ..self.manager.config().thread_defaults() };
        Watched::new(self.manager.start_thread(config).unwrap())
    }

    pub(super) fn commands(&self) -> Vec<String> {
        self.runner.log.lock().unwrap().clone()
    }

    /// The outputs of tools that the model was given with its last request.
    pub(super) fn outputs(&self) -> Vec<String> {
        let requests = self.model.requests.lock().unwrap();
        let items = requests.last().unwrap().iter();
        items
            .filter_map(|item| match &**item {
                HistoryItem::ToolOutput { output, .. } => Some(output.clone()),
                _ => None,
            })
            .collect()
    }
}

/// A thread with a reader of its events.
pub(super) struct Watched {
    pub(super) thread: Arc<Thread>,
    pub(super) events: EventReceiver,
}

impl Watched {
    pub(super) fn new(thread: Arc<Thread>) -> Self {
        let Attachment { events, .. } = thread.attach();
        Self { thread, events }
    }

    pub(super) fn prompt(&self, text: &str) -> TurnId {
        match self.thread.submit(Op::UserInput { text: text.into() }).unwrap() {
            Submitted::Turn(turn) => turn,
            other => panic!("unexpected {other:?}"),
        }
    }

    pub(super) async fn next(&mut self) -> Event {
        self.events.next().await.expect("the thread is open")
    }

    /// Reads on to the end of a turn.
    pub(super) async fn ended(&mut self) -> Arc<TurnResult> {
        loop {
            if let Event::TurnEnded { result, .. } = self.next().await {
                return result;
            }
        }
    }

    /// Reads on to a question.
    pub(super) async fn asked(&mut self) -> Arc<ApprovalRequest> {
        loop {
            match self.next().await {
                Event::ApprovalRequested { request, .. } => return request,
                Event::TurnEnded { result, .. } => panic!("ended without a question: {result:?}"),
                _ => {}
            }
        }
    }

    /// The history, one short line each.
    pub(super) fn history(&self) -> Vec<String> {
        self.thread.history().iter().map(|item| short(item)).collect()
    }
}

pub(super) fn short(item: &HistoryItem) -> String {
    match item {
        HistoryItem::Note { text } if text.starts_with('<') => text.split_inclusive('>').next().unwrap().to_owned(),
        HistoryItem::Note { text } => text.clone(),
        HistoryItem::Message { role, text, .. } => format!("{role:?}: {text}"),
        HistoryItem::FunctionCall { call_id, .. } | HistoryItem::CustomToolCall { call_id, .. } => call_id.clone(),
        HistoryItem::ToolOutput { call_id, .. } => format!("output of {call_id}"),
        other => format!("{other:?}"),
    }
}

pub(super) fn exec(command: &str) -> (&'static str, String) {
    ("exec_command", serde_json::json!({ "cmd": command }).to_string())
}
