//! How values that stand in records are written: ids and paths as text, lists, and what is shared or may be missing. Each is
//! named in `#[serde(with = "...")]`.

use std::fmt::Display;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use openoxide_display::{quote_path, unquote_path};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A way to write values of a type and to read them back.
pub(in crate::store) trait Record<T> {
    fn write<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error>;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>;
}

/// Makes types with serde's `remote` the records of the types that they stand for.
macro_rules! records {
    ($($record:ident for $type:ty),+ $(,)?) => {$(
        impl $crate::store::json::Record<$type> for $record {
            fn write<S: serde::Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(value, serializer)
            }

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                Self::deserialize(deserializer)
            }
        }
    )+};
}
pub(in crate::store) use records;

/// A value as the text of its record.
pub(in crate::store) fn to_vec<R: Record<T>, T>(value: &T) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Written::<R, T>(value, PhantomData))
}

/// The value of a record's text.
pub(in crate::store) fn from_slice<R: Record<T>, T>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice::<Read<R, T>>(text).map(|Read(value, _)| value)
}

/// A value on its way to serde.
struct Written<'a, R, T>(&'a T, PhantomData<R>);

impl<R: Record<T>, T> Serialize for Written<'_, R, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        R::write(self.0, serializer)
    }
}

/// A value on its way from serde.
struct Read<R, T>(T, PhantomData<R>);

impl<'de, R: Record<T>, T> Deserialize<'de> for Read<R, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        R::read(deserializer).map(|value| Self(value, PhantomData))
    }
}

/// What has a text of its own, such as an id.
pub(in crate::store) struct Text;

impl Text {
    pub(in crate::store) fn serialize<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(in crate::store) fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: FromStr<Err: Display>,
    {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error| D::Error::custom(format_args!("{text:?} is no id: {error}")))
    }
}

impl<T: Display + FromStr<Err: Display>> Record<T> for Text {
    fn write<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(value, serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        Self::deserialize(deserializer)
    }
}

/// A path: text, quoted as git does where a name is no plain text, so that any name is kept whole.
pub(in crate::store) struct Path;

impl Path {
    pub(in crate::store) fn serialize<S: Serializer>(path: &std::path::Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&quote_path(path))
    }

    pub(in crate::store) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(unquote_path(&String::deserialize(deserializer)?))
    }
}

impl Record<PathBuf> for Path {
    fn write<S: Serializer>(value: &PathBuf, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(value, serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Self::deserialize(deserializer)
    }
}

/// What is shared in memory, as what it is.
pub(super) struct Shared<R>(PhantomData<R>);

impl<R> Shared<R> {
    pub(super) fn serialize<T, S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error>
    where
        R: Record<T>,
    {
        R::write(value, serializer)
    }

    pub(super) fn deserialize<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<T>, D::Error>
    where
        R: Record<T>,
    {
        R::read(deserializer).map(Arc::new)
    }
}

impl<R: Record<T>, T> Record<Arc<T>> for Shared<R> {
    fn write<S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(value, serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<T>, D::Error> {
        Self::deserialize(deserializer)
    }
}

/// A list.
pub(super) struct List<R>(PhantomData<R>);

impl<R> List<R> {
    pub(super) fn serialize<T, S: Serializer>(values: &[T], serializer: S) -> Result<S::Ok, S::Error>
    where
        R: Record<T>,
    {
        serializer.collect_seq(values.iter().map(|value| Written::<R, T>(value, PhantomData)))
    }

    pub(super) fn deserialize<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error>
    where
        R: Record<T>,
    {
        Ok(Vec::<Read<R, T>>::deserialize(deserializer)?.into_iter().map(|Read(value, _)| value).collect())
    }
}

/// What may be missing.
pub(super) struct Optional<R>(PhantomData<R>);

impl<R> Optional<R> {
    pub(super) fn serialize<T, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error>
    where
        R: Record<T>,
    {
        value.as_ref().map(|value| Written::<R, T>(value, PhantomData)).serialize(serializer)
    }

    pub(super) fn deserialize<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        R: Record<T>,
    {
        Ok(Option::<Read<R, T>>::deserialize(deserializer)?.map(|Read(value, _)| value))
    }
}
