//! The OpenAI Responses API, streamed over HTTP.
//!
//! `body` writes a request, `stream` sends it and tries again where that makes sense, `decode` reads the events that
//! come back, `failure` says what is wrong and whether another attempt may help. No history is kept here.

mod body;
mod decode;
mod failure;
mod stream;
#[cfg(test)]
mod test_server;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use reqwest::{
    Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};

use crate::{HttpClient, ModelError, ModelRequest, ModelStream, Provider, ProviderConfig};

/// A provider that speaks the Responses API. Cheap to clone; opens nothing until a stream is polled.
#[derive(Debug, Clone)]
pub struct Responses {
    target: Arc<Target>,
}

/// Where requests go. The parts that can be wrong are checked once, and a mistake is told by each call.
#[derive(Debug)]
struct Target {
    config: ProviderConfig,
    client: HttpClient,
    endpoint: Result<Endpoint, String>,
}

/// A checked address with its headers.
#[derive(Debug)]
struct Endpoint {
    url: Url,
    /// The URL without its query, for messages.
    shown: String,
    headers: HeaderMap,
}

impl Responses {
    /// A provider as configured, over the process's client.
    pub fn new(config: ProviderConfig, client: HttpClient) -> Self {
        let endpoint = Endpoint::new(&config);
        Self { target: Arc::new(Target { config, client, endpoint }) }
    }
}

impl Provider for Responses {
    fn id(&self) -> &str {
        &self.target.config.id
    }

    fn supports_freeform(&self) -> bool {
        true
    }

    fn stream(&self, request: ModelRequest<'_>) -> ModelStream {
        if let Some(variable) = &self.target.config.missing_key {
            return failed(ModelError::MissingKey { variable: variable.clone() });
        }
        if let Err(reason) = &self.target.endpoint {
            return failed(ModelError::Config { reason: reason.clone() });
        }
        match body::encode(&request) {
            Ok(body) => stream::start(self.target.clone(), Bytes::from(body)),
            Err(source) => failed(ModelError::Encode { source }),
        }
    }
}

fn failed(error: ModelError) -> ModelStream {
    Box::pin(futures_util::stream::iter([Err(error)]))
}

impl Endpoint {
    fn new(config: &ProviderConfig) -> Result<Self, String> {
        let id = &config.id;
        let mut url = Url::parse(&format!("{}/responses", config.base_url.trim_end_matches('/')))
            .map_err(|error| format!("model_providers.{id}.base_url `{}` is not a URL: {error}", config.base_url))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!(
                "model_providers.{id}.base_url `{}` must begin with http:// or https://",
                config.base_url
            ));
        }
        let shown = url.to_string();
        if !config.query_params.is_empty() {
            url.query_pairs_mut().extend_pairs(&config.query_params);
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(key) = &config.api_key {
            let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose().trim()))
                .map_err(|_| format!("the API key of provider `{id}` holds characters that a header cannot carry"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        for (name, value) in &config.http_headers {
            let bad = || format!("model_providers.{id}.http_headers `{name}` is not a valid header");
            let mut value = HeaderValue::try_from(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::try_from(name).map_err(|_| bad())?, value);
        }
        Ok(Self { url, shown, headers })
    }
}
