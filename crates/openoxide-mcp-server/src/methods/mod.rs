//! The methods of MCP: one table, one file for each family, parameters and answer together.
//!
//! A method is a type that implements [`Method`]: its name, the eras that have it, the type of its parameters, and how it
//! is answered. To add one, write it in the file of its family and name it in [`METHODS`].

mod completion;
mod lifecycle;
mod logging;
mod prompts;
mod request;
mod resources;
mod subscriptions;
mod tasks;
mod tools;

use openoxide_mcp_protocol::{Era, WireError, parse_params};
use serde::de::DeserializeOwned;

pub(crate) use lifecycle::Agreed;
pub(crate) use request::Request;

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

/// The eras that have a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eras {
    /// 2024-11-05 to 2025-11-25.
    Legacy,
    /// 2026-07-28.
    Modern,
    /// All of them.
    Both,
}

impl Eras {
    fn have(self, era: Era) -> bool {
        match self {
            Self::Legacy => era == Era::Legacy,
            Self::Modern => era == Era::Modern,
            Self::Both => true,
        }
    }
}

/// One method.
pub(crate) trait Method {
    /// Its name on the wire.
    const NAME: &'static str;
    /// The eras that have it.
    const ERAS: Eras;
    /// Whether a legacy client may send it before `initialize`.
    const IS_FIRST: bool = false;
    /// Its parameters; what is missing or wrong is refused by name with -32602.
    type Params: DeserializeOwned;

    /// Answers a request, or sees to it that it is answered. Never blocks.
    fn answer(request: Request<'_>, params: Self::Params);
}

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

/// The parameters of a list that fits one page, so that no cursor is ever ours.
#[derive(serde::Deserialize)]
pub(crate) struct OnePage {
    cursor: Option<String>,
}

impl OnePage {
    fn check(self) -> Result<(), WireError> {
        match self.cursor {
            Some(cursor) => {
                Err(WireError::invalid_params(format!("unknown cursor {cursor:?}; this list has one page")))
            }
            None => Ok(()),
        }
    }
}

/// The parameters of a method that takes none, or whatever it is given.
pub(crate) type Ignored = serde::de::IgnoredAny;

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
