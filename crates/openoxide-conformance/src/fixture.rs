//! The backend: finds what a request names in the tables, and knows the runs that go on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use openoxide_mcp_protocol::request_state::WorkName;
use openoxide_mcp_protocol::tasks::tasks_not_declared;
use openoxide_mcp_protocol::{Description, Era, Tool, WireError};
use openoxide_mcp_server::{
    Backend, Begun, Call, CallKind, Change, Changed, Interruption, List, Outcome, Prepared, PreparedCall, Principal,
    Refusal, Work,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::run::{self, AsTask, Run};
use crate::{prompts, resources, tools};

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
        let (tools, runs, changes) = (tools::listed(), Mutex::default(), broadcast::Sender::new(run::BEHIND));
        Arc::new_cyclic(|this| Self { this: Weak::clone(this), tools, runs, changes })
    }

    /// Tells whoever listens that a list is another one.
    pub(crate) fn change(&self, list: List) -> &'static str {
        self.changes.send(list).map_or("nobody listens", |_| "told")
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<String, Arc<Run>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a tool or a prompt does.
type Body = fn(Context) -> BoxFuture<'static, Outcome>;

struct FixtureCall {
    fixture: Arc<Fixture>,
    as_task: AsTask,
    arguments: Value,
    body: Body,
}

impl PreparedCall for FixtureCall {
    fn may_begin_anew(&self) -> bool {
        true
    }

    fn begin(self: Box<Self>, call: &Arc<Call>) -> BoxFuture<'static, Begun> {
        let Self { fixture, as_task, arguments, body } = *self;
        if as_task == AsTask::Always && !call.client().takes_tasks {
            return Box::pin(std::future::ready(Begun::Answer(Err(tasks_not_declared()))));
        }
        let run = Run::new(as_task);
        fixture.runs().insert(run.id().to_owned(), Arc::clone(&run));
        let begun = Arc::clone(&run).attach(call);
        run.spawn(body(Context { fixture, call: Arc::clone(call), arguments, run: Arc::clone(&run) }));
        Box::pin(std::future::ready(begun))
    }
}

impl Backend for Fixture {
    fn description(&self) -> Description {
        let capabilities = json!({
            "tools": { "listChanged": true }, "prompts": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": false }, "logging": {}, "completions": {},
        });
        let capabilities = serde_json::from_value(capabilities).expect("capabilities");
        Description { capabilities, instructions: "For conformance tests alone." }
    }

    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn prepare(&self, kind: CallKind, name: &str, arguments: Option<&RawValue>) -> Prepared {
        let (as_task, body): (_, Body) = match kind {
            CallKind::Tool => (tools::find(name), |context| Box::pin(tools::run(context))),
            CallKind::Prompt => (prompts::find(name), |context| Box::pin(prompts::run(context))),
        };
        let unknown = || Refusal::Error(WireError::invalid_params(format!("{kind:?} {name:?} is unknown")));
        let as_task = as_task.ok_or_else(unknown)?;
        let arguments = arguments.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let fixture = self.this.upgrade().expect("whoever calls holds the fixture");
        Ok(Box::new(FixtureCall { fixture, as_task, arguments, body }))
    }

    fn prompts(&self) -> Vec<Value> {
        prompts::listed()
    }

    fn work(&self, name: &WorkName) -> Option<Arc<dyn Work>> {
        let run = self.runs().get(name.get(run::NAME)?.as_str()?).cloned()?;
        Some(run)
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
}
