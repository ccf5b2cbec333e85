//! A step that failed between the request and exec: what it is, and how the copies that the supervisor forks tell it.

use std::io::{PipeReader, PipeWriter, Read, Write};

use rustix::io::Errno;

use crate::link::Step;

/// Stands before anything else that is told through [`tell_reached`].
const REACHED: u8 = b'+';

/// The most bytes of detail that are told.
const MAX_DETAIL: usize = 1024;

/// Why a command does not run.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) step: Step,
    pub(super) errno: Errno,
    /// What was being done, for a person; empty where the step says it all.
    pub(super) detail: String,
}

impl Failure {
    pub(super) fn new(step: Step, errno: Errno) -> Self {
        Self { step, errno, detail: String::new() }
    }

    /// A means of confinement that this system does not give.
    pub(super) fn unavailable(what: impl Into<String>, errno: Errno) -> Self {
        Self { step: Step::Unavailable, errno, detail: what.into() }
    }

    /// A confinement that cannot be set up for this command.
    pub(super) fn confine(what: impl Into<String>, errno: Errno) -> Self {
        Self { step: Step::Confine, errno, detail: what.into() }
    }
}

/// A failure of the standard library as the number that it came from.
pub(super) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Makes the pipe by which a copy tells its failure. Exec closes the writing end, which is how success is told.
pub(super) fn channel() -> Result<(PipeReader, PipeWriter), Failure> {
    std::io::pipe().map_err(|error| Failure::new(Step::Prepare, errno_of(&error)))
}

/// Tells a failure; whoever listens has at most just gone.
pub(super) fn tell(report: &mut PipeWriter, failure: &Failure) {
    let detail = failure.detail.as_bytes();
    let mut bytes = vec![failure.step as u8];
    bytes.extend(failure.errno.raw_os_error().to_ne_bytes());
    bytes.extend(&detail[..detail.len().min(MAX_DETAIL)]);
    // One write below the size of a pipe is taken whole.
    let _ = report.write_all(&bytes);
}

/// Says that this end is reached, where reaching it is not a matter of course.
pub(super) fn tell_reached(report: &mut PipeWriter) {
    let _ = report.write_all(&[REACHED]);
}

/// Waits for the other end as [`hear`] does; none where it was not reached.
pub(super) fn hear_reached(reader: &mut PipeReader) -> Option<Option<Failure>> {
    let mut byte = [0];
    match reader.read_exact(&mut byte) {
        Ok(()) if byte == [REACHED] => Some(hear(reader)),
        _ => None,
    }
}

/// Waits until the other end says why it failed, or has closed without a word because the command runs.
pub(super) fn hear(reader: &mut PipeReader) -> Option<Failure> {
    let mut bytes = Vec::new();
    // The reader is ours, so that reading cannot fail but for memory.
    let _ = reader.read_to_end(&mut bytes);
    let (head, detail) = bytes.split_first_chunk::<5>()?;
    let [step, errno @ ..] = *head;
    Some(Failure {
        step: Step::from_wire(step).unwrap_or(Step::Prepare),
        errno: Errno::from_raw_os_error(i32::from_ne_bytes(errno)),
        detail: String::from_utf8_lossy(detail).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_arrives_as_it_was_told() {
        let (mut reader, mut report) = channel().unwrap();
        tell(&mut report, &Failure::confine("protecting /w/.git", Errno::PERM));
        drop(report);
        let heard = hear(&mut reader).unwrap();
        assert_eq!(
            (heard.step, heard.errno, heard.detail.as_str()),
            (Step::Confine, Errno::PERM, "protecting /w/.git")
        );
    }

    #[test]
    fn silence_is_success() {
        let (mut reader, report) = channel().unwrap();
        drop(report);
        assert!(hear(&mut reader).is_none());
    }
}
