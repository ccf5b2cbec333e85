//! The home of OpenOxide and the places around it, as root and as an ordinary user: who gets at it, when it is made, and what the
//! environment and a project can make of it.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use support::{ORDINARY, eventually, openoxide_of, place_of, users};

/// A user's place, with a workspace in it.
struct House {
    user: Option<u32>,
    place: tempfile::TempDir,
}

impl House {
    fn all() -> impl Iterator<Item = Self> {
        users().into_iter().map(|user| {
            let house = Self { user, place: place_of(user) };
            house.make("work");
            house
        })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Makes a directory of the user's and those above it, as with the usual umask.
    fn make(&self, name: &str) -> PathBuf {
        let path = self.at(name);
        std::fs::create_dir_all(&path).unwrap();
        for at in path.ancestors().take_while(|at| *at != self.place.path()) {
            std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o755)).unwrap();
            chown(at, self.user, self.user).unwrap();
        }
        path
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.at(name);
        self.make(Path::new(name).parent().unwrap().to_str().unwrap());
        std::fs::write(&path, text).unwrap();
        chown(&path, self.user, self.user).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn openoxide(&self, arguments: &[&str]) -> Command {
        let mut command = openoxide_of(self.user, self.place.path());
        command.args(arguments).current_dir(self.at("work"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.openoxide(arguments).output().unwrap()
    }

    /// A script in `workspace-write`, with a change to the program's environment.
    fn script(&self, script: &str, change: impl FnOnce(&mut Command)) -> Output {
        let mut command = self.openoxide(&["sandbox", "--sandbox", "workspace-write", "--", "bash", "-c", script]);
        change(&mut command);
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn mode(&self, name: &str) -> u32 {
        self.at(name).metadata().unwrap().permissions().mode() & 0o777
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn login(house: &House, provider: &str) -> Child {
    let program = house.at("openoxide");
    let mut command = openoxide_of(house.user, house.place.path());
    // The widest umask there is.
    command = {
        let mut shell = Command::new("bash");
        shell.args(["-c", "umask 0; exec \"$0\" login \"$1\""]).arg(program).arg(provider).env_clear();
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell
    };
    if let Some(user) = house.user {
        std::os::unix::process::CommandExt::uid(&mut command, user);
        std::os::unix::process::CommandExt::gid(&mut command, user);
    }
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "sk-of-{provider}").unwrap();
    child
}

#[test]
fn twenty_logins_at_once_are_kept_in_a_home_of_their_own() {
    for house in House::all() {
        let logins: Vec<Child> = (0..20).map(|number| login(&house, &format!("p{number}"))).collect();
        for login in logins {
            let output = login.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", said(&output));
        }
        assert_eq!((house.mode("state"), house.mode("state/auth.json")), (0o700, 0o600));
        let keys: Value = serde_json::from_slice(&std::fs::read(house.at("state/auth.json")).unwrap()).unwrap();
        assert_eq!(keys.as_object().unwrap().len(), 20, "{keys}");
        assert_eq!(keys["p7"], "sk-of-p7");
    }
}

#[test]
fn what_others_can_get_at_is_refused_with_the_fix() {
    for house in House::all() {
        house.write("state/config.toml", "model = \"m\"\n", 0o644);
        house.write("state/auth.json", "{}", 0o600);
        house.write("state/state.key", "", 0o600);
        let commands = [&["mcp-server"][..], &["sandbox", "--", "true"], &["config"], &["threads", "list"], &["login"]];
        for arguments in commands {
            let output = house.openoxide(arguments).stdin(Stdio::null()).output().unwrap();
            assert!(output.status.success() || arguments == ["login"], "{arguments:?}: {}", said(&output));
            assert!(!said(&output).contains("chmod"), "{arguments:?}: {}", said(&output));
        }
        for (name, good, bad, fix) in [
            ("state", 0o700, 0o777, "chmod go-w"),
            ("state/config.toml", 0o644, 0o666, "chmod go-w"),
            ("state/auth.json", 0o600, 0o644, "chmod 600"),
            ("state/state.key", 0o600, 0o666, "chmod 600"),
        ] {
            let set = |mode| std::fs::set_permissions(house.at(name), std::fs::Permissions::from_mode(mode)).unwrap();
            set(bad);
            let fix = format!("{fix} {}", house.at(name).display());
            for arguments in commands.iter().chain(&[&["doctor"][..]]) {
                let output = house.run(arguments);
                assert!(!output.status.success() && said(&output).contains(&fix), "{arguments:?}: {}", said(&output));
            }
            assert_eq!(house.mode(name), bad, "nothing is changed without a word");
            set(good);
        }
        if house.user.is_some() {
            // Another user's file, readable and not writable.
            chown(house.at("state/config.toml"), Some(ORDINARY + 1), None).unwrap();
            let output = house.run(&["config"]);
            assert!(said(&output).contains(&format!("belongs to user {}", ORDINARY + 1)), "{}", said(&output));
            chown(house.at("state/config.toml"), Some(0), None).unwrap();
            assert!(house.run(&["config"]).status.success(), "what root wrote is obeyed");
        }
    }
}

#[test]
fn the_home_is_there_before_the_first_command_could_make_it() {
    for house in House::all() {
        let state = house.at("work/state-of-mine");
        let output = house.script("mkdir -p state-of-mine; echo x > state-of-mine/config.toml", |command| {
            command.env("OPENOXIDE_HOME", &state);
        });
        assert!(!output.status.success(), "{}", said(&output));
        assert_eq!(house.mode("work/state-of-mine"), 0o700);
        assert!(!state.join("config.toml").exists());
    }
}

#[test]
fn the_configured_and_the_default_home_are_hidden() {
    for house in House::all() {
        house.write("state/auth.json", "{\"x\": \"sk-canary\"}", 0o600);
        house.write(".openoxide/auth.json", "{\"x\": \"sk-canary\"}", 0o600);
        let output = house.script("cat ../state/auth.json ../.openoxide/auth.json; ls ../.openoxide/auth.json", |_| {});
        assert!(!output.status.success() && !said(&output).contains("canary"), "{}", said(&output));
    }
}

#[test]
fn tmpdir_is_taken_only_where_it_is_for_temporary_files() {
    for house in House::all() {
        house.make("tmp");
        let try_it = |tmpdir: &Path| {
            let script = "touch \"$DIR/made\"; echo \"made $?, TMPDIR is ${TMPDIR-unset}\"";
            let output = house.script(script, |command| {
                command.env("TMPDIR", tmpdir).env("DIR", tmpdir);
            });
            said(&output)
        };
        let told = try_it(&house.at("tmp"));
        let own = format!("made 0, TMPDIR is {}/openoxide-", house.at("tmp").display());
        assert!(told.starts_with(&own), "a directory of the command's own in it: {told}");
        assert_eq!(std::fs::read_dir(house.at("tmp")).unwrap().count(), 1, "which is gone with the command");
        for tmpdir in [house.place.path(), Path::new("/dev"), Path::new("/usr/lib"), &house.at("missing")] {
            let told = try_it(tmpdir);
            assert!(told.contains("made 1, TMPDIR is /tmp/openoxide-"), "{}: {told}", tmpdir.display());
        }
        let output = house.openoxide(&["doctor"]).env("TMPDIR", house.place.path()).output().unwrap();
        assert!(said(&output).contains("TMPDIR is") && said(&output).contains("holds your home"), "{}", said(&output));
        let output = house
            .openoxide(&["sandbox", "-v", "--", "true"])
            .env("TMPDIR", house.place.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(said(&output).contains("holds your home"), "it is logged: {}", said(&output));
    }
}

#[test]
fn a_trusted_project_has_a_configuration_of_its_own() {
    for house in House::all() {
        let trust = format!("[projects.{:?}]\ntrust_level = \"trusted\"\n", house.at("work").to_str().unwrap());
        house.write("state/config.toml", &trust, 0o644);
        house.write("other/.openoxide/config.toml", "model = \"HIJACK\"\n", 0o644);
        symlink("../other/.openoxide", house.at("work/.openoxide")).unwrap();
        for arguments in [&["config"][..], &["mcp-server"], &["sandbox", "--", "true"]] {
            let output = house.run(arguments);
            let told = said(&output);
            assert!(!output.status.success() && !told.contains("HIJACK"), "{told}");
            assert!(told.contains("work/.openoxide/config.toml is a link that leads out of the project"), "{told}");
        }
        std::fs::remove_file(house.at("work/.openoxide")).unwrap();
        house.make("work/.openoxide");
        let fifo = house.at("work/.openoxide/config.toml");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o644)).unwrap();
        chown(&fifo, house.user, house.user).unwrap();
        let mut child = house.openoxide(&["mcp-server"]).spawn().unwrap();
        eventually("it says that a FIFO is no configuration", || child.try_wait().unwrap().is_some());
        let told = said(&child.wait_with_output().unwrap());
        assert!(told.contains("is no regular file"), "{told}");
    }
}

#[test]
fn commands_get_no_functions_no_logins_and_gits_settings_whole() {
    let house = House::all().next().unwrap();
    let script = "ls; echo \"${HTTP_PROXY-none} ${MYSQL_PWD-none}\"; git config --get user.name";
    let output = house.script(script, |command| {
        command.env("BASH_FUNC_ls%%", "() { echo hijacked; }").env("HTTP_PROXY", "http://u:hunter2@proxy:1");
        command.env("MYSQL_PWD", "hunter2").env("GIT_CONFIG_COUNT", "1");
        command.env("GIT_CONFIG_KEY_0", "user.name").env("GIT_CONFIG_VALUE_0", "Ada");
    });
    assert_eq!(said(&output), "none none\nAda\n");
}
