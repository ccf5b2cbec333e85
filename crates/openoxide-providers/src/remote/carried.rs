//! What a provider's own form of an item holds beyond what history says of it ([`Carried`]): taken off when it is read, put back
//! when it is sent. The long text stands once, in the item; in what is carried, null keeps its place.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value, value::RawValue};

use super::MADE_BY;
use crate::Carried;

/// Keeps the members of an item, with null where its text stands; none where every member is one of `said`, which history has.
pub(crate) fn kept(item: Map<String, Value>, said: &[&str]) -> Carried {
    let has_more = item.keys().any(|name| !said.contains(&name.as_str()));
    has_more.then(|| Box::new(Value::Object(item)))
}

/// The members of an item that `provider` made, where it has the type `kind`.
pub(crate) fn own<'a>(carried: &'a Carried, provider: &str, kind: &str) -> Option<&'a Map<String, Value>> {
    let carried = carried.as_deref()?.as_object()?;
    let is = |name: &str, value: &str| carried.get(name).and_then(Value::as_str) == Some(value);
    (is(MADE_BY, provider) && is("type", kind)).then_some(carried)
}

/// What takes the place of null.
#[derive(Clone, Copy)]
pub(crate) enum Fill<'a> {
    /// A string.
    Text(&'a str),
    /// A JSON document.
    Json(&'a RawValue),
}

impl Serialize for Fill<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Json(json) => json.serialize(serializer),
        }
    }
}

/// An item as it came: the members in their order, the text in its place, and our mark left out.
pub(crate) struct Whole<'a> {
    pub(crate) carried: &'a Map<String, Value>,
    /// The member that holds the text.
    pub(crate) name: &'static str,
    pub(crate) fill: Fill<'a>,
}

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.carried.iter().filter(|(name, _)| *name != MADE_BY) {
            if name == self.name && value.is_null() {
                map.serialize_entry(name, &self.fill)?;
            } else {
                map.serialize_entry(name, &Inner { whole: self, value })?;
            }
        }
        map.end()
    }
}

/// A value within one.
struct Inner<'a> {
    whole: &'a Whole<'a>,
    value: &'a Value,
}

impl Serialize for Inner<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Whole { name, fill, .. } = *self.whole;
        match self.value {
            Value::Object(carried) => Whole { carried, name, fill }.serialize(serializer),
            Value::Array(values) => {
                let mut list = serializer.serialize_seq(Some(values.len()))?;
                for value in values {
                    list.serialize_element(&Inner { whole: self.whole, value })?;
                }
                list.end()
            }
            value => value.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_item_goes_back_as_it_came() {
        let item = json!({"id": "m", "content": [{"type": "output_text", "text": null, "annotations": []}], "x": null, "type": "message"});
        let carried = item.as_object().unwrap().clone();
        let mut signed = carried.clone();
        signed.insert(MADE_BY.into(), "p".into());
        let kept = kept(signed, &["type", "content"]);
        let own_members = own(&kept, "p", "message").unwrap();
        let whole = Whole { carried: own_members, name: "text", fill: Fill::Text("é\"") };
        assert_eq!(
            serde_json::to_string(&whole).unwrap(),
            r#"{"id":"m","content":[{"type":"output_text","text":"é\"","annotations":[]}],"x":null,"type":"message"}"#
        );
        assert!(own(&kept, "q", "message").is_none() && own(&kept, "p", "function_call").is_none());
        assert_eq!(super::kept(carried, &["id", "content", "x", "type"]), None);
    }
}
