//! Keeps a history one that every provider takes.

use std::collections::HashSet;
use std::sync::Arc;

use openoxide_llm::HistoryItem;

use crate::instructions::CUT_OFF_OUTPUT;

/// An output for each call that has none, in the order of the calls.
pub(crate) fn missing_outputs(items: &[Arc<HistoryItem>]) -> Vec<HistoryItem> {
    let answered: HashSet<&str> = items
        .iter()
        .filter_map(|item| match &**item {
            HistoryItem::ToolOutput { call_id, .. } => Some(call_id.as_str()),
            HistoryItem::Message { .. }
            | HistoryItem::Note { .. }
            | HistoryItem::Image { .. }
            | HistoryItem::Reasoning { .. }
            | HistoryItem::FunctionCall { .. }
            | HistoryItem::CustomToolCall { .. } => None,
        })
        .collect();
    let calls = items.iter().filter_map(|item| match &**item {
        HistoryItem::FunctionCall { call_id, .. } => Some((call_id, false)),
        HistoryItem::CustomToolCall { call_id, .. } => Some((call_id, true)),
        HistoryItem::Message { .. }
        | HistoryItem::Note { .. }
        | HistoryItem::Image { .. }
        | HistoryItem::Reasoning { .. }
        | HistoryItem::ToolOutput { .. } => None,
    });
    calls
        .filter(|(call_id, _)| !answered.contains(call_id.as_str()))
        .map(|(call_id, custom)| HistoryItem::ToolOutput {
            call_id: call_id.clone(),
            custom,
            output: CUT_OFF_OUTPUT.to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_without_an_output_get_one() {
        let call = |id: &str| {
            Arc::new(HistoryItem::FunctionCall {
                call_id: id.into(),
                name: "x".into(),
                arguments: "{}".into(),
                carried: None,
            })
        };
        let output =
            |id: &str| Arc::new(HistoryItem::ToolOutput { call_id: id.into(), custom: false, output: "done".into() });
        let custom = Arc::new(HistoryItem::CustomToolCall {
            call_id: "c".into(),
            name: "y".into(),
            input: "z".into(),
            carried: None,
        });
        let missing = missing_outputs(&[call("a"), call("b"), custom, output("a")]);
        let ids: Vec<_> = missing
            .iter()
            .map(|item| match item {
                HistoryItem::ToolOutput { call_id, custom, .. } => (call_id.as_str(), *custom),
                other => panic!("unexpected {other:?}"),
            })
            .collect();
        assert_eq!(ids, [("b", false), ("c", true)]);
    }
}
