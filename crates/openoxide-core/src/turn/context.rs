//! What a thread tells the model ahead of its first prompt: the caller's instructions, the documents of the user and
//! the project, where it works, and how things stand (`now`). All of it is appended once and never changed, so that a provider's cache of
//! the conversation's beginning holds; what changes later is told in messages of its own.

mod now;
mod project_doc;

use std::fmt::Write as _;
use std::sync::Arc;

use openoxide_display::quote_path;
use openoxide_llm::{HistoryItem, Role};
use openoxide_sandbox::{SandboxMode, SandboxPolicy};

use super::host::ContextDue;
use crate::tools::Shell;
use crate::tools::files::FileView;
use crate::{ApprovalPolicy, Config, ThreadConfig, instructions};

/// The items that go ahead of the next prompt, and what a person should be warned of. Blocks on the disk.
pub(crate) fn due(
    due: ContextDue,
    core: &Config,
    shell: Shell,
    thread: &ThreadConfig,
    history: &[Arc<HistoryItem>],
    view: &FileView,
) -> (Vec<HistoryItem>, Vec<String>) {
    let mut items = Vec::new();
    let mut warnings = Vec::new();
    let now = now::lines(view);
    if due == ContextDue::Nothing {
        items.extend(now::update(history, &now));
        return (items, warnings);
    }
    if due == ContextDue::Everything {
        if let Some(text) = thread.developer_instructions.as_deref().filter(|text| !text.trim().is_empty()) {
            items.push(HistoryItem::Message { role: Role::Developer, text: text.to_owned(), carried: None });
        }
        let max_bytes = thread.project_doc_max_bytes.unwrap_or(core.project_doc_max_bytes);
        let documents = project_doc::read(view, max_bytes);
        warnings.extend(
            documents
                .refused
                .iter()
                .map(|(path, error)| format!("the project document {} was not read: {error}", quote_path(path))),
        );
        warnings.extend(documents.cut.then(|| {
            format!(
                "the project documents (AGENTS.md) are longer than {max_bytes} bytes; the model was given their \
                 beginning"
            )
        }));
        if let Some(text) = project_doc::message(&thread.cwd, core.user_instructions.as_deref(), &documents) {
            items.push(HistoryItem::Note { text });
        }
    }
    if thread.read_only_tools {
        items.push(HistoryItem::Message {
            role: Role::Developer,
            text: instructions::READ_ONLY.to_owned(),
            carried: None,
        });
    }
    items.push(HistoryItem::Note { text: environment(shell, core, thread, &now) });
    (items, warnings)
}

fn environment(shell: Shell, core: &Config, thread: &ThreadConfig, now: &str) -> String {
    let mut text = String::from("<environment_context>\n");
    // Writing to a string does not fail.
    let _ = writeln!(text, "cwd: {}", quote_path(&thread.cwd));
    let _ = writeln!(text, "sandbox: {}; {}", thread.sandbox.as_str(), confined(core, thread));
    let policy = SandboxPolicy::new(thread.sandbox, thread.cwd.clone(), core.workspace_write.clone());
    if policy.opens_git() && !thread.read_only_tools {
        let _ = writeln!(text, "writing with git: {GIT}");
    }
    let network = core.workspace_write.network_access;
    if thread.sandbox != SandboxMode::DangerFullAccess {
        let among = match (core.launcher.shares_boxes(thread.sandbox), network) {
            (true, false) => {
                "one box for this thread: what one command has left running, a server on loopback say, is reached, seen and \
                 stopped (`kill`, `pkill`) by the next without asking; nothing outside is"
            }
            (true, true) => {
                "one box for this thread: what one command has left running is seen and stopped (`kill`, `pkill`) by the next \
                 without asking; the network is the machine's"
            }
            (false, _) => {
                "each in a box of its own: what one has left running is neither reached nor seen by the next; start a server \
                 and use it in one command"
            }
        };
        let _ = writeln!(text, "commands: {among}");
    }
    let _ = writeln!(text, "approvals: {}; {}", thread.approval_policy.as_str(), asking(thread));
    let _ = writeln!(text, "shell: {}", shell.name());
    if let Some(rules) = crate::rules::told::told(&core.rules, thread.sandbox) {
        let _ = writeln!(text, "{rules}");
    }
    text.push_str(now);
    text.push_str("</environment_context>");
    text
}

/// What holds where git may commit in the sandbox.
const GIT: &str = "a command line that is nothing but git may write the repository that cwd lies in: add, commit, rm, mv, \
                   restore, checkout, switch, branch, tag, merge, rebase, stash and worktree add, beside git commands that \
                   only read, and cd. Join them by && or ;, write plain and quoted words (a message by -m, also several), \
                   no substitutions, redirections or pipes, no option ahead of the command but -C, no rebase --exec, no tty. \
                   Configuration and hooks stay read-only, so a branch gets no upstream; hooks run in the sandbox. Every \
                   other command finds .git read-only";

/// What commands may touch.
fn confined(core: &Config, thread: &ThreadConfig) -> String {
    let network = if core.workspace_write.network_access { "the network" } else { "loopback only" };
    match thread.sandbox {
        SandboxMode::ReadOnly => "commands can write nothing, and reach loopback only".to_owned(),
        SandboxMode::WorkspaceWrite => {
            let mut text = "commands write in cwd and the temporary directories, not in .git, .openoxide, .codex and \
                            .agents"
                .to_owned();
            let guarded = core.workspace_write.guarded_names();
            if !guarded.is_empty() {
                let _ = write!(text, ", nor in what exists of {}", guarded.join(", "));
            }
            let _ = write!(text, ", and reach {network}");
            text
        }
        SandboxMode::DangerFullAccess => "nothing confines commands".to_owned(),
    }
}

/// What the model has to know of when somebody is asked.
fn asking(thread: &ThreadConfig) -> &'static str {
    match (thread.approval_policy, thread.sandbox) {
        (_, SandboxMode::ReadOnly) if thread.read_only_tools => "nobody is asked; nothing can be changed",
        (ApprovalPolicy::Untrusted, _) => {
            "every patch, and every command that is not known to only read, is put to a person first"
        }
        (ApprovalPolicy::OnRequest, SandboxMode::DangerFullAccess) => {
            "commands with `sandbox_permissions: \"require_escalated\"` are put to a person first; use it for what is risky \
             or reaches outside of cwd"
        }
        (ApprovalPolicy::OnRequest, SandboxMode::WorkspaceWrite) => {
            "a command that fails for want of the network, of one directory to write in, or of the repository (a line that is \
             nothing but git) can be run again with \
             `sandbox_permissions: \"with_additional_permissions\"`, `additional_permissions` and a justification, and \
             stays in the sandbox; `\"require_escalated\"` lets it run without the sandbox. A person is asked for both"
        }
        (ApprovalPolicy::OnRequest, SandboxMode::ReadOnly) => {
            "a command that fails for want of network or rights can be run again with `sandbox_permissions: \
             \"require_escalated\"` and a justification; a person is asked, and it then runs without the sandbox"
        }
        (ApprovalPolicy::OnFailure, _) => "what the sandbox stops is put to a person, and then runs without it",
        (ApprovalPolicy::Never, _) => "nobody is asked; what the sandbox stops stays undone",
    }
}
