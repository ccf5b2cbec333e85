//! The shell that reads command lines.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The shell commands are given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shell {
    /// bash, wherever it is on the path of commands.
    Bash,
    /// The system's sh.
    Sh,
}

impl Shell {
    /// bash if the path of commands has it.
    pub(crate) fn find(env: &BTreeMap<OsString, OsString>) -> Self {
        let path = env.get(OsStr::new("PATH")).map_or("/usr/local/bin:/usr/bin:/bin".as_ref(), OsString::as_os_str);
        let directories = path.as_encoded_bytes().split(|byte| *byte == b':');
        let mut found = directories.filter_map(|directory| std::str::from_utf8(directory).ok());
        if found.any(|directory| !directory.is_empty() && Path::new(directory).join("bash").is_file()) {
            Self::Bash
        } else {
            Self::Sh
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Sh => "sh",
        }
    }
}
