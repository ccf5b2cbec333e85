//! Where a command runs, as far as what it may do depends on it.

use std::path::Path;

/// Where a command runs.
#[derive(Debug, Clone, Copy)]
pub struct CommandPlace<'a> {
    /// Its directory, absolute and without links.
    pub cwd: &'a Path,
    /// The thread's directory, the same.
    pub workspace: &'a Path,
}
