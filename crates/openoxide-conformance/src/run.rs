//! A run of a tool or a prompt that takes a while or asks: the work of its calls and of its task.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use openoxide_mcp_protocol::request_state::WorkName;
use openoxide_mcp_protocol::{Ask, AskKind, Era, LogLevel, WireError, missing_capability};
use openoxide_mcp_server::{
    Begun, Call, Happening, Interruption, OpenQuestion, Outcome, Settlement, Standing, Work, WorkEvents,
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
/// Events that one who follows may be behind; no run has as many.
const BEHIND: usize = 64;

/// See the module.
pub(crate) struct Run {
    id: String,
    as_task: AsTask,
    events: broadcast::Sender<Event>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    questions: Vec<Question>,
    outcome: Option<Outcome>,
    work: Option<AbortHandle>,
}

struct Question {
    key: &'static str,
    ask: Ask,
    answered: oneshot::Sender<Result<Value, WireError>>,
}

/// Something that a run says or does.
#[derive(Clone)]
enum Event {
    Log(&'static str),
    Phase(String),
    Meaning(Happening),
}

impl Run {
    pub(crate) fn new(as_task: AsTask) -> Arc<Self> {
        let (id, events) = (uuid::Uuid::new_v4().to_string(), broadcast::Sender::new(BEHIND));
        Arc::new(Self { id, as_task, events, state: Mutex::default() })
    }

    /// Has `work` run to its outcome.
    pub(crate) fn spawn(self: &Arc<Self>, work: BoxFuture<'static, Outcome>) {
        let this = Arc::clone(self);
        let work = tokio::spawn(async move {
            let outcome = work.await;
            this.end(outcome);
        });
        self.lock().work = Some(work.abort_handle());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: Event) {
        // An error is that nobody follows.
        drop(self.events.send(event));
    }

    /// Says something to clients that want to hear it.
    pub(crate) fn log(&self, words: &'static str) {
        self.tell(Event::Log(words));
    }

    /// Says how far it is.
    pub(crate) fn progress(&self, words: impl Into<String>) {
        self.tell(Event::Phase(words.into()));
    }

    /// Puts questions by their keys, and waits until all are answered.
    pub(crate) async fn ask<const N: usize>(
        &self,
        asks: [(&'static str, Ask); N],
    ) -> Result<Map<String, Value>, WireError> {
        let mut waiting = Vec::new();
        {
            let mut state = self.lock();
            for (key, ask) in asks {
                let (answered, answer) = oneshot::channel();
                state.questions.push(Question { key, ask, answered });
                waiting.push((key, answer));
            }
            self.tell(Event::Meaning(Happening::Asked));
        }
        let mut answers = Map::new();
        for (key, answer) in waiting {
            let gone = |_| Err(WireError::internal("the question was withdrawn"));
            answers.insert(key.to_owned(), answer.await.unwrap_or_else(gone)?);
        }
        Ok(answers)
    }

    fn end(&self, outcome: Outcome) {
        let mut state = self.lock();
        if state.outcome.is_none() {
            state.outcome = Some(outcome);
            state.questions.clear();
            self.tell(Event::Meaning(Happening::Ended));
        }
    }

    /// How it stands, for its task.
    pub(crate) fn standing(&self) -> Standing {
        let state = self.lock();
        match &state.outcome {
            Some(outcome) => Standing::Over(outcome.clone()),
            None => {
                let questions = state.questions.iter().map(|asked| (asked.key.to_owned(), asked.ask.clone())).collect();
                Standing::Working { message: None, questions }
            }
        }
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
        let open = |asked: &Question| OpenQuestion { id: asked.key.to_owned(), kind: asked.ask.kind };
        self.lock().questions.iter().map(open).collect()
    }

    fn wording(&self, question: &str, _: Option<&Call>) -> Option<Value> {
        let state = self.lock();
        state.questions.iter().find(|asked| asked.key == question).map(|asked| asked.ask.params.clone())
    }

    fn settle(&self, question: &str, how: Settlement<'_>, _: Option<&str>) {
        let mut state = self.lock();
        let Some(at) = state.questions.iter().position(|asked| asked.key == question) else { return };
        let Question { key, ask, answered } = state.questions.remove(at);
        let answer = match how {
            // What is no answer to the question leaves it open.
            Settlement::Answer(answer) if !is_answer(ask.kind, answer) => {
                return state.questions.insert(at, Question { key, ask, answered });
            }
            Settlement::Answer(answer) => Ok(answer.clone()),
            Settlement::NobodyAskable => {
                let needed = ask.kind.capability();
                Err(missing_capability(format!("this needs a client that declares {needed}"), needed))
            }
            Settlement::Error => Err(WireError::internal("the client answered with an error")),
            Settlement::Disconnected => Err(WireError::internal("the client has gone away")),
        };
        // An error is that the run has ended.
        drop(answered.send(answer));
        self.tell(Event::Meaning(Happening::Settled(key.to_owned())));
    }

    fn interrupt(&self, why: Interruption) {
        if let Some(work) = self.lock().work.take() {
            work.abort();
        }
        self.end(Ok(content::failed(&format!("it was interrupted: {why}"))));
    }

    fn attach(self: Arc<Self>, _: &Arc<Call>) -> Begun {
        let state = self.lock();
        match &state.outcome {
            Some(outcome) => Begun::Answer(outcome.clone()),
            // Under the lock, so that its end is not missed.
            None => Begun::Work { events: Box::new(RunEvents::of(&self)), may_be_task: self.as_task != AsTask::Never },
        }
    }
}

/// Whether a result of the client is one for its question.
fn is_answer(kind: AskKind, answer: &Value) -> bool {
    answer.is_object() && (kind != AskKind::Form || answer["action"].is_string())
}

/// What happens to a run from now on.
pub(crate) struct RunEvents {
    run: Arc<Run>,
    events: broadcast::Receiver<Event>,
    last: Option<Event>,
}

impl RunEvents {
    pub(crate) fn of(run: &Arc<Run>) -> Self {
        Self { run: Arc::clone(run), events: run.events.subscribe(), last: None }
    }
}

impl WorkEvents for RunEvents {
    fn work(&self) -> Arc<dyn Work> {
        Arc::clone(&self.run) as Arc<dyn Work>
    }

    fn open(&mut self, _: &Call) {}

    fn next(&mut self) -> BoxFuture<'_, Option<Happening>> {
        Box::pin(async {
            let event = self.events.recv().await.ok()?;
            let happening = match &event {
                Event::Meaning(happening) => happening.clone(),
                Event::Log(_) | Event::Phase(_) => Happening::Other,
            };
            self.last = Some(event);
            Some(happening)
        })
    }

    fn tell<'a>(&'a mut self, call: &'a Call) -> BoxFuture<'a, ()> {
        Box::pin(async {
            match self.last.take() {
                Some(Event::Log(words)) => call.log(LogLevel::Info, &words).await,
                Some(Event::Phase(words)) => call.phase(words),
                Some(Event::Meaning(_)) | None => {}
            }
        })
    }

    fn phase(&self) -> Option<String> {
        match &self.last {
            Some(Event::Phase(words)) => Some(words.clone()),
            Some(Event::Log(_) | Event::Meaning(_)) | None => None,
        }
    }

    fn unfinished(&self, _: Era) -> Outcome {
        Ok(content::said("it goes on"))
    }

    fn outcome(self: Box<Self>, _: Era) -> BoxFuture<'static, Outcome> {
        let outcome = self.run.lock().outcome.clone();
        Box::pin(std::future::ready(outcome.unwrap_or_else(|| Err(WireError::internal("the run was lost")))))
    }

    fn cancelled(&self, nobody_left: bool) {
        if nobody_left {
            self.run.interrupt(Interruption::Cancelled);
        }
    }
}
