//! What looks like a secret, and how it is taken out of what people are shown: configuration, reports, errors and logs.
//!
//! - [`looks_secret`] judges the name of a variable, a key or a header; [`holds_secret`] a value.
//! - [`redact`] takes out of a text what is secret wherever it stands: the login and the query of each URL, words that have the
//!   form of a key, and keys that somebody has masked.
//! - [`Redactor`] does the same, and knows certain secrets in every form in which a server may repeat them.
//!
//! It is a leaf: it reads nothing and knows nothing of providers, commands or files. Each judgement about what is secret is made
//! here and nowhere else.

mod known;
mod names;
mod text;

pub use known::Redactor;
pub use names::{is_variable_name, looks_secret};
pub use text::{holds_secret, redact};

/// What stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";
