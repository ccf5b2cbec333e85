//! The state machine of a turn, driven by hand: no runtime, no clock, no file.

use std::sync::Arc;

use openoxide_llm::{HistoryItem, ItemKind, ModelEvent, Role, Unfinished, Usage};
use openoxide_sandbox::SandboxMode;

use super::compact::Summary;
use super::state::{Budget, SummedUp, TurnState};
use super::step::{Action, Input};
use crate::rules::approvals::{Question, Remembered, Rules};
use crate::tools::{CallOutcome, Prepared};
use crate::{
    ApprovalAction, ApprovalPolicy, Decider, Decision, DenialReason, Event, Interruption, ItemStatus, TurnId,
    TurnItemKind,
};

struct Machine {
    state: TurnState,
    log: Vec<String>,
}

impl Machine {
    fn new(policy: ApprovalPolicy) -> Self {
        Self::with(policy, Budget { max_steps: 3, max_tokens: None, compact_at: None }, 0)
    }

    fn with(policy: ApprovalPolicy, budget: Budget, context_tokens: u64) -> Self {
        let sandbox = SandboxMode::WorkspaceWrite;
        let rules = Rules {
            policy,
            sandbox,
            workspace: "/".into(),
            rules: Arc::default(),
            remembered: Remembered::default(),
            no_host_network: None,
        };
        Self { state: TurnState::new(TurnId::new(), rules, budget, context_tokens, 1), log: Vec::new() }
    }

    fn started(policy: ApprovalPolicy) -> Self {
        let mut machine = Self::new(policy);
        assert_eq!(machine.step(Input::Start("do it".into())), ["append user: do it", "take steers", "request"]);
        machine
    }

    /// Gives one input; what is to be done, in short.
    fn step(&mut self, input: Input) -> Vec<String> {
        let mut actions = Vec::new();
        self.state.handle(input, &mut actions);
        let log: Vec<String> = actions.iter().map(short).collect();
        self.log.extend(log.clone());
        log
    }

    fn say(&mut self, event: ModelEvent) -> Vec<String> {
        self.step(Input::Model(event))
    }

    /// A whole response that calls these tools.
    fn calls(&mut self, ids: &[&str]) -> Vec<String> {
        for id in ids {
            self.say(ModelEvent::ItemDone(call(id)));
        }
        self.say(completed())
    }
}

fn short(action: &Action) -> String {
    match action {
        Action::Append(HistoryItem::Message { role: Role::User, text, .. }) => format!("append user: {text}"),
        Action::Append(HistoryItem::Message { text, .. }) => format!("append message: {text}"),
        Action::Append(HistoryItem::Reasoning { summary, .. }) => format!("append reasoning: {summary}"),
        Action::Append(HistoryItem::ToolOutput { call_id, output, .. }) => format!("append output {call_id}: {output}"),
        Action::Append(HistoryItem::FunctionCall { call_id, .. }) => format!("append call {call_id}"),
        Action::Append(other) => format!("append {other:?}"),
        Action::TakeSteers => "take steers".into(),
        Action::RequestModel => "request".into(),
        Action::Remember(_) => "remember".into(),
        Action::Unbind => "unbind".into(),
        Action::DropModel => "drop model".into(),
        Action::Summarise => "summarise".into(),
        Action::Compact(summary) => format!("compact {summary}"),
        Action::Prepare(call) => format!("prepare {call}"),
        Action::Ask(questions) => {
            let calls: Vec<_> = questions.iter().map(|(call, _)| call.to_string()).collect();
            format!("ask {}", calls.join(", "))
        }
        Action::Run(call, item) => format!("run {call} as {item}"),
        Action::Release(call) => format!("release {call}"),
        Action::StopCalls => "stop calls".into(),
        Action::End(status) => format!("end {status:?}"),
        Action::Emit(Event::ItemStarted { item, .. }) => format!("started {}", item.id),
        Action::Emit(Event::ItemCompleted { item, .. }) => match &item.kind {
            TurnItemKind::Tool { status, .. } => format!("completed {} {status:?}", item.id),
            _ => format!("completed {}", item.id),
        },
        Action::Emit(Event::ItemDelta { item_id, delta, .. }) => format!("delta {item_id}: {delta}"),
        Action::Emit(Event::Usage { usage, .. }) => format!("usage {}", usage.output_tokens),
        Action::Emit(Event::Warning { .. }) => "warning".into(),
        Action::Emit(other) => format!("emit {other:?}"),
    }
}

/// Who decides here.
fn by() -> Decider {
    Decider::Client(Some("test".into()))
}

fn call(id: &str) -> HistoryItem {
    HistoryItem::FunctionCall { call_id: id.into(), name: "tool".into(), arguments: "{}".into(), carried: None }
}

fn message(text: &str) -> ModelEvent {
    ModelEvent::ItemDone(HistoryItem::Message { role: Role::Assistant, text: text.into(), carried: None })
}

fn completed() -> ModelEvent {
    ModelEvent::Completed { usage: Usage { output_tokens: 2, ..Usage::default() } }
}

fn item(status: ItemStatus) -> TurnItemKind {
    TurnItemKind::Tool { call_id: "c".into(), name: "tool".into(), summary: "x".into(), status }
}

fn ready(question: Option<ApprovalAction>, exclusive: bool) -> Prepared {
    let question = question.map(Question::new);
    Prepared::Ready { item: item(ItemStatus::InProgress), question, exclusive }
}

fn command(text: &str) -> ApprovalAction {
    ApprovalAction::Command { argv: vec![text.into()], cwd: "/".into() }
}

fn patch(diff: &str) -> ApprovalAction {
    ApprovalAction::Patch { changes: Vec::new(), unified_diff: diff.into() }
}

fn done(output: &str) -> CallOutcome {
    CallOutcome::plain(output.into(), item(ItemStatus::Completed))
}

fn later() -> Prepared {
    Prepared::Refused { message: "does not fit".into(), item: item(ItemStatus::Failed), later: true }
}

#[test]
fn a_message_is_written_before_it_is_announced_and_ends_the_turn() {
    let mut machine = Machine::started(ApprovalPolicy::Never);
    assert_eq!(machine.say(ModelEvent::ItemStarted(ItemKind::Message)), ["started 1"]);
    assert_eq!(machine.say(ModelEvent::TextDelta("he".into())), ["delta 1: he"]);
    assert_eq!(machine.say(message("hello")), ["append message: hello", "completed 1"]);
    assert_eq!(machine.say(completed()), ["drop model", "usage 2", "end Completed"]);
    assert_eq!(machine.state.into_outcome().content, "hello");
}

#[test]
fn the_content_is_the_last_message_that_says_something() {
    let mut machine = Machine::started(ApprovalPolicy::Never);
    machine.say(message("the answer"));
    machine.calls(&["a"]);
    machine.step(Input::Prepared(0, ready(None, false)));
    machine.step(Input::CallDone(0, done("ok")));
    machine.say(message("  "));
    assert_eq!(machine.say(completed()).last().unwrap(), "request", "it is asked for its answer once");
    machine.say(message("  "));
    let log = machine.say(completed());
    assert_eq!(log[log.len() - 2..], ["warning", "end Completed"]);
    assert_eq!(machine.state.into_outcome().content, "the answer");
}

#[test]
fn reasoning_is_kept_with_the_item_that_follows_it_or_not_at_all() {
    let reasoning = |text: &str| {
        ModelEvent::ItemDone(HistoryItem::Reasoning { summary: text.into(), raw: serde_json::Value::Null })
    };
    let mut machine = Machine::started(ApprovalPolicy::Never);
    assert_eq!(machine.say(reasoning("one")), ["started 1"]);
    assert_eq!(
        machine.say(message("hi")),
        ["started 2", "append reasoning: one", "completed 1", "append message: hi", "completed 2"]
    );
    machine.say(reasoning("alone"));
    let log = machine.step(Input::ModelFailed { message: "broken".into(), is_too_long: false });
    assert_eq!(log, ["drop model", "end Failed"]);
    assert_eq!(machine.state.into_outcome().content, "broken");
}

#[test]
fn questions_of_parallel_calls_go_out_together_and_calls_run_side_by_side() {
    let mut machine = Machine::started(ApprovalPolicy::Untrusted);
    assert_eq!(machine.calls(&["a", "b"]), ["drop model", "usage 2", "prepare 0", "prepare 1"]);
    assert_eq!(machine.step(Input::Prepared(0, ready(Some(command("a")), false))), [""; 0]);
    assert_eq!(machine.step(Input::Prepared(1, ready(Some(command("b")), false))), ["ask 0, 1"]);
    assert_eq!(machine.step(Input::Decided(1, Decision::Approve, by())), ["started 2", "run 1 as 2"]);
    assert_eq!(machine.step(Input::Decided(0, Decision::Approve, by())), ["started 1", "run 0 as 1"]);
    assert_eq!(machine.step(Input::CallDone(0, done("A"))), ["append output a: A", "completed 1 Completed"]);
    assert_eq!(
        machine.step(Input::CallDone(1, done("B"))),
        ["append output b: B", "completed 2 Completed", "take steers", "request"]
    );
}

#[test]
fn a_decision_counts_once() {
    let mut machine = Machine::started(ApprovalPolicy::Untrusted);
    machine.calls(&["a"]);
    machine.step(Input::Prepared(0, ready(Some(command("a")), false)));
    assert_eq!(machine.step(Input::Decided(0, Decision::Approve, by())).len(), 2);
    assert!(machine.step(Input::Decided(0, Decision::Approve, by())).is_empty());
    let deny = Decision::Deny { reason: DenialReason::Declined, note: None };
    assert!(machine.step(Input::Decided(0, deny, by())).is_empty());
}

#[test]
fn a_patch_runs_alone_and_in_order() {
    let mut machine = Machine::started(ApprovalPolicy::Never);
    machine.calls(&["read", "patch", "read after"]);
    assert_eq!(machine.step(Input::Prepared(0, ready(None, false))), ["started 1", "run 0 as 1"]);
    assert!(machine.step(Input::Prepared(2, ready(None, false))).is_empty(), "the patch may change what it reads");
    assert!(machine.step(Input::Prepared(1, ready(Some(patch("d")), true))).is_empty());
    assert_eq!(
        machine.step(Input::CallDone(0, done("r"))),
        ["append output read: r", "completed 1 Completed", "prepare 1"],
        "the files may have changed since it was checked"
    );
    assert_eq!(machine.step(Input::Prepared(1, ready(Some(patch("d")), true))), ["started 2", "run 1 as 2"]);
    assert_eq!(machine.step(Input::CallDone(1, done("p"))).last().unwrap(), "run 2 as 3");
}

#[test]
fn an_approved_patch_that_comes_to_mean_something_else_is_asked_again() {
    for (second, expected) in [("same", "run 1 as 2"), ("other", "ask 1")] {
        let mut machine = Machine::started(ApprovalPolicy::Untrusted);
        machine.calls(&["read", "patch"]);
        machine.step(Input::Prepared(0, ready(None, false)));
        assert_eq!(machine.step(Input::Prepared(1, ready(Some(patch("same")), true))), ["ask 1"]);
        assert!(machine.step(Input::Decided(1, Decision::Approve, by())).is_empty(), "it waits for its turn");
        machine.step(Input::CallDone(0, done("r")));
        let log = machine.step(Input::Prepared(1, ready(Some(patch(second)), true)));
        assert_eq!(log.last().unwrap(), expected);
    }
}

#[test]
fn a_patch_that_rests_on_an_earlier_one_is_checked_when_that_is_done() {
    let mut machine = Machine::started(ApprovalPolicy::Never);
    machine.calls(&["one", "two"]);
    machine.step(Input::Prepared(0, ready(Some(patch("1")), true)));
    assert!(machine.step(Input::Prepared(1, later())).is_empty());
    assert_eq!(machine.step(Input::CallDone(0, done("1"))).last().unwrap(), "prepare 1");
    assert_eq!(
        machine.step(Input::Prepared(1, later())),
        ["append output two: does not fit", "completed 2 Failed", "take steers", "request"],
        "now there is nothing left to wait for"
    );
}

#[test]
fn a_denial_reaches_the_model_and_the_result() {
    let mut machine = Machine::started(ApprovalPolicy::Untrusted);
    machine.calls(&["a"]);
    machine.step(Input::Prepared(0, ready(Some(command("rm x")), false)));
    let deny = Decision::Deny { reason: DenialReason::TimedOut, note: None };
    let log = machine.step(Input::Decided(0, deny, by()));
    assert!(log[0].contains("was not run: nobody answered the question in time"), "{log:?}");
    assert_eq!(log[1..], ["completed 1 Declined", "take steers", "request"]);
    let denials = machine.state.into_outcome().denials;
    assert_eq!((denials[0].what.as_str(), denials[0].reason), ("'rm x'", DenialReason::TimedOut));
}

#[test]
fn deny_and_stop_ends_the_turn() {
    let mut machine = Machine::started(ApprovalPolicy::Untrusted);
    machine.calls(&["a", "b"]);
    machine.step(Input::Prepared(0, ready(Some(command("a")), false)));
    machine.step(Input::Prepared(1, ready(Some(command("b")), false)));
    let log = machine.step(Input::Decided(0, Decision::DenyAndStop { note: Some("enough".into()) }, by()));
    assert!(log[0].contains("enough"), "{log:?}");
    assert_eq!(log[1..], ["completed 1 Declined", "stop calls", "end Interrupted"]);
    assert!(machine.step(Input::Decided(1, Decision::Approve, by())).is_empty());
}

#[test]
fn an_approval_for_the_thread_is_remembered() {
    let mut machine = Machine::started(ApprovalPolicy::Untrusted);
    machine.calls(&["a"]);
    machine.step(Input::Prepared(0, ready(Some(command("ls")), false)));
    machine.step(Input::Decided(0, Decision::ApproveForThread, by()));
    machine.step(Input::CallDone(0, done("x")));
    machine.calls(&["b", "c"]);
    assert_eq!(machine.step(Input::Prepared(0, ready(Some(command("ls")), false))).last().unwrap(), "run 0 as 2");
    assert_eq!(machine.step(Input::Prepared(1, ready(Some(command("ls -a")), false))), ["ask 1"]);
}

#[test]
fn interrupting_a_response_closes_the_connection() {
    let mut machine = Machine::started(ApprovalPolicy::Never);
    machine.say(ModelEvent::TextDelta("he".into()));
    assert_eq!(machine.step(Input::Interrupt(Interruption::Asked)), ["drop model", "end Interrupted"]);
    assert!(machine.say(message("late")).is_empty());
}

#[test]
fn interrupting_calls_stops_them_but_lets_a_patch_finish() {
    let mut machine = Machine::started(ApprovalPolicy::Never);
    machine.calls(&["a"]);
    machine.step(Input::Prepared(0, ready(None, false)));
    assert_eq!(machine.step(Input::Interrupt(Interruption::Asked)), ["stop calls", "end Interrupted"]);

    let mut machine = Machine::started(ApprovalPolicy::Never);
    machine.calls(&["a"]);
    machine.step(Input::Prepared(0, ready(Some(patch("d")), true)));
    assert_eq!(machine.step(Input::Interrupt(Interruption::Asked)), ["stop calls"]);
    assert_eq!(
        machine.step(Input::CallDone(0, done("applied"))),
        ["append output a: applied", "completed 1 Completed", "end Interrupted"]
    );
}

#[test]
fn steering_is_taken_before_the_next_request_and_reopens_a_turn_that_was_done() {
    let mut machine = Machine::started(ApprovalPolicy::Never);
    machine.calls(&["a"]);
    machine.step(Input::Prepared(0, ready(None, false)));
    let after = machine.step(Input::CallDone(0, done("x")));
    assert_eq!(after[after.len() - 2..], ["take steers", "request"]);
    machine.say(message("done"));
    assert_eq!(machine.say(completed()).last().unwrap(), "end Completed");
    assert_eq!(
        machine.step(Input::Steer(vec!["two".into(), "three".into()])),
        ["append user: two", "append user: three", "take steers", "request"]
    );
}

#[test]
fn a_retry_voids_what_was_unfinished() {
    let mut machine = Machine::started(ApprovalPolicy::Never);
    machine.say(ModelEvent::TextDelta("half".into()));
    let retry = ModelEvent::Retrying { attempt: 2, max_attempts: 5, delay_ms: 200, reason: "cut".into() };
    assert_eq!(machine.say(retry), ["warning"]);
    assert_eq!(machine.say(ModelEvent::TextDelta("whole".into())), ["started 2", "delta 2: whole"]);
    assert_eq!(machine.say(message("whole")), ["append message: whole", "completed 2"]);
}

#[test]
fn the_steps_of_a_turn_are_bounded() {
    let mut machine = Machine::started(ApprovalPolicy::Never);
    for _ in 0..3 {
        machine.calls(&["a"]);
        machine.step(Input::Prepared(0, ready(None, false)));
        machine.step(Input::CallDone(0, done("x")));
    }
    assert_eq!(machine.log.last().unwrap(), "end Failed");
    assert!(machine.state.into_outcome().content.contains("all of its 3 model requests"));
}

#[test]
fn what_a_turn_cannot_do_without_ends_it_whenever_it_shows() {
    let mut machine = Machine::started(ApprovalPolicy::Never);
    machine.calls(&["a"]);
    machine.step(Input::Prepared(0, ready(Some(patch("d")), true)));
    machine.step(Input::Interrupt(Interruption::Asked));
    assert!(machine.step(Input::Broken("the directory is gone".into())).is_empty(), "the patch is still waited for");
    assert_eq!(machine.step(Input::CallDone(0, done("applied"))).last().unwrap(), "end Failed");
    assert_eq!(
        machine.step(Input::Broken("the directory is gone".into())),
        ["end Failed"],
        "the end above was not performed"
    );
    assert_eq!(machine.state.into_outcome().content, "the directory is gone");
}

#[test]
fn what_is_forbidden_is_not_run_and_counts_as_a_denial() {
    let mut machine = Machine::started(ApprovalPolicy::Never);
    machine.calls(&["a"]);
    let outside = Question { leaves_sandbox: true, ..Question::new(command("make")) };
    let item = item(ItemStatus::InProgress);
    let actions = machine.step(Input::Prepared(0, Prepared::Ready { item, question: Some(outside), exclusive: false }));
    assert!(actions[0].contains("The command was not run: it asks to run outside of the sandbox"), "{actions:?}");
    assert_eq!(actions[1..], ["completed 1 Declined", "take steers", "request"]);
    assert_eq!(machine.state.into_outcome().denials[0].reason, DenialReason::NotAskable);
}

/// What the sandbox stopped.
fn stopped() -> CallOutcome {
    let again = Question { leaves_sandbox: true, ..Question::new(command("make")) };
    CallOutcome { again: Some(Box::new(again)), ..done("no write") }
}

#[test]
fn what_the_sandbox_stopped_is_asked_for_again_and_runs_without() {
    let mut machine = Machine::started(ApprovalPolicy::OnFailure);
    machine.calls(&["a"]);
    assert_eq!(machine.step(Input::Prepared(0, ready(Some(command("make")), false))), ["started 1", "run 0 as 1"]);
    assert_eq!(machine.step(Input::CallDone(0, stopped())), ["completed 1 Completed", "ask 0"]);
    assert_eq!(machine.step(Input::Decided(0, Decision::Approve, by())), ["release 0", "started 2", "run 0 as 2"]);
    assert_eq!(
        machine.step(Input::CallDone(0, done("made"))),
        ["append output a: made", "completed 2 Completed", "take steers", "request"]
    );
}

#[test]
fn what_the_sandbox_stopped_and_nobody_releases_is_told_with_what_it_came_to() {
    let mut machine = Machine::started(ApprovalPolicy::OnFailure);
    machine.calls(&["a"]);
    machine.step(Input::Prepared(0, ready(Some(command("make")), false)));
    machine.step(Input::CallDone(0, stopped()));
    let no = Decision::Deny { reason: DenialReason::Declined, note: None };
    let actions = machine.step(Input::Decided(0, no, by()));
    assert!(actions[0].starts_with("append output a: no write\n[Asked to run it again"), "{actions:?}");
    assert_eq!(actions[1..], ["take steers", "request"]);
    assert_eq!(machine.state.into_outcome().denials.len(), 1);
}

fn used(input_tokens: u64) -> ModelEvent {
    ModelEvent::Completed { usage: Usage { input_tokens, ..Usage::default() } }
}

fn summary(text: &str) -> Input {
    Input::Summarised(Ok(Summary { text: text.into(), usage: Usage { input_tokens: 7, ..Usage::default() } }))
}

const LONG: Budget = Budget { max_steps: 9, max_tokens: None, compact_at: Some(100) };

#[test]
fn a_long_history_is_summed_up_before_the_prompt_and_between_steps() {
    let mut machine = Machine::with(ApprovalPolicy::Never, LONG, 100);
    assert_eq!(machine.step(Input::Start("do it".into())), ["warning", "summarise"]);
    assert_eq!(machine.step(summary("s")), ["compact s", "usage 0", "append user: do it", "take steers", "request"]);
    machine.say(ModelEvent::ItemDone(call("1")));
    assert_eq!(machine.say(used(100)).last().unwrap(), "prepare 0");
    machine.step(Input::Prepared(0, ready(None, false)));
    assert_eq!(machine.step(Input::CallDone(0, done("out"))).last().unwrap(), "request", "it has not grown since");
    machine.say(ModelEvent::ItemDone(call("2")));
    machine.say(used(125));
    machine.step(Input::Prepared(0, ready(None, false)));
    let log = machine.step(Input::CallDone(0, done("out")));
    assert_eq!(log[log.len() - 2..], ["warning", "summarise"]);
    assert_eq!(machine.step(summary("t")), ["compact t", "usage 0", "take steers", "request"]);
    machine.say(message("done"));
    assert_eq!(machine.say(used(50)).last().unwrap(), "end Completed");
    let outcome = machine.state.into_outcome();
    assert_eq!((outcome.context_tokens, outcome.usage.input_tokens), (50, 289));
}

#[test]
fn a_summary_that_fails_leaves_the_turn_as_it_was() {
    let mut machine = Machine::with(ApprovalPolicy::Never, LONG, 100);
    machine.step(Input::Start("do it".into()));
    assert_eq!(
        machine.step(Input::Summarised(Err("no".into()))),
        ["warning", "append user: do it", "take steers", "request"]
    );
    machine.say(message("done"));
    assert_eq!(machine.say(used(500)).last().unwrap(), "end Completed", "and it is not tried at every step");
}

#[test]
fn what_the_model_cannot_read_is_summed_up_once() {
    let too_long = || Input::ModelFailed { message: "too long".into(), is_too_long: true };
    let mut machine = Machine::started(ApprovalPolicy::Never);
    assert_eq!(machine.step(too_long()), ["drop model", "warning", "summarise"]);
    assert_eq!(machine.step(summary("s")), ["compact s", "usage 0", "take steers", "request"]);
    assert_eq!(machine.step(too_long()).last().unwrap(), "end Failed");
    assert_eq!(machine.state.into_outcome().content, "too long");

    let mut machine = Machine::started(ApprovalPolicy::Never);
    machine.step(too_long());
    assert_eq!(machine.step(Input::Summarised(Err("no".into()))).last().unwrap(), "end Failed");
    assert_eq!(machine.state.into_outcome().content, "too long");
}

#[test]
fn summing_up_can_be_interrupted() {
    let mut machine = Machine::with(ApprovalPolicy::Never, LONG, 100);
    machine.step(Input::Start("do it".into()));
    assert_eq!(machine.step(Input::Interrupt(Interruption::Asked)), ["stop calls", "end Interrupted"]);
    assert!(machine.step(summary("late")).is_empty());
}

#[test]
fn a_turn_ends_with_its_tokens_or_its_time_and_says_what_it_did() {
    let budget = Budget { max_steps: 9, max_tokens: Some(100), compact_at: None };
    let mut machine = Machine::with(ApprovalPolicy::Never, budget, 0);
    machine.step(Input::Start("do it".into()));
    machine.say(message("half way"));
    machine.say(ModelEvent::ItemDone(call("1")));
    machine.say(used(100));
    machine.step(Input::Prepared(0, ready(None, false)));
    assert_eq!(machine.step(Input::CallDone(0, done("out"))).last().unwrap(), "end Failed");
    let content = machine.state.into_outcome().content;
    assert!(content.contains("100 of its 100 tokens") && content.ends_with("half way"), "{content}");

    let mut machine = Machine::started(ApprovalPolicy::Never);
    assert_eq!(machine.step(Input::OutOfTime(5)), ["drop model", "end Failed"]);
    assert!(machine.state.into_outcome().content.contains("5 s"));
}

#[test]
fn a_model_that_paused_is_asked_again() {
    let mut machine = Machine::started(ApprovalPolicy::Never);
    machine.say(message("wait"));
    machine.say(ModelEvent::Unfinished(Unfinished::Paused));
    assert_eq!(machine.say(completed()).last().unwrap(), "request");
    machine.say(message("there"));
    assert_eq!(machine.say(completed()).last().unwrap(), "end Completed");
}

const MANY: Budget = Budget { max_steps: 99, max_tokens: None, compact_at: None };

fn begun(budget: Budget) -> Machine {
    let mut machine = Machine::with(ApprovalPolicy::Never, budget, 0);
    machine.step(Input::Start("do it".into()));
    machine
}

#[test]
fn a_model_that_goes_on_is_asked_again_three_times_in_a_row() {
    let mut machine = begun(MANY);
    let goes_on = |machine: &mut Machine| {
        machine.say(message("I am about to"));
        machine.say(ModelEvent::Unfinished(Unfinished::GoesOn));
        machine.say(completed()).last().unwrap().clone()
    };
    for _ in 0..2 {
        for _ in 0..3 {
            assert_eq!(goes_on(&mut machine), "request");
        }
        // A call is progress.
        machine.calls(&["a"]);
        machine.step(Input::Prepared(0, ready(None, false)));
        assert_eq!(machine.step(Input::CallDone(0, done("x"))).last().unwrap(), "request");
    }
    for _ in 0..3 {
        assert_eq!(goes_on(&mut machine), "request");
    }
    assert_eq!(goes_on(&mut machine), "end Completed");
    assert_eq!(machine.state.into_outcome().content, "I am about to");
}

#[test]
fn an_empty_answer_is_asked_for_again_once_and_then_told() {
    let mut machine = begun(MANY);
    let log = machine.say(completed());
    assert!(log[2].contains("empty_response") && log.last().unwrap() == "request", "{log:?}");
    assert_eq!(machine.say(completed()).last().unwrap(), "end Failed");
    assert!(machine.state.into_outcome().content.contains("without an answer"));
    let mut machine = begun(MANY);
    machine.say(completed());
    machine.say(message("here"));
    assert_eq!(machine.say(completed()).last().unwrap(), "end Completed");
}

#[test]
fn a_response_that_is_cut_goes_on_once() {
    let mut machine = begun(MANY);
    let cut = |machine: &mut Machine| {
        machine.say(message("half"));
        machine.say(ModelEvent::Unfinished(Unfinished::Cut));
        machine.say(completed())
    };
    let log = cut(&mut machine);
    assert!(log[2].contains("response_cut_off") && log.last().unwrap() == "request", "{log:?}");
    assert_eq!(cut(&mut machine).last().unwrap(), "end Failed");
    let content = machine.state.into_outcome().content;
    assert!(content.contains("length limit twice") && content.ends_with("half"), "{content}");
}

#[test]
fn reasoning_that_is_refused_leaves_the_history() {
    assert_eq!(begun(MANY).say(ModelEvent::Unbound), ["unbind"]);
}

#[test]
fn what_stays_long_is_not_summed_up_again_before_it_has_grown() {
    let mut machine = begun(Budget { max_steps: 99, max_tokens: None, compact_at: Some(100) });
    let mut summaries = 0;
    let mut step = |machine: &mut Machine, tokens: u64| {
        machine.say(ModelEvent::ItemDone(call("1")));
        machine.say(used(tokens));
        machine.step(Input::Prepared(0, ready(None, false)));
        if machine.step(Input::CallDone(0, done("out"))).last().unwrap() == "summarise" {
            summaries += 1;
            assert_eq!(machine.step(summary("s")).last().unwrap(), "request");
        }
        summaries
    };
    // The summary helps nothing: the requests stay as long as they were.
    assert_eq!((step(&mut machine, 120), step(&mut machine, 120), step(&mut machine, 130)), (1, 1, 1));
    assert_eq!(step(&mut machine, 145), 2, "it has grown by a quarter of the limit");
    assert_eq!(
        (step(&mut machine, 50), step(&mut machine, 99), step(&mut machine, 100)),
        (2, 2, 3),
        "and where it helped, as ever"
    );
    // The next turn knows.
    machine.step(Input::Interrupt(Interruption::Asked));
    let outcome = machine.state.into_outcome();
    assert_eq!(outcome.summed_up, SummedUp::Unknown);
    let mut machine = Machine::with(ApprovalPolicy::Never, LONG, 120);
    machine.state = machine.state.after(SummedUp::To(110));
    assert_eq!(machine.step(Input::Start("do it".into())).last().unwrap(), "request");
}

#[test]
fn a_summary_is_a_step() {
    let mut machine = begun(Budget { max_steps: 2, max_tokens: None, compact_at: Some(100) });
    machine.say(ModelEvent::ItemDone(call("1")));
    machine.say(used(100));
    machine.step(Input::Prepared(0, ready(None, false)));
    assert_eq!(machine.step(Input::CallDone(0, done("out"))).last().unwrap(), "summarise");
    assert_eq!(machine.step(summary("s")).last().unwrap(), "end Failed");
    assert!(machine.state.into_outcome().content.contains("all of its 2 model requests"));
}
