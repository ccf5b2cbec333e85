//! What a turn asks by: the rules and the answers of before applied to a question, and what the model is told of a no. Pure; the
//! decision itself is [`decide`], and what an answer covers is in [`super::remembered`].
//!
//! Decisions come in and wait elsewhere: [`crate::Thread`] keeps what is pending, `turn/state` acts on the answer.

use std::path::PathBuf;
use std::sync::Arc;

use openoxide_display::{command_line, quote_path, visible_text};
use openoxide_sandbox::SandboxMode;

use super::command::{CommandPlace, PatchReach, Request, decide};
pub(crate) use super::remembered::{Facts, PatchedFile, Question, Remembered, coverage, for_thread};
use crate::{
    ApprovalAction, ApprovalPolicy, CommandRule, Decider, Decision, DenialReason, RuleDecision, Verdict, Widening,
};

/// A question with what the rules say of it. It is judged once; whoever asks, refuses or tells takes it from here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judged {
    pub(crate) question: Question,
    pub(crate) verdict: Verdict,
    /// Whether it is done within the thread's sandbox, as that is.
    pub(crate) confined: bool,
    /// What approving it for the thread covers; none where that is not offered.
    pub(crate) for_thread: Option<String>,
}

/// What a turn decides by.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) policy: ApprovalPolicy,
    pub(crate) sandbox: SandboxMode,
    /// The thread's directory, absolute and without links.
    pub(crate) workspace: PathBuf,
    pub(crate) rules: Arc<[CommandRule]>,
    pub(crate) remembered: Remembered,
    /// Why no command may reach the network of this machine; none where one may.
    pub(crate) no_host_network: Option<Arc<str>>,
}

impl Rules {
    /// What is to be done with a question; what was approved for the thread is not asked again.
    pub(crate) fn judge(&self, question: Question) -> Judged {
        let (verdict, confined) = (self.verdict(&question), self.confines(&question));
        let for_thread = coverage(&question, self.sandbox != SandboxMode::DangerFullAccess);
        Judged { question, verdict, confined, for_thread }
    }

    fn verdict(&self, question: &Question) -> Verdict {
        if let Some(verdict) = self.judge_network(question) {
            return verdict;
        }
        let request = match &question.action {
            ApprovalAction::Command { argv, cwd } => {
                let place = CommandPlace { cwd, workspace: &self.workspace };
                Request::Command { argv, escalated: question.leaves_sandbox, place }
            }
            ApprovalAction::Input { text, .. } => Request::Input { text, escalated: question.leaves_sandbox },
            ApprovalAction::Patch { .. } => {
                let reach = if question.leaves_sandbox { PatchReach::Beyond } else { PatchReach::Within };
                Request::Patch { reach }
            }
            ApprovalAction::UserInput { .. } => return self.judge_asking(),
        };
        let verdict = decide(self.policy, self.sandbox, &self.rules, request);
        let mut verdict = match question.widening() {
            Some(widening) => self.judge_widening(widening, verdict),
            None => self.judge_programs(question, verdict),
        };
        let asks_patches = self.policy == ApprovalPolicy::Untrusted;
        // A rule speaks of one command; what was given to a prefix does not outweigh it.
        let is_ruled = question.widening().is_some() && is_by_rule(&verdict);
        if verdict.decision == RuleDecision::Ask && !is_ruled && self.remembered.covers(question, asks_patches) {
            verdict.decision = RuleDecision::Allow;
        }
        verdict
    }

    /// A command that would be given something more than its sandbox gives.
    fn judge_widening(&self, widening: &Widening, verdict: Verdict) -> Verdict {
        let is_open = self.sandbox == SandboxMode::DangerFullAccess;
        if verdict.decision == RuleDecision::Forbid
            || is_open
            || is_by_rule(&verdict) && verdict.decision == RuleDecision::Ask
        {
            return verdict;
        }
        let reason = format!("it asks for {widening} inside the sandbox");
        match (self.sandbox, self.policy) {
            (SandboxMode::ReadOnly, _) => {
                let reason = format!("{reason}, and the sandbox mode `read-only` gives nothing more");
                Verdict { decision: RuleDecision::Forbid, rule: "sandbox".into(), reason }
            }
            (_, ApprovalPolicy::Never) => {
                let reason = format!("{reason}, and nobody is asked under the approval policy `never`");
                Verdict { decision: RuleDecision::Forbid, rule: "policy:never".into(), reason }
            }
            _ => Verdict { decision: RuleDecision::Ask, rule: "widening".into(), reason },
        }
    }

    /// A rule lets a command out of the sandbox by its words, and these must go on meaning the same programs.
    fn judge_programs(&self, question: &Question, verdict: Verdict) -> Verdict {
        let is_command = matches!(question.action, ApprovalAction::Command { .. });
        let is_let_out = is_command && question.leaves_sandbox && verdict.decision == RuleDecision::Allow;
        let why = match &question.facts {
            _ if !is_let_out || self.sandbox == SandboxMode::DangerFullAccess => return verdict,
            Facts::FixedPrograms | Facts::ChangingPrograms { is_swappable: false, .. } => return verdict,
            Facts::ChangingPrograms { why, .. } => why.as_str(),
            Facts::None | Facts::Files(_) | Facts::Widened { .. } => "its programs may be others by now",
        };
        let reason = format!("{}, but {why}", verdict.reason);
        match self.policy {
            ApprovalPolicy::Never => {
                let reason = format!("{reason}, and nobody is asked under the approval policy `never`");
                Verdict { decision: RuleDecision::Forbid, rule: "policy:never".into(), reason }
            }
            ApprovalPolicy::Untrusted | ApprovalPolicy::OnRequest | ApprovalPolicy::OnFailure => {
                Verdict { decision: RuleDecision::Ask, rule: "sandbox".into(), reason }
            }
        }
    }

    /// What runs outside of a sandbox has the network of this machine. Where that is refused, nobody is asked for it.
    fn judge_network(&self, question: &Question) -> Option<Verdict> {
        let why = self.no_host_network.as_ref()?;
        let runs = matches!(question.action, ApprovalAction::Command { .. } | ApprovalAction::Input { .. });
        let is_given = question.widening() == Some(&Widening::Network);
        if !runs || (self.confines(question) || question.widening().is_some()) && !is_given {
            return None;
        }
        let how = if is_given { "with the network" } else { "outside of the sandbox" };
        let reason = format!("{how} it would reach the network of this machine, and {why}");
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

    /// Whether what is asked is done within the thread's sandbox, and without anything more.
    fn confines(&self, question: &Question) -> bool {
        self.sandbox != SandboxMode::DangerFullAccess && !question.leaves_sandbox && question.widening().is_none()
    }
}

/// Whether a configured rule, or what may be one, decided.
fn is_by_rule(verdict: &Verdict) -> bool {
    verdict.rule.starts_with("rules[") || verdict.rule == "unread"
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
        Question { leaves_sandbox, facts: Facts::FixedPrograms, ..Question::new(action) }
    }

    fn patch(leaves_sandbox: bool) -> Question {
        let action = ApprovalAction::Patch { changes: Vec::new(), unified_diff: String::new() };
        let file = PatchedFile { path: "/x".into(), is_beyond: leaves_sandbox };
        Question { leaves_sandbox, facts: Facts::Files(vec![file]), ..Question::new(action) }
    }

    fn rules() -> Rules {
        Rules {
            policy: ApprovalPolicy::Untrusted,
            sandbox: SandboxMode::WorkspaceWrite,
            workspace: "/a".into(),
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
            Question::new(action)
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
    fn what_a_command_asks_for_beside_its_sandbox_is_asked_whatever_allows_the_command() {
        let widened = |line: &str, widening| {
            let facts = Facts::Widened { widening, prefix: vec!["npm".into(), "ci".into()] };
            Question { facts, ..command(line, "/a", false) }
        };
        let network = |line: &str| widened(line, Widening::Network);
        let mut rules = rules();
        rules.rules = [
            CommandRule::new(&["npm", "ci"], RuleDecision::Allow),
            CommandRule::new(&["npm", "publish"], RuleDecision::Ask),
            CommandRule::new(&["npm", "unpublish"], RuleDecision::Forbid),
        ]
        .into();
        rules.policy = ApprovalPolicy::OnRequest;
        let judged = rules.judge(network("npm ci"));
        assert_eq!((judged.verdict.decision, judged.confined), (RuleDecision::Ask, false));
        assert!(judged.verdict.reason.contains("the network inside the sandbox"), "{judged:?}");
        assert!(judged.for_thread.is_some_and(|said| said.contains("`npm ci`") && said.contains("the network")));
        rules.remembered.approve(&network("npm ci"));
        let decided = |rules: &Rules, question: Question| rules.judge(question).verdict.decision;
        assert_eq!(decided(&rules, network("npm ci")), RuleDecision::Allow);
        assert_eq!(decided(&rules, network("npm publish")), RuleDecision::Ask);
        assert_eq!(decided(&rules, network("npm unpublish")), RuleDecision::Forbid);
        assert_eq!(decided(&rules, widened("npm ci", Widening::Directory("/x".into()))), RuleDecision::Ask);
        rules.no_host_network = Some("a listener is open".into());
        assert_eq!(decided(&rules, network("npm ci")), RuleDecision::Forbid);
        rules.no_host_network = None;
        rules.sandbox = SandboxMode::ReadOnly;
        assert_eq!(decided(&rules, network("npm test")), RuleDecision::Forbid);
        (rules.sandbox, rules.policy) = (SandboxMode::WorkspaceWrite, ApprovalPolicy::Never);
        assert_eq!(decided(&rules, network("npm test")), RuleDecision::Forbid);
    }

    #[test]
    fn a_rule_lets_no_program_out_that_commands_can_change() {
        let mut rules = rules();
        let off = CommandRule { leaves_sandbox: true, ..CommandRule::new(&["./run.sh"], RuleDecision::Allow) };
        rules.rules = [off].into();
        let decided = |rules: &Rules, facts: Facts| {
            rules.judge(Question { facts, ..command("./run.sh", "/a", true) }).verdict.decision
        };
        let changing =
            |is_swappable| Facts::ChangingPrograms { is_swappable, why: "./run.sh can be written".to_owned() };
        assert_eq!(decided(&rules, Facts::FixedPrograms), RuleDecision::Allow);
        assert_eq!(decided(&rules, changing(false)), RuleDecision::Allow, "an interpreter that the operator names");
        assert_eq!(decided(&rules, changing(true)), RuleDecision::Ask);
        assert_eq!(decided(&rules, Facts::None), RuleDecision::Ask);
        rules.policy = ApprovalPolicy::Never;
        assert_eq!(decided(&rules, changing(true)), RuleDecision::Forbid);
    }

    #[test]
    fn only_what_stays_in_a_sandbox_is_confined() {
        let mut rules = rules();
        assert!(rules.confines(&patch(false)) && !rules.confines(&command("ls", "/", true)));
        rules.sandbox = SandboxMode::DangerFullAccess;
        assert!(!rules.confines(&patch(false)));
    }
}
