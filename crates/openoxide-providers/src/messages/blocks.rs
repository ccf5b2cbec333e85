//! The blocks that Messages are made of, and the mark that any of them can carry.
//!
//! Which blocks a history becomes is `body`'s. Field names: Anthropic API reference, `POST /v1/messages`.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use crate::remote::{
    MADE_BY,
    carried::{Fill, Whole},
};

/// A mark up to which the provider keeps what it has read.
#[derive(Debug, Serialize)]
pub(crate) struct CacheControl {
    r#type: &'static str,
}

impl CacheControl {
    /// The one kind there is.
    pub(crate) const EPHEMERAL: Self = Self { r#type: "ephemeral" };

    pub(super) fn when(is_marked: bool) -> Option<Self> {
        is_marked.then_some(Self::EPHEMERAL)
    }
}

/// One block.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Image {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: Input<'a>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    /// As it came, its own type included.
    #[serde(untagged)]
    Thinking(Unsigned<'a>),
    /// The same for what has its text in history.
    #[serde(untagged)]
    Whole(Whole<'a>),
    /// A call as it came.
    #[serde(untagged)]
    WholeCall(WholeCall<'a>),
}

/// A provider's own block without our mark on it.
pub(super) struct Unsigned<'a>(pub(super) &'a Map<String, Value>);

impl Serialize for Unsigned<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter(|(key, _)| *key != MADE_BY))
    }
}

/// An image within the request, in base64.
#[derive(Serialize)]
pub(super) struct Source<'a> {
    pub(super) r#type: &'static str,
    pub(super) media_type: &'a str,
    pub(super) data: &'a str,
}

/// A call as it came, its input put in its place.
pub(super) struct WholeCall<'a> {
    pub(super) carried: &'a Map<String, Value>,
    pub(super) input: Cow<'a, str>,
}

impl Serialize for WholeCall<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { carried, input } = self;
        match serde_json::from_str::<&RawValue>(input) {
            Ok(input) => Whole { carried, name: "input", fill: Fill::Json(input) }.serialize(serializer),
            Err(_) => Unsigned(carried).serialize(serializer),
        }
    }
}

/// The arguments of a call as the JSON object that they are, not as text.
pub(super) struct Input<'a>(Cow<'a, str>);

impl<'a> Input<'a> {
    pub(super) fn new(object: Cow<'a, str>) -> Self {
        Self(object)
    }
}

impl Serialize for Input<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serde_json::from_str::<&RawValue>(&self.0) {
            Ok(object) => object.serialize(serializer),
            // The text was an object when it was made; an empty one is the next best.
            Err(_) => to_raw_value(&Map::new()).map_err(serde::ser::Error::custom)?.serialize(serializer),
        }
    }
}

/// An id in the letters that this API allows. Ids of other dialects may have more; both ends of a call change alike.
pub(super) fn safe_id(id: &str) -> Cow<'_, str> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !id.is_empty() && id.chars().all(is_safe) {
        return id.into();
    }
    let safe: String = id.chars().map(|c| if is_safe(c) { c } else { '_' }).collect();
    if safe.is_empty() { "call".into() } else { safe.into() }
}
