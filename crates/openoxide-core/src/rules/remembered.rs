//! What an approval for the thread covers: made out once for each question, said in it, and looked up before the next one.
//! Pure.
//!
//! What is covered never grows by itself: a command outside of the sandbox is covered only where nothing in the sandbox can
//! change what it runs, a patch beyond the sandbox only by its files, and what is given to the commands of a prefix leaves
//! them in the sandbox.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use openoxide_display::{command_line, quote_path};

use super::command::plain_commands;
use crate::{ApprovalAction, RememberedApproval, Widening};

/// What a tool call would do, put up for a decision if the policy wants one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    /// What would be done.
    pub(crate) action: ApprovalAction,
    /// It would leave the sandbox: the model asks for that, or a patch reaches further than commands may write.
    pub(crate) leaves_sandbox: bool,
    /// Why, in the model's words.
    pub(crate) justification: Option<String>,
    /// What was found out about it.
    pub(crate) facts: Facts,
}

/// What the disk and the call say of a question beside its action.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Facts {
    #[default]
    None,
    /// Of a command that would leave the sandbox: no command in it can change the programs that it names, and none of them
    /// runs what others wrote.
    FixedPrograms,
    /// Of a command that would leave the sandbox: that is not so.
    ChangingPrograms {
        /// A command in the sandbox could put another program in its place.
        is_swappable: bool,
        /// In words.
        why: String,
    },
    /// Of a patch: where its files really are.
    Files(Vec<PatchedFile>),
    /// Of a command that stays in the sandbox and wants one thing more.
    Widened {
        widening: Widening,
        /// The first words of the commands that are to be given it for the rest of the thread; empty where none are.
        prefix: Vec<String>,
    },
}

/// A file that a patch writes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PatchedFile {
    /// Absolute, without links.
    pub(crate) path: PathBuf,
    /// No command could write it.
    pub(crate) is_beyond: bool,
}

impl Question {
    /// A question about what stays in the sandbox, of which nothing more is known.
    pub(crate) fn new(action: ApprovalAction) -> Self {
        Self { action, leaves_sandbox: false, justification: None, facts: Facts::None }
    }

    /// What a command asks for beside what its sandbox lets it do.
    pub(crate) fn widening(&self) -> Option<&Widening> {
        match &self.facts {
            Facts::Widened { widening, .. } => Some(widening),
            Facts::None | Facts::FixedPrograms | Facts::ChangingPrograms { .. } | Facts::Files(_) => None,
        }
    }

    fn files(&self) -> &[PatchedFile] {
        match &self.facts {
            Facts::Files(files) => files,
            Facts::None | Facts::FixedPrograms | Facts::ChangingPrograms { .. } | Facts::Widened { .. } => &[],
        }
    }
}

/// The answer to a question, for the rest of its thread, where there is one that can be written down. What is typed cannot:
/// the number of a command means another command after a restart.
pub(crate) fn for_thread(question: &Question) -> Option<RememberedApproval> {
    match &question.action {
        ApprovalAction::Command { argv, cwd } => match &question.facts {
            Facts::Widened { widening, prefix } => {
                let is_offered = !prefix.is_empty() && all_begin_with(argv, prefix);
                is_offered.then(|| RememberedApproval::Prefix { prefix: prefix.clone(), widening: widening.clone() })
            }
            Facts::None | Facts::FixedPrograms | Facts::ChangingPrograms { .. } | Facts::Files(_) => {
                let leaves_sandbox = question.leaves_sandbox;
                let is_offered = !leaves_sandbox || question.facts == Facts::FixedPrograms;
                is_offered.then(|| RememberedApproval::Command { argv: argv.clone(), cwd: cwd.clone(), leaves_sandbox })
            }
        },
        ApprovalAction::Patch { .. } if question.leaves_sandbox => {
            let beyond = question.files().iter().filter(|file| file.is_beyond);
            let files: Vec<PathBuf> = beyond.map(|file| file.path.clone()).collect();
            (!files.is_empty()).then_some(RememberedApproval::Files { files })
        }
        ApprovalAction::Patch { .. } => Some(RememberedApproval::Patches { leaves_sandbox: false }),
        ApprovalAction::Input { .. } | ApprovalAction::UserInput { .. } => None,
    }
}

/// What an approval of the question for the thread covers, for a person: what follows "Approving it for the thread covers".
/// None where it is not offered.
pub(crate) fn coverage(question: &Question, is_confined: bool) -> Option<String> {
    let place = |leaves: bool| match (leaves, is_confined) {
        (true, _) => "outside of the sandbox",
        (false, true) => "inside the sandbox",
        (false, false) => "without a sandbox",
    };
    if let ApprovalAction::Input { command_id, text, .. } = &question.action {
        let typed = command_line(std::slice::from_ref(text));
        return Some(format!("typing {typed} into command {command_id}, and nothing else"));
    }
    Some(match for_thread(question)? {
        RememberedApproval::Command { cwd, leaves_sandbox, .. } => {
            let place = place(leaves_sandbox);
            format!("exactly this command in {}, {place}, and no other", quote_path(&cwd))
        }
        RememberedApproval::Prefix { prefix, widening } => {
            format!("commands that begin with `{}`, inside the sandbox with {widening}", command_line(&prefix))
        }
        RememberedApproval::Files { files } => {
            let files: Vec<String> = files.iter().map(|file| quote_path(file)).collect();
            format!("patches of {}, outside of the sandbox, and of no other file there", files.join(", "))
        }
        RememberedApproval::Patches { .. } if is_confined => "every patch that stays inside the sandbox".to_owned(),
        RememberedApproval::Patches { .. } => "every patch of any file".to_owned(),
    })
}

/// Whether a command is a line of plain commands that all begin with these words.
fn all_begin_with(argv: &[String], prefix: &[String]) -> bool {
    let commands = match argv {
        [_, flag, line] if flag == "-c" => plain_commands(line),
        _ => Some(vec![argv.to_vec()]),
    };
    commands.is_some_and(|commands| commands.iter().all(|command| command.starts_with(prefix)))
}

/// Answers that hold for the rest of a thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remembered {
    commands: HashSet<(Vec<String>, PathBuf, bool)>,
    /// The number of a command, what is typed into it, and whether it runs outside of the sandbox.
    inputs: HashSet<(u64, String, bool)>,
    /// Patches that stay in the sandbox.
    patches: bool,
    /// Files beyond the sandbox that may be patched.
    files: HashSet<PathBuf>,
    prefixes: HashSet<(Vec<String>, Widening)>,
}

impl Remembered {
    /// Notes an approval for the thread: what [`coverage`] has said of it, and nothing where it was not offered.
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
            // It named no file, and covers none.
            RememberedApproval::Patches { leaves_sandbox: true } => {}
            RememberedApproval::Patches { leaves_sandbox: false } => self.patches = true,
            RememberedApproval::Files { files } => self.files.extend(files),
            RememberedApproval::Prefix { prefix, widening } => {
                self.prefixes.insert((prefix, widening));
            }
        }
    }

    /// Whether the question was answered before. `asks_patches` is whether patches within the sandbox are asked for too.
    pub(crate) fn covers(&self, question: &Question, asks_patches: bool) -> bool {
        match &question.action {
            ApprovalAction::Command { argv, cwd } => match &question.facts {
                Facts::Widened { widening, .. } => {
                    self.prefixes.iter().any(|(prefix, approved)| approved == widening && all_begin_with(argv, prefix))
                }
                Facts::None | Facts::FixedPrograms | Facts::ChangingPrograms { .. } | Facts::Files(_) => {
                    !self.commands.is_empty()
                        // What may be run by these words now is looked at each time.
                        && for_thread(question).is_some()
                        && self.commands.contains(&(argv.clone(), cwd.clone(), question.leaves_sandbox))
                }
            },
            ApprovalAction::Input { command_id, text, .. } => {
                self.inputs.contains(&(*command_id, text.clone(), question.leaves_sandbox))
            }
            ApprovalAction::Patch { .. } if question.leaves_sandbox => {
                let is_covered = |file: &PatchedFile| match file.is_beyond {
                    true => self.has_file(&file.path),
                    false => self.patches || !asks_patches,
                };
                !question.files().is_empty() && question.files().iter().all(is_covered)
            }
            ApprovalAction::Patch { .. } => self.patches,
            ApprovalAction::UserInput { .. } => false,
        }
    }

    fn has_file(&self, path: &Path) -> bool {
        self.files.contains(path)
    }
}

#[cfg(test)]
#[path = "remembered_tests.rs"]
mod tests;
