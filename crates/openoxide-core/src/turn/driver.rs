//! Performs what [`TurnState`] decides: asks the model, runs tools, puts questions, writes, tells.
//!
//! Everything it waits for is polled within the task that runs the turns of a thread (`thread/turns.rs`), so dropping a future here is
//! all it takes to stop following something.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use openoxide_llm::{Cause, HistoryItem, ModelRequest, ModelStream, Role, Usage};
use openoxide_sandbox::Workspace;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Sleep, timeout};
use tracing::Instrument as _;

use super::beginning::{home_warning, read_context};
use super::compact::{self, Compaction, Summary};
use super::host::{ContextDue, LastingState, StartedTurn, TurnHost, TurnStart};
use super::prefix;
use super::standing;
use super::state::{Budget, Outcome, TurnState};
use super::step::{Action, CallIndex, Input};
use super::waiting::{out_of_time, poll_some};
use crate::mutex::lock;
use crate::rules::approvals::{Judged, Rules};
use crate::store::TurnContext;
use crate::tools::turn_diff::TurnDiff;
use crate::tools::{self, CallOutcome, PictureRoom, Prepared, PreparedCall, ToolEnv, ToolHost, TurnEnv};
use crate::{
    ApprovalId, ApprovalRequest, Decider, Decision, Denial, DenialReason, Event, Interruption, TurnStatus, instructions,
};

/// How a turn ended, for the thread that ran it.
pub(crate) struct TurnOutcome {
    pub(crate) status: TurnStatus,
    pub(crate) content: String,
    /// Why somebody ended it, where it ended so.
    pub(crate) interruption: Option<Interruption>,
    pub(crate) usage: Usage,
    pub(crate) denials: Vec<Denial>,
    /// None where a panic has lost it.
    pub(crate) carried: Option<LastingState>,
    pub(crate) left_over: Vec<String>,
}

impl TurnOutcome {
    pub(crate) fn after_panic(host: &dyn TurnHost) -> Self {
        Self {
            status: TurnStatus::Failed,
            content: "the turn failed inside openoxide; the thread is still usable, so try again".to_owned(),
            interruption: None,
            usage: Usage::default(),
            denials: Vec::new(),
            carried: None,
            left_over: host.seal(TurnStatus::Failed),
        }
    }
}

/// Calls of one turn that run at a time; the others wait for a place.
const MAX_CALLS: usize = 16;

pub(crate) struct Driver {
    host: Arc<dyn TurnHost>,
    turn: StartedTurn,
    state: TurnState,
    context_due: ContextDue,
    cache_key: String,
    diff: Arc<Mutex<TurnDiff>>,
    /// The thread's directory, held for as long as the turn lasts.
    workspace: Option<Arc<Workspace>>,
    /// What the history begins with once it is summed up.
    beginning: Vec<HistoryItem>,
    /// How many calls may run at a time.
    slots: Arc<Semaphore>,
    starts: Arc<tokio::sync::Mutex<()>>,
    /// Room for the pictures of the present response.
    pictures: Arc<PictureRoom>,
    stream: Option<ModelStream>,
    /// The time the model takes for its response.
    asking: tracing::Span,
    prepared: Vec<Option<Box<dyn PreparedCall>>>,
    /// Calls that may be forgotten when the turn stops.
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// The call that changes files; it is always waited for.
    exclusive: Option<BoxFuture<'static, Done>>,
    questions: FuturesUnordered<BoxFuture<'static, (CallIndex, Decision, Decider)>>,
    /// Inputs that are there already.
    ready: VecDeque<Input>,
    /// The end of the turn's time, and how long that is in seconds.
    deadline: Option<(Pin<Box<Sleep>>, u64)>,
}

/// A call got somewhere.
enum Done {
    Prepared(CallIndex, Box<dyn PreparedCall>, Prepared),
    Run(CallIndex, CallOutcome),
    /// The summary, and what the thread begins with.
    Summarised(Result<Summary, String>, Vec<HistoryItem>),
}

impl Driver {
    pub(crate) fn new(
        host: Arc<dyn TurnHost>,
        turn: StartedTurn,
        start: TurnStart,
        diff: Arc<Mutex<TurnDiff>>,
    ) -> Self {
        let (config, core) = (host.config(), host.process_config());
        let rules = Rules {
            policy: config.approval_policy,
            sandbox: config.sandbox,
            workspace: config.cwd.clone(),
            rules: Arc::clone(&core.rules),
            remembered: start.remembered,
            no_host_network: core.ceiling.no_host_network(),
        };
        let budget = Budget {
            max_steps: least(config.max_steps, Some(core.limits.max_steps)).unwrap_or(u32::MAX),
            max_tokens: least(config.max_turn_tokens, core.limits.max_turn_tokens),
            compact_at: host.compact_at(),
        };
        let pictures = Arc::new(PictureRoom::new(core.limits.max_picture_bytes));
        let seconds = least(config.max_turn_seconds, core.limits.max_turn_seconds);
        let deadline = seconds
            .map(|seconds| (Box::pin(tokio::time::sleep_until(turn.started + Duration::from_secs(seconds))), seconds));
        Self {
            state: TurnState::new(turn.turn_id, rules, budget, start.context_tokens, start.next_item_id)
                .after(start.summed_up),
            deadline,
            context_due: start.context_due,
            cache_key: config.question_on.unwrap_or(host.thread_id()).to_string(),
            turn,
            diff,
            workspace: None,
            beginning: Vec::new(),
            slots: Arc::new(Semaphore::new(MAX_CALLS)),
            starts: Arc::default(),
            pictures,
            host,
            stream: None,
            asking: tracing::Span::none(),
            prepared: Vec::new(),
            work: FuturesUnordered::new(),
            exclusive: None,
            questions: FuturesUnordered::new(),
            ready: VecDeque::new(),
        }
    }

    pub(crate) async fn run(mut self) -> TurnOutcome {
        let mut actions = Vec::new();
        let mut interrupted = false;
        let prompt = std::mem::take(&mut self.turn.text);
        let begun = self.begin().await;
        self.ready.push_back(Input::Start(prompt));
        if let Err(message) = begun {
            self.ready.push_front(Input::Broken(message));
        }
        loop {
            let input = match self.ready.pop_front() {
                Some(input) => input,
                None => self.next_input(&mut interrupted).await,
            };
            self.state.handle(input, &mut actions);
            let mut ended = None;
            for action in actions.drain(..) {
                match action {
                    Action::End(status) => ended = self.seal(status),
                    action => self.perform(action),
                }
            }
            if let Some((status, left_over)) = ended {
                return self.into_parts(status, left_over);
            }
        }
    }

    fn into_parts(self, status: TurnStatus, left_over: Vec<String>) -> TurnOutcome {
        let Outcome { content, interruption, usage, denials, remembered, next_item_id, context_tokens, summed_up } =
            self.state.into_outcome();
        let carried = Some(LastingState { remembered, next_item_id, context_tokens, summed_up });
        TurnOutcome { status, content, interruption, usage, denials, carried, left_over }
    }

    /// Writes what the turn runs with and, ahead of a thread's first prompt, what the model is to know.
    async fn begin(&mut self) -> Result<(), String> {
        let (host, config) = (&self.host, self.host.config());
        host.record_turn(TurnContext {
            turn_id: self.turn.turn_id,
            cwd: config.cwd.clone(),
            directory: Some(host.directory_id().to_owned()),
            model: config.model.clone(),
            sandbox: config.sandbox,
            approval_policy: config.approval_policy,
        });
        host.begin_with(&prefix::digest(config, host.toolbox().specs(), host.process_config().provider.as_ref()));
        let (workspace, (mut items, mut warnings)) = read_context(host, self.context_due).await?;
        if host.take_remade() {
            items.push(HistoryItem::Note { text: instructions::REMADE_NOTE.to_owned() });
        }
        if self.context_due == ContextDue::Everything {
            warnings.extend(home_warning(workspace.path(), host.process_config().launcher.host_paths()));
        }
        self.workspace = Some(workspace);
        for message in warnings {
            host.emit(Event::Warning { turn_id: self.turn.turn_id, message });
        }
        items.into_iter().for_each(|item| host.append(item));
        host.context_sent();
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
            why = turn.control.interrupted(), if !*interrupted => {
                *interrupted = true;
                Input::Interrupt(why)
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
            Some((call, decision, by)) = questions.next(), if !questions.is_empty() => {
                Input::Decided(call, decision, by)
            }
            seconds = out_of_time(deadline) => Input::OutOfTime(seconds),
        }
    }

    fn done(&mut self, done: Done) -> Input {
        match done {
            Done::Prepared(index, call, prepared) => {
                self.prepared[index] = Some(call);
                Input::Prepared(index, prepared)
            }
            Done::Run(call, outcome) => Input::CallDone(call, outcome),
            Done::Summarised(summary, beginning) => {
                self.beginning = beginning;
                Input::Summarised(summary)
            }
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Append(item) => self.host.append(item),
            Action::TakeSteers => {
                for text in self.host.take_steers() {
                    self.host.append(HistoryItem::Message { role: Role::User, text, carried: None });
                }
            }
            Action::Emit(event) => self.host.emit(event),
            Action::RequestModel => self.request(),
            Action::Remember(approval) => self.host.grant(approval),
            Action::Unbind => self.host.unbind(),
            Action::DropModel => (self.stream, self.asking) = (None, tracing::Span::none()),
            Action::Summarise => self.summarise(),
            Action::Compact(summary) => self.compact(&summary),
            Action::Prepare(call) => self.prepare(call),
            Action::Ask(questions) => self.ask(questions),
            Action::Run(call, item_id) => self.run_call(call, item_id),
            Action::Release(call) => {
                if let Some(call) = &mut self.prepared[call] {
                    call.leave_sandbox();
                }
            }
            Action::StopCalls => {
                if let Some(ending) = self.host.commands().terminate(Some(self.turn.turn_id)) {
                    tokio::spawn(ending);
                }
                self.work.clear();
                self.questions.clear();
            }
            Action::End(_) => {}
        }
    }

    /// `None` when the turn goes on after all.
    fn seal(&mut self, status: TurnStatus) -> Option<(TurnStatus, Vec<String>)> {
        let steers = self.host.seal(status);
        if status == TurnStatus::Completed && !steers.is_empty() {
            self.ready.push_back(Input::Steer(steers));
            return None;
        }
        Some((status, steers))
    }

    fn request(&mut self) {
        self.host.bound_pictures();
        let (core, config) = (self.host.process_config(), self.host.config());
        let history = self.host.history();
        self.pictures = Arc::new(PictureRoom::new(core.limits.max_picture_bytes));
        self.prepared.clear();
        self.asking = tracing::info_span!("model", model = config.model);
        self.stream = Some(core.provider.stream(ModelRequest {
            model: &config.model,
            instructions: prefix::instructions_of(config),
            input: &history,
            tools: self.host.toolbox().specs(),
            cache_key: &self.cache_key,
            reasoning: config.reasoning(),
        }));
    }

    fn summarise(&mut self) {
        let (core, config) = (self.host.process_config(), self.host.config());
        let compaction = Compaction {
            provider: Arc::clone(&core.provider),
            model: config.model.clone(),
            instructions: prefix::instructions_of(config).to_owned(),
            tools: self.host.toolbox().specs().into(),
            cache_key: self.cache_key.clone(),
            prompt: config
                .compact_prompt
                .as_deref()
                .or(core.compact_prompt.as_deref())
                .unwrap_or(instructions::COMPACT_PROMPT)
                .to_owned(),
            effort: config.reasoning_effort.clone(),
            summary: config.reasoning_summary.clone(),
        };
        let (history, host) = (self.host.history().to_vec(), Arc::clone(&self.host));
        // What a thread begins with is read anew: it may have changed.
        let work = async move {
            let summary = compaction.summarise(history).await;
            let beginning = match &summary {
                Ok(_) => read_context(&host, ContextDue::Everything).await.map(|(_, (items, _))| items),
                Err(_) => Ok(Vec::new()),
            };
            match (summary, beginning) {
                (Ok(summary), Ok(beginning)) => Done::Summarised(Ok(summary), beginning),
                (Err(error), _) | (_, Err(error)) => Done::Summarised(Err(error), Vec::new()),
            }
        };
        self.work.push(work.boxed());
    }

    /// Lets a summary take the history's place, behind what a thread begins with.
    fn compact(&mut self, summary: &str) {
        let beginning = std::mem::take(&mut self.beginning);
        let history = self.host.history();
        let commands = self.host.commands();
        let background = commands.background_ids().into_iter().filter_map(|id| {
            let command = commands.background(id)?;
            Some(format!("{id}: {}", openoxide_display::visible(&command.argv)))
        });
        let mut changed = self.host.files_changed();
        changed.extend(lock(&self.diff).files_changed());
        let standing = standing::told(&history, &background.collect::<Vec<_>>(), &changed);
        let room = compact::kept_bytes(self.host.room());
        let summary = instructions::summary_message(summary, &standing);
        self.host.replace_history(compact::compacted(beginning, &history, summary, room));
    }

    fn env(&self, call: CallIndex) -> ToolEnv {
        let turn = TurnEnv {
            host: Arc::clone(&self.host) as Arc<dyn ToolHost>,
            turn_id: self.turn.turn_id,
            diff: &self.diff,
            starts: &self.starts,
            pictures: &self.pictures,
        };
        ToolEnv::new(turn, self.state.call(call).call_id.clone())
    }

    /// The work of a call, which begins when one of the turn's places is free.
    fn in_turn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> BoxFuture<'static, T> {
        let slots = Arc::clone(&self.slots);
        async move {
            // The semaphore is never closed; without a place the call would run all the same.
            let _place = slots.acquire_owned().await;
            work.await
        }
        .boxed()
    }

    fn prepare(&mut self, index: CallIndex) {
        let (env, call) = (self.env(index), self.state.call(index));
        if self.prepared.len() <= index {
            self.prepared.resize_with(index + 1, || None);
        }
        let toolbox = self.host.toolbox();
        let mut prepared = match self.prepared[index].take().map_or_else(|| toolbox.parse(&env, call), Ok) {
            Ok(prepared) => prepared,
            Err(message) => return self.ready.push_back(Input::Prepared(index, tools::refused(call, message))),
        };
        let waits_for_files = prepared.waits_for_files();
        let mut preparing = async move {
            let found = prepared.prepare(&env).await;
            Done::Prepared(index, prepared, found)
        }
        .boxed();
        let done = if waits_for_files { None } else { (&mut preparing).now_or_never() };
        match done {
            Some(done) => {
                let input = self.done(done);
                self.ready.push_back(input);
            }
            None => {
                let preparing = self.in_turn(preparing);
                self.work.push(preparing);
            }
        }
    }

    fn ask(&mut self, questions: Vec<(CallIndex, Judged)>) {
        let (calls, requests): (Vec<_>, Vec<_>) = questions
            .into_iter()
            .map(|(call, Judged { question, verdict, confined, for_thread })| {
                let request = ApprovalRequest {
                    id: ApprovalId::new(),
                    reason: verdict.reason,
                    confined,
                    widening: question.widening().cloned(),
                    for_thread,
                    thread_id: self.host.thread_id(),
                    turn_id: self.turn.turn_id,
                    call_id: self.state.call(call).call_id.clone(),
                    item_id: self.state.asked_item(call),
                    justification: question.justification,
                    action: question.action,
                };
                ((call, request.id), request)
            })
            .unzip();
        for ((call, id), decision) in calls.into_iter().zip(self.host.ask(requests)) {
            self.await_decision(call, id, decision);
        }
    }

    fn await_decision(&mut self, call: CallIndex, id: ApprovalId, decision: oneshot::Receiver<(Decision, Decider)>) {
        let (host, limit) = (Arc::clone(&self.host), self.host.process_config().approval_timeout);
        self.questions.push(
            async move {
                let mut decision = decision;
                let decision = match timeout(limit, &mut decision).await {
                    Ok(decision) => decision,
                    Err(_) => {
                        // Whoever settles first wins: this, or a decision that came at the same moment.
                        host.time_out(id);
                        decision.await
                    }
                };
                let gone = (Decision::Deny { reason: DenialReason::Cancelled, note: None }, Decider::TurnEnd);
                let (decision, by) = decision.unwrap_or(gone);
                host.write_settled();
                (call, decision, by)
            }
            .boxed(),
        );
    }

    fn run_call(&mut self, call: CallIndex, item_id: u64) {
        // It may run again, outside of the sandbox.
        let Some(prepared) = self.prepared[call].as_ref().map(|prepared| prepared.again()) else { return };
        let exclusive = prepared.changes_files();
        let span = tracing::info_span!("tool", name = self.state.call(call).name);
        let running =
            prepared.run(self.env(call), item_id).instrument(span).map(move |outcome| Done::Run(call, outcome)).boxed();
        if exclusive {
            self.exclusive = Some(running);
        } else {
            let running = self.in_turn(running);
            self.work.push(running);
        }
    }
}

/// The smaller of two limits that may not be there.
fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
