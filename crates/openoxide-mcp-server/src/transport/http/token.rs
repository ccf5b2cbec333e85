//! Bearer tokens.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

/// The fewest characters of a token: 128 bits take 22 in base64.
const SHORTEST_TOKEN: usize = 22;

/// A bearer token and whose it is. Only its digest is kept.
#[derive(Clone)]
pub struct Token {
    pub(super) name: Arc<str>,
    pub(super) digest: [u8; 32],
}

/// Without its digest.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Token {
    /// The token `secret` of the caller named `name`.
    ///
    /// # Errors
    /// A sentence that says what is wrong: a name that is empty or holds what no word holds, or a secret that could be
    /// guessed. It never shows the secret.
    pub fn new(name: &str, secret: &str) -> Result<Self, String> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
        if name.is_empty() || !name.chars().all(is_word) {
            return Err(format!("{name:?} is no name for a token; use letters, digits and -_.@"));
        }
        if secret.len() < SHORTEST_TOKEN || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "the token of {name} has {} characters; use at least {SHORTEST_TOKEN} random visible ones, for example \
                 the output of `openssl rand -base64 24`",
                secret.len()
            ));
        }
        Ok(Self { name: name.into(), digest: Sha256::digest(secret).into() })
    }

    /// Whose it is.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}
