//! Orders a history for the dialects that are strict about it, Chat Completions and Messages: one system prompt, turns
//! that alternate, each call answered right after the message that makes it.
//!
//! Everything is borrowed. The order of what was sent before never changes when a history grows, so that providers can
//! cache the beginning of a request.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::{HistoryItem, ModelRequest, Role};

/// What a call came to when the history does not say: a thread that a crash cut off.
pub(crate) const NO_OUTPUT: &str = "The call was cut off; nothing is known of its outcome.";

/// A history in order.
#[derive(Debug)]
pub(crate) struct Ordered<'a> {
    /// The standing instructions: the base ones, and those that come before the model has said anything.
    pub(crate) system: Vec<&'a str>,
    /// The rest.
    pub(crate) turns: Vec<Turn<'a>>,
}

/// A stretch of one side.
#[derive(Debug)]
pub(crate) enum Turn<'a> {
    /// What the model is given; never empty.
    User(Vec<Given<'a>>),
    /// What one response said and called; never empty.
    Assistant(Vec<&'a HistoryItem>),
    /// What each call of the response before came to, in the order of the calls.
    Outputs(Vec<Output<'a>>),
}

/// One thing the model is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given<'a> {
    /// Text; never empty.
    Text(&'a str),
    /// An image: media type and base64.
    Image { media_type: &'a str, data: &'a str },
    /// An image for a model that takes none.
    Unseen,
}

/// What an unseen image says instead.
pub(crate) const UNSEEN: &str = "[There was an image here; this model cannot see images.]";

impl<'a> Given<'a> {
    /// The text of it, unless it is an image to be seen.
    pub(crate) fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Unseen => Some(UNSEEN),
            Self::Image { .. } => None,
        }
    }
}

/// What a call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Output<'a> {
    pub(crate) call_id: &'a str,
    pub(crate) text: &'a str,
}

/// Orders the history of `request`; with `images` false they are replaced by a note.
pub(crate) fn order<'a>(request: &ModelRequest<'a>, images: bool) -> Ordered<'a> {
    let items = request.input;
    let mut system: Vec<&str> = [request.instructions].into_iter().filter(|text| !text.is_empty()).collect();
    let mut turns: Vec<Turn<'_>> = Vec::new();
    let mut has_spoken = false;
    let mut at = 0;
    while at < items.len() {
        let item = &*items[at];
        at += 1;
        match item {
            HistoryItem::Message { text, .. } | HistoryItem::Note { text } if text.trim().is_empty() => {}
            HistoryItem::Message { role: Role::Developer, text, .. } if !has_spoken => system.push(text),
            HistoryItem::Message { role: Role::User | Role::Developer, text, .. } | HistoryItem::Note { text } => {
                give(&mut turns, Given::Text(text));
            }
            HistoryItem::Image { media_type, data } => {
                give(&mut turns, if images { Given::Image { media_type, data } } else { Given::Unseen });
            }
            // Taken up with the response that made the call; one that no call asked for has no place.
            HistoryItem::ToolOutput { .. } => {}
            HistoryItem::Message { role: Role::Assistant, .. }
            | HistoryItem::Reasoning { .. }
            | HistoryItem::FunctionCall { .. }
            | HistoryItem::CustomToolCall { .. } => {
                has_spoken = true;
                let mut said = vec![item];
                while let Some(next) = items.get(at).filter(|next| is_said(next)) {
                    said.push(next);
                    at += 1;
                }
                let outputs = outputs(&said, &items[at..]);
                turns.push(Turn::Assistant(said));
                if !outputs.is_empty() {
                    turns.push(Turn::Outputs(outputs));
                }
            }
        }
    }
    Ordered { system, turns }
}

/// Whether the model made it.
fn is_said(item: &HistoryItem) -> bool {
    match item {
        HistoryItem::Message { role, .. } => *role == Role::Assistant,
        HistoryItem::Reasoning { .. } | HistoryItem::FunctionCall { .. } | HistoryItem::CustomToolCall { .. } => true,
        HistoryItem::Note { .. } | HistoryItem::Image { .. } | HistoryItem::ToolOutput { .. } => false,
    }
}

fn give<'a>(turns: &mut Vec<Turn<'a>>, given: Given<'a>) {
    match turns.last_mut() {
        Some(Turn::User(parts)) => parts.push(given),
        _ => turns.push(Turn::User(vec![given])),
    }
}

/// The id of a call.
fn call_id(item: &HistoryItem) -> Option<&str> {
    match item {
        HistoryItem::FunctionCall { call_id, .. } | HistoryItem::CustomToolCall { call_id, .. } => Some(call_id),
        _ => None,
    }
}

/// The outputs of the calls in `said`, found in what follows. Nearly always they are the next items; the search ends
/// where the same id is called again, since some servers number the calls of each response from one.
fn outputs<'a>(said: &[&'a HistoryItem], after: &'a [Arc<HistoryItem>]) -> Vec<Output<'a>> {
    let find = |id: &str| {
        after
            .iter()
            .take_while(|item| call_id(item) != Some(id))
            .find_map(|item| match &**item {
                HistoryItem::ToolOutput { call_id, output, .. } if call_id == id => Some(output.as_str()),
                _ => None,
            })
            .unwrap_or(NO_OUTPUT)
    };
    said.iter().filter_map(|item| call_id(item)).map(|id| Output { call_id: id, text: find(id) }).collect()
}

/// What keeps calls and outputs of a history from being pairs, for a dialect that sends items in their own order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unpaired {
    /// Outputs that no call before them waits for, by index.
    pub(crate) stray: HashSet<usize>,
    /// Calls without an output, by the index of the item before which one is due: the end of the response that called.
    pub(crate) missing: BTreeMap<usize, Vec<usize>>,
}

/// Finds what is no pair. An id may be called again; the earlier call then has no output any more.
pub(crate) fn unpaired(items: &[Arc<HistoryItem>]) -> Unpaired {
    let mut open: HashMap<&str, usize> = HashMap::new();
    let (mut found, mut lost) = (Unpaired::default(), Vec::new());
    for (at, item) in items.iter().enumerate() {
        if let Some(id) = call_id(item) {
            lost.extend(open.insert(id, at));
        } else if let HistoryItem::ToolOutput { call_id, .. } = &**item
            && open.remove(call_id.as_str()).is_none()
        {
            found.stray.insert(at);
        }
    }
    lost.extend(open.into_values());
    lost.sort_unstable();
    for call in lost {
        let said = items[call..].iter().take_while(|item| is_said(item)).count();
        found.missing.entry(call + said).or_default().push(call);
    }
    found
}

/// The arguments of a call as a JSON object, for servers that read them: what the model wrote, or, where that is no
/// object, an object that quotes it.
pub(crate) fn arguments_object(arguments: &str) -> std::borrow::Cow<'_, str> {
    let is_object =
        arguments.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok();
    if is_object {
        return arguments.into();
    }
    if arguments.trim().is_empty() {
        return "{}".into();
    }
    serde_json::json!({ "invalid_arguments": arguments }).to_string().into()
}

/// The raw form of reasoning that `provider` made, if this is that; reasoning without a maker's name counts as its.
pub(crate) fn own_reasoning<'a>(
    item: &'a HistoryItem,
    provider: &str,
) -> Option<&'a serde_json::Map<String, serde_json::Value>> {
    let HistoryItem::Reasoning { raw: serde_json::Value::Object(raw), .. } = item else { return None };
    let is_own = raw.get(super::MADE_BY).is_none_or(|made_by| made_by.as_str() == Some(provider));
    is_own.then_some(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: Role, text: &str) -> HistoryItem {
        HistoryItem::Message { role, text: text.into(), carried: None }
    }

    fn call(id: &str) -> HistoryItem {
        HistoryItem::FunctionCall { call_id: id.into(), name: "f".into(), arguments: "{}".into(), carried: None }
    }

    fn output(id: &str, text: &str) -> HistoryItem {
        HistoryItem::ToolOutput { call_id: id.into(), custom: false, output: text.into() }
    }

    /// A short picture of the order.
    fn picture(items: Vec<HistoryItem>) -> (String, String) {
        let items: Vec<_> = items.into_iter().map(Arc::new).collect();
        let request = ModelRequest {
            model: "m",
            instructions: "base",
            input: &items,
            tools: &[],
            cache_key: "",
            reasoning: Default::default(),
        };
        let ordered = order(&request, false);
        let turns = ordered.turns.iter().map(|turn| match turn {
            Turn::User(parts) => {
                format!("U[{}]", parts.iter().filter_map(|part| part.text()).collect::<Vec<_>>().join(","))
            }
            Turn::Assistant(said) => format!("A{}", said.len()),
            Turn::Outputs(outputs) => {
                format!(
                    "O[{}]",
                    outputs.iter().map(|out| format!("{}={}", out.call_id, out.text)).collect::<Vec<_>>().join(",")
                )
            }
        });
        (ordered.system.join(","), turns.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn instructions_come_first_and_outputs_follow_their_calls() {
        let (system, turns) = picture(vec![
            message(Role::Developer, "d1"),
            message(Role::User, "u1"),
            message(Role::Developer, "d2"),
            message(Role::User, "u2"),
            message(Role::Assistant, "a"),
            call("1"),
            call("2"),
            output("2", "two"),
            message(Role::User, "steer"),
            output("1", "one"),
            output("stray", "x"),
            message(Role::Developer, "late"),
        ]);
        assert_eq!(system, "base,d1,d2");
        assert_eq!(turns, "U[u1,u2] A3 O[1=one,2=two] U[steer,late]");
    }

    #[test]
    fn a_missing_output_is_told_and_ids_may_come_again() {
        let (_, turns) = picture(vec![call("0"), output("0", "first"), call("0"), call("9"), output("0", "second")]);
        assert_eq!(turns, format!("A1 O[0=first] A2 O[0=second,9={NO_OUTPUT}]"));
        let (_, turns) = picture(vec![call("0"), message(Role::User, "u"), call("0"), output("0", "late")]);
        assert_eq!(turns, format!("A1 O[0={NO_OUTPUT}] U[u] A1 O[0=late]"));
    }

    #[test]
    fn what_is_no_pair_is_found_and_a_history_in_order_is_left_as_it_is() {
        let find = |items: Vec<HistoryItem>| unpaired(&items.into_iter().map(Arc::new).collect::<Vec<_>>());
        let whole = vec![message(Role::User, "u"), call("1"), call("2"), output("2", "b"), output("1", "a")];
        assert_eq!(find(whole), Unpaired::default());
        let again = vec![call("1"), output("1", "a"), call("1"), output("1", "b")];
        assert_eq!(find(again), Unpaired::default());
        let broken = vec![
            output("0", "nobody asked"),
            call("1"),
            call("2"),
            output("2", "b"),
            output("2", "twice"),
            message(Role::User, "u"),
            call("3"),
        ];
        let found = find(broken);
        assert_eq!(found.stray, HashSet::from([0, 4]));
        assert_eq!(found.missing, BTreeMap::from([(3, vec![1]), (7, vec![6])]));
    }

    #[test]
    fn what_is_empty_is_left_out_and_an_image_leaves_a_note() {
        let image = HistoryItem::Image { media_type: "image/png".into(), data: "AA==".into() };
        let (_, turns) = picture(vec![message(Role::User, ""), message(Role::Assistant, ""), image]);
        assert_eq!(turns, format!("U[{UNSEEN}]"));
    }

    #[test]
    fn arguments_are_an_object_whatever_the_model_wrote() {
        assert_eq!(arguments_object(" {\"a\": 1}"), " {\"a\": 1}");
        assert_eq!(arguments_object(""), "{}");
        assert_eq!(arguments_object("{\"a\":"), r#"{"invalid_arguments":"{\"a\":"}"#);
        assert_eq!(arguments_object("[1]"), r#"{"invalid_arguments":"[1]"}"#);
    }

    #[test]
    fn reasoning_belongs_to_its_maker() {
        let item = |made_by: Option<&str>| {
            let mut raw = serde_json::json!({"type": "t"});
            if let Some(made_by) = made_by {
                raw["_provider"] = made_by.into();
            }
            HistoryItem::Reasoning { summary: String::new(), raw }
        };
        for (made_by, expected) in [(None, true), (Some("p"), true), (Some("q"), false)] {
            assert_eq!(own_reasoning(&item(made_by), "p").is_some(), expected, "{made_by:?}");
        }
    }
}
