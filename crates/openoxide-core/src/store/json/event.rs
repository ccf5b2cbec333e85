//! What happened beside the history.

use std::path::PathBuf;

use openoxide_llm::Usage;
use serde::{Deserialize, Serialize};

use super::history::UsageJson;
use super::meta::ContextJson;
use super::record::{List, Optional, Path, Text, records};
use crate::store::file_record::FileRecord;
use crate::store::record::{EventRecord, Prefix, TurnContext};
use crate::{ApprovalId, Denial, DenialReason, RememberedApproval, TurnId, TurnStatus, Widening};

records! {
    EventJson for EventRecord,
    RememberedJson for RememberedApproval,
    FileJson for FileRecord,
    DenialJson for Denial,
    PrefixJson for Prefix,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Prefix")]
struct PrefixJson {
    digest: String,
    version: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "EventRecord", tag = "type", rename_all = "snake_case")]
pub(super) enum EventJson {
    ApprovalDecided {
        #[serde(with = "Text")]
        turn_id: TurnId,
        #[serde(with = "Text")]
        id: ApprovalId,
        what: String,
        decision: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
    Remembered {
        #[serde(with = "RememberedJson")]
        approval: RememberedApproval,
    },
    Checkpoint {
        #[serde(with = "ContextJson")]
        context: TurnContext,
        #[serde(with = "UsageJson")]
        usage_before: Usage,
        #[serde(with = "List::<RememberedJson>")]
        remembered: Vec<RememberedApproval>,
        #[serde(with = "List::<EventJson>")]
        results: Vec<EventRecord>,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "Optional::<PrefixJson>")]
        prefix: Option<Prefix>,
    },
    Prefix {
        #[serde(with = "PrefixJson")]
        prefix: Prefix,
    },
    Changes {
        #[serde(with = "Text")]
        turn_id: TurnId,
        #[serde(with = "List::<FileJson>")]
        files: Vec<FileRecord>,
    },
    Patched {
        #[serde(with = "Text")]
        turn_id: TurnId,
        call_id: String,
        #[serde(with = "List::<FileJson>")]
        files: Vec<FileRecord>,
        diff: Option<String>,
    },
    TurnEnded {
        #[serde(with = "Text")]
        turn_id: TurnId,
        #[serde(with = "StatusJson")]
        status: TurnStatus,
        content: String,
        #[serde(with = "List::<Path>")]
        files_changed: Vec<PathBuf>,
        diff: Option<String>,
        #[serde(default, skip_serializing_if = "is_zero")]
        diff_bytes: usize,
        #[serde(with = "UsageJson")]
        usage: Usage,
        duration_ms: u64,
        #[serde(with = "List::<DenialJson>")]
        denials: Vec<Denial>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_item_id: Option<u64>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "TurnStatus", rename_all = "snake_case")]
enum StatusJson {
    Completed,
    Interrupted,
    Failed,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RememberedApproval", tag = "what", rename_all = "snake_case")]
enum RememberedJson {
    Command {
        argv: Vec<String>,
        #[serde(with = "Path")]
        cwd: PathBuf,
        leaves_sandbox: bool,
    },
    Patches {
        leaves_sandbox: bool,
    },
    Files {
        #[serde(with = "List::<Path>")]
        files: Vec<PathBuf>,
    },
    Prefix {
        prefix: Vec<String>,
        #[serde(with = "WideningJson")]
        widening: Widening,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Widening", rename_all = "snake_case")]
enum WideningJson {
    Network,
    Directory(#[serde(with = "Path")] PathBuf),
    Git,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FileRecord")]
struct FileJson {
    #[serde(with = "Path")]
    path: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<u32>,
    is_kept: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Denial")]
struct DenialJson {
    what: String,
    #[serde(with = "ReasonJson")]
    reason: DenialReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "DenialReason", rename_all = "snake_case")]
enum ReasonJson {
    Declined,
    Cancelled,
    Error,
    TimedOut,
    Disconnected,
    NotAskable,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(bytes: &usize) -> bool {
    *bytes == 0
}
