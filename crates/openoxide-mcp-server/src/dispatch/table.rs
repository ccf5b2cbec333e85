//! The one table of methods, and how a request finds its own.

use openoxide_mcp_protocol::{Era, WireError, parse_params};

use crate::connection::Request;
use crate::methods::{Eras, Method, completion, lifecycle, logging, prompts, resources, subscriptions, tasks, tools};

/// Every method that is answered.
const METHODS: &[Entry] = &[
    entry::<lifecycle::Initialize>(),
    entry::<lifecycle::Ping>(),
    entry::<lifecycle::Discover>(),
    entry::<logging::SetLevel>(),
    entry::<tools::List>(),
    entry::<tools::Call>(),
    entry::<resources::List>(),
    entry::<resources::Read>(),
    entry::<resources::ListTemplates>(),
    entry::<resources::Subscribe>(),
    entry::<resources::Unsubscribe>(),
    entry::<prompts::List>(),
    entry::<prompts::Get>(),
    entry::<completion::Complete>(),
    entry::<subscriptions::Listen>(),
    entry::<tasks::Get>(),
    entry::<tasks::Update>(),
    entry::<tasks::Cancel>(),
];

struct Entry {
    name: &'static str,
    eras: Eras,
    is_first: bool,
    run: fn(Request<'_>),
}

const fn entry<M: Method>() -> Entry {
    Entry { name: M::NAME, eras: M::ERAS, is_first: M::IS_FIRST, run: run::<M> }
}

fn run<M: Method>(request: Request<'_>) {
    match parse_params::<M::Params>(M::NAME, request.params.as_deref()) {
        Ok(params) => M::answer(request, params),
        Err(error) => request.refuse(&error),
    }
}

/// Serves a request.
pub(crate) fn serve(method: &str, request: Request<'_>) {
    let entry = METHODS.iter().find(|entry| entry.name == method && entry.eras.have(request.era));
    if request.era == Era::Legacy && request.agreed.is_none() && !entry.is_some_and(|entry| entry.is_first) {
        let message = "the request carries no _meta of protocol version 2026-07-28, and initialize has not been sent; do \
                       either";
        return request.refuse(&WireError::invalid_params(message));
    }
    match entry {
        Some(entry) => (entry.run)(request),
        None => request.refuse(&WireError::method_not_found(method)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_method_stands_twice_in_an_era() {
        for (at, one) in METHODS.iter().enumerate() {
            let others = METHODS[at + 1..].iter().filter(|other| other.name == one.name);
            for other in others {
                assert!(one.eras != Eras::Both && other.eras != Eras::Both && one.eras != other.eras, "{}", one.name);
            }
        }
    }
}
