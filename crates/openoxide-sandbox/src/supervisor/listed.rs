//! What a supervisor does for the ledger: it adds itself and the command to the entry that the server has made, marks the
//! tree with the entry's id, starts the command in its control group where there is one, and takes both away when nothing is
//! left.

use std::cell::Cell;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{Pid, getpid};

use crate::ledger::{self, Entry};
use crate::link::Request;

/// How often, and after which pause, a group is removed again whose last process is on its way out.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// The entry of the command, if it has one.
pub(super) struct Listed<'a> {
    entry: Option<&'a Entry>,
    file: Option<File>,
    /// Whether the command is in its group.
    is_grouped: Cell<bool>,
}

impl<'a> Listed<'a> {
    /// Marks this process and with it all that it will start.
    pub(super) fn begin(request: &'a Request) -> Self {
        let entry = request.entry.as_ref();
        let listed = Self { entry, file: entry.and_then(Entry::open), is_grouped: Cell::new(false) };
        if let Some(entry) = entry {
            entry.id.mark_process();
        }
        listed
    }

    /// For a command whose end is the kernel's own part.
    pub(super) fn none() -> Self {
        Self { entry: None, file: None, is_grouped: Cell::new(false) }
    }

    /// Adds this supervisor. By its id it can be found before.
    pub(super) fn add_supervisor(&self) {
        self.add("supervisor", getpid());
    }

    /// Adds the command, which this process is about to become.
    pub(super) fn add_command(&self) {
        self.add("command", getpid());
    }

    fn add(&self, what: &str, pid: Pid) {
        if let Some(file) = &self.file {
            ledger::note(file, what, pid);
        }
    }

    /// A fork whose copy is in the command's group where one can be had; as `fork(2)` returns.
    pub(super) fn fork(&self) -> libc::c_long {
        #[cfg(target_os = "linux")]
        if let Some(group) = self.make_group() {
            let forked = crate::cgroup::fork_into(&group);
            if forked >= 0 {
                self.is_grouped.set(true);
                return forked;
            }
            self.remove_group();
        }
        // SAFETY: this process has one thread, so the copy may do whatever this one may.
        #[allow(unsafe_code)]
        unsafe {
            libc::fork().into()
        }
    }

    fn make_group(&self) -> Option<OwnedFd> {
        self.entry?.group.as_ref()?.make().ok()
    }

    fn remove_group(&self) -> bool {
        self.entry.and_then(|entry| entry.group.as_ref()).is_none_or(|group| group.remove())
    }

    /// Kills what is in the command's group.
    pub(super) fn kill(&self) {
        if let Some(group) = self.entry.and_then(|entry| entry.group.as_ref()) {
            group.kill();
        }
    }

    /// Nothing of the command is left below this process.
    pub(super) fn close(&self) {
        // Who moved into the group from elsewhere ends with it.
        for _ in 0..TRIES {
            if self.remove_group() {
                break;
            }
            self.kill();
            std::thread::sleep(PAUSE);
        }
        if let Some(entry) = self.entry {
            entry.remove();
        }
    }
}
