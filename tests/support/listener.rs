//! The real server behind an address: starts it with callers of its own, and looks at what it takes. How requests are written
//! is for the tests that use it.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{PATIENCE, openoxide};

pub(crate) const ADA: &str = "ada-0123456789abcdefghijkl";
pub(crate) const BOB: &str = "bob-0123456789abcdefghijkl";
/// In the environment of every listener, under names that say nothing: [`ADA`] as `WORD` and this as `DOOR_WORD`.
pub(crate) const DOOR: &str = "door-0123456789abcdefghijkl";

/// A running `openoxide mcp-server` with the offline provider, on a loopback address of its own choice.
pub(crate) struct Listener {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) home: tempfile::TempDir,
}

impl Listener {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), arguments)
    }

    /// The same with two callers, ada and bob.
    pub(crate) fn with_tokens(arguments: &[&str]) -> Self {
        Self::with_tokens_in(tempfile::tempdir().unwrap(), &["ada", "bob"], arguments)
    }

    /// The same with callers of these names, in a home that is given. The token of each is [`token_of`] its name.
    pub(crate) fn with_tokens_in(home: tempfile::TempDir, names: &[&str], arguments: &[&str]) -> Self {
        let file = write_tokens(home.path(), names);
        Self::start_in(home, &[&["--token-file", &file], arguments].concat())
    }

    /// The same in a home that is given.
    pub(crate) fn start_in(home: tempfile::TempDir, arguments: &[&str]) -> Self {
        let mut child = openoxide(home.path())
            .args(["mcp-server", "-c", "model_provider=\"offline\"", "--listen", "http://127.0.0.1:0"])
            .args(arguments)
            .env("WORD", ADA)
            .env("DOOR_WORD", DOOR)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let address = address_of(&mut child);
        Self { child, address, home }
    }

    /// A connection that waits for answers as long as anything takes.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Where MCP is served.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Asks the server to end, by SIGTERM.
    pub(crate) fn terminate(&self) {
        // The shell's kill, so that no unsafe code is needed here.
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a server that was just started listens, as the first line on its standard error says.
pub(crate) fn address_of(server: &mut Child) -> SocketAddr {
    let mut said = String::new();
    let mut stderr = BufReader::new(server.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    // Whatever else is said goes nowhere; the pipe must not fill.
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or(&said);
    address.parse().unwrap_or_else(|_| panic!("no address in {said:?}"))
}

/// The token of a caller.
pub(crate) fn token_of(name: &str) -> String {
    format!("{name}-0123456789abcdefghijkl")
}

/// Writes a file with the tokens of these callers; its path.
pub(crate) fn write_tokens(place: &Path, names: &[&str]) -> String {
    let file = place.join("tokens");
    let lines: String = names.iter().map(|name| format!("{name} {}\n", token_of(name))).collect();
    std::fs::write(&file, lines).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file.to_str().unwrap().to_owned()
}
