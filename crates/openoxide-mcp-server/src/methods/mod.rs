//! The methods of MCP: one file for each family, parameters and answer together.
//!
//! A method is a type that implements [`Method`]: its name, the eras that have it, the type of its parameters, and how it
//! is answered. To add one, write it in the file of its family and name it in the table of [`crate::dispatch`].

pub(crate) mod completion;
pub(crate) mod lifecycle;
pub(crate) mod logging;
pub(crate) mod prompts;
pub(crate) mod resources;
pub(crate) mod subscriptions;
pub(crate) mod tasks;
pub(crate) mod tools;

use openoxide_mcp_protocol::{Era, WireError};
use serde::de::DeserializeOwned;

use crate::connection::Request;

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
    pub(crate) fn have(self, era: Era) -> bool {
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
