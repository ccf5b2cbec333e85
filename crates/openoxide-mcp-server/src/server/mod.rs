//! What every connection of a process shares: the threads, who is attached to them, and what the operator decided.

pub(crate) mod attachments;
pub(crate) mod lifecycle;
mod state_key;
pub(crate) mod tasks;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use openoxide_core::{Interruption, ThreadManager};
use openoxide_mcp_protocol::request_state::{Binding, ParkedCall, StateSeal};
use openoxide_mcp_protocol::tools::ToolSet;
use openoxide_mcp_protocol::{TraceContext, WireError};

use crate::convert::choices;
use crate::server::attachments::Attachments;
use crate::server::lifecycle::Lifecycle;
use crate::server::tasks::Tasks;

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
    /// How long a call waits for its turn where it does not say; `None` is without limit but for known hosts' own.
    pub max_wait: Option<Duration>,
    /// How long a client on the standard streams may read nothing while its queue is full, before it counts as lost.
    pub write_timeout: Duration,
    /// What the end of input means to [`crate::serve`].
    pub on_eof: OnEof,
    /// Whether the tools of Codex are there as well, for hosts that are configured for it.
    pub codex: bool,
    /// Told of the span of each call that comes with a trace, so that an exporter of spans can tie them together.
    pub on_trace: Option<fn(&tracing::Span, &TraceContext)>,
}

/// What becomes of a question where no attached caller can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApprovalStrategy {
    /// What stays within the sandbox is done; what would leave it, or is not confined at all, is denied.
    #[default]
    AutoWithinPolicy,
    /// Every question is denied.
    DenyOnApproval,
}

impl ApprovalStrategy {
    /// Its name in rollouts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AutoWithinPolicy => "auto-within-policy",
            Self::DenyOnApproval => "deny-on-approval",
        }
    }
}

/// One agent behind any number of connections; see the module.
pub struct Server {
    pub(crate) this: Weak<Self>,
    pub(crate) manager: Arc<ThreadManager>,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) on_eof: OnEof,
    pub(crate) write_timeout: Duration,
    pub(crate) attachments: Arc<Attachments>,
    pub(crate) approval_strategy: ApprovalStrategy,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) on_trace: Option<fn(&tracing::Span, &TraceContext)>,
    pub(crate) tools: ToolSet,
    pub(crate) tasks: Tasks,
    /// Made at the first parked call.
    seal: OnceLock<StateSeal>,
    state_key_file: Option<PathBuf>,
}

impl Server {
    /// A server that nobody is connected to yet.
    #[must_use]
    pub fn new(config: ServerConfig) -> Arc<Self> {
        let ServerConfig {
            manager,
            state_key_file,
            tasks,
            approval_strategy,
            max_wait,
            write_timeout,
            on_eof,
            codex,
            on_trace,
        } = config;
        let tools = ToolSet::new(choices::of(manager.config()));
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            tools: if codex { tools.with_codex() } else { tools },
            tasks: Tasks::new(Arc::clone(&manager), tasks),
            attachments: Arc::new(Attachments::new(manager.config().approval_timeout)),
            manager,
            lifecycle: Lifecycle::default(),
            on_eof,
            write_timeout,
            approval_strategy,
            max_wait,
            on_trace,
            seal: OnceLock::new(),
            state_key_file,
        })
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
                self.manager.shutdown(why).await;
            };
            futures_util::future::join(self.manager.end_all(why), newest).await;
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
        self.state_seal().seal(parked, binding, self.manager.config().approval_timeout + STATE_GRACE)
    }

    /// Opens what a parked call has come back with.
    pub(crate) fn open_state(&self, state: &str, binding: &Binding<'_>) -> Result<ParkedCall, WireError> {
        self.state_seal().open(state, binding)
    }
}
