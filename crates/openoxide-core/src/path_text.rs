//! Paths in records: text, quoted as git does where a name is no plain text, so that any name is kept whole.

use std::path::{Path, PathBuf};

use openoxide_display::{quote_path, unquote_path};
use serde::{Deserialize as _, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&quote_path(path))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Ok(unquote_path(&String::deserialize(deserializer)?))
}

/// The same for a path that may not be there.
pub(crate) fn serialize_option<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serializer.serialize_some(&quote_path(path)),
        None => serializer.serialize_none(),
    }
}

/// The same for a list of paths.
pub(crate) mod list {
    use super::{Deserializer, PathBuf, Serializer, quote_path, unquote_path};
    use serde::Deserialize as _;

    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| quote_path(path)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<String>::deserialize(deserializer)?.iter().map(|text| unquote_path(text)).collect())
    }
}
