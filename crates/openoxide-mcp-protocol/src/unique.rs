//! JSON whose objects have each key once. Where a key comes twice, one reader takes the first and another the last: what
//! somebody in between has checked would not be what is done.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Parses a text.
///
/// # Errors
/// It is not JSON, or a key comes twice in one object; the key is named.
pub fn parse_unique(text: &str) -> serde_json::Result<Value> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Unique.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Reads an object, for `deserialize_with`; `null` is none.
pub(crate) fn unique_object<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Map<String, Value>>, D::Error> {
    match Unique.deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::Object(object) => Ok(Some(object)),
        other => Err(Error::custom(format!("expected an object, not {other}"))),
    }
}

struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = sequence.next_element_seed(Self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {key:?} is given twice; give it once")));
            }
            let value = entries.next_value_seed(Self)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_that_comes_twice_is_refused_at_any_depth() {
        for text in [r#"{"a":1,"a":2}"#, r#"{"a":{"b":[{"c":1,"c":1}]}}"#, r#"{"a":1,"\u0061":2}"#] {
            assert!(parse_unique(text).unwrap_err().to_string().contains("is given twice"), "{text}");
        }
        let value = json!({ "b": [1, -2, 2.5, null, true, "x"], "a": { "b": {} } });
        assert_eq!(parse_unique(&value.to_string()).unwrap(), value);
        assert!(parse_unique("{} {}").is_err() && parse_unique("{").is_err());
    }

    proptest! {
        #[test]
        fn what_has_each_key_once_is_read_as_ever(numbers in proptest::collection::vec(any::<f64>(), 0..5), text in any::<String>()) {
            let value = json!({ "n": numbers, "t": text, "o": { "t": [text] } }).to_string();
            prop_assert_eq!(parse_unique(&value).unwrap(), serde_json::from_str::<Value>(&value).unwrap());
        }
    }
}
