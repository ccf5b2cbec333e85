//! Performs what [`TurnState`] decides: asks the model, runs tools, puts questions, writes, tells.
//!
//! One task runs the turns of a thread, one after the other, and ends when none waits. Everything it waits for is polled
//! within that task, so dropping a future here is all it takes to stop following something.

use std::collections::VecDeque;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use openoxide_model::{Cause, HistoryItem, ModelRequest, ModelStream, Role, Usage};
use tokio::sync::oneshot;
use tokio::time::{Sleep, timeout};

use super::compact::{self, Compaction, Summary};
use super::repair::missing_outputs;
use super::state::{Budget, Outcome, TurnState};
use super::step::{Action, CallIndex, CallOutcome, Input, Prepared};
use crate::approvals::{Question, Rules};
use crate::diff::TurnDiff;
use crate::events::lock;
use crate::rollout::{EventRecord, RolloutItem, TurnContext};
use crate::thread::{Carried, StartedTurn, TurnStart};
use crate::thread_state::ContextDue;
use crate::tools::{self, Plan, ToolContext};
use crate::{
    ApprovalId, ApprovalRequest, Decision, Denial, DenialReason, Event, Thread, TurnResult, TurnStatus, context,
    instructions,
};

/// Runs a turn and every turn that waits behind it. A turn that panics fails; the thread stays usable.
pub(crate) async fn run_turns(thread: Arc<Thread>, first: StartedTurn) {
    let mut next = Some(first);
    while let Some(turn) = next {
        let start = thread.begin_turn();
        let (turn_id, started) = (turn.turn_id, turn.started);
        let diff = Arc::new(Mutex::new(TurnDiff::default()));
        let driver = Box::pin(Driver::new(&thread, turn, start, Arc::clone(&diff)).run());
        let parts = match AssertUnwindSafe(driver).catch_unwind().await {
            Ok(parts) => parts,
            Err(_) => Parts::after_panic(&thread),
        };
        if parts.status != TurnStatus::Completed {
            // What a command does with its last two seconds belongs to the turn, and the next turn finds none of it.
            if let Some(ending) = thread.sessions.terminate(Some(turn_id)) {
                ending.await;
            }
            close_history(&thread, parts.status, parts.left_over);
        }
        note_changes(&thread, &diff).await;
        let (files_changed, diff, files) = {
            let diff = lock(&diff);
            (diff.files_changed(), diff.unified(), diff.records())
        };
        if !files.is_empty()
            && let Err(error) = thread.record(&RolloutItem::EventMsg(EventRecord::Changes { turn_id, files }))
        {
            tracing::warn!(thread = %thread.id(), %error, "the changes of a turn were not written and cannot be undone");
        }
        let result = TurnResult {
            thread_id: thread.id(),
            turn_id,
            status: parts.status,
            content: parts.content,
            files_changed,
            diff,
            thread_usage: thread.usage_with(parts.usage),
            usage: parts.usage,
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            denials: parts.denials,
        };
        next = thread.finish_turn(result, parts.carried);
        thread.sync_later();
    }
}

/// Notes what the turn's commands have changed on disk.
async fn note_changes(thread: &Arc<Thread>, diff: &Mutex<TurnDiff>) {
    let Some((before, touched)) = lock(diff).take_before() else { return };
    if let Ok(Some(changes)) = tokio::task::spawn_blocking(move || before.changes()).await {
        lock(diff).add_changes(&thread.config().cwd, changes, touched);
    }
}

/// Makes the history of a turn that did not complete one that a provider takes: every call has an output, what was
/// said to it is kept, and the model is told that it was stopped.
fn close_history(thread: &Thread, status: TurnStatus, left_over: Vec<String>) {
    let mut items = missing_outputs(&thread.history()[thread.turn_begin()..]);
    items.extend(left_over.into_iter().map(|text| HistoryItem::Message { role: Role::User, text }));
    if status == TurnStatus::Interrupted {
        let text = instructions::INTERRUPTED_NOTE.to_owned();
        items.push(HistoryItem::Message { role: Role::User, text });
    }
    for item in items {
        // The rollout may be the very thing that failed; the history in memory stays in step regardless.
        if let Err(error) = thread.append(item.clone()) {
            tracing::warn!(thread = %thread.id(), %error, "the end of a turn was not written");
            thread.remember(Arc::new(item));
        }
    }
}

/// What a turn came to.
struct Parts {
    status: TurnStatus,
    content: String,
    usage: Usage,
    denials: Vec<Denial>,
    /// None where a panic has lost it.
    carried: Option<Carried>,
    left_over: Vec<String>,
}

impl Parts {
    fn after_panic(thread: &Thread) -> Self {
        Self {
            status: TurnStatus::Failed,
            content: "the turn failed inside openoxide; the thread is still usable, so try again".to_owned(),
            usage: Usage::default(),
            denials: Vec::new(),
            carried: None,
            left_over: thread.seal(TurnStatus::Failed),
        }
    }
}

struct Driver<'a> {
    thread: &'a Arc<Thread>,
    turn: StartedTurn,
    state: TurnState,
    context_due: ContextDue,
    cache_key: String,
    diff: Arc<Mutex<TurnDiff>>,
    stream: Option<ModelStream>,
    plans: Vec<Option<Plan>>,
    /// Calls that may be forgotten when the turn stops.
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// The call that changes files; it is always waited for.
    exclusive: Option<BoxFuture<'static, Done>>,
    questions: FuturesUnordered<BoxFuture<'static, (CallIndex, Decision)>>,
    /// Inputs that are there already.
    ready: VecDeque<Input>,
    /// The end of the turn's time, and how long that is in seconds.
    deadline: Option<(Pin<Box<Sleep>>, u64)>,
}

/// A call got somewhere.
enum Done {
    Prepared(CallIndex, Box<Plan>, Prepared),
    Run(CallIndex, CallOutcome),
    Summarised(Result<Summary, String>),
}

impl<'a> Driver<'a> {
    fn new(thread: &'a Arc<Thread>, turn: StartedTurn, start: TurnStart, diff: Arc<Mutex<TurnDiff>>) -> Self {
        let (config, core) = (thread.config(), &thread.core.config);
        let rules = Rules {
            policy: config.approval_policy,
            sandbox: config.sandbox,
            rules: Arc::clone(&core.rules),
            remembered: start.remembered,
        };
        let budget = Budget {
            max_steps: least(config.max_steps, Some(core.limits.max_steps)).unwrap_or(u32::MAX),
            max_tokens: least(config.max_turn_tokens, core.limits.max_turn_tokens),
            compact_at: thread.core.compact_at(&config.model),
        };
        let seconds = least(config.max_turn_seconds, core.limits.max_turn_seconds);
        let deadline = seconds
            .map(|seconds| (Box::pin(tokio::time::sleep_until(turn.started + Duration::from_secs(seconds))), seconds));
        Self {
            state: TurnState::new(turn.turn_id, rules, budget, start.context_tokens, start.next_item_id),
            deadline,
            context_due: start.context_due,
            cache_key: thread.id().to_string(),
            thread,
            turn,
            diff,
            stream: None,
            plans: Vec::new(),
            work: FuturesUnordered::new(),
            exclusive: None,
            questions: FuturesUnordered::new(),
            ready: VecDeque::new(),
        }
    }

    async fn run(mut self) -> Parts {
        let mut actions = Vec::new();
        let mut interrupted = false;
        let prompt = std::mem::take(&mut self.turn.text);
        let begun = self.begin();
        self.ready.push_back(Input::Start(prompt));
        if let Err(error) = begun {
            self.ready.push_front(Input::Broken(rollout_failure(&error)));
        }
        loop {
            let input = match self.ready.pop_front() {
                Some(input) => input,
                None => self.next_input(&mut interrupted).await,
            };
            self.state.handle(input, &mut actions);
            let mut ended = None;
            for action in actions.drain(..) {
                let Action::End(status) = action else {
                    let Err(error) = self.perform(action) else { continue };
                    // What was to follow rests on what could not be written.
                    self.ready.clear();
                    self.ready.push_back(Input::Broken(rollout_failure(&error)));
                    break;
                };
                ended = self.seal(status);
            }
            if let Some((status, left_over)) = ended {
                return self.into_parts(status, left_over);
            }
        }
    }

    fn into_parts(self, status: TurnStatus, left_over: Vec<String>) -> Parts {
        let Outcome { content, usage, denials, remembered, next_item_id, context_tokens } = self.state.into_outcome();
        let carried = Some(Carried { remembered, next_item_id, context_tokens });
        Parts { status, content, usage, denials, carried, left_over }
    }

    /// Writes what the turn runs with and, ahead of a thread's first prompt, what the model is to know.
    fn begin(&mut self) -> io::Result<()> {
        let (thread, config) = (self.thread, self.thread.config());
        thread.record(&RolloutItem::TurnContext(TurnContext {
            turn_id: self.turn.turn_id,
            cwd: config.cwd.clone(),
            model: config.model.clone(),
            sandbox: config.sandbox,
            approval_policy: config.approval_policy,
        }))?;
        let (items, warnings) = context::due(self.context_due, &thread.core.config, thread.core.shell, config);
        for message in warnings {
            thread.hub.emit(Event::Warning { turn_id: self.turn.turn_id, message });
        }
        items.into_iter().try_for_each(|item| thread.append(item))?;
        thread.context_sent();
        Ok(())
    }

    /// Waits for the next thing to happen.
    async fn next_input(&mut self, interrupted: &mut bool) -> Input {
        // A provider may have thousands of events at hand; this gives other tasks their share.
        tokio::task::coop::consume_budget().await;
        let Self { turn, stream, work, exclusive, questions, deadline, .. } = self;
        // Cancel-safe throughout: the interrupt is a flag, streams and sets of futures keep what is not taken, and the
        // exclusive call is polled by reference. The interrupt is looked at first and once.
        tokio::select! {
            biased;
            () = turn.control.interrupted(), if !*interrupted => {
                *interrupted = true;
                Input::Interrupt
            }
            event = poll_some(stream.as_mut().map(|stream| stream.next())) => match event {
                Some(Ok(event)) => Input::Model(event),
                Some(Err(error)) => {
                    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                    let is_too_long = error.cause() == Cause::ContextLength;
                    Input::ModelFailed { message: format!("{error}{hint}"), is_too_long }
                }
                None => Input::ModelFailed {
                    message: "the model's response ended before it was complete; send the prompt again".to_owned(),
                    is_too_long: false,
                },
            },
            done = poll_some(exclusive.as_mut()) => {
                *exclusive = None;
                self.done(done)
            }
            Some(done) = work.next(), if !work.is_empty() => self.done(done),
            Some((call, decision)) = questions.next(), if !questions.is_empty() => Input::Decided(call, decision),
            seconds = out_of_time(deadline) => Input::OutOfTime(seconds),
        }
    }

    fn done(&mut self, done: Done) -> Input {
        match done {
            Done::Prepared(call, plan, prepared) => {
                self.plans[call] = Some(*plan);
                Input::Prepared(call, prepared)
            }
            Done::Run(call, outcome) => Input::CallDone(call, outcome),
            Done::Summarised(summary) => Input::Summarised(summary),
        }
    }

    fn perform(&mut self, action: Action) -> io::Result<()> {
        match action {
            Action::Append(item) => self.thread.append(item)?,
            Action::TakeSteers => {
                for text in self.thread.take_steers() {
                    self.thread.append(HistoryItem::Message { role: Role::User, text })?;
                }
            }
            Action::Emit(event) => self.thread.hub.emit(event),
            Action::RequestModel => self.request(),
            Action::Remember(approval) => {
                self.thread.record(&RolloutItem::EventMsg(EventRecord::Remembered { approval }))?;
            }
            Action::DropModel => self.stream = None,
            Action::Summarise => self.summarise(),
            Action::Compact(summary) => self.compact(&summary)?,
            Action::Prepare(call) => self.prepare(call),
            Action::Ask(questions) => self.ask(questions),
            Action::Run(call, item_id) => self.run_call(call, item_id),
            Action::Release(call) => {
                if let Some(plan) = &mut self.plans[call] {
                    plan.leave_sandbox();
                }
            }
            Action::StopCalls => {
                if let Some(ending) = self.thread.sessions.terminate(Some(self.turn.turn_id)) {
                    tokio::spawn(ending);
                }
                self.work.clear();
                self.questions.clear();
            }
            Action::End(_) => {}
        }
        Ok(())
    }

    /// `None` when the turn goes on after all.
    fn seal(&mut self, status: TurnStatus) -> Option<(TurnStatus, Vec<String>)> {
        let steers = self.thread.seal(status);
        if status == TurnStatus::Completed && !steers.is_empty() {
            self.ready.push_back(Input::Steer(steers));
            return None;
        }
        Some((status, steers))
    }

    fn request(&mut self) {
        let (core, config) = (&self.thread.core, self.thread.config());
        let history = self.thread.history();
        self.plans.clear();
        self.stream = Some(core.config.provider.stream(ModelRequest {
            model: &config.model,
            instructions: config.base_instructions.as_deref().unwrap_or(instructions::BASE),
            input: &history,
            tools: core.tools(config).specs(),
            cache_key: &self.cache_key,
        }));
    }

    fn summarise(&mut self) {
        let (core, config) = (&self.thread.core, self.thread.config());
        let compaction = Compaction {
            provider: Arc::clone(&core.config.provider),
            model: config.model.clone(),
            instructions: config.base_instructions.as_deref().unwrap_or(instructions::BASE).to_owned(),
            tools: core.tools(config).specs().into(),
            cache_key: self.cache_key.clone(),
            prompt: core.config.compact_prompt.as_deref().unwrap_or(instructions::COMPACT_PROMPT).to_owned(),
        };
        let history = self.thread.history().to_vec();
        self.work.push(compaction.summarise(history).map(Done::Summarised).boxed());
    }

    /// Lets a summary take the history's place. What a thread begins with is read anew: it may have changed.
    fn compact(&self, summary: &str) -> io::Result<()> {
        let (core, config) = (&self.thread.core, self.thread.config());
        let (beginning, _) = context::due(ContextDue::Everything, &core.config, core.shell, config);
        self.thread.replace_history(compact::compacted(beginning, &self.thread.history(), summary))
    }

    fn context(&self, call: CallIndex) -> ToolContext {
        ToolContext {
            thread: Arc::clone(self.thread),
            turn_id: self.turn.turn_id,
            call_id: self.state.call(call).call_id.clone(),
            diff: Arc::clone(&self.diff),
        }
    }

    fn prepare(&mut self, index: CallIndex) {
        let (context, call) = (self.context(index), self.state.call(index));
        if self.plans.len() <= index {
            self.plans.resize(index + 1, None);
        }
        let mut plan = match self.plans[index].take().map_or_else(|| tools::plan(&context, call), Ok) {
            Ok(plan) => plan,
            Err(message) => return self.ready.push_back(Input::Prepared(index, tools::refused(call, message))),
        };
        let is_patch = plan.is_patch();
        let mut preparing = async move {
            let prepared = tools::prepare(context, &mut plan).await;
            Done::Prepared(index, Box::new(plan), prepared)
        }
        .boxed();
        // Only a patch has to wait for files.
        let done = if is_patch { None } else { (&mut preparing).now_or_never() };
        match done {
            Some(done) => {
                let input = self.done(done);
                self.ready.push_back(input);
            }
            None => self.work.push(preparing),
        }
    }

    fn ask(&mut self, questions: Vec<(CallIndex, Question)>) {
        let (calls, requests): (Vec<_>, Vec<_>) = questions
            .into_iter()
            .map(|(call, question)| {
                let rules = self.state.rules();
                let request = ApprovalRequest {
                    id: ApprovalId::new(),
                    reason: rules.judge(&question).reason,
                    confined: rules.confines(&question),
                    thread_id: self.thread.id(),
                    turn_id: self.turn.turn_id,
                    call_id: self.state.call(call).call_id.clone(),
                    justification: question.justification,
                    action: question.action,
                };
                ((call, request.id), request)
            })
            .unzip();
        for ((call, id), decision) in calls.into_iter().zip(self.thread.ask(requests)) {
            self.await_decision(call, id, decision);
        }
    }

    fn await_decision(&mut self, call: CallIndex, id: ApprovalId, decision: oneshot::Receiver<Decision>) {
        let (thread, limit) = (Arc::clone(self.thread), self.thread.core.config.approval_timeout);
        self.questions.push(
            async move {
                let mut decision = decision;
                let decision = match timeout(limit, &mut decision).await {
                    Ok(decision) => decision,
                    Err(_) => {
                        // Whoever settles first wins: this, or a decision that came at the same moment.
                        thread.time_out(id);
                        decision.await
                    }
                };
                let gone = Decision::Deny { reason: DenialReason::Cancelled, note: None };
                (call, decision.unwrap_or(gone))
            }
            .boxed(),
        );
    }

    fn run_call(&mut self, call: CallIndex, item_id: u64) {
        let Some(plan) = self.plans[call].clone() else { return };
        let exclusive = plan.is_patch();
        let running =
            tools::run(self.context(call), plan, item_id).map(move |outcome| Done::Run(call, outcome)).boxed();
        if exclusive { self.exclusive = Some(running) } else { self.work.push(running) }
    }
}

/// Ready when the time is over; never where there is no end to it. Says how many seconds it was.
async fn out_of_time(deadline: &mut Option<(Pin<Box<Sleep>>, u64)>) -> u64 {
    match deadline {
        Some((sleep, seconds)) => {
            sleep.await;
            let seconds = *seconds;
            // Told once.
            *deadline = None;
            seconds
        }
        None => std::future::pending().await,
    }
}

/// The smaller of two limits that may not be there.
fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// A future that may not be there; without one it never ends.
async fn poll_some<F: Future + Unpin>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

fn rollout_failure(error: &io::Error) -> String {
    format!(
        "the thread's rollout cannot be written ({error}), so the turn was stopped; check the free space and the \
         permissions of the sessions directory"
    )
}
