//! The server: connections are served by a [`Session`] each, and a session outlives its connection for a while.
//!
//! ```text
//! listen      where connections come from
//! connection  one client: what may come when, the answer to each request
//! methods     the one table: name -> how it is served
//! session     processes and handles, and who is attached
//! process     one command: its output, its numbers, its end        files   what is read, opened, written
//! link        a relay in the sandbox, or a command with a terminal
//! policy      what the operator allows, and what a caller's `sandbox` object means
//! ```

mod connection;
mod environment;
mod error;
mod files;
mod handles;
mod input;
mod link;
mod listen;
mod methods;
mod output;
mod path;
mod pipes;
mod policy;
mod process;
mod process_methods;
mod session;
mod sessions;
mod worker;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openoxide_rpc::listeners::Caller;
use openoxide_rpc::{Header, Transport, serve_over};
use openoxide_sandbox::{Launcher, SandboxMode};

use connection::Connection;
pub use listen::ListenUrl;
use policy::Authority;
use sessions::Sessions;

/// How long a client that reads nothing is kept while its queue is full.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a server is given.
#[derive(Debug, Clone)]
pub struct ExecServerConfig {
    /// Starts what runs here.
    pub launcher: Launcher,
    /// This program, whose `main` calls [`crate::dispatch_relay`].
    pub program: PathBuf,
    /// The directory the server was started in, absolute.
    pub cwd: PathBuf,
    /// What `envPolicy` may inherit: the server's environment without what looks like a secret.
    pub env: BTreeMap<OsString, OsString>,
    /// The most that callers may ask for.
    pub max_sandbox: SandboxMode,
    /// Beneath which directories callers work and write, absolute; empty stands for `cwd`.
    pub allow_roots: Vec<PathBuf>,
    /// How long a session waits for its client to come back.
    pub resume: Duration,
    /// The user's shell.
    pub shell: Shell,
}

/// The user's shell.
#[derive(Debug, Clone)]
pub struct Shell {
    /// `bash`, `zsh`, `sh`.
    pub name: String,
    /// The program.
    pub path: String,
}

/// A server. Cheap to clone.
#[derive(Clone)]
pub struct ExecServer {
    shared: Arc<Shared>,
}

/// What all connections share.
struct Shared {
    authority: Arc<Authority>,
    sessions: Arc<Sessions>,
    environment: crate::protocol::EnvironmentInfo,
}

impl ExecServer {
    /// A server that serves nobody yet.
    ///
    /// # Errors
    /// A directory that callers may work in cannot be resolved, or all that there is may be written by commands.
    pub fn new(config: ExecServerConfig) -> std::io::Result<Self> {
        let environment = environment::info(&config);
        let resume = config.resume;
        let authority = Arc::new(Authority::new(config)?);
        Ok(Self { shared: Arc::new(Shared { authority, sessions: Sessions::new(resume), environment }) })
    }

    /// Serves one connection until it ends.
    pub async fn serve(&self, caller: Caller, transport: Box<dyn Transport>) {
        let shared = Arc::clone(&self.shared);
        serve_over(transport, Header::Absent, PATIENCE, move |out| Connection::new(shared, caller, out)).await;
    }

    /// Ends every session with all that it started, and returns when nothing of them is left.
    pub async fn end(&self) {
        self.shared.sessions.end_all().await;
    }
}
