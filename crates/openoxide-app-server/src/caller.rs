//! Who is at the other end of a connection, and which threads are theirs.

use std::sync::Arc;

use openoxide_rpc::listeners::Caller;

/// Whose the threads are that a caller begins; none for the local user.
pub(crate) fn owner(caller: &Caller) -> Option<Arc<str>> {
    match caller {
        Caller::Local => None,
        Caller::Token(name) => Some(Arc::clone(name)),
    }
}

/// Whether a thread of this owner is the caller's to see and continue. The local user can read the files of all.
pub(crate) fn may_use(caller: &Caller, owner: Option<&str>) -> bool {
    match caller {
        Caller::Local => true,
        Caller::Token(name) => owner == Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_sees_its_own_and_the_local_user_all() {
        let ada = Caller::Token("ada".into());
        assert!(may_use(&Caller::Local, None) && may_use(&Caller::Local, Some("ada")));
        assert!(may_use(&ada, Some("ada")) && !may_use(&ada, Some("bob")) && !may_use(&ada, None));
        assert_eq!((owner(&Caller::Local), owner(&ada)), (None, Some("ada".into())));
    }
}
