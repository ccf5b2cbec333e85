//! Process 1 of the namespaces: gives up what the command must not have, starts the command, and takes the exits of
//! everything inside until nothing is left. It carries the command's own confinement, so that nothing is gained by taking
//! it over.

use std::io::PipeWriter;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, WaitOptions};

use super::super::failure::Failure;
use super::super::{Control, child, exit};
use super::privileges;
use super::syscalls::{Filters, Reach};
use crate::link::{Record, Request, Step};

/// Gives up what the command must not have and starts it. `restrict` puts this process under the Landlock rules.
pub(super) fn start(
    request: &Request,
    restrict: impl FnOnce() -> Result<(), Failure>,
    program: &child::Program<'_>,
    filters: &Filters,
    null: BorrowedFd<'_>,
    report: &mut PipeWriter,
) -> Result<Pid, Failure> {
    privileges::give_up(Reach::Namespaces)?;
    restrict()?;
    filters.install()?;
    // What the command does to the memory of other processes, it does not do to this one's.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|errno| Failure::confine("hiding the init", errno))?;
    let command = child::fork(request, program, null, &|| Ok(()), report)?;
    // The command alone holds its output.
    child::detach(null).map_err(|errno| Failure::new(Step::Prepare, errno))?;
    Ok(command)
}

/// Takes exits until there is no process left to wait for, and tells the command's.
pub(super) fn watch(command: Pid, control: &mut Control) -> ! {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == command => {
                if let Some(record) = Record::of_exit(status, is_alone()) {
                    control.tell(record);
                }
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => exit(0),
        }
    }
}

/// Takes the exits that are there already; whether no process is left after them.
fn is_alone() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}
