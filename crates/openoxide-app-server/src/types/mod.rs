//! The messages of the protocol as types, camelCase on the wire: what clients ask for ([`params`]), what threads, turns and
//! items look like ([`thread`]), what is told unasked ([`notification`]) and what clients are asked ([`request`]). Nothing
//! here knows core; `convert` makes these of core's types.

pub(crate) mod notification;
pub(crate) mod params;
pub(crate) mod request;
pub(crate) mod thread;
