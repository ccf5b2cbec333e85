//! The connections of each principal: its share of those there may be.

use std::sync::Arc;

use openoxide_core::Shares;
use openoxide_rpc::listeners::{Caller, Held, Places};

use crate::principal::Principal;

/// Counts connections where others count sessions and bodies.
pub(super) struct SharedPlaces(pub(super) Arc<Shares<Principal>>);

impl Places for SharedPlaces {
    fn take(&self, caller: &Caller) -> Result<Held, String> {
        match self.0.take(&Principal::from(caller.clone()), 1) {
            Ok(held) => Ok(Box::new(held)),
            Err(exceeded) => Err(exceeded.to_string()),
        }
    }
}
