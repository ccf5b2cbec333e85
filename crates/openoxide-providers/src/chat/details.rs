//! Puts the pieces of `reasoning_details` together again: the entries of a stream are cut anywhere, and the whole ones
//! must go back as the provider would have sent them at once (OpenRouter, reasoning tokens).

use serde_json::{Map, Value};

/// Fields that come in pieces; of every other the last value counts.
const PIECES: [&str; 3] = ["text", "summary", "data"];

/// Adds the entries of one chunk.
pub(super) fn add(details: &mut Vec<Value>, chunk: &str) {
    let Ok(entries) = serde_json::from_str::<Vec<Map<String, Value>>>(chunk) else { return };
    for entry in entries {
        match details.last_mut() {
            Some(Value::Object(last)) if is_same(last, &entry) => extend(last, entry),
            _ => details.push(Value::Object(entry)),
        }
    }
}

/// The text of a chunk's entries that may be shown.
pub(super) fn text(chunk: &str) -> String {
    let entries = serde_json::from_str::<Vec<Map<String, Value>>>(chunk).unwrap_or_default();
    entries.iter().filter_map(|entry| entry.get("text").or_else(|| entry.get("summary"))?.as_str()).collect()
}

/// Whether an entry goes on where the one before it was cut.
fn is_same(last: &Map<String, Value>, next: &Map<String, Value>) -> bool {
    let same = |key: &str| last.get(key) == next.get(key);
    // Sealed entries are whole, and two of them in a row are two.
    same("type") && same("index") && next.get("type").and_then(Value::as_str) != Some("reasoning.encrypted")
}

fn extend(last: &mut Map<String, Value>, next: Map<String, Value>) {
    for (key, value) in next {
        match (last.get_mut(&key), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(piece)) if PIECES.contains(&key.as_str()) => {
                text.push_str(&piece)
            }
            (_, value) => {
                last.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_become_whole_entries() {
        let mut details = Vec::new();
        for chunk in [
            json!([{"type": "reasoning.text", "text": "a", "index": 0, "signature": null}]),
            json!([{"type": "reasoning.text", "text": "b", "index": 0}]),
            json!([{"type": "reasoning.text", "text": "", "signature": "s", "index": 0},
                   {"type": "reasoning.text", "text": "c", "index": 1}]),
            json!([{"type": "reasoning.encrypted", "data": "x", "index": 1}]),
            json!([{"type": "reasoning.encrypted", "data": "y", "index": 1}]),
            json!("nonsense"),
        ] {
            add(&mut details, &chunk.to_string());
        }
        assert_eq!(
            Value::Array(details),
            json!([
                {"type": "reasoning.text", "text": "ab", "index": 0, "signature": "s"},
                {"type": "reasoning.text", "text": "c", "index": 1},
                {"type": "reasoning.encrypted", "data": "x", "index": 1},
                {"type": "reasoning.encrypted", "data": "y", "index": 1},
            ])
        );
    }
}
