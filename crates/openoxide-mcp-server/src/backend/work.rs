//! What calls and tasks wait for: a turn of the agent, or whatever another backend does. It is followed by any number of
//! calls, and goes on when they leave.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use openoxide_core::Interruption;
use openoxide_mcp_protocol::request_state::WorkName;
use openoxide_mcp_protocol::{Ask, AskKind, Era, WireError};
use serde_json::Value;

use super::call::Call;

/// A result without what every modern one carries, or an error.
pub type Outcome = Result<Value, WireError>;

/// See the module. No method blocks.
pub trait Work: Send + Sync {
    /// Tells it from all other work of the process.
    fn id(&self) -> &str;

    /// What finds it again ([`crate::Backend::work`]).
    fn name(&self) -> WorkName;

    /// The questions that wait, the oldest first.
    fn questions(&self) -> Vec<OpenQuestion>;

    /// The parameters of the request that puts a question to the client of `call`, or in the state of a task; none where it
    /// does not wait any more.
    fn wording(&self, question: &str, call: Option<&Call>) -> Option<Value>;

    /// What came of it, where that is known.
    fn outcome(&self) -> Option<Outcome> {
        None
    }

    /// How it stands, with all that it asks.
    fn standing(&self) -> Standing {
        if let Some(outcome) = self.outcome() {
            return Standing::Over(outcome);
        }
        let asked = |question: OpenQuestion| {
            let params = self.wording(&question.id, None)?;
            Some((question.id, Ask { kind: question.kind, params }))
        };
        Standing::Working { message: None, questions: self.questions().into_iter().filter_map(asked).collect() }
    }

    /// Settles a question, in the name of the client that was asked. The first time counts. Returns whether this was it.
    fn settle(&self, question: &str, how: Settlement<'_>, client: Option<&str>) -> bool;

    /// Tells the client of a call that its answer came too late: another has settled the question in the same instant.
    fn tell_late(&self, _call: &Call) {}

    /// Ends it.
    fn interrupt(&self, why: Interruption);

    /// Follows it for a call that comes back to it.
    fn attach(self: Arc<Self>, call: &Arc<Call>) -> Begun;
}

/// A question that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenQuestion {
    /// Its key; no other question of the work has it.
    pub id: String,
    /// What it asks for.
    pub kind: AskKind,
}

/// How a question is settled.
#[derive(Debug, Clone, Copy)]
pub enum Settlement<'a> {
    /// By the result of its request.
    Answer(&'a Value),
    /// The client answered with an error.
    Error,
    /// Whoever was asked, or would be, has gone away.
    Disconnected,
    /// Nobody who follows the work can be asked.
    NobodyAskable,
}

/// What happens to work, for one who follows it.
pub trait WorkEvents: Send {
    /// The work.
    fn work(&self) -> Arc<dyn Work>;

    /// Tells a call what goes on already. Once, before the first event.
    fn open(&mut self, _call: &Call) {}

    /// Waits for the next event; none where the work is gone without an end. Cancel-safe.
    fn next(&mut self) -> BoxFuture<'_, Option<Happening>>;

    /// Tells a call the last event. Waits while its client is behind.
    fn tell<'a>(&'a mut self, _call: &'a Call) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// What the last event begins, for a person.
    fn phase(&self) -> Option<String> {
        None
    }

    /// The answer to a call that waits no longer while the work goes on.
    fn unfinished(&self, era: Era) -> Outcome;

    /// The answer once the work is over or gone.
    fn outcome(self: Box<Self>, era: Era) -> BoxFuture<'static, Outcome>;

    /// The client of the call that follows wants no answer any more; nobody else may be left who follows.
    fn cancelled(&self, nobody_left: bool);
}

/// What an event means to whoever follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// There are new questions.
    Asked,
    /// This question waits no longer.
    Settled(String),
    /// The work is over.
    Ended,
    /// Nothing but what is told.
    Other,
}

/// Where a call got to.
pub enum Begun {
    /// To work that goes on.
    Work {
        /// What happens there from now on.
        events: Box<dyn WorkEvents>,
        /// Whether a client that takes tasks gets one for it, and when.
        task: TaskRule,
    },
    /// The answer is known already.
    Answer(Outcome),
    /// The same, made when there is room for it.
    Later(BoxFuture<'static, Outcome>),
    /// Nowhere: the client does not want an answer any more.
    Cancelled,
}

/// Whether and when work becomes a task where its client takes tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskRule {
    /// Never.
    Never,
    /// When it takes longer than the server waits, or asks.
    Slow,
    /// The same for work that is mostly short: the server waits ten times as long.
    VerySlow,
}

impl TaskRule {
    /// How long work is waited for before it becomes a task, on a server that waits for `usual`; none for ever.
    pub(crate) fn after(self, usual: Duration) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::Slow => Some(usual),
            Self::VerySlow => Some(usual.saturating_mul(10)),
        }
    }
}

/// How the work of a task stands.
pub enum Standing {
    /// It goes on.
    Working {
        /// What is to say of it, for a person.
        message: Option<String>,
        /// What waits for answers.
        questions: Vec<(String, Ask)>,
    },
    /// It is over.
    Over(Outcome),
}
