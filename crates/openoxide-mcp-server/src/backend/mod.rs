//! What stands behind the methods of MCP: the tools, prompts and resources of one server. The product's backend is
//! [`crate::agent`]; a server of fixtures has another, and both are served by the same code.
//!
//! A call is prepared, then begun, and gets to its [`Work`], which goes on whatever becomes of the call. The call's runner
//! follows the work, puts its questions and answers the call. All a backend knows of the wire is the [`Call`], by which
//! it tells the client what goes on.

mod call;
mod change;
mod log_level;
mod prepared;
mod recent;
mod work;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use openoxide_core::Interruption;
use openoxide_mcp_protocol::request_state::WorkName;
use openoxide_mcp_protocol::{Description, Era, Tool, WireError};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::principal::Principal;
pub use call::Call;
pub(crate) use call::{TaskNames, WantedLevel};
pub use change::{Change, Changed, List};
pub(crate) use log_level::ConnectionLogLevel;
pub use prepared::{CallKind, Prepared, PreparedCall, Refusal};
pub(crate) use recent::{Recent, RecentName, Slot};
pub use work::{Begun, Happening, OpenQuestion, Outcome, Settlement, Standing, TaskRule, Work, WorkEvents};

/// How long a question may wait for its answer where nobody says.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(600);

/// Serves tools, prompts and resources; see the module. What is said to block is called on a thread for it.
pub trait Backend: Send + Sync + 'static {
    /// What a client is told when it comes.
    fn description(&self) -> Description;

    /// Every tool, in one fixed order.
    fn tools(&self) -> &[Tool];

    /// Every prompt, as `prompts/list` shows them.
    fn prompts(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Reads a call of the tool or the prompt `name`.
    ///
    /// # Errors
    /// Where there is no such tool or prompt, or its arguments are wrong.
    fn prepare(&self, kind: CallKind, name: &str, arguments: Option<&RawValue>) -> Prepared;

    /// The work of this name, where this process has it.
    fn work(&self, name: &WorkName) -> Option<Arc<dyn Work>>;

    /// The answer to a call that comes back to work that is gone.
    fn gone(&self, _call: &Call, _name: &WorkName) -> Outcome {
        Err(WireError::invalid_params("what the requestState names is gone; send the call again without it"))
    }

    /// How the work of a task stands, whoever does it. Blocks on the disk.
    fn standing(&self, name: &WorkName) -> Standing {
        let lost = || Standing::Over(Err(WireError::internal("the process that did the work has ended")));
        self.work(name).map_or_else(lost, |work| work.standing())
    }

    /// What the work of a task is called, for a person: what its status message begins with.
    fn work_title(&self, _name: &WorkName) -> Option<String> {
        None
    }

    /// What a task says of its work, for a program.
    fn work_meta(&self, _name: &WorkName) -> Option<Value> {
        None
    }

    /// How long a question may wait for its answer.
    fn question_timeout(&self) -> Duration {
        QUESTION_TIMEOUT
    }

    /// How long a task may go on that nobody asks for; none for ever.
    fn abandoned_after(&self) -> Option<Duration> {
        None
    }

    /// A page of `resources/list` from `cursor` on. Blocks on the disk.
    ///
    /// # Errors
    /// -32602 where the cursor is none of its own.
    fn resources(&self, principal: &Principal, cursor: Option<&str>) -> Outcome;

    /// The answer to `resources/read`. Blocks on the disk.
    ///
    /// # Errors
    /// [`openoxide_mcp_protocol::resource_not_found`] where there is none that `principal` may see.
    fn read_resource(&self, principal: &Principal, era: Era, uri: &str) -> Outcome;

    /// Whether a URI may name a resource.
    fn has_resource(&self, uri: &str) -> bool;

    /// Every template, as `resources/templates/list` shows them.
    fn resource_templates(&self) -> Value {
        json!([])
    }

    /// What changes from now on, as far as `principal` may know.
    fn changes(&self, principal: &Principal) -> BoxStream<'static, Change>;

    /// What can complete an argument that begins like this.
    fn complete(&self, _begun: &str) -> Vec<String> {
        Vec::new()
    }

    /// Ends all work that goes on; what is begun later goes on.
    fn interrupt_all<'a>(&'a self, why: &'a Interruption) -> BoxFuture<'a, ()>;

    /// Ends all work, and begins none any more.
    fn shut_down<'a>(&'a self, why: &'a Interruption) -> BoxFuture<'a, ()> {
        self.interrupt_all(why)
    }
}
