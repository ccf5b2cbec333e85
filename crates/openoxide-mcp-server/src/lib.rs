//! Turns MCP messages into visits to core threads.
//!
//! Four kinds of task: the reader takes lines from stdin, the processor routes them, a runner serves each `tools/call`,
//! and the writer is the only one that touches stdout. [`serve`] starts them over any pair of byte streams, so that
//! stdio and the in-memory duplex of the tests are the same server.

mod admission;
mod answers;
mod calls;
mod offer;
mod outgoing;
mod output;
mod processor;
mod questions;
mod reader;
mod report;
mod resources;
mod runner;
mod state_key;
mod subscriptions;
mod visits;
mod writer;

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use openoxide_core::ThreadManager;
use openoxide_mcp_protocol::WireError;
use openoxide_mcp_protocol::request_state::{Binding, ParkedCall, StateSeal};
use openoxide_mcp_protocol::tools::ToolSet;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use calls::Calls;
use outgoing::Outgoing;
use processor::Processor;
use questions::Questions;
use report::ConnectionLogLevel;
use subscriptions::Subscriptions;
use visits::Visits;

/// The principal of stdio: whoever started the process.
const LOCAL: &str = "local";
/// How much longer than its questions a parked call can come back.
const STATE_GRACE: Duration = Duration::from_secs(3600);
/// How long the last answers may take to be written once everything has ended.
const FLUSH: Duration = Duration::from_millis(200);

/// What a server is started with.
pub struct ServerConfig {
    /// Runs the threads.
    pub manager: Arc<ThreadManager>,
    /// Where the key that seals parked calls is kept, so that they can be recognised after a restart; `None` makes a new
    /// key for this process.
    pub state_key_file: Option<PathBuf>,
    /// What becomes of questions that nobody can be asked.
    pub approval_strategy: ApprovalStrategy,
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
    /// Its name in the configuration.
    fn name(self) -> &'static str {
        match self {
            Self::AutoWithinPolicy => "auto-within-policy",
            Self::DenyOnApproval => "deny-on-approval",
        }
    }
}

/// What the tasks of one connection share.
struct Shared {
    manager: Arc<ThreadManager>,
    out: Arc<Outgoing>,
    calls: Arc<Calls>,
    questions: Questions,
    visits: Arc<Visits>,
    log_level: Arc<ConnectionLogLevel>,
    /// Made at the first parked call.
    seal: OnceLock<StateSeal>,
    state_key_file: Option<PathBuf>,
    approval_strategy: ApprovalStrategy,
    tools: ToolSet,
    subscriptions: Arc<Subscriptions>,
}

impl Shared {
    fn state_seal(&self) -> &StateSeal {
        self.seal.get_or_init(|| StateSeal::new(state_key::load_or_create(self.state_key_file.as_deref())))
    }

    fn seal(&self, parked: &ParkedCall, tool: &str, arguments: &str) -> String {
        let ttl = self.manager.config().approval_timeout + STATE_GRACE;
        self.state_seal().seal(parked, &Binding { principal: LOCAL, tool, arguments }, ttl)
    }

    fn open_state(&self, state: &str, binding: &Binding<'_>) -> Result<ParkedCall, WireError> {
        self.state_seal().open(state, binding)
    }
}

/// Serves one connection until its input ends, its output is closed, or `stop` is ready; then ends every turn and
/// every process, answers what is still open, and returns.
pub async fn serve<R, W>(reader: R, writer: W, config: ServerConfig, stop: impl Future<Output = ()>)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let out = Arc::new(Outgoing::default());
    let shared = Arc::new(Shared {
        manager: Arc::clone(&config.manager),
        out: Arc::clone(&out),
        calls: Arc::default(),
        questions: Questions::default(),
        visits: Arc::default(),
        log_level: Arc::default(),
        seal: OnceLock::new(),
        state_key_file: config.state_key_file,
        approval_strategy: config.approval_strategy,
        tools: ToolSet::new(offer::offer(config.manager.config())),
        subscriptions: Arc::default(),
    });
    let (lines, input) = reader::channel();
    let reader = tokio::spawn(reader::read_lines(reader, lines, Arc::clone(&out)));
    let mut writer = tokio::spawn(writer::write_lines(writer, Arc::clone(&out)));
    // Nothing is ever sent here: the processor and each runner hold an end, and the last one dropped is the news.
    let (alive, mut last_runner) = mpsc::channel(1);
    let subscriptions = Arc::clone(&shared.subscriptions);
    let processor = Processor::new(shared, alive).run(input);
    // Nothing is lost by dropping the losers: the end of any of them ends the connection.
    tokio::select! {
        () = processor => tracing::info!("stdin has ended"),
        _ = &mut writer => {}
        () = stop => tracing::info!("asked to stop"),
    }
    reader.abort();
    subscriptions.close();
    config.manager.shutdown().await;
    // The turns have ended, so their runners answer and drop their ends. An elapsed time-out means one that cannot; what
    // is queued is still written.
    drop(tokio::time::timeout(FLUSH, last_runner.recv()).await);
    out.close();
    if !writer.is_finished() {
        drop(tokio::time::timeout(FLUSH, writer).await);
    }
}
