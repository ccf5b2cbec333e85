//! The search path that the user's login shell would have. A program that a desktop started has the system's alone, and what nvm,
//! pyenv or cargo add in a profile is missing from its commands.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::watch;

/// How long the shell may take.
pub const LOGIN_SHELL_TIMEOUT: Duration = Duration::from_secs(3);

/// The most bytes that it may print.
const MOST: usize = 256 * 1024;

/// Directories that are in every program's path, and that nobody chose who started this one.
const USUAL: [&str; 10] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/usr/games",
    "/usr/local/games",
    "/snap/bin",
    "/opt/bin",
];

/// The same, beneath the home directory.
const USUAL_AT_HOME: [&str; 2] = ["bin", ".local/bin"];

/// It is asked for once, in the background, by [`LoginPath::begin`] or the first who waits.
#[derive(Debug)]
pub struct LoginPath {
    shell: PathBuf,
    /// What the shell starts with: the environment of commands.
    env: BTreeMap<OsString, OsString>,
    timeout: Duration,
    state: watch::Sender<State>,
}

#[derive(Debug, Clone)]
enum State {
    NotAsked,
    Asked,
    /// Or in a sentence why it is not.
    Known(Result<Option<OsString>, String>),
}

impl LoginPath {
    /// The path of the shell that `SHELL` of `env` names, where the one in `env` holds nothing but what every program has; none
    /// where somebody chose that, or no shell is named.
    #[must_use]
    pub fn wanted(env: &BTreeMap<OsString, OsString>) -> Option<Self> {
        let value = |name: &str| env.get(OsStr::new(name)).filter(|value| !value.is_empty());
        let shell = PathBuf::from(value("SHELL")?);
        let home = value("HOME").map(Path::new);
        let is_usual = |directory: &[u8]| {
            let directory = Path::new(OsStr::from_bytes(directory));
            let at_home = home.and_then(|home| directory.strip_prefix(home).ok()).and_then(Path::to_str);
            USUAL.iter().any(|usual| directory == Path::new(usual))
                || at_home.is_some_and(|at| USUAL_AT_HOME.contains(&at))
        };
        let mut directories = value("PATH").map_or(&[][..], |path| path.as_bytes()).split(|byte| *byte == b':');
        let is_nobodys_choice = directories.all(|directory| directory.is_empty() || is_usual(directory));
        (is_nobodys_choice && shell.is_absolute()).then(|| Self::of(shell, env.clone(), LOGIN_SHELL_TIMEOUT))
    }

    fn of(shell: PathBuf, env: BTreeMap<OsString, OsString>, timeout: Duration) -> Self {
        Self { shell, env, timeout, state: watch::Sender::new(State::NotAsked) }
    }

    /// Asks the shell, unless that was done. Returns at once.
    pub fn begin(&self) {
        let is_first = self.state.send_if_modified(|state| {
            let is_first = matches!(state, State::NotAsked);
            if is_first {
                *state = State::Asked;
            }
            is_first
        });
        if !is_first {
            return;
        }
        let (shell, env, timeout, state) = (self.shell.clone(), self.env.clone(), self.timeout, self.state.clone());
        let asked = std::thread::Builder::new().name("login-path".to_owned()).spawn({
            let state = state.clone();
            move || {
                let told = ask(&shell, &env, timeout)
                    .map_err(|why| format!("the PATH of the login shell {} is not known: {why}", shell.display()));
                state.send_replace(State::Known(told));
            }
        });
        if let Err(error) = asked {
            state.send_replace(State::Known(Err(format!("the login shell was not asked for its PATH: {error}"))));
        }
    }

    /// The path, once the shell has said it; none where it has none.
    ///
    /// # Errors
    /// In a sentence: the shell did not start, or did not answer in its time.
    pub async fn get(&self) -> Result<Option<OsString>, String> {
        self.begin();
        let mut state = self.state.subscribe();
        let known = state.wait_for(|state| matches!(state, State::Known(_))).await;
        match known.as_deref() {
            Ok(State::Known(told)) => told.clone(),
            // Nobody is left to say it, which cannot be as long as this is there.
            _ => Ok(None),
        }
    }
}

/// How the shell is asked, and told: between two NUL bytes, whatever a profile prints.
const QUESTION: &str = "printf '\\0%s\\0' \"$PATH\"";

/// Set for the shell, so that a profile can leave out what is for people only.
const RESOLVING: &str = "OPENOXIDE_RESOLVING_ENVIRONMENT";

fn ask(shell: &Path, env: &BTreeMap<OsString, OsString>, timeout: Duration) -> Result<Option<OsString>, String> {
    let flags = match shell.file_name().and_then(OsStr::to_str) {
        // What version managers add stands in what these read for people alone.
        Some("bash" | "zsh" | "fish") => "-ilc",
        _ => "-lc",
    };
    #[allow(clippy::disallowed_methods, reason = "the user's own shell and profile; nothing of it comes from a model")]
    let mut command = Command::new(shell);
    command.args([flags, QUESTION]).env_clear().envs(env).env(RESOLVING, "1").current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // SAFETY: between fork and exec only two system calls are made, which allocate nothing and take no lock.
    #[allow(unsafe_code, reason = "a session of its own has no terminal to disturb")]
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            #[cfg(target_os = "linux")]
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            Ok(())
        });
    }
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let printed = read(&mut child, timeout);
    // Whatever it started goes with it.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
    let printed = printed?;
    let mut parts = printed.split(|byte| *byte == 0);
    let path = parts.nth(1).filter(|_| parts.next().is_some());
    Ok(path.filter(|path| !path.is_empty()).map(|path| OsString::from_vec(path.to_vec())))
}

/// What it prints until it has answered or ends, or the time is over.
fn read(child: &mut Child, timeout: Duration) -> Result<Vec<u8>, String> {
    let Some(mut output) = child.stdout.take() else { return Err("it has no output".to_owned()) };
    let deadline = Instant::now() + timeout;
    let mut printed = Vec::new();
    let mut part = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut ready = [PollFd::new(&output, PollFlags::IN)];
        let left = Timespec::try_from(left).map_err(|error| error.to_string())?;
        match poll(&mut ready, Some(&left)) {
            Ok(0) => return Err(format!("it did not answer within {} s", timeout.as_secs_f32())),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.to_string()),
        }
        let length = output.read(&mut part).map_err(|error| error.to_string())?;
        printed.extend_from_slice(&part[..length]);
        if length == 0 || printed.iter().filter(|byte| **byte == 0).count() >= 2 {
            return Ok(printed);
        }
        if printed.len() > MOST {
            return Err(format!("it printed more than {MOST} bytes"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
        pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
    }

    /// A shell that prints what it is told to.
    fn shell(directory: &Path, script: &str) -> PathBuf {
        let path = directory.join("shell");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn only_a_path_that_nobody_chose_is_asked_for() {
        let asked = |path: &str, shell: &str| {
            LoginPath::wanted(&env(&[("PATH", path), ("SHELL", shell), ("HOME", "/home/u")])).is_some()
        };
        assert!(asked("/usr/local/bin:/usr/bin:/bin", "/bin/bash"));
        assert!(asked("/home/u/.local/bin:/usr/bin::/snap/bin", "/bin/bash"));
        assert!(asked("", "/bin/bash"));
        assert!(!asked("/home/u/.cargo/bin:/usr/bin", "/bin/bash"), "somebody's choice");
        assert!(!asked("/usr/bin", "bash"), "no shell that can be found without a path");
        assert!(!asked("/usr/bin", ""));
    }

    #[tokio::test]
    async fn what_a_profile_prints_is_no_answer() {
        let directory = tempfile::tempdir().unwrap();
        let script = "echo welcome; shift; PATH=/opt/tool/bin:$PATH; eval \"$1\"; echo bye";
        let of =
            |script: &str, timeout| LoginPath::of(shell(directory.path(), script), env(&[("PATH", "/bin")]), timeout);
        assert_eq!(of(script, LOGIN_SHELL_TIMEOUT).get().await, Ok(Some("/opt/tool/bin:/bin".into())));
        assert_eq!(of("printf '\\0/half'", LOGIN_SHELL_TIMEOUT).get().await, Ok(None), "half an answer");
        assert_eq!(of("exit 1", LOGIN_SHELL_TIMEOUT).get().await, Ok(None));
        let endless = of("cat /dev/zero | tr '\\0' x", LOGIN_SHELL_TIMEOUT).get().await.unwrap_err();
        assert!(endless.contains("more than 262144 bytes"), "{endless}");
    }

    #[tokio::test]
    async fn a_shell_that_hangs_is_ended_with_what_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let note = directory.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", note.display());
        let hanging = LoginPath::of(
            shell(directory.path(), &script),
            env(&[("PATH", "/bin:/usr/bin")]),
            Duration::from_millis(500),
        );
        let why = hanging.get().await.unwrap_err();
        assert!(why.contains("within 0.5 s"), "{why}");
        let child: i32 = std::fs::read_to_string(note).unwrap().trim().parse().unwrap();
        // It is on its way out, and may stay as a zombie of whoever collects orphans.
        let is_gone = || {
            let state = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z")
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is_gone() {
            assert!(Instant::now() < deadline, "{child} is alive");
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn a_real_shell_says_its_path() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(".bash_profile"), "export PATH=/opt/nvm/bin:$PATH\n").unwrap();
        let given = env(&[("PATH", "/usr/bin:/bin"), ("SHELL", "/bin/bash"), ("HOME", home.path().to_str().unwrap())]);
        let path = LoginPath::wanted(&given).unwrap().get().await.unwrap().unwrap();
        assert!(path.as_bytes().starts_with(b"/opt/nvm/bin:"), "{path:?}");
    }
}
