//! One response over HTTP, whatever the dialect: what all adapters share.
//!
//! `stream` sends a request and tries again where that makes sense, `failure` says what is wrong and whether another
//! attempt may help, `delay` after which pause, `decode` and `events` turn bytes into events with the help of the
//! dialect's reader, `history` orders a history for the dialects that are strict about it. What a body and an event look
//! like is known in `responses`, `chat` and `messages`. No history is kept here.

pub(crate) mod carried;
#[cfg(test)]
mod chunking_tests;
mod decode;
mod delay;
mod endpoint;
mod events;
mod failure;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod history;
mod stream;
#[cfg(test)]
mod test_server;
#[cfg(test)]
mod tests;
mod unbound;
mod window;

use std::sync::Arc;

use bytes::Bytes;

#[cfg(test)]
pub(crate) use self::decode::Decoder;
use self::endpoint::Endpoint;
pub use self::window::ModelList;
pub(crate) use self::{
    decode::Reader,
    events::{End, Events},
};
use crate::{
    Freeform, HttpClient, ModelError, ModelFacts, ModelRequest, ModelStream, Provider, ProviderConfig, ReasoningChoice,
    WireApi, chat, messages, responses,
};

/// The key of a reasoning item's `raw` that holds the id of the provider which made it.
pub(crate) const MADE_BY: &str = "_provider";

/// A provider reached over HTTP, in the dialect its configuration names. Cheap to clone; opens nothing until a stream
/// is polled.
#[derive(Debug, Clone)]
pub struct HttpProvider {
    target: Arc<Target>,
}

/// Where requests go. The parts that can be wrong are checked once, and a mistake is told by each call.
#[derive(Debug)]
struct Target {
    config: ProviderConfig,
    client: HttpClient,
    endpoint: Result<Endpoint, String>,
    windows: window::Windows,
}

impl Target {
    /// What reads the events of one attempt.
    fn reader(&self, freeform: &Freeform) -> Box<dyn Reader> {
        match self.config.wire_api {
            WireApi::Responses => Box::new(responses::ResponsesReader::new(freeform.clone())),
            WireApi::Chat => Box::new(chat::ChatReader::new(freeform.clone())),
            WireApi::Messages => Box::new(messages::MessagesReader::new(freeform.clone())),
        }
    }
}

impl HttpProvider {
    /// A provider as configured, over the process's client.
    pub fn new(config: ProviderConfig, client: HttpClient) -> Self {
        let endpoint = Endpoint::new(&config);
        Self { target: Arc::new(Target { config, client, endpoint, windows: window::Windows::default() }) }
    }
}

impl Provider for HttpProvider {
    fn id(&self) -> &str {
        &self.target.config.id
    }

    fn facts(&self, model: &str) -> ModelFacts {
        let known = self.target.windows.apply(model, crate::facts_of(model));
        self.target.config.facts.apply(known)
    }

    fn thinking(&self, model: &str, reasoning: ReasoningChoice<'_>) -> &'static str {
        let config = &self.target.config;
        match config.wire_api {
            WireApi::Messages => messages::thinking(reasoning, config, &self.facts(model)),
            // Reasoning is bound to nothing but its maker there.
            WireApi::Responses | WireApi::Chat => "",
        }
    }

    fn stream(&self, request: ModelRequest<'_>) -> ModelStream {
        let config = &self.target.config;
        if let Some(variable) = &config.missing_key {
            return failed(ModelError::MissingKey { variable: variable.clone() });
        }
        if let Err(reason) = &self.target.endpoint {
            return failed(ModelError::Config { reason: reason.clone() });
        }
        let facts = self.facts(request.model);
        let is_native = config.wire_api == WireApi::Responses && facts.freeform;
        let freeform = if is_native { Freeform::none() } else { Freeform::of(request.tools) };
        let body = match config.wire_api {
            WireApi::Responses => responses::encode(&request, config, &facts),
            WireApi::Chat => chat::encode(&request, config, &facts),
            WireApi::Messages => messages::encode(&request, config, &facts),
        };
        match body {
            Ok(mut body) => {
                // It stays until the response is whole, and what it was written into may be twice as large.
                body.shrink_to_fit();
                let events = stream::start(self.target.clone(), Bytes::from(body), freeform);
                window::learning(&self.target, request.model, events)
            }
            Err(source) => failed(ModelError::Encode { source }),
        }
    }
}

fn failed(error: ModelError) -> ModelStream {
    Box::pin(futures_util::stream::iter([Err(error)]))
}
