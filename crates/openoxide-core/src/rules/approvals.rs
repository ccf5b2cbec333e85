//! What a turn asks by: the rules applied to a question, what is remembered of the answers, and what the model is told of a
//! no. Pure; the decision itself is [`decide`].
//!
//! Decisions come in and wait elsewhere: [`crate::Thread`] keeps what is pending, `turn/state` acts on the answer.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use openoxide_display::{command_line, quote_path, visible_text};
use openoxide_sandbox::SandboxMode;

use super::command::{PatchReach, Request, decide};
use crate::{
    ApprovalAction, ApprovalPolicy, CommandRule, Decider, Decision, DenialReason, RememberedApproval, RuleDecision,
    Verdict,
};

/// What a tool call would do, put up for a decision if the policy wants one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    /// What would be done.
    pub(crate) action: ApprovalAction,
    /// It would leave the sandbox: the model asks for that, or a patch reaches further than commands may write.
    pub(crate) leaves_sandbox: bool,
    /// Why, in the model's words.
    pub(crate) justification: Option<String>,
}

/// A question with what the rules say of it. It is judged once; whoever asks, refuses or tells takes it from here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judged {
    pub(crate) question: Question,
    pub(crate) verdict: Verdict,
    /// Whether it is done within a sandbox.
    pub(crate) confined: bool,
}

/// The answer to a question, for the rest of its thread, where it can be written down. What is typed cannot: the number of
/// a command means another command after a restart.
pub(crate) fn for_thread(question: &Question) -> Option<RememberedApproval> {
    let leaves_sandbox = question.leaves_sandbox;
    match &question.action {
        ApprovalAction::Command { argv, cwd } => {
            Some(RememberedApproval::Command { argv: argv.clone(), cwd: cwd.clone(), leaves_sandbox })
        }
        ApprovalAction::Patch { .. } => Some(RememberedApproval::Patches { leaves_sandbox }),
        ApprovalAction::Input { .. } | ApprovalAction::UserInput { .. } => None,
    }
}

/// Answers that hold for the rest of a thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remembered {
    commands: HashSet<(Vec<String>, PathBuf, bool)>,
    /// The number of a command, what is typed into it, and whether it runs outside of the sandbox.
    inputs: HashSet<(u64, String, bool)>,
    patches: bool,
    patches_beyond: bool,
}

impl Remembered {
    /// Notes an approval for the thread: the exact command in the exact directory, the exact text typed into one command,
    /// or every patch, in the sandbox or out of it.
    pub(crate) fn approve(&mut self, question: &Question) {
        if let ApprovalAction::Input { command_id, text, .. } = &question.action {
            self.inputs.insert((*command_id, text.clone(), question.leaves_sandbox));
        }
        if let Some(approval) = for_thread(question) {
            self.restore(approval);
        }
    }

    /// Takes back what was noted before.
    pub(crate) fn restore(&mut self, approval: RememberedApproval) {
        match approval {
            RememberedApproval::Command { argv, cwd, leaves_sandbox } => {
                self.commands.insert((argv, cwd, leaves_sandbox));
            }
            RememberedApproval::Patches { leaves_sandbox: true } => self.patches_beyond = true,
            RememberedApproval::Patches { leaves_sandbox: false } => self.patches = true,
        }
    }

    fn covers(&self, question: &Question) -> bool {
        match &question.action {
            ApprovalAction::Command { argv, cwd } => {
                !self.commands.is_empty()
                    && self.commands.contains(&(argv.clone(), cwd.clone(), question.leaves_sandbox))
            }
            ApprovalAction::Input { command_id, text, .. } => {
                self.inputs.contains(&(*command_id, text.clone(), question.leaves_sandbox))
            }
            ApprovalAction::Patch { .. } if question.leaves_sandbox => self.patches_beyond,
            ApprovalAction::Patch { .. } => self.patches,
            ApprovalAction::UserInput { .. } => false,
        }
    }
}

/// What a turn decides by.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) policy: ApprovalPolicy,
    pub(crate) sandbox: SandboxMode,
    pub(crate) rules: Arc<[CommandRule]>,
    pub(crate) remembered: Remembered,
    /// Why no command may reach the network of this machine; none where one may.
    pub(crate) no_host_network: Option<Arc<str>>,
}

impl Rules {
    /// What is to be done with a question; what was approved for the thread is not asked again.
    pub(crate) fn judge(&self, question: Question) -> Judged {
        let (verdict, confined) = (self.verdict(&question), self.confines(&question));
        Judged { question, verdict, confined }
    }

    fn verdict(&self, question: &Question) -> Verdict {
        if let Some(verdict) = self.judge_network(question) {
            return verdict;
        }
        let request = match &question.action {
            ApprovalAction::Command { argv, .. } => Request::Command {
                argv,
                escalated: question.leaves_sandbox,
                place: crate::CommandPlace { cwd: std::path::Path::new("/"), workspace: std::path::Path::new("/") },
            },
            ApprovalAction::Input { text, .. } => Request::Input { text, escalated: question.leaves_sandbox },
            ApprovalAction::Patch { .. } => {
                let reach = if question.leaves_sandbox { PatchReach::Beyond } else { PatchReach::Within };
                Request::Patch { reach }
            }
            ApprovalAction::UserInput { .. } => return self.judge_asking(),
        };
        let mut verdict = decide(self.policy, self.sandbox, &self.rules, request);
        if verdict.decision == RuleDecision::Ask && self.remembered.covers(question) {
            verdict.decision = RuleDecision::Allow;
        }
        verdict
    }

    /// What runs outside of a sandbox has the network of this machine. Where that is refused, nobody is asked for it.
    fn judge_network(&self, question: &Question) -> Option<Verdict> {
        let why = self.no_host_network.as_ref()?;
        let runs = matches!(question.action, ApprovalAction::Command { .. } | ApprovalAction::Input { .. });
        if self.confines(question) || !runs {
            return None;
        }
        let reason = format!("outside of the sandbox it would reach the network of this machine, and {why}");
        Some(Verdict { decision: RuleDecision::Forbid, rule: "host-network".into(), reason })
    }

    /// A person who wants never to be asked is not asked this either.
    fn judge_asking(&self) -> Verdict {
        let (decision, rule, reason) = match self.policy {
            ApprovalPolicy::Never => (RuleDecision::Forbid, "policy:never", "the person wants never to be asked"),
            ApprovalPolicy::Untrusted | ApprovalPolicy::OnRequest | ApprovalPolicy::OnFailure => {
                (RuleDecision::Ask, "user-input", "the agent wants to know it from you")
            }
        };
        Verdict { decision, rule: rule.into(), reason: reason.into() }
    }

    /// Whether what is asked is done within a sandbox.
    fn confines(&self, question: &Question) -> bool {
        self.sandbox != SandboxMode::DangerFullAccess && !question.leaves_sandbox
    }
}

/// What the model is told of an action that the rules forbid, and the kind of no.
pub(crate) fn refusal(action: &ApprovalAction, verdict: &Verdict) -> (String, DenialReason) {
    let what = match action {
        ApprovalAction::Command { .. } => "The command was not run",
        ApprovalAction::Input { .. } => "Nothing was typed",
        ApprovalAction::Patch { .. } => "The patch was not applied; no file was changed",
        ApprovalAction::UserInput { .. } => {
            let sentence = format!("The question was not asked: {}. Decide yourself, and say how.", verdict.reason);
            return (sentence, DenialReason::NotAskable);
        }
    };
    let reason = if verdict.rule == "policy:never" { DenialReason::NotAskable } else { DenialReason::Declined };
    let sentence = format!(
        "{what}: {}. Do not try to reach the same effect another way; go on without it and say what was left undone.",
        visible_text(&verdict.reason)
    );
    (sentence, reason)
}

/// What is typed into, for a person.
fn typed_into(command_id: u64, argv: &[String]) -> String {
    match argv {
        [] => format!("command {command_id}"),
        argv => format!("`{}` (command {command_id})", command_line(argv)),
    }
}

/// An action for a person, on one line: the command as a shell would show it, or the files of a patch.
pub(crate) fn describe(action: &ApprovalAction) -> String {
    match action {
        ApprovalAction::Command { argv, .. } => command_line(argv),
        ApprovalAction::Input { command_id, argv, text, .. } => {
            format!("type {} into {}", command_line(std::slice::from_ref(text)), typed_into(*command_id, argv))
        }
        ApprovalAction::Patch { changes, .. } => {
            let paths: Vec<String> = changes.iter().map(|change| quote_path(&change.path)).collect();
            format!("patch {}", paths.join(", "))
        }
        ApprovalAction::UserInput { questions } => {
            let questions: Vec<String> = questions.iter().map(|question| visible_text(&question.question)).collect();
            format!("ask: {}", questions.join(" "))
        }
    }
}

/// A decision as the rollout has it.
pub(crate) fn decision_word(decision: &Decision) -> String {
    match decision {
        Decision::Approve => "approved".to_owned(),
        Decision::Answer(_) => "answered".to_owned(),
        Decision::ApproveForThread => "approved_for_thread".to_owned(),
        Decision::Deny { reason, .. } => format!("denied: {}", reason.as_str()),
        Decision::DenyAndStop { .. } => "denied_and_stopped".to_owned(),
    }
}

/// A no that came faster than a person's.
const HOST_DECLINED: &str = "the host declined at once, so probably nobody was asked";

/// What a denial is reported with where the decider said nothing: how to go on where no person was asked.
pub(crate) fn note_of(reason: DenialReason, by: &Decider) -> Option<String> {
    let is_no = matches!(reason, DenialReason::Declined | DenialReason::Cancelled);
    (is_no && matches!(by, Decider::Host(_))).then(|| {
        format!(
            "{HOST_DECLINED}; call again with approval_policy \"on-request\" and sandbox \"workspace-write\", where what \
             stays in the sandbox is not asked for, or have the operator allow it ([[rules]] or sandbox_mode in the \
             configuration) or set the host to show questions"
        )
    })
}

/// What the model is told instead of a result.
pub(crate) fn denial_sentence(
    action: &ApprovalAction,
    reason: DenialReason,
    by: &Decider,
    note: Option<&str>,
) -> String {
    let what = match action {
        ApprovalAction::Command { .. } => "The command was not run",
        ApprovalAction::Input { .. } => "Nothing was typed",
        ApprovalAction::Patch { .. } => "The patch was not applied; no file was changed",
        ApprovalAction::UserInput { .. } => "The question was not answered",
    };
    let is_hosts = matches!(by, Decider::Host(_));
    let why = match reason {
        DenialReason::Declined | DenialReason::Cancelled if is_hosts => HOST_DECLINED,
        DenialReason::Declined => "the person asked said no",
        DenialReason::Cancelled => "the question was dismissed without an answer",
        DenialReason::Error => "the question failed or its answer was not understood",
        DenialReason::TimedOut => "nobody answered the question in time",
        DenialReason::Disconnected => "whoever was asked went away before answering",
        DenialReason::NotAskable => "it needs approval, and there is nobody who can be asked",
    };
    let next = match reason {
        _ if matches!(action, ApprovalAction::UserInput { .. }) => "Decide yourself, and say how in your last message.",
        DenialReason::Declined | DenialReason::Cancelled if is_hosts => {
            "Go on with what needs no approval, and say in your last message what was left undone."
        }
        DenialReason::Declined | DenialReason::Cancelled => {
            "Do not try to reach the same effect another way. Go on without it, or say what you would need it for."
        }
        DenialReason::Error | DenialReason::TimedOut | DenialReason::Disconnected | DenialReason::NotAskable => {
            "Go on with what needs no approval, and say in your last message what was left undone."
        }
    };
    match note.map(str::trim).filter(|note| !note.is_empty()) {
        Some(note) => format!("{what}: {why}. Their words: {note}\n{next}"),
        None => format!("{what}: {why}. {next}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_no_that_no_person_gave_is_not_told_as_one() {
        let action = ApprovalAction::Patch { changes: Vec::new(), unified_diff: String::new() };
        let told = |by: &Decider| denial_sentence(&action, DenialReason::Declined, by, None);
        let (host, person) = (Decider::Host(Some("ci".into())), Decider::Client(Some("zed".into())));
        assert!(told(&person).contains("the person asked said no"));
        assert!(told(&host).contains("the host declined at once, so probably nobody was asked"));
        assert!(!told(&host).contains("person"), "{}", told(&host));
        assert_eq!(host.to_string(), "host ci at once");
        assert!(note_of(DenialReason::Cancelled, &host).is_some_and(|note| note.contains("approval_policy")));
        assert_eq!(note_of(DenialReason::Declined, &person), None);
        assert_eq!(note_of(DenialReason::Error, &host), None);
    }

    fn command(command: &str, cwd: &str, leaves_sandbox: bool) -> Question {
        let argv = ["bash", "-c", command].map(str::to_owned).to_vec();
        let action = ApprovalAction::Command { argv, cwd: cwd.into() };
        Question { action, leaves_sandbox, justification: None }
    }

    fn patch(leaves_sandbox: bool) -> Question {
        let action = ApprovalAction::Patch { changes: Vec::new(), unified_diff: String::new() };
        Question { action, leaves_sandbox, justification: None }
    }

    fn rules() -> Rules {
        Rules {
            policy: ApprovalPolicy::Untrusted,
            sandbox: SandboxMode::WorkspaceWrite,
            rules: Arc::default(),
            remembered: Remembered::default(),
            no_host_network: None,
        }
    }

    #[test]
    fn an_approval_for_the_thread_holds_for_the_exact_command_directory_and_reach() {
        let mut rules = rules();
        rules.remembered.approve(&command("make", "/a", false));
        let asks =
            |rules: &Rules, question: &Question| rules.judge(question.clone()).verdict.decision == RuleDecision::Ask;
        assert!(!asks(&rules, &command("make", "/a", false)));
        assert!(asks(&rules, &command("make ", "/a", false)));
        assert!(asks(&rules, &command("make", "/b", false)));
        assert!(asks(&rules, &command("make", "/a", true)));
        assert!(asks(&rules, &patch(false)));
        rules.remembered.approve(&patch(false));
        assert!(!asks(&rules, &patch(false)));
        assert!(asks(&rules, &patch(true)));
    }

    #[test]
    fn an_approval_of_what_is_typed_holds_for_that_text_and_command_and_is_not_written_down() {
        let typed = |command_id, text: &str| {
            let (argv, text) = (vec!["bash".to_owned()], text.to_owned());
            let action = ApprovalAction::Input { command_id, argv, cwd: "/a".into(), text };
            Question { action, leaves_sandbox: false, justification: None }
        };
        let mut rules = rules();
        let asks =
            |rules: &Rules, question: &Question| rules.judge(question.clone()).verdict.decision == RuleDecision::Ask;
        assert!(asks(&rules, &typed(1, "make\n")));
        rules.remembered.approve(&typed(1, "make\n"));
        assert!(!asks(&rules, &typed(1, "make\n")));
        assert!(asks(&rules, &typed(2, "make\n")) && asks(&rules, &typed(1, "make test\n")));
        assert_eq!(for_thread(&typed(1, "make\n")), None);
        let forbidden = rules.judge(typed(1, "rm -rf /\n")).verdict;
        assert_eq!(forbidden.decision, RuleDecision::Forbid, "{forbidden:?}");
        assert_eq!(describe(&typed(3, "y\n").action), "type $'y\\n' into `bash` (command 3)");
    }

    #[test]
    fn an_approval_does_not_outweigh_what_is_forbidden() {
        let mut rules = rules();
        let question = command("rm -rf /", "/a", false);
        rules.remembered.approve(&question);
        let verdict = rules.judge(question.clone()).verdict;
        assert_eq!(verdict.decision, RuleDecision::Forbid);
        let (sentence, reason) = refusal(&question.action, &verdict);
        assert!(sentence.contains("it removes /") && reason == DenialReason::Declined, "{sentence}");
    }

    #[test]
    fn nobody_is_asked_to_let_a_command_reach_a_network_that_is_refused() {
        let mut rules = rules();
        rules.policy = ApprovalPolicy::OnRequest;
        rules.remembered.approve(&command("make", "/a", true));
        rules.no_host_network = Some("a listener is open".into());
        let decided = |question: &Question| rules.judge(question.clone()).verdict.decision;
        assert_eq!(decided(&command("make", "/a", true)), RuleDecision::Forbid, "approved for the thread before");
        assert_eq!(decided(&command("make", "/a", false)), RuleDecision::Allow);
        assert_eq!(decided(&patch(true)), RuleDecision::Ask, "a patch reaches no network");
        let reason = rules.judge(command("curl x", "/a", true)).verdict.reason;
        assert!(reason.contains("a listener is open"), "{reason}");
    }

    #[test]
    fn only_what_stays_in_a_sandbox_is_confined() {
        let mut rules = rules();
        assert!(rules.confines(&patch(false)) && !rules.confines(&command("ls", "/", true)));
        rules.sandbox = SandboxMode::DangerFullAccess;
        assert!(!rules.confines(&patch(false)));
    }
}
