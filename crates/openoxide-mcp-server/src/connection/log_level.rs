//! The log level that a legacy client set.

use std::sync::atomic::{AtomicU8, Ordering};

use openoxide_mcp_protocol::LogLevel;

/// The log level of a connection (`logging/setLevel`), for its legacy requests.
pub(crate) struct ConnectionLogLevel(AtomicU8);

const LEVELS: [LogLevel; 8] = [
    LogLevel::Debug,
    LogLevel::Info,
    LogLevel::Notice,
    LogLevel::Warning,
    LogLevel::Error,
    LogLevel::Critical,
    LogLevel::Alert,
    LogLevel::Emergency,
];

impl Default for ConnectionLogLevel {
    fn default() -> Self {
        Self(AtomicU8::new(LogLevel::Info as u8))
    }
}

impl ConnectionLogLevel {
    /// Sets the least severe level sent.
    pub(crate) fn set(&self, level: LogLevel) {
        self.0.store(level as u8, Ordering::Relaxed);
    }

    /// The least severe level sent.
    pub(crate) fn get(&self) -> LogLevel {
        LEVELS[usize::from(self.0.load(Ordering::Relaxed))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_are_in_order() {
        let level = ConnectionLogLevel::default();
        for wanted in LEVELS {
            level.set(wanted);
            assert_eq!(level.get(), wanted);
        }
    }
}
