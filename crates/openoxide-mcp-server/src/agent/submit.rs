//! From the arguments of a `tools/call` to its turn.
//!
//! What continues a thread is submitted in the order of arrival, synchronously, by the processor: that is what keeps
//! prompts of one thread in order. What starts a thread touches the disk and is submitted by its runner.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use openoxide_core::{
    ApprovalPolicy, Attachment, CoreError, Interruption, Op, SandboxMode, SteerId, Submitted, Thread, ThreadAccess,
    ThreadConfig, ThreadId, ThreadManager, TurnId, TurnResult,
};
use openoxide_mcp_protocol::tools::{OpenoxideParams, QueryParams, ReplyParams};

use crate::backend::Call;
use crate::convert::choices;
use crate::convert::result::CallResult;
use crate::principal::Principal;

/// A call's hold on its turn.
pub(super) struct TurnHandle {
    pub(super) thread: Arc<Thread>,
    pub(super) turn: TurnId,
    pub(super) attachment: Attachment,
    /// Whether this call's prompt began the turn, so that cancelling the call ends it.
    pub(super) began: bool,
    /// The steering text that this call gave the turn.
    pub(super) steer: Option<SteerId>,
}

/// Where a call got to when it was submitted.
pub(super) enum SubmitOutcome {
    /// To its turn.
    Turn(Box<TurnHandle>),
    /// How the call ended is known already.
    Result(CallResult),
    /// The turn is over; the result is without its diff. With it, it becomes an answer when there is room for one.
    Ended(Arc<Thread>, Arc<TurnResult>),
    /// To nothing: the client does not want an answer any more.
    Cancelled,
}

fn refused(thread: Option<&str>, error: CoreError) -> SubmitOutcome {
    SubmitOutcome::Result(CallResult::refused(thread, error))
}

fn invalid(message: impl Into<String>) -> SubmitOutcome {
    SubmitOutcome::Result(CallResult::Invalid(message.into()))
}

fn attached(thread: Arc<Thread>, submitted: Result<(Submitted, Attachment), CoreError>) -> SubmitOutcome {
    match submitted {
        Ok((Submitted::Turn(turn), attachment)) => {
            SubmitOutcome::Turn(Box::new(TurnHandle { thread, turn, attachment, began: true, steer: None }))
        }
        Ok((Submitted::Steered(turn, steer), attachment)) => {
            SubmitOutcome::Turn(Box::new(TurnHandle { thread, turn, attachment, began: false, steer: Some(steer) }))
        }
        Ok((_, attachment)) => last(&thread, attachment.snapshot.last),
        Err(error) => SubmitOutcome::Result(CallResult::failed(thread.id().to_string(), &error)),
    }
}

/// The last result of a thread on which no turn runs.
fn last(thread: &Arc<Thread>, last: Option<Arc<TurnResult>>) -> SubmitOutcome {
    match last {
        Some(result) => SubmitOutcome::Ended(Arc::clone(thread), result),
        None => invalid("no turn has run on this thread yet; send a prompt"),
    }
}

/// Starts a thread with its first turn. Blocks on the disk for a moment.
pub(super) fn start(manager: &Arc<ThreadManager>, principal: &Principal, params: OpenoxideParams) -> SubmitOutcome {
    let defaults = match manager.config().thread_defaults_with(params.profile.as_deref()) {
        Ok(defaults) => defaults,
        Err(error) => return refused(None, error),
    };
    let overrides = params.config.unwrap_or_default();
    let config = ThreadConfig {
        cwd: params.cwd.map_or(defaults.cwd, Into::into),
        model: params.model.or(overrides.model).unwrap_or(defaults.model),
        sandbox: params.sandbox.map_or(defaults.sandbox, choices::sandbox_mode),
        approval_policy: params.approval_policy.map_or(defaults.approval_policy, choices::approval_policy),
        base_instructions: params.base_instructions,
        developer_instructions: params.instructions,
        compact_prompt: params.compact_prompt.or(defaults.compact_prompt),
        reasoning_effort: overrides.model_reasoning_effort.or(defaults.reasoning_effort),
        reasoning_summary: overrides.model_reasoning_summary.or(defaults.reasoning_summary),
        read_only_tools: false,
        question_on: None,
        tool_output_token_limit: overrides.tool_output_token_limit.or(defaults.tool_output_token_limit),
        project_doc_max_bytes: overrides.project_doc_max_bytes.or(defaults.project_doc_max_bytes),
        max_turn_tokens: overrides.max_turn_tokens.or(defaults.max_turn_tokens),
        max_turn_seconds: overrides.max_turn_seconds.or(defaults.max_turn_seconds),
        // More than can be counted is the same as no limit of the caller's.
        max_steps: overrides.max_steps.map(|steps| u32::try_from(steps).unwrap_or(u32::MAX)).or(defaults.max_steps),
        owner: principal.owner(),
    };
    begin(manager.start_thread(config), params.prompt)
}

/// [`query`] where blocking holds nobody up.
pub(super) async fn query_in_background(
    manager: Arc<ThreadManager>,
    principal: Principal,
    params: QueryParams,
) -> SubmitOutcome {
    let span = tracing::Span::current();
    let asked = move || span.in_scope(|| query(&manager, &principal, params));
    let asked = tokio::task::spawn_blocking(asked).await;
    asked.unwrap_or_else(|_| invalid("the question could not be started; ask again"))
}

/// Starts a query on a thread of its own, or on a read-only fork. Blocks on the disk where the thread has to be read.
fn query(manager: &Arc<ThreadManager>, principal: &Principal, params: QueryParams) -> SubmitOutcome {
    let Some(thread_id) = &params.thread_id else {
        let defaults = manager.config().thread_defaults();
        let config = ThreadConfig {
            cwd: params.cwd.map_or(defaults.cwd, Into::into),
            model: params.model.unwrap_or(defaults.model),
            sandbox: SandboxMode::ReadOnly,
            approval_policy: ApprovalPolicy::Never,
            read_only_tools: true,
            owner: principal.owner(),
            ..defaults
        };
        return begin(manager.start_thread(config), params.query);
    };
    let id = match self::thread_id(thread_id) {
        Ok(id) => id,
        Err(refused) => return refused,
    };
    let fork = match manager.fork_for_query(id) {
        Ok(fork) => fork,
        Err(error) => return refused(Some(thread_id), as_told(manager, principal, id, error)),
    };
    // The fork has what the original has.
    let config = fork.config();
    if !principal.may_use(config.owner.as_deref()) {
        let _ = fork.submit(Op::Shutdown);
        return refused(Some(thread_id), CoreError::ThreadNotFound { id });
    }
    let refuse = |message: String| {
        // A thread on which nothing runs is closed at once.
        let _ = fork.submit(Op::Shutdown);
        invalid(message)
    };
    if let Some(cwd) = &params.cwd
        && config.cwd.join(cwd) != config.cwd
    {
        let message = format!(
            "cwd is {cwd:?}, but thread {thread_id} works in {}; leave cwd out, or ask without a thread_id",
            openoxide_core::quote_path(&config.cwd)
        );
        return refuse(message);
    }
    if params.model.as_ref().is_some_and(|model| *model != config.model) {
        let message = format!(
            "model cannot change on a thread; thread {thread_id} uses {:?}, leave model out or ask without a thread_id",
            config.model
        );
        return refuse(message);
    }
    begin(Ok(fork), params.query)
}

fn begin(thread: Result<Arc<Thread>, CoreError>, prompt: String) -> SubmitOutcome {
    match thread {
        Ok(thread) => {
            let submitted = thread.submit_and_attach(Op::UserInput { text: prompt });
            attached(thread, submitted)
        }
        Err(error) => refused(None, error),
    }
}

fn thread_id(id: &str) -> Result<ThreadId, SubmitOutcome> {
    let Ok(thread_id) = id.parse::<ThreadId>() else {
        let message = format!("thread_id is {id:?}, which is no thread id; use the threadId of an earlier result");
        return Err(SubmitOutcome::Result(CallResult::BadThreadId(message)));
    };
    Ok(thread_id)
}

/// Where a call that continues a thread gets to at once, or the future by which it gets there.
pub(super) enum Reply {
    Now(SubmitOutcome),
    Later(BoxFuture<'static, SubmitOutcome>),
}

/// Continues a thread. Calls of one thread are submitted in the order in which this is called, also where the thread has
/// to be loaded first.
pub(super) fn reply(manager: &Arc<ThreadManager>, principal: &Principal, params: ReplyParams) -> Reply {
    let id = match thread_id(&params.thread_id) {
        Ok(id) => id,
        Err(refused) => return Reply::Now(refused),
    };
    let (principal, manager) = (principal.clone(), Arc::clone(manager));
    match manager.enter(id) {
        ThreadAccess::Open(thread) => Reply::Now(reply_on(&thread, &principal, params)),
        ThreadAccess::Queued(ticket) => Reply::Later(Box::pin(async move {
            // Another process that uses the thread is waited for where the caller says for how long.
            let patience = params.wait_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            let (thread, _pass) = ticket.open(patience.unwrap_or_default()).await;
            match thread {
                Ok(thread) => reply_on(&thread, &principal, params),
                Err(error) => {
                    // It reads the disk.
                    let asked = params.thread_id.clone();
                    let told = move || refused(Some(&asked), as_told(&manager, &principal, id, error));
                    let told = tokio::task::spawn_blocking(told).await;
                    told.unwrap_or_else(|_| refused(None, CoreError::ThreadNotFound { id }))
                }
            }
        })),
    }
}

/// Why a thread could not be loaded, as far as it is the caller's business: of a thread that is not theirs they are told
/// what they are told of one that does not exist. Blocks on the disk.
fn as_told(manager: &ThreadManager, principal: &Principal, id: ThreadId, error: CoreError) -> CoreError {
    let is_theirs = || manager.owner_of(id).is_ok_and(|owner| principal.may_use(owner.as_deref()));
    match principal {
        Principal::Token(_) if !is_theirs() => CoreError::ThreadNotFound { id },
        Principal::Token(_) | Principal::Local => error,
    }
}

/// Takes a call that is cancelled while it waits out of the queue, so that the next need not wait for it. One whose client
/// has timed out is not: what it asks for is still wanted.
pub(super) async fn unless_cancelled(call: &Call, mut outcome: BoxFuture<'static, SubmitOutcome>) -> SubmitOutcome {
    // Cancel-safe: a turn is asked for by the poll that makes the outcome ready.
    tokio::select! {
        biased;
        () = call.cancelled.notified() => {}
        outcome = &mut outcome => return outcome,
    }
    if !call.has_timed_out() {
        return SubmitOutcome::Cancelled;
    }
    let outcome = outcome.await;
    // The runner is to hear of it as well.
    call.cancelled.notify_one();
    outcome
}

fn reply_on(thread: &Arc<Thread>, principal: &Principal, params: ReplyParams) -> SubmitOutcome {
    if !principal.may_use(thread.config().owner.as_deref()) {
        return refused(None, CoreError::ThreadNotFound { id: thread.id() });
    }
    let id = thread.id().to_string();
    if params.close.unwrap_or_default() {
        return match thread.submit(Op::Shutdown) {
            Ok(_) => SubmitOutcome::Result(CallResult::Closed(Arc::clone(thread))),
            Err(error) => refused(Some(&id), error),
        };
    }
    let interrupt = params.interrupt.unwrap_or_default();
    let Some(text) = params.prompt else {
        // Attached first, so that the end of an interrupted turn is not missed.
        let attachment = thread.attach();
        if interrupt && let Err(error) = thread.submit(Op::Interrupt { turn_id: None, why: Interruption::Asked }) {
            return refused(Some(&id), error);
        }
        let running = attachment.snapshot.running.or_else(|| attachment.snapshot.queued.first().copied());
        return match running {
            Some(turn) => {
                let thread = Arc::clone(thread);
                SubmitOutcome::Turn(Box::new(TurnHandle { thread, turn, attachment, began: false, steer: None }))
            }
            None => last(thread, attachment.snapshot.last),
        };
    };
    if interrupt && let Err(error) = thread.submit(Op::Interrupt { turn_id: None, why: Interruption::Asked }) {
        return refused(Some(&id), error);
    }
    let op = match params.steer.unwrap_or_default() {
        true => Op::Steer { text },
        false => Op::UserInput { text },
    };
    let submitted = thread.submit_and_attach(op);
    attached(Arc::clone(thread), submitted)
}
