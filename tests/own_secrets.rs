//! The server's own secrets: what other processes see of its environment and memory, as root and as an ordinary user.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use support::{eventually, openoxide_of, place_of, users};

const KEY: &str = "sk-canary-of-the-environment";

/// Walks from the command up to the program and says what it finds: of each process its number, `shows` where its environment
/// holds the key, and `opens` where its memory can be opened.
const UPWARDS: &str = r#"
    p=$$
    while [ "$p" -gt 1 ]; do
        name=$(cat /proc/$p/comm)
        p=$(cut -d' ' -f4 /proc/$p/stat)
        if [ "$name" = openoxide ]; then seen=yes; elif [ -n "$seen" ]; then break; fi
        [ "$(cat /proc/$p/comm)" = openoxide ] || continue
        echo "process $p"
        if grep -aq sk-canary /proc/$p/environ; then echo "shows $p"; fi
        if (exec 3</proc/$p/mem); then echo "opens $p"; fi
    done 2>/dev/null
"#;

/// A server on its standard streams that has shaken hands.
struct Serving {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Serving {
    fn start(mut command: Command) -> Self {
        let mut child = command
            .args(["mcp-server", "-c", "model_provider=\"offline\""])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut serving = Self { child, output };
        let info = json!({ "name": "e2e", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        assert!(serving.ask("initialize", &params)["result"].is_object());
        serving
    }

    /// One of this user in a place, with the key in its environment.
    fn with_key(user: Option<u32>, place: &Path) -> Self {
        let mut command = openoxide_of(user, place);
        command.env("OPENAI_API_KEY", KEY);
        Self::start(command)
    }

    /// Sends a request, and returns its answer.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
        writeln!(self.child.stdin.as_mut().unwrap(), "{request}").unwrap();
        for line in self.output.by_ref().lines() {
            let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if message["id"] == method {
                return message;
            }
        }
        panic!("{method} was not answered");
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes its input and waits for its end.
    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn the_environment_of_a_running_server_shows_no_key() {
    for user in users() {
        let place = place_of(user);
        let server = Serving::with_key(user, place.path());
        // Root reads it all; the user whose process it is does not.
        match std::fs::read(format!("/proc/{}/environ", server.pid())) {
            Ok(block) => assert!(block.iter().all(|byte| *byte == 0), "{}", String::from_utf8_lossy(&block)),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
        }
        let mut look = Command::new("cat");
        look.arg(format!("/proc/{}/environ", server.pid()));
        if let Some(user) = user {
            std::os::unix::process::CommandExt::uid(&mut look, user);
            let shown = look.output().unwrap();
            assert!(!shown.status.success() && shown.stdout.is_empty(), "{shown:?}");
        }
        server.end();
    }
}

#[test]
fn a_command_in_full_access_finds_no_key_on_its_way_up_to_the_server() {
    for user in users() {
        let place = place_of(user);
        let mut server = Serving::with_key(user, place.path());
        let script = place.path().join("upwards.sh");
        std::fs::write(&script, UPWARDS).unwrap();
        let params = json!({ "name": "openoxide", "arguments": {
            "prompt": "run `bash upwards.sh > found.txt`", "cwd": place.path(), "sandbox": "danger-full-access",
            "approval_policy": "never",
        }});
        let answer = server.ask("tools/call", &params);
        let found = std::fs::read_to_string(place.path().join("found.txt")).unwrap_or_else(|_| panic!("{answer:#}"));
        assert!(found.contains(&format!("process {}\n", server.pid())), "{found}");
        // Between them is a supervisor, which was given no environment and hides nothing.
        expect_no_finding(&found, user, &server.pid().to_string());
        server.end();
    }
}

#[test]
fn a_command_of_the_sandbox_mode_finds_no_key_on_its_way_up() {
    for user in users() {
        let place = place_of(user);
        let mut command = openoxide_of(user, place.path());
        command.env("OPENAI_API_KEY", KEY).stdin(Stdio::null());
        let output =
            command.args(["sandbox", "--sandbox", "danger-full-access", "--", "bash", "-c", UPWARDS]).output().unwrap();
        let found = String::from_utf8(output.stdout).unwrap();
        assert!(found.matches("process ").count() >= 2, "the supervisor and the program: {found} {:?}", output.stderr);
        expect_no_finding(&found, user, "");
    }
}

/// No environment shows the key, and the memory of processes whose number begins so is closed.
fn expect_no_finding(found: &str, user: Option<u32>, closed: &str) {
    assert!(!found.contains("shows"), "{found}");
    // Root may read the memory of any process.
    let is_root = user.is_none() && rustix::process::geteuid().is_root();
    assert!(is_root || !found.contains(&format!("opens {closed}")), "{found}");
}

#[test]
fn commands_of_an_ordinary_user_are_still_confined() {
    for user in users() {
        let place = place_of(user);
        for mode in ["read-only", "workspace-write"] {
            let mut command = openoxide_of(user, place.path());
            let script = "echo $$; echo x > in.txt";
            let output = command.args(["sandbox", "--sandbox", mode, "--", "bash", "-c", script]).output().unwrap();
            assert_eq!(output.stdout, b"2\n", "in namespaces of its own: {output:?}");
            assert_eq!(output.status.success(), mode == "workspace-write", "{output:?}");
        }
    }
}

#[test]
fn a_server_that_hides_itself_does_its_work() {
    for user in users() {
        let place = place_of(user);
        let work = place.path().join("work");
        std::fs::create_dir(&work).unwrap();
        std::os::unix::fs::chown(&work, user, user).unwrap();
        let mut server = Serving::start(openoxide_of(user, place.path()));
        let params = json!({ "name": "openoxide", "arguments": {
            "prompt": "create `a.txt` with `first`; run `cat a.txt > b.txt`; replace `first` by `second` in a.txt; read a.txt",
            "cwd": work, "sandbox": "workspace-write", "approval_policy": "never",
        }});
        let answer = server.ask("tools/call", &params);
        let result = &answer["result"]["structuredContent"];
        assert_eq!(result["status"], "completed", "{answer:#}");
        assert_eq!(result["filesChanged"], json!(["a.txt", "b.txt"]), "{answer:#}");
        let read = |name: &str| std::fs::read_to_string(work.join(name)).unwrap();
        assert_eq!((read("a.txt").trim(), read("b.txt").trim()), ("second", "first"), "{answer:#}");
        server.end();
    }
}

/// `PR_GET_DUMPABLE` of another process, as the owner of its files tells.
fn is_dumpable(pid: u32, owner: u32) -> bool {
    std::os::unix::fs::MetadataExt::uid(&Path::new(&format!("/proc/{pid}/environ")).metadata().unwrap()) == owner
}

#[test]
fn a_debugger_is_let_in_on_request_and_never_beside_a_listener() {
    for user in users() {
        let place = place_of(user);
        let mut command = openoxide_of(user, place.path());
        command.env("OPENOXIDE_DUMPABLE", "1").env("OPENAI_API_KEY", KEY);
        let server = Serving::start(command);
        let owner = user.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        assert!(is_dumpable(server.pid(), owner));
        let block = std::fs::read(format!("/proc/{}/environ", server.pid())).unwrap();
        assert!(block.iter().all(|byte| *byte == 0), "it is cleared all the same");
        server.end();

        let mut command = openoxide_of(user, place.path());
        command.env("OPENOXIDE_DUMPABLE", "1");
        let output = command.args(["mcp-server", "--listen", "http://127.0.0.1:0"]).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && told.contains("OPENOXIDE_DUMPABLE=1 cannot be used"), "{told}");
    }
}

#[test]
fn variables_are_read_and_passed_on_as_before() {
    let place = place_of(None);
    let mut command = openoxide_of(None, place.path());
    command.env("GREETING", "hello").env("EMPTY", "").stdin(Stdio::null());
    let script = "echo \"$GREETING ${EMPTY-unset}.\"";
    let output = command.args(["sandbox", "--", "sh", "-c", script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello .\n", "{output:?}");
    let mut none = openoxide_of(None, place.path());
    none.env_clear().arg("--version");
    eventually("it starts without a single variable", || none.output().unwrap().status.success());
}
