//! What the supervisor makes outside of the namespaces while the init builds its view inside, and how it gets there: first the
//! protected places that are relied on, then the Landlock rules, as a descriptor. An end that closes early means that the
//! other process has failed, and says so itself.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::io::Errno;

use super::super::failure::{Failure, errno_of};
use super::landlock::Rules;
use crate::link::{Step, encode_places, read_places};
use crate::passing;

/// The end of the supervisor.
pub(super) struct Outside(UnixStream);

/// The end of the init.
pub(super) struct Inside(UnixStream);

/// Both ends; each process drops the other's.
pub(super) fn pair() -> Result<(Outside, Inside), Failure> {
    let (outside, inside) = UnixStream::pair().map_err(|error| Failure::new(Step::Prepare, errno_of(&error)))?;
    Ok((Outside(outside), Inside(inside)))
}

impl Outside {
    /// Gives the places. Of an init that has failed nothing is expected here.
    pub(super) fn give_relied_on(&self, places: &[PathBuf]) {
        // They are a few for each writable directory, far below what can be too long.
        if let Ok(bytes) = encode_places(places.iter().map(PathBuf::as_path)) {
            let _ = (&self.0).write_all(&bytes);
        }
    }

    /// Gives the rules; none on a kernel without Landlock.
    pub(super) fn give_rules(&self, rules: Option<Rules>) {
        let descriptor = rules.as_ref().map(|rules| rules.as_fd());
        let _ = passing::send(self.0.as_fd(), &[0], descriptor.as_slice(), true);
    }
}

impl Inside {
    /// Waits for the places.
    pub(super) fn take_relied_on(&mut self) -> Result<Vec<PathBuf>, Failure> {
        read_places(&mut self.0).ok_or_else(gone)
    }

    /// Waits for the rules.
    pub(super) fn take_rules(&self) -> Result<Option<Rules>, Failure> {
        let (bytes, descriptors) = passing::receive(self.0.as_fd(), &mut [0]).map_err(|_| gone())?;
        if bytes == 0 {
            return Err(gone());
        }
        Ok(descriptors.into_iter().next().map(Rules::from))
    }
}

fn gone() -> Failure {
    Failure::new(Step::Prepare, Errno::CONNRESET)
}
