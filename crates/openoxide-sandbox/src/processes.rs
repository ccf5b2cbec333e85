//! Processes as `/proc` tells of them: who is whose child, which one is meant by a process id, and whether it lives.
//!
//! A process id is used again once its process has ended. The time at which a process started, in the kernel's own count since
//! the boot, does not change and tells two of one id apart; the boot's id tells two boots apart.

use std::fmt;
use std::fs;
use std::str::FromStr;

use rustix::process::Pid;

/// What is needed of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: Pid,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// When it started, in ticks since the boot.
    pub(crate) started: u64,
    /// Whether only its exit is left of it, for its parent to take.
    pub(crate) is_dead: bool,
}

impl Stat {
    /// What the kernel says of a process; none where there is none that this one may see.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        // All of it in one reading: it has 52 numbers at most, and a name.
        let mut bytes = [0; 2048];
        let mut file = fs::File::open(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        let read = std::io::Read::read(&mut file, &mut bytes).ok()?;
        Self::parse(pid, &bytes[..read])
    }

    /// The name of the program stands in brackets and may hold any byte, brackets and blanks included. The fields after
    /// the last bracket are state, parent, group, session, and at the 18th and 20th place the number of threads and the start.
    pub(crate) fn parse(pid: Pid, line: &[u8]) -> Option<Self> {
        let end = line.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(&line[end + 1..]).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        let threads: i64 = fields.nth(13)?.parse().ok()?;
        let started = fields.nth(1)?.parse().ok()?;
        // The first thread of a program may have ended while others go on.
        let is_dead = matches!(state, "Z" | "X" | "x") && threads <= 1;
        Some(Self { pid, parent, session, started, is_dead })
    }

    /// All processes there are to see.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::of(of_number(entry.file_name().to_str()?.parse().ok()?)?))
    }
}

/// One process and no other, also for whoever reads this after the process or the whole system has ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProcessId {
    boot: String,
    /// The namespace that the process id is of.
    namespace: String,
    pid: u32,
    started: u64,
}

/// Whether the process that a [`ProcessId`] names lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It does.
    Alive,
    /// It has ended.
    Ended,
    /// It cannot be told from here: its id is of another namespace, say of a container that shares the home.
    Unknown,
}

impl ProcessId {
    /// This process; none where the system does not tell.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// The process that has an id now.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let Stat { started, .. } = Stat::of(of_number(pid)?)?;
        Some(Self { boot: boot()?, namespace: namespace()?, pid, started })
    }

    /// Whether the system has not been started again since.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        boot().is_some_and(|boot| boot == self.boot)
    }

    /// Whether it lives.
    #[must_use]
    pub fn life(&self) -> Life {
        if !self.is_of_this_boot() {
            return Life::Ended;
        }
        if namespace().is_none_or(|namespace| namespace != self.namespace) {
            return Life::Unknown;
        }
        let stat = of_number(self.pid).and_then(Stat::of);
        match stat {
            Some(stat) if stat.started == self.started && !stat.is_dead => Life::Alive,
            _ => Life::Ended,
        }
    }
}

/// `<boot> <namespace> <pid> <start>`.
impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.boot, self.namespace, self.pid, self.started)
    }
}

impl FromStr for ProcessId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split(' ');
        let mut next = || words.next().filter(|word| !word.is_empty()).ok_or(());
        let (boot, namespace) = (next()?.to_owned(), next()?.to_owned());
        let (pid, started) = (next()?.parse().map_err(drop)?, next()?.parse().map_err(drop)?);
        if words.next().is_some() { Err(()) } else { Ok(Self { boot, namespace, pid, started }) }
    }
}

/// A process id that was read somewhere; none where no process can have it.
pub(crate) fn of_number(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

fn boot() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

fn namespace() -> Option<String> {
    Some(fs::read_link("/proc/self/ns/pid").ok()?.to_str()?.to_owned())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_programs_name_may_hold_anything() {
        let pid = Pid::INIT;
        let rest = "42 43 44 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9876 5000 100";
        let stat = Stat::parse(pid, format!("1 (a) b) (c) S {rest}\n").as_bytes()).unwrap();
        assert_eq!((stat.parent, stat.session, stat.started, stat.is_dead), (42, 44, 9876, false));
        assert!(Stat::parse(pid, format!("1 (a) Z {rest}").as_bytes()).unwrap().is_dead);
        assert!(Stat::parse(pid, b"1 (a \xff) Z 42 43 44").is_none() && Stat::parse(pid, b"1 (a").is_none());
    }

    #[test]
    fn this_process_is_among_all_and_lives() {
        let own = rustix::process::getpid();
        let stat = Stat::all().find(|stat| stat.pid == own).unwrap();
        assert_eq!(Pid::from_raw(stat.parent), rustix::process::getppid());
        let id = ProcessId::own().unwrap();
        assert_eq!(id.life(), Life::Alive);
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn one_that_differs_in_anything_is_another_one() {
        let own = ProcessId::own().unwrap();
        assert_eq!(ProcessId { started: own.started + 1, ..own.clone() }.life(), Life::Ended);
        assert_eq!(ProcessId { boot: "another".into(), ..own.clone() }.life(), Life::Ended);
        assert_eq!(ProcessId { namespace: "pid:[1]".into(), ..own.clone() }.life(), Life::Unknown);
        assert_eq!(ProcessId { pid: u32::MAX, ..own }.life(), Life::Ended);
        for text in ["", "a b 1", "a b 1 2 3", "a  1 2", "a b c d"] {
            assert!(text.parse::<ProcessId>().is_err(), "{text}");
        }
    }
}
