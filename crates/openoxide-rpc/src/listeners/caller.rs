//! Who is at the other end of a connection: the user who runs the process, or the holder of a bearer token.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The fewest characters of a token: 128 bits take 22 in base64.
const SHORTEST_TOKEN: usize = 22;

/// Who was let in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Caller {
    /// A program of the user this process runs as.
    Local,
    /// The holder of the bearer token of this name.
    Token(Arc<str>),
}

/// One word for each; two are never the same.
impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Token(name) => write!(f, "token:{name}"),
        }
    }
}

/// A bearer token and whose it is. Only its digest is kept.
#[derive(Clone)]
pub struct Token {
    name: Arc<str>,
    digest: [u8; 32],
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
        check_name(name)?;
        if secret.len() < SHORTEST_TOKEN || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "the token of {name} has {} characters; use at least {SHORTEST_TOKEN} random visible ones, for example \
                 the output of `openssl rand -base64 24`",
                secret.len()
            ));
        }
        Ok(Self { name: name.into(), digest: Sha256::digest(secret).into() })
    }

    /// The token of this name whose SHA-256 is `digest`, for an operator who keeps no secret here. Whether the secret could
    /// be guessed is not seen.
    ///
    /// # Errors
    /// As [`Token::new`], but for the secret.
    pub fn of_digest(name: &str, digest: [u8; 32]) -> Result<Self, String> {
        check_name(name)?;
        Ok(Self { name: name.into(), digest })
    }

    /// Whose it is.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    if name.is_empty() || !name.chars().all(is_word) {
        return Err(format!("{name:?} is no name for a token; use letters, digits and -_.@"));
    }
    Ok(())
}

/// How many callers are told apart by these tokens; the local user is the only one without any.
pub fn callers(tokens: &[Token]) -> usize {
    tokens.iter().map(Token::name).collect::<HashSet<_>>().len().max(1)
}

/// Whose token `given` is.
pub(super) fn holder(tokens: &[Token], given: &str) -> Option<Caller> {
    let digest: [u8; 32] = Sha256::digest(given).into();
    let mut found = None;
    // Each is compared, whichever fits: how long it takes tells nothing.
    for token in tokens {
        if bool::from(token.digest.ct_eq(&digest)) {
            found = Some(Caller::Token(Arc::clone(&token.name)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "abcdefghijklmnopqrstuvwxyz012345";

    #[test]
    fn a_token_that_could_be_guessed_is_refused_without_being_shown() {
        for (name, secret) in [("ada", "hunter2"), ("a b", SECRET), ("", SECRET), ("ada", &format!("{SECRET} x"))] {
            let error = Token::new(name, secret).unwrap_err();
            assert!(!error.contains("hunter2") && !error.contains(SECRET), "{error}");
        }
    }

    #[test]
    fn a_token_is_found_by_its_secret_or_its_digest_alone() {
        let digest: [u8; 32] = Sha256::digest(SECRET).into();
        let by_digest = [Token::of_digest("ada", digest).unwrap()];
        let by_secret = [Token::new("ada", SECRET).unwrap()];
        for tokens in [by_digest, by_secret] {
            assert_eq!(holder(&tokens, SECRET), Some(Caller::Token("ada".into())));
            assert_eq!(holder(&tokens, &format!("{SECRET}x")), None);
        }
        assert!(Token::of_digest("a b", digest).is_err());
    }

    #[test]
    fn callers_are_told_apart_by_name() {
        let token = |name: &str, secret: &str| Token::new(name, &SECRET.replace('a', secret)).unwrap();
        assert_eq!(callers(&[]), 1);
        assert_eq!(callers(&[token("ada", "1"), token("ada", "2"), token("bob", "3")]), 2);
    }
}
