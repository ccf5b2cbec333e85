//! The address of a provider and the headers that go with each request, checked once.

use reqwest::{
    Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};

use crate::{KeyHeader, ProviderConfig, WireApi};

/// The only version of the Messages API there is.
const ANTHROPIC_VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// A checked address with its headers.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) url: Url,
    /// The URL without its query, for messages.
    pub(super) shown: String,
    pub(super) headers: HeaderMap,
}

impl Endpoint {
    /// The endpoint of `config`'s dialect; the error is a sentence that names the key and the value.
    pub(super) fn new(config: &ProviderConfig) -> Result<Self, String> {
        let id = &config.id;
        let mut url = Url::parse(config.base_url.trim())
            .map_err(|error| format!("model_providers.{id}.base_url `{}` is not a URL: {error}", config.base_url))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!(
                "model_providers.{id}.base_url `{}` must begin with http:// or https://",
                config.base_url
            ));
        }
        let base = url.path().trim_end_matches('/').to_owned();
        let path = match config.wire_api {
            WireApi::Responses => format!("{base}/responses"),
            WireApi::Chat => format!("{base}/chat/completions"),
            // Base addresses of this API are commonly written without the version.
            WireApi::Messages if base.is_empty() => "/v1/messages".to_owned(),
            WireApi::Messages => format!("{base}/messages"),
        };
        url.set_path(&path);
        url.set_fragment(None);
        let mut shown = url.clone();
        shown.set_query(None);
        // Credentials in a URL are legal; they become a header on the way out and are nobody's to read.
        let _ = shown.set_username("");
        let _ = shown.set_password(None);
        if !config.query_params.is_empty() {
            url.query_pairs_mut().extend_pairs(&config.query_params);
        }
        Ok(Self { url, shown: shown.to_string(), headers: headers(config)? })
    }
}

fn headers(config: &ProviderConfig) -> Result<HeaderMap, String> {
    let id = &config.id;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    if config.wire_api == WireApi::Messages {
        headers.insert("anthropic-version", ANTHROPIC_VERSION);
    }
    if let Some(key) = &config.api_key {
        let key = key.expose().trim();
        let (name, value) = match (&config.key_header, config.wire_api) {
            (KeyHeader::Named(name), _) => (
                HeaderName::try_from(name)
                    .map_err(|_| format!("model_providers.{id}: `{name}` is no name of a header for the API key"))?,
                key.to_owned(),
            ),
            (KeyHeader::ByDialect, WireApi::Messages) => (HeaderName::from_static("x-api-key"), key.to_owned()),
            (KeyHeader::ByDialect | KeyHeader::Bearer, _) => (AUTHORIZATION, format!("Bearer {key}")),
        };
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| format!("the API key of provider `{id}` holds characters that a header cannot carry"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    for (name, value) in &config.http_headers {
        let bad = || format!("model_providers.{id}.http_headers `{name}` is not a valid header");
        let mut value = HeaderValue::try_from(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::try_from(name).map_err(|_| bad())?, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    fn endpoint(base_url: &str, change: impl FnOnce(&mut ProviderConfig)) -> Endpoint {
        let mut config = ProviderConfig::new("p", base_url);
        config.api_key = Some(Secret::new("sk"));
        change(&mut config);
        Endpoint::new(&config).unwrap()
    }

    #[test]
    fn each_dialect_has_its_path() {
        for (base, wire_api, expected) in [
            ("http://h/v1/", WireApi::Responses, "http://h/v1/responses"),
            ("http://h/v1", WireApi::Chat, "http://h/v1/chat/completions"),
            ("http://h", WireApi::Messages, "http://h/v1/messages"),
            ("http://h/anthropic", WireApi::Messages, "http://h/anthropic/messages"),
            ("http://u:p@h/v1?a=b#c", WireApi::Chat, "http://h/v1/chat/completions"),
        ] {
            assert_eq!(endpoint(base, |config| config.wire_api = wire_api).shown, expected);
        }
        let url = endpoint("http://h/v1?a=b", |config| {
            config.query_params.insert("api-version".into(), "2".into());
        });
        assert_eq!(url.url.query(), Some("a=b&api-version=2"));
    }

    #[test]
    fn the_key_goes_where_the_dialect_or_the_configuration_says() {
        let bearer = endpoint("http://h/v1", |_| {});
        assert_eq!(bearer.headers[AUTHORIZATION], "Bearer sk");
        let messages = endpoint("http://h", |config| config.wire_api = WireApi::Messages);
        assert_eq!(
            (&messages.headers["x-api-key"], messages.headers.get(AUTHORIZATION)),
            (&"sk".parse().unwrap(), None)
        );
        assert_eq!(messages.headers["anthropic-version"], "2023-06-01");
        let named = endpoint("http://h", |config| config.key_header = KeyHeader::Named("api-key".into()));
        assert_eq!(named.headers["api-key"], "sk");
        assert!(!format!("{:?}", named.headers).contains("sk\""));
    }
}
