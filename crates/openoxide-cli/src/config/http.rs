//! `[mcp_server.http]`: the bounds of the HTTP listener. Their defaults are the listener's own.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::bail;
use openoxide_mcp_server::HttpConfig;
use serde::Deserialize;

/// The table; what is missing is left as it is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct HttpTable {
    head_timeout_sec: Option<u64>,
    body_timeout_sec: Option<u64>,
    max_unauthenticated: Option<u64>,
    max_unauthenticated_per_peer: Option<u64>,
    max_connections: Option<u64>,
    max_sessions: Option<u64>,
    max_body_bytes: Option<u64>,
    max_unread_bytes: Option<u64>,
}

/// Seconds that something may take.
const SECONDS: RangeInclusive<u64> = 1..=3600;
/// Connections or sessions.
const COUNT: RangeInclusive<u64> = 1..=1_000_000;
/// Bytes of bodies; one of full length fits.
const BYTES: RangeInclusive<u64> = 16 << 20..=1 << 40;
/// Bytes of answers. One that is longer passes where nothing else waits.
const UNREAD: RangeInclusive<u64> = 1 << 20..=1 << 40;

impl HttpTable {
    /// Each key with its value and what is allowed. The only list of them.
    fn values(&self) -> [(&'static str, Option<u64>, RangeInclusive<u64>); 8] {
        [
            ("head_timeout_sec", self.head_timeout_sec, SECONDS),
            ("body_timeout_sec", self.body_timeout_sec, SECONDS),
            ("max_unauthenticated", self.max_unauthenticated, COUNT),
            ("max_unauthenticated_per_peer", self.max_unauthenticated_per_peer, COUNT),
            ("max_connections", self.max_connections, COUNT),
            ("max_sessions", self.max_sessions, COUNT),
            ("max_body_bytes", self.max_body_bytes, BYTES),
            ("max_unread_bytes", self.max_unread_bytes, UNREAD),
        ]
    }

    /// Whether every value is within its bounds.
    ///
    /// # Errors
    /// The first that is not, with what is allowed.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        for (key, value, allowed) in self.values() {
            if let Some(value) = value.filter(|value| !allowed.contains(value)) {
                bail!("mcp_server.http.{key} is {value}; allowed: {} to {}", allowed.start(), allowed.end());
            }
        }
        Ok(())
    }

    /// Sets what is given.
    pub(crate) fn apply(&self, config: &mut HttpConfig) {
        let set_time = |to: &mut Duration, from: Option<u64>| *to = from.map_or(*to, Duration::from_secs);
        let set = |to: &mut usize, from: Option<u64>| {
            *to = from.map_or(*to, |value| usize::try_from(value).unwrap_or(usize::MAX));
        };
        set_time(&mut config.head_timeout, self.head_timeout_sec);
        set_time(&mut config.body_timeout, self.body_timeout_sec);
        set(&mut config.max_unauthenticated, self.max_unauthenticated);
        set(&mut config.max_unauthenticated_per_peer, self.max_unauthenticated_per_peer);
        set(&mut config.max_connections, self.max_connections);
        set(&mut config.max_sessions, self.max_sessions);
        set(&mut config.max_body_bytes, self.max_body_bytes);
        set(&mut config.max_unread_bytes, self.max_unread_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_kept_and_named() {
        let table: HttpTable = toml::from_str("head_timeout_sec = 3\nmax_sessions = 7").unwrap();
        table.check().unwrap();
        let mut config = HttpConfig::default();
        table.apply(&mut config);
        assert_eq!((config.head_timeout, config.max_sessions), (Duration::from_secs(3), 7));
        assert_eq!(config.body_timeout, HttpConfig::default().body_timeout);
        for (text, part) in [
            ("head_timeout_sec = 0", "head_timeout_sec is 0; allowed: 1 to 3600"),
            ("max_unauthenticated = 0", "max_unauthenticated is 0"),
            ("max_body_bytes = 1000", "allowed: 16777216 to"),
            ("max_unread_bytes = 1000", "allowed: 1048576 to"),
        ] {
            let error = toml::from_str::<HttpTable>(text).unwrap().check().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
