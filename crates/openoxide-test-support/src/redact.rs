//! Makes wire traces comparable: ids, times and places are replaced by stable words.

use serde_json::Value;

/// Replaces what differs from run to run. The same id gets the same word within one trace.
#[derive(Default)]
pub struct Redactor {
    ids: Vec<String>,
    places: Vec<(String, &'static str)>,
}

impl Redactor {
    /// Replaces a path wherever it stands in a string.
    pub fn place(&mut self, path: &str, word: &'static str) {
        self.places.push((path.to_owned(), word));
    }

    /// Redacts a message in place.
    pub fn redact(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.redact_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact(item)),
            Value::Object(fields) => {
                let old = std::mem::take(fields);
                for (key, mut field) in old {
                    match key.as_str() {
                        "started_at" | "completed_at" | "started_at_ms" | "completed_at_ms" => {
                            field = Value::from("[time]")
                        }
                        "durationMs" | "duration_ms" | "time_to_first_token_ms" if !field.is_null() => {
                            field = Value::from("[ms]")
                        }
                        "requestState" => field = Value::from("[sealed]"),
                        "version" => field = Value::from("[version]"),
                        "createdAt" | "lastUpdatedAt" => field = Value::from("[time]"),
                        "taskId" => field = Value::from("[task]"),
                        _ => self.redact(&mut field),
                    }
                    fields.insert(self.redact_text(&key), field);
                }
            }
            _ => {}
        }
    }

    fn redact_text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (path, word) in &self.places {
            text = text.replace(path, word);
        }
        while let Some(at) = find_uuid(&text) {
            let id = text[at..at + 36].to_owned();
            let known = self.ids.iter().position(|known| *known == id).unwrap_or_else(|| {
                self.ids.push(id.clone());
                self.ids.len() - 1
            });
            text = text.replace(&id, &format!("[id {}]", known + 1));
        }
        text
    }
}

fn find_uuid(text: &str) -> Option<usize> {
    let fits = |window: &[u8]| {
        window.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    text.as_bytes().windows(36).position(fits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_id_gets_one_word() {
        let id = "01a1fb82-b699-747e-a19d-5f3ff2e76504";
        let mut value = json!({ id: format!("thread_id: {id} in /tmp/x"), "durationMs": 7 });
        let mut redactor = Redactor::default();
        redactor.place("/tmp/x", "[cwd]");
        redactor.redact(&mut value);
        assert_eq!(value, json!({ "[id 1]": "thread_id: [id 1] in [cwd]", "durationMs": "[ms]" }));
    }
}
