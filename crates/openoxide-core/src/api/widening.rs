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
    /// To write to the repository that it works in, being nothing but git with commands that commit, check out and merge, as
    /// where `sandbox_workspace_write.git` is `commit`.
    Git,
}

impl std::fmt::Display for Widening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Network => f.write_str("the network"),
            Self::Directory(path) => write!(f, "writing in {}", quote_path(path)),
            Self::Git => f.write_str("git that commits to the repository"),
        }
    }
}
