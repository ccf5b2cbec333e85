//! `fs/*`: requests and answers. Paths are absolute, plain or as `file://` URIs, and are answered as they came.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A path, for methods that need nothing else.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PathParams {
    /// What is meant.
    pub path: String,
    /// How far the operation may reach.
    #[serde(default)]
    pub sandbox: Option<Value>,
}

/// The answer to `fs/readFile`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadFileResult {
    /// All of it.
    pub data_base64: String,
}

/// `fs/writeFile`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteFileParams {
    /// The file, made or replaced.
    pub path: String,
    /// All of it.
    pub data_base64: String,
    /// How far the operation may reach.
    #[serde(default)]
    pub sandbox: Option<Value>,
}

/// `fs/open`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenParams {
    /// Chosen by the client; free in its session.
    pub handle_id: String,
    /// The file.
    pub path: String,
    /// What for.
    #[serde(default)]
    pub mode: OpenMode,
    /// How far the operation may reach.
    #[serde(default)]
    pub sandbox: Option<Value>,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OpenMode {
    /// To read blocks of it.
    #[default]
    Read,
    /// To write blocks that take its place when the handle is closed.
    Replace,
}

/// The answer to `fs/open`; parameters of `fs/close`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handle {
    /// The handle.
    pub handle_id: String,
}

/// `fs/readBlock`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadBlockParams {
    /// The handle.
    pub handle_id: String,
    /// From where.
    pub offset: u64,
    /// Bytes at most.
    pub len: u64,
}

/// The answer to `fs/readBlock`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadBlockResult {
    /// Base64.
    pub chunk: String,
    /// Whether the file ends with it.
    pub eof: bool,
}

/// `fs/writeBlock`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteBlockParams {
    /// The handle.
    pub handle_id: String,
    /// Where to.
    pub offset: u64,
    /// Base64.
    pub chunk: String,
}

/// `fs/createDirectory`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreateDirectoryParams {
    /// The directory.
    pub path: String,
    /// Whether those above it are made as well, and one that is there is no error.
    #[serde(default)]
    pub recursive: Option<bool>,
    /// How far the operation may reach.
    #[serde(default)]
    pub sandbox: Option<Value>,
}

/// The answer to `fs/getMetadata`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Of what a link leads to.
    pub is_directory: bool,
    /// Of what a link leads to.
    pub is_file: bool,
    /// Of the path itself.
    pub is_symlink: bool,
    /// Bytes.
    pub size: u64,
    /// Milliseconds since 1970; 0 where it is not known.
    pub created_at_ms: i64,
    /// Milliseconds since 1970.
    pub modified_at_ms: i64,
}

/// The answer to `fs/canonicalize`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CanonicalizeResult {
    /// Absolute, without links.
    pub path: String,
}

/// The answer to `fs/readDirectory`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadDirectoryResult {
    /// Sorted by name.
    pub entries: Vec<DirectoryEntry>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectoryEntry {
    /// Its name; bytes that are not UTF-8 are replaced.
    pub file_name: String,
    /// Of what a link leads to.
    pub is_directory: bool,
    /// Of what a link leads to.
    pub is_file: bool,
}

/// `fs/walk`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WalkParams {
    /// Where it begins.
    pub path: String,
    /// How far it goes.
    pub options: WalkOptions,
    /// How far the operation may reach.
    #[serde(default)]
    pub sandbox: Option<Value>,
}

/// How far a walk goes.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WalkOptions {
    /// Directories below each other; 1 is the entries of the first.
    pub max_depth: u64,
    /// Directories that are read.
    pub max_directories: u64,
    /// Entries that are told.
    pub max_entries: u64,
    /// Whether links to directories are entered.
    #[serde(default)]
    pub follow_directory_symlinks: bool,
}

/// The answer to `fs/walk`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct WalkResult {
    /// What was met, directory by directory.
    pub entries: Vec<WalkEntry>,
    /// What could not be read.
    pub errors: Vec<WalkError>,
    /// Whether a bound of the options ended it.
    pub truncated: bool,
}

/// Something that a walk met.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WalkEntry {
    /// Below the path that was asked for, as it was met.
    pub path: String,
    /// `file` or `directory`.
    pub kind: String,
}

/// A directory that a walk could not read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WalkError {
    /// Which.
    pub path: String,
    /// Why.
    pub message: String,
}

/// `fs/remove`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveParams {
    /// What goes.
    pub path: String,
    /// Whether a directory goes with all that is in it.
    #[serde(default)]
    pub recursive: Option<bool>,
    /// Whether it is no error that there is nothing.
    #[serde(default)]
    pub force: Option<bool>,
    /// How far the operation may reach.
    #[serde(default)]
    pub sandbox: Option<Value>,
}

/// `fs/copy`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyParams {
    /// From where.
    pub source_path: String,
    /// To where.
    pub destination_path: String,
    /// Whether a directory is copied with all that is in it.
    #[serde(default)]
    pub recursive: bool,
    /// How far the operation may reach.
    #[serde(default)]
    pub sandbox: Option<Value>,
}
