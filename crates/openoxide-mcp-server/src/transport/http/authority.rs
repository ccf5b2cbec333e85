//! Reads what a request says about the place it was sent to and the page it comes from: `Host`, the authority of an
//! absolute target, and `Origin`. Only reads; who is let in is for [`super::guard`] to decide.
//!
//! Whatever can be read in two ways is refused (RFC 9110 sections 4.2.4 and 7.2, RFC 9112 section 3.2): another program
//! on the way may have read it the other way.

use std::fmt;

use axum::http::{HeaderMap, HeaderValue, Uri, header};

/// A host and perhaps a port, without user information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// In lower case; an IPv6 address keeps its brackets.
    pub host: String,
    /// The port, where it is named.
    pub port: Option<u16>,
}

/// Where a page comes from (RFC 6454 section 6.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `null`: a page that has none, or keeps it to itself.
    Opaque,
    /// A page with an address.
    Of {
        /// Such as `https`, in lower case.
        scheme: String,
        /// Where it was got from.
        authority: Authority,
    },
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opaque => f.write_str("null"),
            Self::Of { scheme, authority } => write!(f, "{scheme}://{authority}"),
        }
    }
}

impl Authority {
    /// Reads `host`, `host:port`, `[v6]` or `[v6]:port`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.contains('@') {
            return Err("it holds user information; leave out everything up to the @".to_owned());
        }
        let host_end = match text.strip_prefix('[') {
            Some(rest) => rest.find(']').map(|at| at + 2).ok_or("a [ has no ]")?,
            None => text.find(':').unwrap_or(text.len()),
        };
        let (host, rest) = text.split_at(host_end);
        let is_known = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)),
        };
        if !is_known {
            return Err("it names no host; use a name of letters, digits, - and ., or an address".to_owned());
        }
        let port = match rest.strip_prefix(':') {
            None if rest.is_empty() => None,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().map_err(|_| "its port is over 65535")?)
            }
            _ => return Err("what follows the host is no port; use a colon and a number".to_owned()),
        };
        Ok(Self { host: host.to_ascii_lowercase(), port })
    }
}

impl Origin {
    /// Reads `null` or `scheme://host[:port]`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "null" {
            return Ok(Self::Opaque);
        }
        let (scheme, rest) = text.split_once("://").ok_or("it is not scheme://host")?;
        let mut bytes = scheme.bytes();
        let is_scheme = bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        if !is_scheme {
            return Err("it does not begin with a scheme such as https".to_owned());
        }
        Ok(Self::Of { scheme: scheme.to_ascii_lowercase(), authority: Authority::parse(rest)? })
    }
}

/// Where a request was sent to.
///
/// # Errors
/// A sentence: `Host` is missing, is there twice, cannot be read, or differs from the request's own target.
pub(super) fn target_of(uri: &Uri, headers: &HeaderMap) -> Result<Authority, String> {
    let host = single(headers, &header::HOST)?.ok_or("there is no Host; every request names the host it is sent to")?;
    let target = Authority::parse(host).map_err(|why| format!("Host is {host:?}: {why}"))?;
    if let Some(absolute) = uri.authority() {
        let absolute = absolute.as_str();
        let named = Authority::parse(absolute).map_err(|why| format!("the target names {absolute:?}: {why}"))?;
        if named != target {
            return Err(format!("the target names {absolute:?} and Host is {host:?}; both must be the same"));
        }
    }
    Ok(target)
}

/// The page a request comes from; none where no browser has sent it.
///
/// # Errors
/// A sentence: `Origin` is there twice, or cannot be read.
pub(super) fn origin_of(headers: &HeaderMap) -> Result<Option<Origin>, String> {
    let Some(text) = single(headers, &header::ORIGIN)? else { return Ok(None) };
    Origin::parse(text).map(Some).map_err(|why| format!("Origin is {text:?}: {why}"))
}

/// The value of a header that may be there once.
fn single<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Result<Option<&'a str>, String> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(format!("there is more than one {name} header; send one"));
    }
    let text = |value: &'a HeaderValue| value.to_str().map_err(|_| format!("{name} holds what is not visible ASCII"));
    first.map(text).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_a_host_and_a_port_and_nothing_else() {
        for (text, host, port) in [
            ("127.0.0.1:80", "127.0.0.1", Some(80)),
            ("LocalHost", "localhost", None),
            ("[::1]:8080", "[::1]", Some(8080)),
            ("[::1]", "[::1]", None),
            ("a_b.example", "a_b.example", None),
        ] {
            assert_eq!(Authority::parse(text), Ok(Authority { host: host.to_owned(), port }), "{text}");
        }
        for wrong in [
            "",
            ":80",
            "127.0.0.1:80@evil",
            "user@localhost",
            "localhost:",
            "localhost:8o",
            "localhost:+80",
            "localhost:65536",
            "localhost:80:80",
            "::1",
            "[::1",
            "[::1]80",
            "[localhost]",
            "localhost/x",
            "localhost#x",
            "local host",
            "localhost,evil",
            "localhost\\evil",
        ] {
            assert!(Authority::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_origin_is_a_scheme_and_an_authority() {
        assert_eq!(Origin::parse("null"), Ok(Origin::Opaque));
        let authority = Authority { host: "[::1]".to_owned(), port: Some(3000) };
        assert_eq!(Origin::parse("HTTP://[::1]:3000"), Ok(Origin::Of { scheme: "http".to_owned(), authority }));
        for wrong in ["", "localhost", "http://", "http:/localhost", "://localhost", "http://localhost:1@evil.example"]
        {
            assert!(Origin::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["http://localhost/", "http://localhost:80x", "1http://localhost", "http://localhost https://evil"]
        {
            assert!(Origin::parse(wrong).is_err(), "{wrong}");
        }
    }
}
