//! A string that must not be shown. It leaves this type only where a header is built.

use std::fmt;

/// A key or token. `Debug` and `Display` print a placeholder; [`Secret::expose`] is the one way to the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the header that needs it and for nothing that is written down.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_debug_nor_display_shows_the_text() {
        let secret = Secret::new("sk-abc");
        let shown = format!("{secret} {secret:?} {:?}", Some(secret.clone()));
        assert!(!shown.contains("sk-abc"), "{shown}");
        assert_eq!(secret.expose(), "sk-abc");
    }
}
