//! What one command may be given beside what its sandbox lets it do. It stays in the sandbox.

use std::path::PathBuf;

use openoxide_display::quote_path;

/// One thing more that a command may do, named.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Widening {
    /// To reach the network of this machine.
    Network,
    /// To write beneath a directory: absolute, without links.
    Directory(PathBuf),
}

impl std::fmt::Display for Widening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Network => f.write_str("the network"),
            Self::Directory(path) => write!(f, "writing in {}", quote_path(path)),
        }
    }
}
