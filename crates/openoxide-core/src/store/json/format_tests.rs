//! What is on disk, as literal text: the lines of a rollout in both formats, and the note in a ledger of a patch. A change of a
//! type of core's shows here before it changes a file of somebody's.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use openoxide_llm::{HistoryItem, Role, Usage};
use openoxide_sandbox::SandboxMode;

use super::*;
use crate::store::{FileRecord, Overrides, Prefix};
use crate::{ApprovalPolicy, Denial, DenialReason, RememberedApproval, TurnStatus, Widening};

const THREAD: &str = "01a1fc7a-8d1f-75f7-89b7-18c906dd0c5b";
const OTHER: &str = "01a1fc7a-8d1f-75f7-89b7-18c906dd0c5c";
const TURN: &str = "01a1fc7a-8d20-7000-8000-000000000001";
const QUESTION: &str = "5c8b9c3e-6f0d-4a52-9d4e-0123456789ab";
const TIME: &str = "2026-01-02T03:04:05.006Z";

/// A line as it is written, but for its end.
fn written(line: &RolloutLine) -> String {
    text_of(line)
}

/// A line as it is read.
fn read(text: &str) -> RolloutLine {
    read_line(text.as_bytes()).unwrap()
}

/// A name that is no text.
fn odd_path() -> PathBuf {
    OsString::from_vec(b"/w/\xff \"a\"\n".to_vec()).into()
}

fn usage(input_tokens: u64) -> Usage {
    Usage { input_tokens, cached_input_tokens: 2, output_tokens: 3, reasoning_output_tokens: 4 }
}

fn context(directory: Option<&str>, sandbox: SandboxMode, approval_policy: ApprovalPolicy) -> TurnContext {
    TurnContext {
        turn_id: TURN.parse().unwrap(),
        cwd: "/w/é".into(),
        directory: directory.map(str::to_owned),
        model: "m".into(),
        sandbox,
        approval_policy,
    }
}

fn bare_meta() -> SessionMeta {
    SessionMeta { version: "0.1.0".into(), format: 2, ..SessionMeta::bare(THREAD.parse().unwrap(), "/w".into()) }
}

fn full_meta() -> SessionMeta {
    SessionMeta {
        id: THREAD.parse().unwrap(),
        cwd: odd_path(),
        version: "0.1.0".into(),
        base_instructions: Some("base".into()),
        developer_instructions: Some("dev".into()),
        compact_prompt: Some("sum up".into()),
        reasoning_effort: Some("high".into()),
        reasoning_summary: Some("detailed".into()),
        read_only_tools: true,
        forked_from: Some(OTHER.parse().unwrap()),
        owner: Some("ann".into()),
        format: 2,
        overrides: Overrides {
            tool_output_token_limit: Some(1),
            project_doc_max_bytes: Some(2),
            max_turn_tokens: Some(3),
            max_turn_seconds: Some(4),
            max_steps: Some(5),
        },
    }
}

fn files() -> Vec<FileRecord> {
    let changed = FileRecord {
        path: odd_path(),
        before: Some("old\n".into()),
        after: Some("abc".into()),
        mode: Some(0o100_644),
        is_kept: true,
    };
    let made = FileRecord { path: "/w/b".into(), before: None, after: None, mode: None, is_kept: false };
    vec![changed, made]
}

const FILES: &str = r#"[{"path":"\"/w/\\377 \\\"a\\\"\\n\"","before":"old\n","after":"abc","mode":33188,"is_kept":true},{"path":"/w/b","is_kept":false}]"#;

fn ended(status: TurnStatus, reasons: &[DenialReason]) -> EventRecord {
    let denial = |reason: &DenialReason| Denial { what: "`ls`".into(), reason: *reason, note: None };
    EventRecord::TurnEnded {
        turn_id: TURN.parse().unwrap(),
        status,
        content: "done".into(),
        files_changed: vec!["a".into(), odd_path()],
        diff: Some("-a\n+b\n".into()),
        diff_bytes: 0,
        usage: usage(1),
        duration_ms: 7,
        denials: reasons.iter().map(denial).collect(),
        next_item_id: None,
    }
}

fn item(item: HistoryItem) -> RolloutItem {
    RolloutItem::ResponseItem(Arc::new(item))
}

/// Every kind of line with its type and payload as they stand in the second format.
fn lines() -> Vec<(RolloutItem, String)> {
    use RolloutItem::{Compacted, EventMsg, SessionMeta, TurnContext};
    let event = |event: EventRecord, payload: String| (EventMsg(event), payload);
    let said = |role| item(HistoryItem::Message { role, text: "\u{1b}hi \"é\"\n".into(), carried: None });
    let turn_id = TURN.parse().unwrap();
    let remembered = vec![
        RememberedApproval::Command { argv: vec!["ls".into(), "-l".into()], cwd: odd_path(), leaves_sandbox: true },
        RememberedApproval::Patches { leaves_sandbox: false },
        RememberedApproval::Files { files: vec!["/etc/motd".into()] },
        RememberedApproval::Prefix { prefix: vec!["npm".into(), "ci".into()], widening: Widening::Network },
        RememberedApproval::Prefix { prefix: vec!["make".into()], widening: Widening::Directory("/x".into()) },
        RememberedApproval::Prefix { prefix: vec!["git".into()], widening: Widening::Git },
    ];
    const REMEMBERED: [&str; 6] = [
        r#"{"what":"command","argv":["ls","-l"],"cwd":"\"/w/\\377 \\\"a\\\"\\n\"","leaves_sandbox":true}"#,
        r#"{"what":"patches","leaves_sandbox":false}"#,
        r#"{"what":"files","files":["/etc/motd"]}"#,
        r#"{"what":"prefix","prefix":["npm","ci"],"widening":"network"}"#,
        r#"{"what":"prefix","prefix":["make"],"widening":{"directory":"/x"}}"#,
        r#"{"what":"prefix","prefix":["git"],"widening":"git"}"#,
    ];
    const CONTEXT: &str = r#"{"turn_id":"01a1fc7a-8d20-7000-8000-000000000001","cwd":"/w/é","directory":"8:1","model":"m","sandbox":"workspace-write","approval_policy":"on-request"}"#;
    const ENDED: &str = r#"{"type":"turn_ended","turn_id":"01a1fc7a-8d20-7000-8000-000000000001","status":"completed","content":"done","files_changed":["a","\"/w/\\377 \\\"a\\\"\\n\""],"diff":"-a\n+b\n","usage":{"inputTokens":1,"cachedInputTokens":2,"outputTokens":3,"reasoningOutputTokens":4},"duration_ms":7,"denials":[]}"#;
    let ended_with = |status: &str, denials: &str| {
        let status = format!("\"status\":\"{status}\"");
        ENDED
            .replace("\"status\":\"completed\"", &status)
            .replace("\"denials\":[]", &format!("\"denials\":[{denials}]"))
    };
    let reasons = [
        (DenialReason::Declined, "declined"),
        (DenialReason::Cancelled, "cancelled"),
        (DenialReason::Error, "error"),
        (DenialReason::TimedOut, "timed_out"),
        (DenialReason::Disconnected, "disconnected"),
        (DenialReason::NotAskable, "not_askable"),
    ];
    let denials: Vec<_> = reasons.iter().map(|(_, word)| format!(r#"{{"what":"`ls`","reason":"{word}"}}"#)).collect();
    let mut noted = ended(TurnStatus::Failed, &[DenialReason::Declined]);
    if let EventRecord::TurnEnded { denials, diff, diff_bytes, .. } = &mut noted {
        denials[0].note = Some("no".into());
        (*diff, *diff_bytes) = (None, 6);
    }
    let mut counted = ended(TurnStatus::Completed, &[]);
    if let EventRecord::TurnEnded { next_item_id, .. } = &mut counted {
        *next_item_id = Some(9);
    }
    let noted_text = ended_with("failed", r#"{"what":"`ls`","reason":"declined","note":"no"}"#)
        .replace("\"diff\":\"-a\\n+b\\n\"", "\"diff\":null,\"diff_bytes\":6");
    let mut lines = vec![
        (
            SessionMeta(bare_meta()),
            format!(
                r#""session_meta","payload":{{"id":"{THREAD}","cwd":"/w","version":"0.1.0","read_only_tools":false,"format":2,"overrides":{{}}}}"#
            ),
        ),
        (
            SessionMeta(full_meta()),
            format!(
                r#""session_meta","payload":{{"id":"{THREAD}","cwd":"\"/w/\\377 \\\"a\\\"\\n\"","version":"0.1.0","base_instructions":"base","developer_instructions":"dev","compact_prompt":"sum up","reasoning_effort":"high","reasoning_summary":"detailed","read_only_tools":true,"forked_from":"{OTHER}","owner":"ann","format":2,"overrides":{{"tool_output_token_limit":1,"project_doc_max_bytes":2,"max_turn_tokens":3,"max_turn_seconds":4,"max_steps":5}}}}"#
            ),
        ),
        (
            TurnContext(context(Some("8:1"), SandboxMode::WorkspaceWrite, ApprovalPolicy::OnRequest)),
            format!(r#""turn_context","payload":{CONTEXT}"#),
        ),
        (
            said(Role::User),
            r#""response_item","payload":{"type":"message","role":"user","text":"\u001bhi \"é\"\n"}"#.to_owned(),
        ),
        (
            said(Role::Assistant),
            r#""response_item","payload":{"type":"message","role":"assistant","text":"\u001bhi \"é\"\n"}"#.to_owned(),
        ),
        (
            said(Role::Developer),
            r#""response_item","payload":{"type":"message","role":"developer","text":"\u001bhi \"é\"\n"}"#.to_owned(),
        ),
        (
            item(HistoryItem::Note { text: "n".into() }),
            r#""response_item","payload":{"type":"note","text":"n"}"#.to_owned(),
        ),
        (
            item(HistoryItem::Image { media_type: "image/png".into(), data: "AA==".into() }),
            r#""response_item","payload":{"type":"image","media_type":"image/png","data":"AA=="}"#.to_owned(),
        ),
        (
            item(HistoryItem::Reasoning {
                summary: "s".into(),
                raw: serde_json::json!({"b": [1, 2.5, null], "a": "x"}),
            }),
            r#""response_item","payload":{"type":"reasoning","summary":"s","raw":{"b":[1,2.5,null],"a":"x"}}"#
                .to_owned(),
        ),
        (
            item(HistoryItem::FunctionCall {
                call_id: "c".into(),
                name: "f".into(),
                arguments: "{\"a\":1}".into(),
                carried: None,
            }),
            r#""response_item","payload":{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":1}"}"#
                .to_owned(),
        ),
        (
            item(HistoryItem::CustomToolCall {
                call_id: "c".into(),
                name: "f".into(),
                input: "i".into(),
                carried: None,
            }),
            r#""response_item","payload":{"type":"custom_tool_call","call_id":"c","name":"f","input":"i"}"#.to_owned(),
        ),
        (
            item(HistoryItem::Message {
                role: Role::Assistant,
                text: "t".into(),
                carried: Some(Box::new(serde_json::json!({"id": "m", "phase": "commentary", "_provider": "p"}))),
            }),
            r#""response_item","payload":{"type":"message","role":"assistant","text":"t","carried":{"id":"m","phase":"commentary","_provider":"p"}}"#
                .to_owned(),
        ),
        (
            item(HistoryItem::ToolOutput { call_id: "c".into(), custom: true, output: "o".into() }),
            r#""response_item","payload":{"type":"tool_output","call_id":"c","custom":true,"output":"o"}"#.to_owned(),
        ),
        (
            Compacted(vec![
                Arc::new(HistoryItem::Note { text: "n".into() }),
                Arc::new(HistoryItem::Message { role: Role::User, text: "u".into(), carried: None }),
            ]),
            r#""compacted","payload":[{"type":"note","text":"n"},{"type":"message","role":"user","text":"u"}]"#
                .to_owned(),
        ),
    ];
    let policies = [
        (SandboxMode::ReadOnly, "read-only", ApprovalPolicy::Untrusted, "untrusted"),
        (SandboxMode::DangerFullAccess, "danger-full-access", ApprovalPolicy::OnFailure, "on-failure"),
        (SandboxMode::WorkspaceWrite, "workspace-write", ApprovalPolicy::Never, "never"),
    ];
    lines.extend(policies.map(|(sandbox, sandbox_word, policy, policy_word)| {
        let text = format!(
            r#""turn_context","payload":{{"turn_id":"{TURN}","cwd":"/w/é","model":"m","sandbox":"{sandbox_word}","approval_policy":"{policy_word}"}}"#
        );
        (TurnContext(context(None, sandbox, policy)), text)
    }));
    let mut events = vec![
        (
            EventRecord::ApprovalDecided {
                turn_id,
                id: QUESTION.parse().unwrap(),
                what: "`ls`".into(),
                decision: "approved".into(),
                by: "client zed".into(),
            },
            format!(
                r#"{{"type":"approval_decided","turn_id":"{TURN}","id":"{QUESTION}","what":"`ls`","decision":"approved","by":"client zed"}}"#
            ),
        ),
        (
            EventRecord::ApprovalDecided {
                turn_id,
                id: QUESTION.parse().unwrap(),
                what: String::new(),
                decision: "denied".into(),
                by: String::new(),
            },
            format!(
                r#"{{"type":"approval_decided","turn_id":"{TURN}","id":"{QUESTION}","what":"","decision":"denied"}}"#
            ),
        ),
        (
            EventRecord::Checkpoint {
                context: context(Some("8:1"), SandboxMode::WorkspaceWrite, ApprovalPolicy::OnRequest),
                usage_before: usage(9),
                remembered: remembered.clone(),
                results: vec![ended(TurnStatus::Completed, &[])],
                prefix: None,
            },
            format!(
                r#"{{"type":"checkpoint","context":{CONTEXT},"usage_before":{{"inputTokens":9,"cachedInputTokens":2,"outputTokens":3,"reasoningOutputTokens":4}},"remembered":[{}],"results":[{ENDED}]}}"#,
                REMEMBERED.join(",")
            ),
        ),
        (
            EventRecord::Checkpoint {
                context: context(Some("8:1"), SandboxMode::WorkspaceWrite, ApprovalPolicy::OnRequest),
                usage_before: usage(9),
                remembered: Vec::new(),
                results: Vec::new(),
                prefix: Some(Prefix { digest: "d".into(), version: "0.1.0".into() }),
            },
            format!(
                r#"{{"type":"checkpoint","context":{CONTEXT},"usage_before":{{"inputTokens":9,"cachedInputTokens":2,"outputTokens":3,"reasoningOutputTokens":4}},"remembered":[],"results":[],"prefix":{{"digest":"d","version":"0.1.0"}}}}"#
            ),
        ),
        (
            EventRecord::Prefix { prefix: Prefix { digest: "d".into(), version: "0.1.0".into() } },
            r#"{"type":"prefix","prefix":{"digest":"d","version":"0.1.0"}}"#.to_owned(),
        ),
        (
            EventRecord::Changes { turn_id, files: files() },
            format!(r#"{{"type":"changes","turn_id":"{TURN}","files":{FILES}}}"#),
        ),
        (
            EventRecord::Patched { turn_id, call_id: "c".into(), files: files(), diff: Some("d".into()) },
            format!(r#"{{"type":"patched","turn_id":"{TURN}","call_id":"c","files":{FILES},"diff":"d"}}"#),
        ),
        (
            EventRecord::Patched { turn_id, call_id: "c".into(), files: Vec::new(), diff: None },
            format!(r#"{{"type":"patched","turn_id":"{TURN}","call_id":"c","files":[],"diff":null}}"#),
        ),
        (ended(TurnStatus::Completed, &[]), ENDED.to_owned()),
        (counted, ENDED.replace("\"denials\":[]", "\"denials\":[],\"next_item_id\":9")),
        (
            ended(TurnStatus::Interrupted, &reasons.map(|(reason, _)| reason)),
            ended_with("interrupted", &denials.join(",")),
        ),
        (noted, noted_text),
    ];
    events.extend(remembered.into_iter().zip(REMEMBERED).map(|(approval, text)| {
        (EventRecord::Remembered { approval }, format!(r#"{{"type":"remembered","approval":{text}}}"#))
    }));
    lines.extend(events.into_iter().map(|(record, text)| event(record, format!(r#""event_msg","payload":{text}"#))));
    lines
}

#[test]
fn every_line_of_the_second_format_is_written_and_read_as_it_stands_here() {
    for (item, rest) in lines() {
        let line = RolloutLine { timestamp: TIME.to_owned(), item };
        let text = format!("{{\"timestamp\":\"{TIME}\",\"format\":2,\"type\":{rest}}}");
        assert_eq!(written(&line), text);
        assert_eq!(read(&text), line);
    }
}

/// The types of lines and payloads come from what reading says of one that it does not know, so no second list falls behind.
#[test]
fn no_type_of_line_is_missing_above() {
    let texts: Vec<String> = lines().into_iter().map(|(_, text)| text).collect();
    for (start, payload) in [
        ("", r#""?","payload":{}"#),
        (r#""event_msg","payload":{"type":"#, r#""event_msg","payload":{"type":"?"}"#),
        (r#""response_item","payload":{"type":"#, r#""response_item","payload":{"type":"?"}"#),
    ] {
        let line = format!(r#"{{"timestamp":"{TIME}","format":2,"type":{payload}}}"#);
        let error = read_line(line.as_bytes()).unwrap_err().to_string();
        let known = error.split_once("expected one of ").unwrap().1;
        for word in known.split('`').skip(1).step_by(2) {
            let expected = format!("{start}\"{word}\"");
            assert!(texts.iter().any(|text| text.starts_with(&expected)), "{expected} is missing");
        }
    }
}

#[test]
fn lines_of_the_first_format_are_read() {
    let first = format!(
        r#"{{"timestamp":"{TIME}","type":"session_meta","payload":{{"id":"{THREAD}","cwd":"/w","version":"0.1.0"}}}}"#
    );
    let meta = SessionMeta { format: 1, ..bare_meta() };
    assert_eq!(read(&first).item, RolloutItem::SessionMeta(meta));
    for (payload, expected) in [
        (
            r#"{"type":"message","role":"user","text":"<turn_interrupted>\nwhy\n</turn_interrupted>"}"#,
            HistoryItem::Note { text: "<turn_interrupted>\nwhy\n</turn_interrupted>".into() },
        ),
        (
            r#"{"type":"message","role":"user","text":"hi"}"#,
            HistoryItem::Message { role: Role::User, text: "hi".into(), carried: None },
        ),
    ] {
        let line = format!(r#"{{"timestamp":"{TIME}","type":"response_item","payload":{payload}}}"#);
        assert_eq!(read(&line).item, item(expected.clone()));
        let line = format!(r#"{{"timestamp":"{TIME}","format":1,"type":"compacted","payload":[{payload}]}}"#);
        assert_eq!(read(&line).item, RolloutItem::Compacted(vec![Arc::new(expected)]));
    }
    // Fields in another order, one that nobody knows, and those that are missing.
    let line = format!(
        r#"{{"payload":{{"id":"{QUESTION}","turn_id":"{TURN}","later":[1],"what":"w","decision":"denied","type":"approval_decided"}},"type":"event_msg","timestamp":"{TIME}","more":0}}"#
    );
    let decided = EventRecord::ApprovalDecided {
        turn_id: TURN.parse().unwrap(),
        id: QUESTION.parse().unwrap(),
        what: "w".into(),
        decision: "denied".into(),
        by: String::new(),
    };
    assert_eq!(read(&line).item, RolloutItem::EventMsg(decided));
}

#[test]
fn the_note_of_a_ledger_is_written_and_read_as_it_stands_here() {
    let note = PatchNote {
        directory: odd_path(),
        directory_id: "8:1".into(),
        line: RolloutItem::EventMsg(EventRecord::Changes { turn_id: TURN.parse().unwrap(), files: files() }),
    };
    let text = format!(
        r#"{{"directory":"\"/w/\\377 \\\"a\\\"\\n\"","directory_id":"8:1","line":{{"type":"event_msg","payload":{{"type":"changes","turn_id":"{TURN}","files":{FILES}}}}}}}"#
    );
    assert_eq!(String::from_utf8(write_note(&note).unwrap()).unwrap(), text);
    assert_eq!(read_note(text.as_bytes()).unwrap(), note);
}
