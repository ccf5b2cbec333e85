//! What every connection of a process shares: what is served, who is attached to it, and what the operator decided.

pub(crate) mod attachments;
pub(crate) mod lifecycle;
mod state_key;
pub(crate) mod tasks;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use openoxide_core::{Interruption, ThreadManager};
use openoxide_mcp_protocol::request_state::{Binding, ParkedCall, StateSeal, WorkName};
use openoxide_mcp_protocol::tools::{Mirrored, ToolFamilies};
use openoxide_mcp_protocol::{Description, TraceContext, WireError};

use crate::agent::{Agent, ApprovalStrategy};
use crate::backend::{Backend, List, TaskNames};
use crate::principal::Principal;
use crate::server::attachments::Attachments;
use crate::server::lifecycle::Lifecycle;
use crate::server::tasks::Tasks;

/// How long a client may read nothing while its queue is full, where nobody says.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// When a legacy call is answered that nobody said or knows how long its client waits for: ten seconds before the time-out
/// that most clients have.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(50);
/// How long the work of a client that takes tasks is waited for before it becomes one.
pub const TASK_AFTER: Duration = Duration::from_secs(2);

/// How much longer than its questions a parked call can come back.
const STATE_GRACE: Duration = Duration::from_secs(3600);

/// From the beginning of the end until what is open is given up.
const END_LIMIT: Duration = Duration::from_millis(2200);
/// How long calls still begin when the server was told to end: what was written just before gets to its turn, so
/// that its answer names a thread to go on with.
pub(crate) const LINGER: Duration = Duration::from_millis(100);
/// How long a call that has just begun may take to get to its turn once the end has begun.
const SUBMIT_LIMIT: Duration = Duration::from_secs(1);

/// What the end of its input means to a server on the standard streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnEof {
    /// Turns are interrupted, and their calls answered.
    #[default]
    Interrupt,
    /// Open calls and tasks finish first.
    Finish,
}

/// What a server is started with.
pub struct ServerConfig {
    /// Runs the threads.
    pub manager: Arc<ThreadManager>,
    /// Where the key that seals parked calls is kept, so that they can be recognised after a restart; `None` makes a new
    /// key for this process.
    pub state_key_file: Option<PathBuf>,
    /// Where tasks are kept; `None` keeps them in memory alone.
    pub tasks: Option<PathBuf>,
    /// What becomes of questions that nobody can be asked.
    pub approval_strategy: ApprovalStrategy,
    /// How long a call waits for its turn where it does not say; `None` leaves it to `answer_within` and known hosts' own.
    pub max_wait: Option<Duration>,
    /// When a legacy call is answered whose client wants no progress and is not known to wait; `None` is when its turn is over.
    pub answer_within: Option<Duration>,
    /// How long the turn of a client that takes tasks is waited for before the call is answered with a task. A query is waited
    /// for ten times as long.
    pub task_after: Duration,
    /// How long a client on the standard streams may read nothing while its queue is full, before it counts as lost.
    pub write_timeout: Duration,
    /// What the end of input means to [`crate::serve`].
    pub on_eof: OnEof,
    /// Which tools there are: our own, those of Codex for hosts that are configured for it, or both.
    pub families: ToolFamilies,
    /// Told of the span of each call that comes with a trace, so that an exporter of spans can tie them together.
    pub on_trace: Option<fn(&tracing::Span, &TraceContext)>,
}

/// How a server with a backend of its own is kept.
pub struct ServerOptions {
    /// As [`ServerConfig::state_key_file`].
    pub state_key_file: Option<PathBuf>,
    /// As [`ServerConfig::tasks`].
    pub tasks: Option<PathBuf>,
    /// As [`ServerConfig::max_wait`].
    pub max_wait: Option<Duration>,
    /// As [`ServerConfig::answer_within`].
    pub answer_within: Option<Duration>,
    /// As [`ServerConfig::task_after`].
    pub task_after: Duration,
    /// As [`ServerConfig::write_timeout`].
    pub write_timeout: Duration,
    /// As [`ServerConfig::on_eof`].
    pub on_eof: OnEof,
    /// As [`ServerConfig::on_trace`].
    pub on_trace: Option<fn(&tracing::Span, &TraceContext)>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            state_key_file: None,
            tasks: None,
            max_wait: None,
            answer_within: Some(ANSWER_WITHIN),
            task_after: TASK_AFTER,
            write_timeout: WRITE_TIMEOUT,
            on_eof: OnEof::default(),
            on_trace: None,
        }
    }
}

/// One backend behind any number of connections; see the module.
pub struct Server {
    pub(crate) this: Weak<Self>,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) description: Description,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) on_eof: OnEof,
    pub(crate) write_timeout: Duration,
    pub(crate) attachments: Arc<Attachments>,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) answer_within: Option<Duration>,
    pub(crate) task_after: Duration,
    pub(crate) on_trace: Option<fn(&tracing::Span, &TraceContext)>,
    pub(crate) tasks: Tasks,
    /// What headers repeat, by tool; made at the first call over HTTP.
    mirrored: OnceLock<HashMap<String, Vec<Mirrored>>>,
    /// Made at the first parked call.
    seal: OnceLock<StateSeal>,
    state_key_file: Option<PathBuf>,
}

impl Server {
    /// The agent, to which nobody is connected yet.
    #[must_use]
    pub fn new(config: ServerConfig) -> Arc<Self> {
        let ServerConfig {
            manager,
            state_key_file,
            tasks,
            approval_strategy,
            max_wait,
            answer_within,
            task_after,
            write_timeout,
            on_eof,
            families,
            on_trace,
        } = config;
        let options = ServerOptions {
            state_key_file,
            tasks,
            max_wait,
            answer_within,
            task_after,
            write_timeout,
            on_eof,
            on_trace,
        };
        Self::with_backend(Agent::new(manager, approval_strategy, families), options)
    }

    /// A server of something else than the agent.
    #[must_use]
    pub fn with_backend(backend: Arc<dyn Backend>, options: ServerOptions) -> Arc<Self> {
        let ServerOptions {
            state_key_file,
            tasks,
            max_wait,
            answer_within,
            task_after,
            write_timeout,
            on_eof,
            on_trace,
        } = options;
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            description: backend.description(),
            tasks: Tasks::new(Arc::clone(&backend), tasks),
            attachments: Arc::new(Attachments::new(backend.question_timeout())),
            backend,
            lifecycle: Lifecycle::default(),
            on_eof,
            write_timeout,
            max_wait,
            answer_within,
            task_after,
            on_trace,
            mirrored: OnceLock::new(),
            seal: OnceLock::new(),
            state_key_file,
        })
    }

    /// Whether clients are told when a list is another one.
    pub(crate) fn tells_changes_of(&self, list: List) -> bool {
        let capabilities = &self.description.capabilities;
        let told = match list {
            List::Tools => capabilities.tools.as_ref().and_then(|tools| tools.list_changed),
            List::Prompts => capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed),
            List::Resources => capabilities.resources.as_ref().and_then(|resources| resources.list_changed),
        };
        told.unwrap_or_default()
    }

    /// The arguments of a tool that the headers of its calls must repeat.
    pub(crate) fn mirrored(&self, tool: &str) -> &[Mirrored] {
        let all = self.mirrored.get_or_init(|| {
            let tools = self.backend.tools().iter();
            tools.map(|tool| (tool.name.to_string(), Mirrored::of_schema(&tool.input_schema))).collect()
        });
        all.get(tool).map(Vec::as_slice).unwrap_or_default()
    }

    /// Ends the server: turns are interrupted for this reason, after `linger` no further call begins, and every open
    /// request gets its answer. Takes at most 2.2 s.
    pub(crate) async fn end(&self, why: &Interruption, linger: Duration) {
        // A call that began a moment ago gets to its turn, so that its answer names a thread to go on with. What
        // runs already does not wait for that.
        let ending = async {
            let newest = async {
                tokio::time::sleep(linger).await;
                self.lifecycle.begin_end();
                drop(tokio::time::timeout(SUBMIT_LIMIT, self.lifecycle.submitted()).await);
                self.backend.shut_down(why).await;
            };
            futures_util::future::join(self.backend.interrupt_all(why), newest).await;
            self.lifecycle.answered().await;
        };
        if tokio::time::timeout(END_LIMIT, ending).await.is_err() {
            tracing::warn!("requests were still open when the time for the end was over");
        }
    }

    fn state_seal(&self) -> &StateSeal {
        self.seal.get_or_init(|| StateSeal::new(state_key::load_or_create(self.state_key_file.as_deref())))
    }

    /// Seals what a parked call will come back with.
    pub(crate) fn seal(&self, parked: &ParkedCall, binding: &Binding<'_>) -> String {
        self.state_seal().seal(parked, binding, self.backend.question_timeout() + STATE_GRACE)
    }

    /// Opens what a parked call has come back with.
    pub(crate) fn open_state(&self, state: &str, binding: &Binding<'_>) -> Result<ParkedCall, WireError> {
        self.state_seal().open(state, binding)
    }
}

impl TaskNames for Server {
    fn work_of_task(&self, id: &str, principal: &Principal) -> Option<WorkName> {
        Some(self.tasks.find(id, principal).ok()?.work_name())
    }
}
