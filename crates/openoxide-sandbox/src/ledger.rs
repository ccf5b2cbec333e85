//! The ledger of live commands: `<home>/run/commands/<id>`, one file for each command that no namespace holds together. It is
//! there before the command is forked, gets the processes as they are made, and goes when nothing of the command is left. What a killed server leaves is
//! read by the next start on the same home (`leftovers.rs`), which ends it.
//!
//! ```text
//! server <boot> <namespace> <pid> <start>      whose command it is: while that process lives, nobody else touches it
//! group <path>                                 its control group, where it has one
//! supervisor <pid> <start>                     the two supervisors,
//! command <pid> <start>                        and the command
//! ```
//!
//! Every process of the command can be known by the id as well ([`CommandId::mark_process`]). An entry is a file of the user's
//! own, which a command in full access can write: what it says is checked against the processes themselves.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;

use rustix::process::Pid;

use crate::cgroup::Group;
use crate::processes::{self, ProcessId, Stat};

/// The most bytes that are read of an entry.
const MAX_ENTRY: u64 = 64 << 10;

/// Where a home of OpenOxide keeps what concerns what is running.
#[must_use]
pub fn run_directory(home: &Path) -> PathBuf {
    home.join("run")
}

/// Where the entries are.
pub(crate) fn directory(home: &Path) -> PathBuf {
    run_directory(home).join("commands")
}

/// What a command is known by: a number that nobody guesses and that no two commands share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CommandId(u64);

impl CommandId {
    /// The environment variable that holds it.
    pub(crate) const VARIABLE: &str = "OPENOXIDE_COMMAND_ID";

    /// Set in every id, so that as a limit it is far above any time: 146,000 years in microseconds.
    const HIGH: u64 = 1 << 62;

    fn new() -> io::Result<Self> {
        let mut bytes = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(Self::HIGH | u64::from_ne_bytes(bytes) >> 2))
    }

    /// Marks this process and all that will ever come of it: with the soft limit on the time that a real-time program may run
    /// without a pause, which stays unlimited in effect. Other than a variable it is not lost with an empty environment, and
    /// the kernel tells it of every process. Where that limit is already set it is left alone.
    #[cfg(target_os = "linux")]
    pub(crate) fn mark_process(self) {
        // SAFETY: a zeroed limit is a valid one, and all pointers are valid for the calls. Lowering a soft limit is refused
        // to nobody.
        #[allow(unsafe_code)]
        unsafe {
            let mut limit: libc::rlimit64 = std::mem::zeroed();
            let is_known = libc::getrlimit64(libc::RLIMIT_RTTIME, &raw mut limit) == 0;
            if is_known && (limit.rlim_cur, limit.rlim_max) == (libc::RLIM64_INFINITY, libc::RLIM64_INFINITY) {
                limit.rlim_cur = self.0;
                libc::setrlimit64(libc::RLIMIT_RTTIME, &raw const limit);
            }
        }
    }

    /// Other systems have no such limit.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn mark_process(self) {}

    /// The ids that a process carries.
    pub(crate) fn carried_by(pid: Pid) -> impl Iterator<Item = Self> {
        let read = |what| fs::read(format!("/proc/{}/{what}", pid.as_raw_nonzero())).unwrap_or_default();
        let (limits, environment) = (read("limits"), read("environ"));
        let of_limit = String::from_utf8_lossy(&limits).lines().find_map(|line| {
            let mut words = line.strip_prefix("Max realtime timeout")?.split_ascii_whitespace();
            words.next()?.parse().ok().map(Self)
        });
        let of_variable = environment.split(|byte| *byte == 0).find_map(|entry| {
            let value = entry.strip_prefix(Self::VARIABLE.as_bytes())?.strip_prefix(b"=")?;
            std::str::from_utf8(value).ok()?.parse().ok()
        });
        of_limit.into_iter().chain(of_variable)
    }
}

/// Sixteen digits.
impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for CommandId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let id = u64::from_str_radix(text, 16).map(Self).map_err(drop)?;
        if id.0 & Self::HIGH != 0 && id.to_string() == text { Ok(id) } else { Err(()) }
    }
}

/// The entry of one command, as its server and its supervisors hold it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: CommandId,
    pub(crate) path: PathBuf,
    /// The command's group, which is made by the supervisor.
    pub(crate) group: Option<Group>,
}

impl Entry {
    /// One for a new command, which is to be written before that is started.
    pub(crate) fn new(home: &Path, groups: Option<&Path>) -> io::Result<Self> {
        let id = CommandId::new()?;
        let group = groups.map(|groups| Group::of(groups, &id.to_string()));
        Ok(Self { id, path: directory(home).join(id.to_string()), group })
    }

    /// Writes down that a command of this process is about to start.
    pub(crate) fn write(&self) -> io::Result<()> {
        let own = own_process().ok_or_else(|| io::Error::other("/proc does not tell which process this is"))?;
        let create = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path);
        let mut file = match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let directory = self.path.parent().unwrap_or(&self.path);
                DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
                create()?
            }
            other => other?,
        };
        let mut text = format!("server {own}\n").into_bytes();
        if let Some(group) = &self.group {
            text.extend_from_slice(b"group ");
            text.extend_from_slice(group.path().as_os_str().as_bytes());
            text.push(b'\n');
        }
        file.write_all(&text).inspect_err(|_| self.remove())
    }

    /// The entry at a path that the server has sent.
    pub(crate) fn at(path: PathBuf, group: Option<&Path>) -> Option<Self> {
        let id: CommandId = path.file_name()?.to_str()?.parse().ok()?;
        let group = group.and_then(|group| Group::at(group, &id.to_string()));
        Some(Self { id, path, group })
    }

    /// Opens it to add processes; none where that cannot be had. The command can be found all the same, by its id.
    pub(crate) fn open(&self) -> Option<File> {
        OpenOptions::new().append(true).open(&self.path).ok()
    }

    /// Ends what is left of the command where its supervisors cannot, and removes the entry.
    pub(crate) async fn end(&self) {
        #[cfg(target_os = "linux")]
        {
            let path = self.path.clone();
            // Looking at every process takes milliseconds.
            let end = move || Recorded::read(path).map(|recorded| crate::leftovers::end(&[recorded]));
            let _ = tokio::task::spawn_blocking(end).await;
        }
    }

    /// Nothing of the command is left.
    pub(crate) fn remove(&self) {
        // It may be gone already: whoever sees the end last removes it once more.
        let _ = fs::remove_file(&self.path);
    }
}

/// This process, which is looked up once: that costs as much as all else that is written down.
fn own_process() -> Option<&'static ProcessId> {
    static OWN: OnceLock<Option<ProcessId>> = OnceLock::new();
    OWN.get_or_init(ProcessId::own).as_ref()
}

/// Adds a process to an entry.
pub(crate) fn note(entry: &File, what: &str, pid: Pid) {
    if let Some(stat) = Stat::of(pid) {
        // One write, so that no line is cut in two by another.
        let _ = (&*entry).write_all(format!("{what} {} {}\n", pid.as_raw_nonzero(), stat.started).as_bytes());
    }
}

/// An entry as whoever comes later reads it.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) entry: Entry,
    /// None where the entry was not finished, so that no command was started.
    pub(crate) server: Option<ProcessId>,
    /// The processes, each with its start.
    pub(crate) processes: Vec<(Pid, u64)>,
}

impl Recorded {
    /// All entries there are.
    pub(crate) fn all(home: &Path) -> Vec<Self> {
        let entries = fs::read_dir(directory(home)).into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::read(entry.path())).collect()
    }

    /// An entry; none where the file is none, or is gone.
    pub(crate) fn read(path: PathBuf) -> Option<Self> {
        let entry = Entry::at(path, None)?;
        let mut bytes = Vec::new();
        File::open(&entry.path).ok()?.take(MAX_ENTRY).read_to_end(&mut bytes).ok()?;
        let mut recorded = Self { entry, server: None, processes: Vec::new() };
        // What follows the last end of line was cut off.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in bytes[..whole].split(|byte| *byte == b'\n') {
            recorded.take(line);
        }
        Some(recorded)
    }

    /// Whether its processes can be there at all.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        self.server.as_ref().is_some_and(ProcessId::is_of_this_boot)
    }

    fn take(&mut self, line: &[u8]) -> Option<()> {
        if let Some(path) = line.strip_prefix(b"group ") {
            let path = Path::new(std::ffi::OsStr::from_bytes(path));
            self.entry.group = Group::at(path, &self.entry.id.to_string());
            return Some(());
        }
        let (what, rest) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        match what {
            "server" => self.server = rest.parse().ok(),
            "supervisor" | "command" => {
                let (pid, started) = rest.split_once(' ')?;
                self.processes.push((processes::of_number(pid.parse().ok()?)?, started.parse().ok()?));
            }
            _ => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::Life;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let home = tempfile::tempdir().unwrap();
        let entry = Entry::new(home.path(), Some(Path::new("/cg/b c"))).unwrap();
        entry.write().unwrap();
        let own = rustix::process::getpid();
        note(&entry.open().unwrap(), "supervisor", own);
        entry
            .open()
            .unwrap()
            .write_all(b"command 1 2\nnews 3\ncommand x 2\ncommand -1 2\ncommand 4000000000 2\ncommand 4")
            .unwrap();
        let all = Recorded::all(home.path());
        let [recorded] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!(recorded.entry.id, entry.id);
        assert_eq!(recorded.entry.group, entry.group);
        assert_eq!(recorded.server.as_ref().map(ProcessId::life), Some(Life::Alive));
        assert_eq!(recorded.processes, [(own, Stat::of(own).unwrap().started), (Pid::INIT, 2)]);
        entry.remove();
        assert!(Recorded::all(home.path()).is_empty());
    }

    #[test]
    fn ids_are_written_in_one_way_and_are_limits_that_are_never_met() {
        let id = CommandId::new().unwrap();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(id.0 >= 1 << 62 && id.0 < 1 << 63);
        for other in
            ["", "0", "0000000000000001", "+000000000000001", "4000000000000", "4000000000000000 ", "40000000000000G0"]
        {
            assert!(other.parse::<CommandId>().is_err(), "{other}");
        }
    }

    #[test]
    fn what_is_no_entry_is_passed_over() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory(home.path())).unwrap();
        fs::write(directory(home.path()).join("note"), "server x").unwrap();
        fs::write(directory(home.path()).join("4000000000000000"), "ser").unwrap();
        let all = Recorded::all(home.path());
        assert!(matches!(all.as_slice(), [Recorded { server: None, .. }]), "{all:?}");
    }
}
