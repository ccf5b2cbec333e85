//! Which keys the types of the configuration ask for, found out by reading them from nothing. For the test that holds the
//! list of [`super::keys`] against them.

use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

/// Every key below a type, dotted; `*` stands for a name of the user's.
pub(super) fn keys<T: for<'de> Deserialize<'de>>() -> Vec<String> {
    let mut found = Vec::new();
    visit::<T>(&mut Vec::new(), &mut found);
    found
}

fn visit<T: for<'de> Deserialize<'de>>(path: &mut Vec<&'static str>, found: &mut Vec<String>) {
    let mut asked = Asked::Value;
    // It never succeeds: what is asked for at the end of the path is noted, and nothing is given.
    let _ = T::deserialize(Probe { path, asked: &mut asked });
    let below: &[&str] = match asked {
        Asked::Value => return found.push(path.join(".")),
        Asked::Table(fields) => fields,
        Asked::Names => &["*"],
    };
    for name in below {
        path.push(name);
        visit::<T>(path, found);
        path.pop();
    }
}

/// What a type asks for at a path.
enum Asked {
    /// A table of these fields.
    Table(&'static [&'static str]),
    /// A table whose names are the user's.
    Names,
    /// Anything else.
    Value,
}

/// Leads a type along a path and notes what it asks for at its end.
struct Probe<'a> {
    path: &'a [&'static str],
    asked: &'a mut Asked,
}

impl Probe<'_> {
    fn go_on<'de, V: Visitor<'de>>(self, asked: Asked, visitor: V) -> Result<V::Value, Error> {
        if self.path.is_empty() {
            *self.asked = asked;
            return Err(Error::custom("the end of the path"));
        }
        visitor.visit_map(self)
    }
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("a value"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.go_on(Asked::Table(fields), visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.go_on(Asked::Names, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for Probe<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let name: StrDeserializer<'_, Error> = self.path[0].into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(Probe { path: &self.path[1..], asked: &mut *self.asked })
    }
}
