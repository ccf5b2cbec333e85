//! The address of a provider and the headers that go with each request, checked once.

use std::fmt;

use reqwest::{
    Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};

use openoxide_redact::{looks_secret, redact};

use crate::{KeyHeader, ProviderConfig, WireApi, http::is_plain_loopback, messages::BINDING_BETA};

/// The only version of the Messages API there is.
const ANTHROPIC_VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// A checked address with its headers.
pub(super) struct Endpoint {
    pub(super) url: Url,
    /// The URL without its query, for messages.
    pub(super) shown: String,
    pub(super) headers: HeaderMap,
}

// Written by hand: the URL may hold a login and a key.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.shown).field("headers", &self.headers).finish()
    }
}

impl Endpoint {
    /// The endpoint of `config`'s dialect; the error is a sentence that names the key and the value.
    pub(super) fn new(config: &ProviderConfig) -> Result<Self, String> {
        let id = &config.id;
        let written = redact(&config.base_url);
        let mut url = Url::parse(config.base_url.trim())
            .map_err(|error| format!("model_providers.{id}.base_url `{written}` is not a URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("model_providers.{id}.base_url `{written}` must begin with http:// or https://"));
        }
        if url.scheme() == "http"
            && !is_plain_loopback(&url)
            && !config.allow_plain_http
            && let Some(secret) = secret_of(config, &url)
        {
            let host = url.host_str().unwrap_or_default();
            return Err(format!(
                "{secret} of provider `{id}` would go to {host} over http://, readable by everybody on the way; use https:// \
                 in model_providers.{id}.base_url, or set model_providers.{id}.allow_plain_http = true if the way is safe"
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
        Ok(Self { url, shown: redact(shown.as_str()), headers: headers(config)? })
    }
}

/// What of a request is secret, in words.
fn secret_of(config: &ProviderConfig, url: &Url) -> Option<String> {
    if config.api_key.is_some() {
        return Some("the API key".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Some("the login in the base_url".to_owned());
    }
    if let Some(name) = config.http_headers.keys().find(|name| looks_secret(name)) {
        return Some(format!("the header `{name}`"));
    }
    let mut parameters =
        config.query_params.keys().cloned().chain(url.query_pairs().map(|(name, _)| name.into_owned()));
    parameters.find(|name| looks_secret(name)).map(|name| format!("the query parameter `{name}`"))
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
    let mut betas = config.drops_unbound_thinking().then(|| BINDING_BETA.to_owned());
    for (name, value) in &config.http_headers {
        // Betas are a list, so that one of ours and those of the configuration go together.
        let value = match betas.take_if(|_| name.eq_ignore_ascii_case("anthropic-beta")) {
            Some(ours) => &format!("{value},{ours}"),
            None => value,
        };
        let bad = || format!("model_providers.{id}.http_headers `{name}` is not a valid header");
        let mut value = HeaderValue::try_from(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::try_from(name).map_err(|_| bad())?, value);
    }
    if betas.is_some() {
        headers.insert("anthropic-beta", HeaderValue::from_static(BINDING_BETA));
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
        config.allow_plain_http = true;
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

    #[test]
    fn no_secret_goes_unencrypted_to_another_host_unless_allowed() {
        let refused = |base_url: &str, change: fn(&mut ProviderConfig)| {
            let mut config = ProviderConfig::new("p", base_url);
            change(&mut config);
            let refused = Endpoint::new(&config).err();
            config.allow_plain_http = true;
            assert!(Endpoint::new(&config).is_ok(), "{base_url}");
            refused
        };
        let key: fn(&mut ProviderConfig) = |config| config.api_key = Some(Secret::new("sk-1"));
        for (base_url, change, secret) in [
            ("http://10.0.0.1/v1", key, "the API key"),
            ("HTTP://models.example/v1", key, "the API key"),
            ("http://localhost.example/v1", key, "the API key"),
            ("http://u:hunter2@h/v1", |_| {}, "the login"),
            ("http://h/v1?api_key=hunter2", |_| {}, "the query parameter `api_key`"),
            (
                "http://h/v1",
                |config| drop(config.http_headers.insert("Authorization".into(), "hunter2".into())),
                "the header `Authorization`",
            ),
        ] {
            let told = refused(base_url, change).unwrap();
            assert!(told.starts_with(secret) && told.contains("model_providers.p.allow_plain_http = true"), "{told}");
            assert!(!told.contains("hunter2") && !told.contains("sk-1"), "{told}");
        }
        for base_url in ["https://h/v1", "http://localhost:1/v1", "http://127.0.0.1/v1", "http://[::1]:1/v1"] {
            assert_eq!(refused(base_url, key), None);
        }
        assert_eq!(
            refused("http://h/v1", |config| drop(config.http_headers.insert("x-title".into(), "a".into()))),
            None
        );
    }

    #[test]
    fn debug_shows_no_secret() {
        let endpoint = endpoint("http://user:hunter2@h/v1?key=hunter2", |config| {
            config.query_params.insert("sig".into(), "hunter2".into());
            config.http_headers.insert("x-up".into(), "hunter2".into());
        });
        let shown = format!("{endpoint:?}");
        assert!(shown.contains("http://h/v1/responses") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn a_wrong_address_is_told_without_its_login() {
        for base_url in ["http://user:hunter2@h:port/v1", "ftp://user:hunter2@h/?k=hunter2"] {
            let told = Endpoint::new(&ProviderConfig::new("p", base_url)).unwrap_err();
            assert!(told.contains("[redacted]@h") && !told.contains("hunter2"), "{told}");
        }
    }
}
