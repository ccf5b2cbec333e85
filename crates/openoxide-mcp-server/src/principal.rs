//! Who is at the other end of a connection, and what of the threads that makes theirs.

use std::fmt;
use std::sync::Arc;

/// Somebody who may ask things of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Principal {
    /// The user who started the process. Their threads belong to nobody in particular, and everybody's are theirs to see: they
    /// can read the files.
    Local,
    /// The holder of the bearer token of this name. Sees what they made.
    Token(Arc<str>),
}

impl Principal {
    /// Whose the threads are that they begin; none for the local user.
    pub(crate) fn owner(&self) -> Option<Arc<str>> {
        match self {
            Self::Local => None,
            Self::Token(name) => Some(Arc::clone(name)),
        }
    }

    /// Whether a thread of this owner is theirs to see and continue.
    pub(crate) fn may_use(&self, owner: Option<&str>) -> bool {
        match self {
            Self::Local => true,
            Self::Token(name) => owner == Some(name),
        }
    }
}

/// One word for each, for seals and records; two are never the same.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Token(name) => write!(f, "token:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_sees_its_own_and_the_local_user_all() {
        let (local, ada) = (Principal::Local, Principal::Token("ada".into()));
        assert!(local.may_use(None) && local.may_use(Some("ada")));
        assert!(ada.may_use(Some("ada")) && !ada.may_use(Some("bob")) && !ada.may_use(None));
        assert_ne!(Principal::Token("local".into()).to_string(), local.to_string());
    }
}
