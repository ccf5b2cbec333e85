//! Who may come in: the place a request comes from, the token it carries, and how often.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use openoxide_core::Exceeded;
use openoxide_mcp_protocol::WireError;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::authority::{self, Authority, Origin};
use super::peer::PeerUser;
use super::token::Token;
use super::{HttpConfig, refusal};
use crate::principal::Principal;
use openoxide_rpc::lock;

/// Keeps the door.
pub(super) struct Guard {
    tokens: Vec<Token>,
    /// Names that `Host` may hold; none where any will do.
    hosts: Option<Vec<String>>,
    origins: Vec<Origin>,
    takes_loopback_origins: bool,
    rate: f64,
    buckets: Mutex<HashMap<Principal, Bucket>>,
}

/// Requests that may still come, and when that was so.
struct Bucket {
    left: f64,
    at: Instant,
}

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl Guard {
    /// A guard for this address.
    pub(super) fn new(config: &HttpConfig, address: SocketAddr) -> Self {
        let is_loopback = super::is_loopback(address);
        let loopback = || LOOPBACK.iter().map(|name| (*name).to_owned());
        let named = || config.allowed_hosts.iter().map(|name| name.to_ascii_lowercase());
        // A page that a name was rebound for has no token. Without tokens the name is all there is to go by.
        let hosts = match is_loopback || !config.allowed_hosts.is_empty() {
            true => Some(loopback().chain(named()).collect()),
            false => None,
        };
        Self {
            tokens: config.tokens.clone(),
            hosts,
            origins: config.allowed_origins.clone(),
            takes_loopback_origins: is_loopback,
            rate: f64::from(config.requests_per_second),
            buckets: Mutex::default(),
        }
    }

    /// Lets a request in, or says why not. `user` is who is at the other end of its connection.
    pub(super) fn admit(&self, request: &Parts, user: PeerUser) -> Result<Principal, Box<Response>> {
        self.check_place(request)?;
        self.check_user(user)?;
        let principal = self.principal(&request.headers)?;
        self.check_rate(&principal)?;
        Ok(principal)
    }

    /// Where a request comes from: 400 for what cannot be read in one way only, 403 for a name or a page that was not let
    /// in (DNS rebinding).
    pub(super) fn check_place(&self, request: &Parts) -> Result<(), Box<Response>> {
        let malformed = |message| refused(StatusCode::BAD_REQUEST, message);
        let Authority { host, .. } = authority::target_of(&request.uri, &request.headers).map_err(malformed)?;
        let origin = authority::origin_of(&request.headers).map_err(malformed)?;
        if let Some(allowed) = self.hosts.as_ref().filter(|allowed| !allowed.contains(&host)) {
            let message = format!("Host is {host:?}; allowed: {}. Allow it with --allow-host", allowed.join(", "));
            return Err(refused(StatusCode::FORBIDDEN, message));
        }
        if let Some(origin) = origin.filter(|origin| !self.takes_origin(origin)) {
            let message = format!("Origin {:?} is not allowed; allow it with --allow-origin", origin.to_string());
            return Err(refused(StatusCode::FORBIDDEN, message));
        }
        Ok(())
    }

    fn takes_origin(&self, origin: &Origin) -> bool {
        if self.origins.contains(origin) {
            return true;
        }
        match origin {
            Origin::Of { scheme, authority } => {
                let is_page = scheme == "http" || scheme == "https";
                self.takes_loopback_origins && is_page && LOOPBACK.contains(&authority.host.as_str())
            }
            Origin::Opaque => false,
        }
    }

    /// Without tokens whoever connects is the local user, and so has to be that user: 403 for others.
    fn check_user(&self, user: PeerUser) -> Result<(), Box<Response>> {
        let whose = match user {
            _ if !self.tokens.is_empty() => return Ok(()),
            PeerUser::Same => return Ok(()),
            PeerUser::Other(uid) => format!("your process belongs to user {uid}"),
            PeerUser::Unknown | PeerUser::Unasked => "it cannot be told whose process you are".to_owned(),
        };
        let own = rustix::process::geteuid().as_raw();
        let message = format!(
            "{whose}, and without a token only user {own} is served; start the server with --token-file or --token-env, and \
             send the token"
        );
        Err(refused(StatusCode::FORBIDDEN, message))
    }

    /// Whose token it is: 401 for none of ours.
    fn principal(&self, headers: &HeaderMap) -> Result<Principal, Box<Response>> {
        if self.tokens.is_empty() {
            return Ok(Principal::Local);
        }
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        let mut found = None;
        if let Some(given) = given {
            let digest: [u8; 32] = Sha256::digest(given).into();
            // Each is compared, whichever fits: how long it takes tells nothing.
            for token in &self.tokens {
                if bool::from(token.digest.ct_eq(&digest)) {
                    found = Some(Principal::Token(Arc::clone(&token.name)));
                }
            }
        }
        found.ok_or_else(|| {
            let error = WireError::invalid_request("a bearer token of this server is needed in Authorization");
            let mut response = refusal(StatusCode::UNAUTHORIZED, &error);
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            Box::new(response)
        })
    }

    /// 429 for more than the rate.
    fn check_rate(&self, principal: &Principal) -> Result<(), Box<Response>> {
        let mut buckets = lock(&self.buckets);
        let now = Instant::now();
        let full = 2.0 * self.rate;
        let bucket = buckets.entry(principal.clone()).or_insert(Bucket { left: full, at: now });
        bucket.left = full.min(bucket.left + now.duration_since(bucket.at).as_secs_f64() * self.rate);
        bucket.at = now;
        if bucket.left < 1.0 {
            let message = format!("more than {} requests a second; ask more slowly", self.rate);
            let mut response = refusal(StatusCode::TOO_MANY_REQUESTS, &WireError::invalid_request(message));
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            return Err(Box::new(response));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

fn refused(status: StatusCode, message: String) -> Box<Response> {
    Box::new(refusal(status, &WireError::invalid_request(message)))
}

/// 503 for a principal with its share of connections.
pub(super) fn too_many_connections(exceeded: Exceeded) -> Box<Response> {
    let message = format!("there are as many connections as {exceeded}; close one, and try again");
    refused(StatusCode::SERVICE_UNAVAILABLE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "abcdefghijklmnopqrstuvwxyz012345";

    fn request(target: &str, pairs: &[(&'static str, &str)]) -> Parts {
        let mut request = axum::http::Request::builder().uri(target);
        for (name, value) in pairs {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn status(result: Result<Principal, Box<Response>>) -> u16 {
        result.map_or_else(|refused| refused.status().as_u16(), |_| 200)
    }

    fn here(config: &HttpConfig) -> Guard {
        Guard::new(config, "127.0.0.1:80".parse().unwrap())
    }

    #[test]
    fn a_rebound_name_or_a_foreign_page_is_kept_out() {
        let guard = here(&HttpConfig::default());
        for (host, origin, expected) in [
            ("127.0.0.1:80", None, 200),
            ("LOCALHOST:80", Some("http://localhost:3000"), 200),
            ("[::1]:80", Some("http://[::1]"), 200),
            ("evil.example", None, 403),
            ("localhost.evil.example:80", None, 403),
            ("127.0.0.1:80", Some("http://evil.example"), 403),
            ("127.0.0.1:80", Some("null"), 403),
            ("127.0.0.1:80", Some("http://localhost.evil.example"), 403),
            ("127.0.0.1:80", Some("ftp://localhost"), 403),
            ("127.0.0.1:80@evil", None, 400),
            ("127.0.0.1:80", Some("http://localhost:1@evil.example"), 400),
        ] {
            let mut pairs = vec![("host", host)];
            pairs.extend(origin.map(|origin| ("origin", origin)));
            assert_eq!(status(guard.admit(&request("/mcp", &pairs), PeerUser::Same)), expected, "{host} {origin:?}");
        }
        let mapped = Guard::new(&HttpConfig::default(), "[::ffff:127.0.0.1]:80".parse().unwrap());
        let foreign = request("/mcp", &[("host", "evil.example")]);
        assert_eq!(status(mapped.admit(&foreign, PeerUser::Same)), 403, "IPv4 in IPv6 is loopback too");
        let named = HttpConfig {
            allowed_hosts: vec!["Agent.example".to_owned()],
            allowed_origins: vec![Origin::parse("https://ide.example").unwrap()],
            ..HttpConfig::default()
        };
        let from = [("host", "agent.example"), ("origin", "https://IDE.example")];
        assert_eq!(status(here(&named).admit(&request("/mcp", &from), PeerUser::Same)), 200);
    }

    #[test]
    fn a_place_that_can_be_read_in_two_ways_is_refused() {
        let guard = Guard::new(&with_tokens(), "0.0.0.0:80".parse().unwrap());
        let pass = ("authorization", &*format!("Bearer {SECRET}"));
        let local = ("host", "localhost");
        for (target, pairs, expected) in [
            ("/mcp", vec![local], 200),
            ("http://localhost/mcp", vec![local], 200),
            ("/mcp", vec![], 400),
            ("/mcp", vec![local, local], 400),
            ("/mcp", vec![local, ("host", "evil.example")], 400),
            ("http://evil.example/mcp", vec![local], 400),
            ("http://localhost:81/mcp", vec![local], 400),
            ("http://me@localhost/mcp", vec![local], 400),
            ("/mcp", vec![local, ("origin", "http://a"), ("origin", "http://b")], 400),
        ] {
            let pairs: Vec<_> = pairs.into_iter().chain([pass]).collect();
            assert_eq!(
                status(guard.admit(&request(target, &pairs), PeerUser::Unasked)),
                expected,
                "{target} {pairs:?}"
            );
        }
    }

    fn with_tokens() -> HttpConfig {
        let tokens = vec![Token::new("ada", SECRET).unwrap(), Token::new("bob", &SECRET.to_uppercase()).unwrap()];
        HttpConfig { tokens, ..HttpConfig::default() }
    }

    #[test]
    fn without_a_token_only_the_same_user_is_served() {
        let local = request("/mcp", &[("host", "localhost")]);
        for (user, expected) in
            [(PeerUser::Same, 200), (PeerUser::Other(7), 403), (PeerUser::Unknown, 403), (PeerUser::Unasked, 403)]
        {
            assert_eq!(status(here(&HttpConfig::default()).admit(&local, user)), expected, "{user:?}");
        }
        assert_eq!(status(here(&with_tokens()).admit(&local, PeerUser::Other(7))), 401, "tokens tell who it is");
    }

    #[test]
    fn a_token_tells_who_it_is_and_others_are_kept_out() {
        let guard = Guard::new(&with_tokens(), "0.0.0.0:80".parse().unwrap());
        let admit = |value: &str| {
            guard.admit(&request("/mcp", &[("host", "any"), ("authorization", value)]), PeerUser::Unasked)
        };
        assert_eq!(admit(&format!("Bearer {SECRET}")).unwrap(), Principal::Token("ada".into()));
        assert_eq!(admit(&format!("bearer {}", SECRET.to_uppercase())).unwrap(), Principal::Token("bob".into()));
        for wrong in ["", "Bearer", "Bearer x", SECRET, &format!("Basic {SECRET}"), &format!("Bearer {SECRET}x")] {
            assert_eq!(status(admit(wrong)), 401, "{wrong}");
        }
        assert_eq!(status(guard.admit(&request("/mcp", &[("host", "any")]), PeerUser::Unasked)), 401);
    }

    #[test]
    fn a_token_that_could_be_guessed_is_refused_without_being_shown() {
        for (name, secret) in [("ada", "hunter2"), ("a b", SECRET), ("", SECRET), ("ada", &format!("{SECRET} x"))] {
            let error = Token::new(name, secret).unwrap_err();
            assert!(!error.contains("hunter2") && !error.contains(SECRET), "{error}");
        }
    }

    #[test]
    fn more_than_the_rate_is_held_up_for_each_alone() {
        let config = HttpConfig { requests_per_second: 2, ..HttpConfig::default() };
        let guard = here(&config);
        let local = request("/mcp", &[("host", "localhost")]);
        let passed = (0..10).filter(|_| guard.admit(&local, PeerUser::Same).is_ok()).count();
        assert!((4..=5).contains(&passed), "{passed}");
        assert!(guard.check_rate(&Principal::Token("ada".into())).is_ok());
    }
}
