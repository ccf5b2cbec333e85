//! The backend: finds what a request names in the tables, and knows the runs that go on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use openoxide_mcp_protocol::request_state::WorkName;
use openoxide_mcp_protocol::tasks::tasks_not_declared;
use openoxide_mcp_protocol::{Description, Era, Tool, WireError};
use openoxide_mcp_server::{
    Backend, Begun, Call, Change, Changed, Interruption, List, Outcome, PreparedCall, Principal, Refusal, Standing,
    Work,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::run::{self, AsTask, Run, RunEvents};
use crate::{prompts, resources, tools};

/// How long a question may wait.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(600);
/// Changes that one who listens may be behind.
const BEHIND: usize = 64;
/// What can complete an argument.
const WORDS: [&str; 3] = ["paris", "park", "party"];

/// What a tool or a prompt is given.
pub(crate) struct Context {
    pub(crate) fixture: Arc<Fixture>,
    pub(crate) call: Arc<Call>,
    pub(crate) arguments: Value,
    pub(crate) run: Arc<Run>,
}

impl Context {
    /// A string among the arguments; empty where there is none.
    pub(crate) fn text(&self, argument: &str) -> &str {
        self.arguments.get(argument).and_then(Value::as_str).unwrap_or_default()
    }
}

/// See the module.
pub(crate) struct Fixture {
    this: Weak<Self>,
    tools: Vec<Tool>,
    /// Those that are over as well: their callers may come back. A run of the suite is short.
    runs: Mutex<HashMap<String, Arc<Run>>>,
    changes: broadcast::Sender<List>,
}

impl Fixture {
    pub(crate) fn new() -> Arc<Self> {
        let changes = broadcast::Sender::new(BEHIND);
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            tools: tools::listed(),
            runs: Mutex::default(),
            changes,
        })
    }

    /// Tells whoever listens that a list is another one.
    pub(crate) fn change(&self, list: List) {
        // An error is that nobody listens.
        drop(self.changes.send(list));
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<String, Arc<Run>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &WorkName) -> Option<Arc<Run>> {
        self.runs().get(name.get(run::NAME)?.as_str()?).cloned()
    }

    fn prepared(&self, as_task: AsTask, arguments: Option<&RawValue>, work: Body) -> Box<dyn PreparedCall> {
        let arguments = arguments.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let fixture = self.this.upgrade().expect("whoever calls holds the fixture");
        Box::new(Prepared { fixture, as_task, arguments, work })
    }
}

/// What a tool or a prompt does.
type Body = fn(Context) -> BoxFuture<'static, Outcome>;

struct Prepared {
    fixture: Arc<Fixture>,
    as_task: AsTask,
    arguments: Value,
    work: Body,
}

impl PreparedCall for Prepared {
    fn may_begin_anew(&self) -> bool {
        true
    }

    fn too_late(&self, _: Era) -> Outcome {
        Err(WireError::internal("the server ends"))
    }

    fn begin(self: Box<Self>, call: &Arc<Call>) -> BoxFuture<'static, Begun> {
        let Self { fixture, as_task, arguments, work } = *self;
        if as_task == AsTask::Always && !call.client().takes_tasks {
            return Box::pin(std::future::ready(Begun::Answer(Err(tasks_not_declared()))));
        }
        let run = Run::new(as_task);
        let begun = Begun::Work {
            events: Box::new(RunEvents::of(&run)),
            may_be_task: matches!(as_task, AsTask::Maybe | AsTask::Always),
        };
        let (of_run, call) = (Arc::clone(&run), Arc::clone(call));
        run.spawn(work(Context { fixture: Arc::clone(&fixture), call, arguments, run: of_run }));
        fixture.runs().insert(run.id().to_owned(), run);
        Box::pin(std::future::ready(begun))
    }
}

impl Backend for Fixture {
    fn description(&self) -> Description {
        let capabilities = json!({
            "tools": { "listChanged": true },
            "prompts": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": false },
            "logging": {},
            "completions": {},
        });
        let capabilities = serde_json::from_value(capabilities).expect("capabilities");
        Description { capabilities, instructions: "For conformance tests alone." }
    }

    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn prepare(&self, tool: &str, arguments: Option<&RawValue>) -> Result<Box<dyn PreparedCall>, Refusal> {
        let unknown = || Refusal::Error(WireError::invalid_params(format!("unknown tool {tool:?}")));
        Ok(self.prepared(tools::find(tool).ok_or_else(unknown)?, arguments, |context| Box::pin(tools::run(context))))
    }

    fn prompts(&self) -> Vec<Value> {
        prompts::listed()
    }

    fn prepare_prompt(&self, prompt: &str, arguments: Option<&RawValue>) -> Result<Box<dyn PreparedCall>, Refusal> {
        match prompts::exists(prompt) {
            true => Ok(self.prepared(AsTask::Never, arguments, |context| Box::pin(prompts::run(context)))),
            false => Err(Refusal::Error(WireError::invalid_params(format!("unknown prompt {prompt:?}")))),
        }
    }

    fn work(&self, name: &WorkName) -> Option<Arc<dyn Work>> {
        self.find(name).map(|run| run as Arc<dyn Work>)
    }

    fn gone(&self, _: &Call, _: &WorkName) -> Outcome {
        Err(WireError::invalid_params("the requestState is of another process"))
    }

    fn standing(&self, name: &WorkName) -> Standing {
        match self.find(name) {
            Some(run) => run.standing(),
            None => Standing::Over(Err(WireError::internal("the process that ran it has ended"))),
        }
    }

    fn question_timeout(&self) -> Duration {
        QUESTION_TIMEOUT
    }

    fn resources(&self, _: &Principal, _: Option<&str>) -> Outcome {
        Ok(json!({ "resources": resources::list() }))
    }

    fn read_resource(&self, _: &Principal, era: Era, uri: &str) -> Outcome {
        Ok(json!({ "contents": [resources::read(uri, era)?] }))
    }

    fn has_resource(&self, uri: &str) -> bool {
        resources::read(uri, Era::Modern).is_ok()
    }

    fn resource_templates(&self) -> Value {
        resources::templates()
    }

    fn changes(&self, _: &Principal) -> BoxStream<'static, Change> {
        stream::unfold(self.changes.subscribe(), |mut changes| async {
            let list = changes.recv().await.ok()?;
            Some((Change { list: Some(list), resources: Changed::Some(Vec::new()) }, changes))
        })
        .boxed()
    }

    fn complete(&self, begun: &str) -> Vec<String> {
        WORDS.into_iter().filter(|word| word.starts_with(begun)).map(str::to_owned).collect()
    }

    fn interrupt_all<'a>(&'a self, why: &'a Interruption) -> BoxFuture<'a, ()> {
        self.runs().values().for_each(|run| run.interrupt(why.clone()));
        Box::pin(std::future::ready(()))
    }

    fn shut_down<'a>(&'a self, why: &'a Interruption) -> BoxFuture<'a, ()> {
        self.interrupt_all(why)
    }
}
