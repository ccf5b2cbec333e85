//! The tools as `tools/list` shows them, made from the parameter structs.

use std::sync::{Arc, OnceLock};

use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::Value;

use super::choices::{ApprovalChoice, SandboxChoice, Word};
use super::codex;
use super::{OPENOXIDE, OpenoxideParams, QUERY, QueryParams, REPLY, ReplyParams};
use crate::schema::schema_of;
use crate::{ToolOutput, apps, meta_keys};

/// The most characters of a result: its text, and its diffs twice escaped.
const MAX_RESULT_SIZE: u32 = 200_000;

/// What the operator of a server lets callers ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choices {
    /// Sandbox modes, in the order in which they are listed.
    pub sandboxes: Vec<SandboxChoice>,
    /// The mode where the caller names none.
    pub default_sandbox: SandboxChoice,
    /// Approval policies, in the order in which they are listed.
    pub policies: Vec<ApprovalChoice>,
    /// The policy where the caller names none.
    pub default_policy: ApprovalChoice,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            sandboxes: SandboxChoice::ALL.to_vec(),
            default_sandbox: SandboxChoice::WorkspaceWrite,
            policies: ApprovalChoice::ALL.to_vec(),
            default_policy: ApprovalChoice::OnRequest,
        }
    }
}

/// Which tools a server has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolFamilies {
    /// Our own.
    #[default]
    Native,
    /// Those of Codex alone, as a host has them that was configured for it.
    Codex,
    /// Both.
    All,
}

/// The tools of one server: as they are listed, and as their arguments are read.
#[derive(Debug)]
pub struct ToolSet {
    choices: Choices,
    families: ToolFamilies,
    listed: OnceLock<Vec<Tool>>,
}

impl ToolSet {
    /// Our own tools with what is offered. The listing is made when it is first wanted.
    #[must_use]
    pub fn new(choices: Choices) -> Self {
        Self { choices, families: ToolFamilies::Native, listed: OnceLock::new() }
    }

    /// With these tools instead.
    #[must_use]
    pub fn with(self, families: ToolFamilies) -> Self {
        Self { families, ..self }
    }

    pub(super) fn families(&self) -> ToolFamilies {
        self.families
    }

    pub(super) fn choices(&self) -> &Choices {
        &self.choices
    }

    /// All tools as `tools/list` shows them, in one fixed order.
    pub fn list(&self) -> &[Tool] {
        self.listed.get_or_init(|| {
            let of_codex = || codex::list(&self.choices).into_iter();
            match self.families {
                ToolFamilies::Native => list(&self.choices),
                ToolFamilies::Codex => of_codex().collect(),
                ToolFamilies::All => list(&self.choices).into_iter().chain(of_codex()).collect(),
            }
        })
    }
}

/// Leaves the words that are offered, and says which one holds where none is given.
fn set_words<T: Word>(schema: &mut JsonObject, field: &str, words: &[T], default: T) {
    let property = schema.get_mut("properties").and_then(|properties| properties.get_mut(field));
    let Some(property) = property.and_then(Value::as_object_mut) else { return };
    property.insert("enum".to_owned(), words.iter().map(|word| word.as_str()).collect());
    property.insert("default".to_owned(), default.as_str().into());
}

fn list(choices: &Choices) -> Vec<Tool> {
    let output = Arc::new(schema_of::<ToolOutput>());
    let tool = |name, title, description, input: JsonObject, annotations: ToolAnnotations| {
        Tool::new(name, description, Arc::new(input))
            .with_title(title)
            .with_raw_output_schema(Arc::clone(&output))
            .with_annotations(annotations)
    };
    let hints = |words: &str, is_loaded: bool| {
        let mut meta = JsonObject::new();
        meta.insert(meta_keys::SEARCH_HINT.to_owned(), words.into());
        if is_loaded {
            meta.insert(meta_keys::ALWAYS_LOAD.to_owned(), true.into());
        }
        meta.insert(meta_keys::MAX_RESULT_SIZE.to_owned(), MAX_RESULT_SIZE.into());
        meta
    };
    let shown = |tool: Tool, mut meta: JsonObject| {
        meta.extend(apps::tool_meta());
        tool.with_meta(MetaObject(meta))
    };
    let mut start = schema_of::<OpenoxideParams>();
    set_words(&mut start, "sandbox", &choices.sandboxes, choices.default_sandbox);
    set_words(&mut start, "approval_policy", &choices.policies, choices.default_policy);
    vec![
        shown(
            tool(
                OPENOXIDE,
                "OpenOxide",
                "Hand a coding task to the OpenOxide agent in a new thread. It reads and edits files and runs commands in cwd, \
             held to the sandbox and asking for approval as approval_policy says, and answers when it is done, with the \
             thread id, a summary, the files it changed and a diff.",
                start,
                ToolAnnotations::with_title("OpenOxide: start a task")
                    .read_only(false)
                    .destructive(true)
                    .open_world(true),
            ),
            hints("delegate coding task, second agent, run commands, edit files, review", true),
        ),
        shown(
            tool(
                REPLY,
                "OpenOxide Reply",
                "Continue an OpenOxide thread: send the next prompt, steer or interrupt the running turn, or, without a \
             prompt, wait for the running turn and get its result.",
                schema_of::<ReplyParams>(),
                ToolAnnotations::with_title("OpenOxide: continue a thread")
                    .read_only(false)
                    .destructive(true)
                    .open_world(true),
            ),
            hints("continue a coding agent's thread, wait for its result, steer or interrupt it", true),
        ),
        tool(
            QUERY,
            "OpenOxide Query",
            "Ask the OpenOxide agent a question about the code in cwd, or about an earlier thread. It only reads: \
             commands run in a read-only sandbox or not at all, and no file is changed.",
            schema_of::<QueryParams>(),
            ToolAnnotations::with_title("OpenOxide: ask about code")
                .read_only(true)
                .destructive(false)
                .idempotent(true)
                .open_world(true),
        )
        .with_meta(MetaObject(hints("ask another agent about the code, second opinion, read-only review", false))),
    ]
}
