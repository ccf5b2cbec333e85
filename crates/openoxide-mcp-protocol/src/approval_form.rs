//! The form an approval is asked with, and how its answers are read.
//!
//! One field `decision` that may be left empty: `accept` without it approves once, so that one key is enough and clients that
//! cannot render a form can answer. Anything that is not understood is a denial.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::meta_keys;

/// What an answer says. The server turns it into a decision of core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Do it once.
    Approve,
    /// Do it, and the same again unasked on this thread.
    ApproveForThread,
    /// Do not do it.
    Deny(Refusal, Option<String>),
    /// Do not do it and end the turn.
    DenyAndStop(Option<String>),
}

/// Which kind of no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// `decline`, or a form that says deny.
    Declined,
    /// `cancel`.
    Cancelled,
    /// An error, or a word that is not understood.
    Error,
}

/// How a host that can shows a question as its own: in a line, by a name and with a sentence below.
#[derive(Debug, Clone, Copy)]
pub struct Display<'a> {
    /// What is asked, in one line.
    pub title: &'a str,
    /// What kind of action it is, in a few words.
    pub name: &'a str,
    /// A sentence.
    pub description: &'a str,
}

/// What travels with a question beside what a person reads: details for programs, and Claude Code's own display.
fn meta(display: Display<'_>, details: Value) -> Value {
    let Display { title, name, description } = display;
    json!({
        meta_keys::APPROVAL: details,
        meta_keys::PERMISSION_DISPLAY: { "title": title, "displayName": name, "description": description },
    })
}

/// The parameters of `elicitation/create` for one approval.
///
/// `message` is shown to a person; `details` is for programs and travels in `_meta`, as `display` does. `for_thread` is what
/// approving it for the thread covers; without it that is not among the choices.
pub fn question(message: &str, display: Display<'_>, details: Value, for_thread: Option<&str>) -> Value {
    const ONCE: (&str, &str) = ("approve", "Approve once");
    const FOR_THREAD: (&str, &str) = ("approve_for_thread", "Approve, and do not ask again for this on the thread");
    const NO: [(&str, &str); 2] =
        [("deny", "Deny, and let the agent go on"), ("deny_and_stop", "Deny, and end the turn")];
    let choices: Vec<(&str, &str)> = [ONCE].into_iter().chain(for_thread.map(|_| FOR_THREAD)).chain(NO).collect();
    let (words, names): (Vec<&str>, Vec<&str>) = choices.into_iter().unzip();
    let covers = for_thread.map(|covered| format!(". For the thread, it covers {covered}")).unwrap_or_default();
    json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": "Decision (accepting without one approves once)",
                    "description": format!("What the agent may do. Leave it empty and accept to approve once{covers}"),
                    "enum": words,
                    "enumNames": names,
                },
                "reason": { "type": "string", "title": "Reason", "description": "Told to the agent when you deny" },
            },
        },
        "_meta": meta(display, details),
    })
}

/// One question of a form that asks the person what they want.
#[derive(Debug, Clone)]
pub struct Field {
    /// Names the answer.
    pub id: String,
    /// A sentence.
    pub question: String,
    /// Answers to choose from, each with what it would mean; none for a free one.
    pub options: Vec<(String, Option<String>)>,
}

/// What a field for another answer than those offered is called.
fn other(id: &str) -> String {
    format!("{id}_other")
}

/// The parameters of `elicitation/create` for questions of the agent.
///
/// A question with options is an enum, and a text beside it for another answer; one without is a text. `details` is for
/// programs and travels in `_meta`, as `display` does.
pub fn input_form(message: &str, fields: &[Field], display: Display<'_>, details: Value) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for Field { id, question, options } in fields {
        if options.is_empty() {
            properties.insert(id.clone(), json!({ "type": "string", "title": question, "minLength": 1 }));
            required.push(id);
            continue;
        }
        let explained: Vec<String> =
            options.iter().filter_map(|(label, what)| what.as_ref().map(|what| format!("{label}: {what}"))).collect();
        let labels: Vec<&String> = options.iter().map(|(label, _)| label).collect();
        let mut choice = json!({ "type": "string", "title": question, "enum": labels });
        if !explained.is_empty() {
            choice["description"] = json!(explained.join(" "));
        }
        properties.insert(id.clone(), choice);
        properties.insert(other(id), json!({ "type": "string", "title": "Another answer" }));
    }
    json!({
        "mode": "form",
        "message": message,
        "requestedSchema": { "type": "object", "properties": properties, "required": required },
        "_meta": meta(display, details),
    })
}

/// Reads the answer to such a form: what was said to each question, or the kind of no. Another answer goes before a choice.
///
/// # Errors
/// `decline`, `cancel`, or what is no answer to a form.
pub fn read_input(result: &Value, ids: &[&str]) -> Result<BTreeMap<String, String>, Refusal> {
    match result.get("action").and_then(Value::as_str) {
        Some("accept") => {}
        Some("decline") => return Err(Refusal::Declined),
        Some("cancel") => return Err(Refusal::Cancelled),
        _ => return Err(Refusal::Error),
    }
    let said = |field: &str| {
        let text = result.get("content")?.get(field)?.as_str()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    Ok(ids.iter().filter_map(|id| Some(((*id).to_owned(), said(&other(id)).or_else(|| said(id))?))).collect())
}

/// Reads an `ElicitResult`, or what Codex's clients send in its place.
pub fn read_answer(result: &Value) -> Answer {
    let action = result.get("action").and_then(Value::as_str);
    match action {
        Some("decline") => {
            let own_words = result.get("content").and_then(reason_in).or_else(|| reason_in(result));
            Answer::Deny(Refusal::Declined, own_words)
        }
        Some("cancel") => Answer::Deny(Refusal::Cancelled, None),
        Some("accept") | None => match (result.get("decision"), result.get("content")) {
            (Some(word), _) => read_word(word, reason_in(result)),
            (None, content) if action.is_some() => read_content(content),
            (None, _) => Answer::Deny(Refusal::Error, None),
        },
        Some(_) => Answer::Deny(Refusal::Error, None),
    }
}

fn read_content(content: Option<&Value>) -> Answer {
    let Some(content) = content.filter(|content| !content.is_null()) else {
        return Answer::Approve;
    };
    let Some(fields) = content.as_object() else {
        return Answer::Deny(Refusal::Error, None);
    };
    match fields.get("decision") {
        // A field that is left empty.
        None | Some(Value::Null) => Answer::Approve,
        Some(Value::String(word)) if word.trim().is_empty() => Answer::Approve,
        Some(word @ Value::String(_)) => read_word(word, reason_in(content)),
        Some(_) => Answer::Deny(Refusal::Error, None),
    }
}

/// The decider's own words, beside the decision.
fn reason_in(fields: &Value) -> Option<String> {
    let reason = fields.get("reason")?.as_str()?.trim();
    (!reason.is_empty()).then(|| reason.to_owned())
}

/// A decision in our words, in those of Codex's MCP server, or in those of the other pages that hosts were written from.
/// None of them means two things.
fn read_word(word: &Value, reason: Option<String>) -> Answer {
    match word {
        Value::String(word) => match word.as_str() {
            "approve" | "approved" | "allow" | "allowed" | "accept" => Answer::Approve,
            "approve_for_thread" | "approved_for_session" => Answer::ApproveForThread,
            "deny" | "denied" | "decline" => Answer::Deny(Refusal::Declined, reason),
            "deny_and_stop" | "abort" => Answer::DenyAndStop(reason),
            _ => Answer::Deny(Refusal::Error, None),
        },
        // A rule for commands like this one: the part of it that is kept here is the thread's.
        Value::Object(fields) if fields.contains_key("approved_execpolicy_amendment") => Answer::ApproveForThread,
        Value::Object(fields) => match fields.get("denied") {
            Some(denied) => {
                let note = denied.get("rejection").and_then(Value::as_str).map(str::to_owned);
                Answer::Deny(Refusal::Declined, note)
            }
            None => Answer::Deny(Refusal::Error, None),
        },
        _ => Answer::Deny(Refusal::Error, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISPLAY: Display<'static> = Display { title: "Run true", name: "Run a command", description: "Because." };

    #[test]
    fn every_answer_ends_in_one_decision() {
        let deny = |refusal| Answer::Deny(refusal, None);
        for (answer, expected) in [
            (json!({"action":"accept"}), Answer::Approve),
            (json!({"action":"accept","content":{}}), Answer::Approve),
            (json!({"action":"accept","content":null}), Answer::Approve),
            (json!({"action":"accept","content":{"decision":""}}), Answer::Approve),
            (json!({"action":"accept","content":{"decision":null}}), Answer::Approve),
            (json!({"action":"accept","content":{"decision":"approve"}}), Answer::Approve),
            (json!({"action":"accept","content":{"decision":"approve_for_thread"}}), Answer::ApproveForThread),
            (
                json!({"action":"accept","content":{"decision":"deny","reason":"not now"}}),
                Answer::Deny(Refusal::Declined, Some("not now".to_owned())),
            ),
            (json!({"action":"accept","content":{"decision":"deny_and_stop"}}), Answer::DenyAndStop(None)),
            (json!({"action":"accept","content":{"decision":"maybe"}}), deny(Refusal::Error)),
            (json!({"action":"accept","content":{"decision":1}}), deny(Refusal::Error)),
            (json!({"action":"accept","content":[]}), deny(Refusal::Error)),
            (json!({"action":"accept","content":{},"decision":"approved"}), Answer::Approve),
            (json!({"action":"accept","content":{},"decision":"denied"}), deny(Refusal::Declined)),
            (json!({"action":"decline"}), deny(Refusal::Declined)),
            (
                json!({"action":"decline","content":{"reason":"mine"}}),
                Answer::Deny(Refusal::Declined, Some("mine".to_owned())),
            ),
            (json!({"action":"decline","decision":"approved"}), deny(Refusal::Declined)),
            (json!({"action":"cancel"}), deny(Refusal::Cancelled)),
            (json!({"action":"perhaps"}), deny(Refusal::Error)),
            (json!({"decision":"approved"}), Answer::Approve),
            (json!({"decision":"allowed"}), Answer::Approve),
            (json!({"decision":"allow"}), Answer::Approve),
            (json!({"decision":"accept"}), Answer::Approve),
            (json!({"decision":"deny"}), deny(Refusal::Declined)),
            (json!({"decision":"decline"}), deny(Refusal::Declined)),
            (
                json!({"decision":"denied","reason":" no net "}),
                Answer::Deny(Refusal::Declined, Some("no net".to_owned())),
            ),
            (json!({"action":"accept","content":{"decision":"allow"}}), Answer::Approve),
            (
                json!({"action":"accept","content":{"decision":"abort","reason":"x"}}),
                Answer::DenyAndStop(Some("x".to_owned())),
            ),
            (json!({"decision":"approved_for_session"}), Answer::ApproveForThread),
            (json!({"decision":"abort"}), Answer::DenyAndStop(None)),
            (json!({"decision":{"denied":{"rejection":"no"}}}), Answer::Deny(Refusal::Declined, Some("no".to_owned()))),
            (json!({"decision":"zzz"}), deny(Refusal::Error)),
            (json!({"foo":1}), deny(Refusal::Error)),
            (json!({}), deny(Refusal::Error)),
            (json!(null), deny(Refusal::Error)),
        ] {
            assert_eq!(read_answer(&answer), expected, "{answer}");
        }
    }

    #[test]
    fn a_form_of_questions_takes_a_choice_or_other_words() {
        let field = |id: &str, question: &str, options| Field { id: id.into(), question: question.into(), options };
        let options = vec![("SQLite".to_owned(), Some("One file.".to_owned())), ("Postgres".to_owned(), None)];
        let fields = [field("db", "Which database?", options), field("name", "Which name?", Vec::new())];
        let schema = input_form("Two questions", &fields, DISPLAY, json!({}))["requestedSchema"].clone();
        assert_eq!(schema["properties"]["db"]["enum"], json!(["SQLite", "Postgres"]));
        assert_eq!(schema["properties"]["db"]["description"], "SQLite: One file.");
        assert_eq!(
            (&schema["required"], &schema["properties"]["db_other"]["type"]),
            (&json!(["name"]), &json!("string"))
        );
        let read = |answer: Value| read_input(&answer, &["db", "name"]);
        let said = read(json!({"action":"accept","content":{"db":"SQLite","name":" x "}})).unwrap();
        assert_eq!((said["db"].as_str(), said["name"].as_str()), ("SQLite", "x"));
        assert_eq!(
            read(json!({"action":"accept","content":{"db":"SQLite","db_other":"Redis"}})).unwrap()["db"],
            "Redis"
        );
        assert!(read(json!({"action":"accept"})).unwrap().is_empty());
        assert_eq!(read(json!({"action":"decline"})), Err(Refusal::Declined));
        assert_eq!(read(json!({"action":"cancel"})), Err(Refusal::Cancelled));
        assert_eq!(read(json!({"decision":"approved"})), Err(Refusal::Error));
    }

    #[test]
    fn the_form_can_be_accepted_as_it_is_and_says_what_that_means() {
        let params = question("Run it?", DISPLAY, json!({ "command": ["true"] }), Some("this"));
        let schema = &params["requestedSchema"];
        assert!(schema.get("required").is_none() && schema["properties"]["decision"].get("default").is_none());
        let title = schema["properties"]["decision"]["title"].as_str().unwrap();
        assert!(title.contains("approves once"), "{title}");
        assert_eq!(read_answer(&json!({ "action": "accept", "content": {} })), Answer::Approve);
        assert_eq!(
            params["_meta"][meta_keys::PERMISSION_DISPLAY],
            json!({ "title": "Run true", "displayName": "Run a command", "description": "Because." })
        );
        assert_eq!(params["_meta"][meta_keys::APPROVAL]["command"][0], "true");
        let decision = &params["requestedSchema"]["properties"]["decision"];
        assert_eq!(decision["enum"].as_array().map(Vec::len), decision["enumNames"].as_array().map(Vec::len));
    }
}
