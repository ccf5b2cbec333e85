//! How much a model reads, as its provider's own list says: the catalogue cannot know how a local server was started, nor what a
//! router's models hold today. A list is asked in the background, once for each model, when its first response is over: a local
//! server has loaded the model by then. What cannot be learned changes nothing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::Url;
use serde_json::Value;

use super::Target;
use crate::{ModelFacts, ModelStream};

/// How long a list may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of an answer.
const MOST: usize = 1 << 20;

/// Where a provider says what its models hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelList {
    /// `GET models/ID`: `max_input_tokens` (Anthropic, "Get a model").
    Anthropic,
    /// `GET models/ID/endpoints`: the largest `context_length`, since requests go where they fit (OpenRouter, "List endpoints for
    /// a model").
    OpenRouter,
    /// `GET /api/ps`: `context_length` of what is loaded (Ollama, "List running models").
    Ollama,
    /// `GET /api/v0/models/ID`: `loaded_context_length` (LM Studio, "REST API v0").
    LmStudio,
}

/// What was learned of models, by name; none while it is asked for, or where nothing came of it.
#[derive(Debug, Default)]
pub(super) struct Windows(Mutex<HashMap<String, Option<u64>>>);

impl Windows {
    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Option<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The facts with what was learned.
    pub(super) fn apply(&self, model: &str, facts: ModelFacts) -> ModelFacts {
        match self.known().get(model).copied().flatten() {
            Some(context_window) => ModelFacts { context_window, ..facts },
            None => facts,
        }
    }
}

/// The same events; at their end the provider's list is asked for the model, unless it was before.
pub(super) fn learning(target: &Arc<Target>, model: &str, events: ModelStream) -> ModelStream {
    let Some(list) = target.config.model_list else { return events };
    match target.windows.known().entry(model.to_owned()) {
        Entry::Occupied(_) => return events,
        Entry::Vacant(entry) => entry.insert(None),
    };
    let (target, model) = (Arc::clone(target), model.to_owned());
    let ask = futures_util::stream::once(async move {
        tokio::spawn(async move {
            let learned = tokio::time::timeout(PATIENCE, ask(&target, list, &model)).await;
            if let Ok(Ok(tokens)) = learned {
                target.windows.known().insert(model, Some(tokens));
            }
        });
    });
    Box::pin(events.chain(ask.filter_map(async |()| None)))
}

async fn ask(target: &Target, list: ModelList, model: &str) -> Result<u64, String> {
    let endpoint = target.endpoint.as_ref().map_err(Clone::clone)?;
    let url = address(&endpoint.url, list, model).ok_or("its address is not known")?;
    let client = target.client.get(&url, target.config.connect_timeout).await.map_err(|error| error.to_string())?;
    // The error of a request may hold its address, which may hold a key.
    let sent = client.get(url).headers(endpoint.headers.clone()).send().await;
    let mut response = sent.map_err(|error| error.without_url().to_string())?;
    if !response.status().is_success() {
        return Err(format!("status {}", response.status().as_u16()));
    }
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|error| error.without_url().to_string())? {
        body.extend_from_slice(&part);
        if body.len() > MOST {
            return Err(format!("more than {MOST} bytes"));
        }
    }
    let body: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let tokens = window(list, model, &body).filter(|tokens| *tokens > 0).ok_or("it names no window")?;
    Ok(match list {
        ModelList::Anthropic => tokens,
        // These count the answer as well.
        ModelList::OpenRouter | ModelList::Ollama | ModelList::LmStudio => {
            tokens - crate::facts_of(model).max_output_tokens.min(tokens / 4)
        }
    })
}

/// Where the list is, from where requests go.
fn address(requests: &Url, list: ModelList, model: &str) -> Option<Url> {
    let path = requests.path();
    let base = path.strip_suffix("/chat/completions").or_else(|| path.strip_suffix("/messages"))?;
    let root = base.strip_suffix("/v1").unwrap_or(base);
    let (base, last) = match list {
        ModelList::Anthropic => (format!("{base}/models"), None),
        ModelList::OpenRouter => (format!("{base}/models"), Some("endpoints")),
        ModelList::Ollama => (format!("{root}/api/ps"), None),
        ModelList::LmStudio => (format!("{root}/api/v0/models"), None),
    };
    let mut url = requests.clone();
    url.set_query(None);
    url.set_path(&base);
    if list != ModelList::Ollama {
        url.path_segments_mut().ok()?.extend(model.split('/')).extend(last);
    }
    Some(url)
}

/// What an answer says of the model's window.
fn window(list: ModelList, model: &str, body: &Value) -> Option<u64> {
    match list {
        ModelList::Anthropic => body["max_input_tokens"].as_u64(),
        ModelList::OpenRouter => {
            let endpoints = body["data"]["endpoints"].as_array()?;
            endpoints.iter().filter_map(|endpoint| endpoint["context_length"].as_u64()).max()
        }
        ModelList::Ollama => {
            let is_it = |name: &Value| {
                let name = name.as_str().unwrap_or_default();
                name == model || name.strip_suffix(":latest") == Some(model)
            };
            let loaded = body["models"].as_array()?;
            loaded.iter().find(|one| is_it(&one["name"]) || is_it(&one["model"]))?["context_length"].as_u64()
        }
        ModelList::LmStudio => body["loaded_context_length"].as_u64(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_list_is_found_below_the_address_of_requests() {
        for (requests, list, model, expected) in [
            ("https://a/v1/messages", ModelList::Anthropic, "claude-x", "https://a/v1/models/claude-x"),
            (
                "https://o/api/v1/chat/completions?k=v",
                ModelList::OpenRouter,
                "maker/model:free",
                "https://o/api/v1/models/maker/model:free/endpoints",
            ),
            ("http://l:1/v1/chat/completions", ModelList::Ollama, "m", "http://l:1/api/ps"),
            ("http://g/ollama/v1/chat/completions", ModelList::Ollama, "m", "http://g/ollama/api/ps"),
            ("http://l:1/v1/chat/completions", ModelList::LmStudio, "a b", "http://l:1/api/v0/models/a%20b"),
        ] {
            let found = address(&Url::parse(requests).unwrap(), list, model).unwrap();
            assert_eq!(found.as_str(), expected);
        }
        assert_eq!(address(&Url::parse("http://o/v1/responses").unwrap(), ModelList::Ollama, "m"), None);
    }

    #[test]
    fn each_list_says_it_in_its_own_way() {
        let endpoints =
            json!({ "data": { "endpoints": [{ "context_length": 32_768 }, { "context_length": 131_072 }, {}] } });
        let running = json!({ "models": [
            { "name": "other:latest", "context_length": 1 },
            { "name": "mine:latest", "model": "mine:latest", "context_length": 16_384 },
        ] });
        for (list, body, expected) in [
            (ModelList::Anthropic, json!({ "id": "mine", "max_input_tokens": 900_000 }), Some(900_000)),
            (ModelList::OpenRouter, endpoints, Some(131_072)),
            (ModelList::Ollama, running, Some(16_384)),
            (ModelList::LmStudio, json!({ "loaded_context_length": 8_192, "max_context_length": 9_999 }), Some(8_192)),
            (ModelList::LmStudio, json!({ "max_context_length": 9_999 }), None),
            (ModelList::OpenRouter, json!([]), None),
            (ModelList::Ollama, json!({ "models": "none" }), None),
        ] {
            assert_eq!(window(list, "mine", &body), expected, "{list:?}");
        }
    }
}
