//! Who uses a thread at this moment.

use openoxide_display::visible_text;

/// Who uses a thread, as its lock says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// The name of the client on whose behalf, where it has one.
    pub client: Option<String>,
    /// Background commands that are alive, where no turn runs.
    pub commands: Vec<String>,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {}", self.pid)?;
        if let Some(client) = &self.client {
            write!(f, " for client {}", visible_text(client))?;
        }
        match self.commands.as_slice() {
            [] => Ok(()),
            [one] => write!(f, ", where the background command `{}` runs", visible_text(one)),
            [one, more @ ..] => {
                write!(f, ", where the background command `{}` and {} more run", visible_text(one), more.len())
            }
        }
    }
}
