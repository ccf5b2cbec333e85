//! A run of a tool or a prompt that takes a while or asks: the work of its calls and of its task.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use openoxide_mcp_protocol::request_state::WorkName;
use openoxide_mcp_protocol::{Ask, Era, WireError, missing_capability};
use openoxide_mcp_server::{
    Begun, Call, Happening, Interruption, OpenQuestion, Outcome, Settlement, TaskRule, Work, WorkEvents,
};
use serde_json::{Map, Value};
use tokio::sync::{broadcast, oneshot};
use tokio::task::AbortHandle;

use crate::content;

/// Whether a run becomes a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AsTask {
    Never,
    /// For clients that take tasks.
    Maybe,
    /// The others are refused.
    Always,
    /// Once its question is answered; until then its call is sent back with it.
    AfterAsking,
}

/// The key of a run's id in its name.
pub(crate) const NAME: &str = "run";
/// Events that one who follows may be behind; none has as many.
pub(crate) const BEHIND: usize = 64;

/// See the module.
pub(crate) struct Run {
    id: String,
    as_task: AsTask,
    events: broadcast::Sender<Happening>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By their keys, with who waits for the answer.
    questions: Vec<(&'static str, Ask, oneshot::Sender<Outcome>)>,
    was_asked: bool,
    outcome: Option<Outcome>,
    work: Option<AbortHandle>,
}

impl Run {
    pub(crate) fn new(as_task: AsTask) -> Arc<Self> {
        let (id, events) = (uuid::Uuid::new_v4().to_string(), broadcast::Sender::new(BEHIND));
        Arc::new(Self { id, as_task, events, state: Mutex::default() })
    }

    /// Has `work` run to its outcome.
    pub(crate) fn spawn(self: &Arc<Self>, work: BoxFuture<'static, Outcome>) {
        let (this, work) = (Arc::clone(self), tokio::spawn(work));
        self.lock().work = Some(work.abort_handle());
        tokio::spawn(async move {
            // An error is a panic, or that it was interrupted.
            let outcome = work.await.unwrap_or_else(|error| Err(WireError::internal(error.to_string())));
            let mut state = this.lock();
            state.questions.clear();
            state.outcome = Some(outcome);
            this.tell(Happening::Ended);
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: Happening) {
        // An error is that nobody follows.
        drop(self.events.send(event));
    }

    /// Puts questions by their keys, and waits until all are answered.
    pub(crate) async fn ask<const N: usize>(
        &self,
        asks: [(&'static str, Ask); N],
    ) -> Result<Map<String, Value>, WireError> {
        let waiting = {
            // Under one lock, so that all are put at once.
            let mut state = self.lock();
            state.was_asked = true;
            asks.map(|(key, ask)| {
                let (answered, answer) = oneshot::channel();
                state.questions.push((key, ask, answered));
                (key, answer)
            })
        };
        self.tell(Happening::Asked);
        let mut answers = Map::new();
        for (key, answer) in waiting {
            let gone = |_| Err(WireError::internal("the question was withdrawn"));
            answers.insert(key.to_owned(), answer.await.unwrap_or_else(gone)?);
        }
        Ok(answers)
    }
}

impl Work for Run {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> WorkName {
        Map::from_iter([(NAME.to_owned(), Value::from(self.id.clone()))])
    }

    fn questions(&self) -> Vec<OpenQuestion> {
        let state = self.lock();
        state.questions.iter().map(|(key, ask, _)| OpenQuestion { id: (*key).to_owned(), kind: ask.kind }).collect()
    }

    fn wording(&self, question: &str, _: Option<&Call>) -> Option<Value> {
        let state = self.lock();
        state.questions.iter().find(|asked| asked.0 == question).map(|asked| asked.1.params.clone())
    }

    fn outcome(&self) -> Option<Outcome> {
        self.lock().outcome.clone()
    }

    fn settle(&self, question: &str, how: Settlement<'_>, _: Option<&str>) -> bool {
        let mut state = self.lock();
        let Some(at) = state.questions.iter().position(|asked| asked.0 == question) else { return false };
        // What is no answer leaves the question open.
        if matches!(how, Settlement::Answer(answer) if !answer.is_object()) {
            return false;
        }
        let (key, ask, answered) = state.questions.remove(at);
        let answer = match how {
            Settlement::Answer(answer) => Ok(answer.clone()),
            Settlement::NobodyAskable => {
                let needed = ask.kind.capability();
                Err(missing_capability(format!("this needs a client that declares {needed}"), needed))
            }
            Settlement::Error | Settlement::Disconnected => Err(WireError::internal("the client gave no answer")),
        };
        // An error is that the run has ended.
        drop(answered.send(answer));
        self.tell(Happening::Settled(key.to_owned()));
        true
    }

    fn interrupt(&self, _: Interruption) {
        if let Some(work) = &self.lock().work {
            work.abort();
        }
    }

    fn attach(self: Arc<Self>, _: &Arc<Call>) -> Begun {
        // Under the lock, so that its end is not missed.
        let state = self.lock();
        if let Some(outcome) = &state.outcome {
            return Begun::Answer(outcome.clone());
        }
        let task = match self.as_task {
            AsTask::Maybe | AsTask::Always => TaskRule::Slow,
            AsTask::AfterAsking if state.was_asked => TaskRule::Slow,
            AsTask::AfterAsking | AsTask::Never => TaskRule::Never,
        };
        let events = RunEvents { run: Arc::clone(&self), events: self.events.subscribe() };
        Begun::Work { events: Box::new(events), task }
    }
}

/// What happens to a run from now on.
struct RunEvents {
    run: Arc<Run>,
    events: broadcast::Receiver<Happening>,
}

impl WorkEvents for RunEvents {
    fn work(&self) -> Arc<dyn Work> {
        Arc::clone(&self.run) as Arc<dyn Work>
    }

    fn next(&mut self) -> BoxFuture<'_, Option<Happening>> {
        Box::pin(async { self.events.recv().await.ok() })
    }

    fn unfinished(&self, _: Era) -> Outcome {
        Ok(content::said("it goes on"))
    }

    fn outcome(self: Box<Self>, _: Era) -> BoxFuture<'static, Outcome> {
        let outcome = Work::outcome(&*self.run);
        Box::pin(std::future::ready(outcome.unwrap_or_else(|| Err(WireError::internal("the run was lost")))))
    }

    fn cancelled(&self, nobody_left: bool) {
        if nobody_left {
            self.run.interrupt(Interruption::Cancelled);
        }
    }
}
