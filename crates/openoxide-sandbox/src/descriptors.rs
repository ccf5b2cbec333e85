//! How many descriptors processes may have open. The server takes as many as it is allowed; its commands keep the number
//! that the server was started with, because programs that use `select(2)` break beyond 1,024.

use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The soft limit that this process was started with, once it was raised; none is without a limit.
static STARTED_WITH: OnceLock<Option<u64>> = OnceLock::new();

/// What a supervisor's argument begins with that tells the limit of its command.
const ARGUMENT: &str = "--descriptors=";

/// Raises this process's soft limit to the hard one, and returns it; none is without a limit. Commands that are started
/// later get the limit from before.
///
/// # Errors
/// The system refuses; the limit is as it was.
pub fn raise_descriptor_limit() -> std::io::Result<Option<u64>> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Without a hard limit macOS takes no more than this (OPEN_MAX).
    let most = if cfg!(target_os = "macos") { Some(maximum.unwrap_or(u64::MAX).min(10_240)) } else { maximum };
    let is_lower = current.is_some_and(|current| most.is_none_or(|most| current < most));
    if !is_lower {
        return Ok(current);
    }
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum })?;
    STARTED_WITH.get_or_init(|| current);
    Ok(most)
}

/// What to do where [`is_out_of_descriptors`].
pub const OUT_OF_DESCRIPTORS: &str = "this server has as many files open as it may; wait for a turn to end, or raise the limit it is started with (`ulimit -n`)";

/// Whether an error comes of a process, or a system, that may not open more files: then nothing is wrong with what was to be
/// opened.
#[must_use]
pub fn is_out_of_descriptors(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let codes = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    causes.filter_map(|cause| cause.downcast_ref::<std::io::Error>()?.raw_os_error()).any(|code| codes.contains(&code))
}

/// What to tell a supervisor; none where the limit was not raised.
pub(crate) fn argument() -> Option<String> {
    let started_with = (*STARTED_WITH.get()?)?;
    Some(format!("{ARGUMENT}{started_with}"))
}

/// Lowers the soft limit to what an argument tells, where it does. What cannot be set is left: no command fails of it.
pub(crate) fn obey(argument: &std::ffi::OsStr) {
    let told = argument.to_str().and_then(|text| text.strip_prefix(ARGUMENT)?.parse::<u64>().ok());
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if let Some(told) = told.filter(|told| current.is_none_or(|current| *told < current)) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(told), maximum });
    }
}
