//! Ends what is left of commands whose server is gone, or that have escaped both of their supervisors. Which processes those are
//! is told by the ledger (`ledger.rs`) and by the processes themselves; a process that only happens to have an id that was
//! written down is never touched.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::ledger::{CommandId, Recorded};
use crate::processes::{Life, ProcessId, Stat};

/// How long is looked for what is still there, before it is left to the next start.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long processes that were killed are waited for before all are looked at again.
const ROUND: Duration = Duration::from_millis(20);

/// How long making an entry takes at most; an older one that was not finished is of no use.
const MAKING: Duration = Duration::from_secs(3600);

/// What was found of commands that nobody looks after any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// How many commands of servers that are gone were in the ledger.
    pub commands: usize,
    /// How many processes were ended.
    pub processes: usize,
    /// Processes that could not be ended, say because another user owns them by now. Their entries stay.
    pub stuck: Vec<u32>,
}

impl crate::Launcher {
    /// Ends what is left of commands of servers that are gone. It is for the start of a server, before it serves. Blocks for
    /// microseconds where nothing is left, and otherwise until it has ended, for five seconds at most.
    #[must_use]
    pub fn end_leftovers(&self) -> Leftovers {
        self.host_paths().state.as_deref().map(end_all).unwrap_or_default()
    }
}

/// Ends what is left of the commands of servers that are gone. Where nothing is, it costs the look into one directory.
pub(crate) fn end_all(home: &Path) -> Leftovers {
    let mut left = Recorded::all(home);
    // One server may have many commands.
    let mut lives: HashMap<ProcessId, Life> = HashMap::new();
    left.retain(|recorded| match &recorded.server {
        Some(server) => *lives.entry(server.clone()).or_insert_with(|| server.life()) == Life::Ended,
        None => {
            remove_unfinished(recorded);
            false
        }
    });
    end(&left)
}

/// Ends what is left of the commands, and removes the entries of those of which nothing is left then.
pub(crate) fn end(left: &[Recorded]) -> Leftovers {
    let mut leftovers = Leftovers { commands: left.len(), ..Leftovers::default() };
    // A boot ends every process.
    let (left, rebooted): (Vec<_>, Vec<_>) = left.iter().partition(|recorded| recorded.is_of_this_boot());
    rebooted.iter().for_each(|recorded| recorded.entry.remove());
    if left.is_empty() {
        return leftovers;
    }
    let hunt = Hunt::new(&left);
    let (deadline, mut ended) = (Instant::now() + PATIENCE, HashSet::new());
    let mut quiet_rounds = 0;
    loop {
        left.iter().filter_map(|recorded| recorded.entry.group.as_ref()).for_each(crate::cgroup::Group::kill);
        let Round { found, stuck } = hunt.round();
        // A process may have forked behind the back of one look and ended before it was reached.
        quiet_rounds = if found.is_empty() { quiet_rounds + 1 } else { 0 };
        ended.extend(found);
        leftovers.stuck = stuck;
        let is_removed = || left.iter().filter_map(|one| one.entry.group.as_ref()).all(crate::cgroup::Group::remove);
        if (quiet_rounds >= 2 && is_removed()) || Instant::now() >= deadline {
            break;
        }
        if quiet_rounds > 2 {
            // What is in a group and carries no id is on its way out.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    leftovers.processes = ended.len();
    if leftovers.stuck.is_empty() {
        left.iter().for_each(|recorded| recorded.entry.remove());
    }
    leftovers
}

/// What belongs to commands that are to end.
struct Hunt {
    ids: HashSet<CommandId>,
    /// Processes that were written down, each with its start.
    noted: HashSet<(Pid, u64)>,
    /// This process and those above it, in case it was itself started by such a command.
    spared: HashSet<Pid>,
}

/// What one look came upon.
struct Round {
    /// Those that were killed.
    found: Vec<(Pid, u64)>,
    stuck: Vec<u32>,
}

impl Hunt {
    fn new(left: &[&Recorded]) -> Self {
        let ids = left.iter().map(|recorded| recorded.entry.id).collect();
        let noted = left.iter().flat_map(|recorded| recorded.processes.iter().copied()).collect();
        let mut spared = HashSet::new();
        let mut next = Some(rustix::process::getpid());
        while let Some(pid) = next.filter(|pid| spared.insert(*pid)) {
            next = Stat::of(pid).and_then(|stat| Pid::from_raw(stat.parent));
        }
        Self { ids, noted, spared }
    }

    /// Whether a process is one of them: written down with this very start, or carrying the id.
    fn wants(&self, stat: &Stat) -> bool {
        let is_alive = !stat.is_dead && !self.spared.contains(&stat.pid);
        is_alive
            && (self.noted.contains(&(stat.pid, stat.started))
                || CommandId::carried_by(stat.pid).any(|id| self.ids.contains(&id)))
    }

    /// Looks at all processes once and kills those that are meant; waits a little for their ends.
    fn round(&self) -> Round {
        let mut round = Round { found: Vec::new(), stuck: Vec::new() };
        let mut killed = Vec::new();
        for stat in Stat::all().filter(|stat| self.wants(stat)) {
            let process = match pidfd_open(stat.pid, PidfdFlags::empty()) {
                Ok(process) => process,
                Err(Errno::SRCH) => continue,
                Err(_) => {
                    round.stuck.push(stat.pid.as_raw_nonzero().get().cast_unsigned());
                    continue;
                }
            };
            // From here on it is known which process is meant; the one that was looked at may have ended before.
            if !Stat::of(stat.pid).is_some_and(|now| now.started == stat.started && self.wants(&now)) {
                continue;
            }
            match pidfd_send_signal(&process, Signal::KILL) {
                Ok(()) => {
                    round.found.push((stat.pid, stat.started));
                    killed.push(process);
                }
                Err(Errno::SRCH) => {}
                Err(_) => round.stuck.push(stat.pid.as_raw_nonzero().get().cast_unsigned()),
            }
        }
        let until = Instant::now() + ROUND;
        for process in &killed {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
            let _ = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left));
        }
        round
    }
}

/// Removes an entry that its server was killed over, before any command was started.
fn remove_unfinished(recorded: &Recorded) {
    let path = &recorded.entry.path;
    let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    if modified.is_ok_and(|at| SystemTime::now().duration_since(at).unwrap_or_default() > MAKING) {
        recorded.entry.remove();
    }
}
