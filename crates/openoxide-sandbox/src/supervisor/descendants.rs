//! Finds and signals what runs below the supervisor. Processes come and go while they are looked for, so one look
//! promises nothing: callers look again until the kernel says that no child is left.

use std::collections::HashMap;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The most process ids that are remembered as asked; beyond it some are asked twice.
const REMEMBERED: usize = 1 << 16;

/// Signals everything below this process.
pub(super) struct Sweeper {
    command: Pid,
    tty: bool,
    /// Who has had its SIGTERM, and which program it was running then. The copy of a shell that is about to become
    /// another program may catch the signal and take it to its grave; so the program is asked once more.
    asked: HashMap<i32, Vec<u8>>,
}

impl Sweeper {
    pub(super) fn new(command: Pid, tty: bool) -> Self {
        Self { command, tty, asked: HashMap::new() }
    }

    /// Asks everything that has not been asked to end: SIGTERM, and on a terminal SIGHUP too, because a shell that
    /// somebody types into ignores the first.
    pub(super) fn ask(&mut self) {
        let Self { tty, asked, .. } = self;
        let mut ask = |pid: Pid| {
            if asked.len() >= REMEMBERED {
                asked.clear();
            }
            let program = program_name(pid);
            if asked.get(&pid.as_raw_nonzero().get()) != Some(&program) {
                asked.insert(pid.as_raw_nonzero().get(), program);
                let _ = kill_process(pid, Signal::TERM);
                if *tty {
                    let _ = kill_process(pid, Signal::HUP);
                }
                // What is stopped cannot act on the above.
                let _ = kill_process(pid, Signal::CONT);
            }
        };
        visit(self.command, Signal::TERM, &mut ask);
    }

    /// Sends SIGINT to everything below the process that was started, which is none of the command's own.
    pub(super) fn interrupt(&self) {
        visit(self.command, Signal::INT, &mut |pid| {
            if pid != self.command {
                let _ = kill_process(pid, Signal::INT);
            }
        });
    }

    /// Kills everything.
    ///
    /// A process is killed before its children are listed. From then on it cannot fork, so the list is complete, or its
    /// children have become ours and are found in the next look.
    pub(super) fn kill(&mut self) {
        visit(self.command, Signal::KILL, &mut |pid| {
            let _ = kill_process(pid, Signal::KILL);
        });
    }

    /// Whether something may be left although no child is: never where orphans become our children.
    pub(super) fn is_left(&self) -> bool {
        cfg!(not(target_os = "linux")) && rustix::process::test_kill_process_group(self.command).is_ok()
    }

    /// How often to look whether something is left, where no signal tells.
    pub(super) fn round_without_reports(&self) -> Option<Duration> {
        cfg!(not(target_os = "linux")).then_some(Duration::from_millis(100))
    }
}

/// What a process runs, as far as it can be told cheaply.
fn program_name(pid: Pid) -> Vec<u8> {
    std::fs::read(format!("/proc/{}/comm", pid.as_raw_nonzero())).unwrap_or_default()
}

/// Members of a group are not told apart here; the signal goes to all of them.
#[cfg(not(target_os = "linux"))]
fn visit(command: Pid, signal: Signal, act: &mut dyn FnMut(Pid)) {
    act(command);
    let _ = rustix::process::kill_process_group(command, signal);
}

#[cfg(target_os = "linux")]
use linux::visit;

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use std::fs;

    use crate::processes::Stat;

    /// Acts on each descendant of this process, parents before their children are listed. The signal is for the case
    /// that none can be listed.
    pub(super) fn visit(command: Pid, signal: Signal, act: &mut dyn FnMut(Pid)) {
        let own = rustix::process::getpid();
        let mut waiting = Vec::new();
        if push_children(own, &mut waiting) {
            while let Some(pid) = waiting.pop() {
                act(pid);
                push_children(pid, &mut waiting);
            }
            return;
        }
        // Kernels without lists of children: from all processes, those whose ancestor this is.
        let all: Vec<Stat> = Stat::all().collect();
        if all.is_empty() {
            // No /proc at all. The command's group is what is left to reach.
            let _ = rustix::process::kill_process_group(command, signal);
            return;
        }
        waiting.push(own);
        while let Some(parent) = waiting.pop() {
            for stat in all.iter().filter(|stat| stat.parent == parent.as_raw_nonzero().get()) {
                act(stat.pid);
                waiting.push(stat.pid);
            }
        }
    }

    /// Adds the children of each thread; false where the kernel does not list them.
    fn push_children(parent: Pid, to: &mut Vec<Pid>) -> bool {
        let parent = parent.as_raw_nonzero();
        // One that has ended has no threads, and its children have become ours.
        let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else {
            return fs::exists("/proc/self").unwrap_or(false);
        };
        let mut is_listed = true;
        for thread in threads.flatten() {
            match fs::read_to_string(thread.path().join("children")) {
                Ok(list) => to.extend(list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?))),
                // The thread has ended, or there are no such lists.
                Err(_) => is_listed &= !thread.path().exists(),
            }
        }
        is_listed
    }
}

/// Kills what is left of a command's session after its supervisor has died without a word. What has left the session
/// is out of reach then. For the launcher; called in the server.
pub(crate) fn kill_session(session: u32) {
    #[cfg(target_os = "linux")]
    for stat in crate::processes::Stat::all().filter(|stat| stat.session.cast_unsigned() == session) {
        let _ = kill_process(stat.pid, Signal::KILL);
    }
    #[cfg(not(target_os = "linux"))]
    if let Some(group) = Pid::from_raw(session.cast_signed()) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
}
