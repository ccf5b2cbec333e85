//! What goes over the socket between the launcher and its supervisor: one request down, then single control bytes;
//! records up. Only the form lives here; both ends are the same program, so it need not be understood by any other.
//!
//! A request is a header of six 32-bit numbers in native order (mark, bytes that follow, flags, mode, words, entries of
//! the environment), then strings that each end with NUL: directory, words, `NAME=value`. The supervisor hands them to
//! `execve` where they lie. A record is a tag byte and two 32-bit numbers.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;

use crate::{CommandSpec, SandboxError, SandboxMode};

/// Asks the supervisor to end everything below it. The end of the stream asks the same.
pub(crate) const TERMINATE: u8 = b'T';

/// The most a request may be long; above what Linux takes for one program.
const MAX_REQUEST: usize = 16 << 20;

/// Stands first in a request. It changes with the form, so that a replaced binary is noticed.
const MARK: u32 = 0x4f58_5301;
const HEADER: usize = 24;
const FLAG_TTY: u32 = 1;

/// Bytes of a record.
const RECORD: usize = 9;

/// The request for a command.
pub(crate) fn encode_request(spec: &CommandSpec) -> Result<Vec<u8>, SandboxError> {
    let mut out = vec![0; HEADER];
    let mut push = |parts: &[&[u8]]| {
        for part in parts {
            out.extend_from_slice(part);
        }
        out.push(0);
    };
    push(&[spec.cwd.as_os_str().as_bytes()]);
    for word in &spec.argv {
        push(&[word.as_bytes()]);
    }
    for (name, value) in &spec.env {
        push(&[name.as_bytes(), b"=", value.as_bytes()]);
    }
    let bytes = out.len() - HEADER;
    if bytes > MAX_REQUEST {
        return Err(SandboxError::TooLarge { bytes, limit: MAX_REQUEST });
    }
    // Each string takes a byte at least, so that no count is larger than the length.
    let count = |number: usize| u32::try_from(number).expect("the limit is below 32 bits");
    let flags = if spec.tty { FLAG_TTY } else { 0 };
    let numbers = [MARK, count(bytes), flags, spec.mode.to_wire(), count(spec.argv.len()), count(spec.env.len())];
    for (place, number) in out.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
    Ok(out)
}

/// A request as the supervisor reads it.
pub(crate) struct Request {
    pub(crate) tty: bool,
    pub(crate) mode: SandboxMode,
    strings: Vec<u8>,
    /// Where each string starts: the directory, the words, the environment.
    starts: Vec<usize>,
    words: usize,
}

impl Request {
    /// Reads a request; none where the stream ends early or holds something else.
    pub(crate) fn read(mut input: impl std::io::Read) -> Option<Self> {
        let mut header = [0; HEADER];
        input.read_exact(&mut header).ok()?;
        let mut numbers = header.chunks_exact(4).map(|four| u32::from_ne_bytes([four[0], four[1], four[2], four[3]]));
        let mut next = || numbers.next();
        let (mark, bytes, flags, mode) = (next()?, next()? as usize, next()?, next()?);
        let (words, entries) = (next()? as usize, next()? as usize);
        if mark != MARK || bytes > MAX_REQUEST {
            return None;
        }
        let mut strings = vec![0; bytes];
        input.read_exact(&mut strings).ok()?;
        let mut starts = Vec::with_capacity(1 + words.min(bytes) + entries.min(bytes));
        let mut start = 0;
        for (at, _) in strings.iter().enumerate().filter(|(_, byte)| **byte == 0) {
            starts.push(start);
            start = at + 1;
        }
        let is_whole = start == bytes && starts.len() == 1 + words + entries && words > 0;
        is_whole.then_some(Self {
            tty: flags & FLAG_TTY != 0,
            mode: SandboxMode::from_wire(mode)?,
            strings,
            starts,
            words,
        })
    }

    /// The directory to start in.
    pub(crate) fn cwd(&self) -> &CStr {
        self.string(0)
    }

    /// The program and its arguments.
    pub(crate) fn argv(&self) -> impl Iterator<Item = &CStr> {
        (1..=self.words).map(|position| self.string(position))
    }

    /// The environment, each entry `NAME=value`.
    pub(crate) fn env(&self) -> impl Iterator<Item = &CStr> {
        (1 + self.words..self.starts.len()).map(|position| self.string(position))
    }

    fn string(&self, position: usize) -> &CStr {
        CStr::from_bytes_until_nul(&self.strings[self.starts[position]..]).expect("`read` has seen the NUL of each")
    }
}

/// Where between fork and exec a command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Prepare,
    Fork,
    Session,
    Terminal,
    Confine,
    Directory,
    Exec,
}

const STEPS: [Step; 7] =
    [Step::Prepare, Step::Fork, Step::Session, Step::Terminal, Step::Confine, Step::Directory, Step::Exec];

/// What the supervisor tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    /// The command runs under this process id.
    Started { pid: u32 },
    /// It does not run, for this error number.
    Failed { step: Step, errno: i32 },
    /// The command ended with this code. What it started may go on.
    Exited { code: i32 },
    /// The command was ended by this signal. What it started may go on.
    Signaled { signal: i32 },
    /// Nothing is left below the supervisor, which ends.
    Gone,
}

impl Record {
    /// The record as bytes.
    pub(crate) fn encode(self) -> [u8; RECORD] {
        let (tag, first, second) = match self {
            Self::Started { pid } => (b'S', pid.cast_signed(), 0),
            Self::Failed { step, errno } => (b'F', step as i32, errno),
            Self::Exited { code } => (b'X', code, 0),
            Self::Signaled { signal } => (b'K', signal, 0),
            Self::Gone => (b'G', 0, 0),
        };
        let mut out = [tag; RECORD];
        out[1..5].copy_from_slice(&first.to_ne_bytes());
        out[5..].copy_from_slice(&second.to_ne_bytes());
        out
    }

    fn decode(bytes: &[u8; RECORD]) -> Option<Self> {
        let [tag, a, b, c, d, e, f, g, h] = *bytes;
        let (first, second) = (i32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h]));
        Some(match tag {
            b'S' => Self::Started { pid: first.cast_unsigned() },
            b'F' => Self::Failed { step: *STEPS.get(usize::try_from(first).ok()?)?, errno: second },
            b'X' => Self::Exited { code: first },
            b'K' => Self::Signaled { signal: first },
            b'G' => Self::Gone,
            _ => return None,
        })
    }
}

/// Puts records together from reads of any size.
#[derive(Debug, Default)]
pub(crate) struct Records {
    bytes: Vec<u8>,
}

impl Records {
    /// Adds what was read.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole record. Bytes that are none are passed over: only this program writes here.
    pub(crate) fn next(&mut self) -> Option<Record> {
        while let Some((first, _)) = self.bytes.split_first_chunk::<RECORD>() {
            let record = Record::decode(first);
            self.bytes.drain(..RECORD);
            if record.is_some() {
                return record;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn spec() -> CommandSpec {
        CommandSpec {
            argv: vec!["echo".into(), String::new(), "grüße".into()],
            cwd: "/some where".into(),
            env: BTreeMap::from([("A".into(), "1=2".into()), ("B".into(), "".into())]),
            tty: true,
            mode: SandboxMode::DangerFullAccess,
            output_limit: 1,
            thread_marker: None,
        }
    }

    #[test]
    fn a_request_arrives_as_it_was_sent() {
        let bytes = encode_request(&spec()).unwrap();
        let request = Request::read(&bytes[..]).unwrap();
        assert_eq!(request.cwd(), c"/some where");
        assert_eq!(request.argv().collect::<Vec<_>>(), [c"echo", c"", c"grüße"]);
        assert_eq!(request.env().collect::<Vec<_>>(), [c"A=1=2", c"B="]);
        assert!(request.tty);
        assert_eq!(request.mode, SandboxMode::DangerFullAccess);
    }

    #[test]
    fn anything_else_is_no_request() {
        let bytes = encode_request(&spec()).unwrap();
        for end in 0..bytes.len() {
            assert!(Request::read(&bytes[..end]).is_none(), "{end}");
        }
        for at in [0, 4, 12, 16, 20] {
            let mut other = bytes.clone();
            other[at] = other[at].wrapping_add(1);
            assert!(Request::read(&other[..]).is_none(), "{at}");
        }
    }

    #[test]
    fn what_no_system_takes_is_refused_with_the_limit() {
        let mut spec = spec();
        spec.argv[1] = "x".repeat(MAX_REQUEST + 1);
        let error = encode_request(&spec).unwrap_err();
        assert!(matches!(error, SandboxError::TooLarge { limit: MAX_REQUEST, .. }));
    }

    #[test]
    fn records_arrive_whole_from_reads_of_any_size() {
        let sent = [
            Record::Started { pid: u32::MAX },
            Record::Failed { step: Step::Exec, errno: 2 },
            Record::Exited { code: 255 },
            Record::Signaled { signal: 9 },
            Record::Gone,
        ];
        for (number, step) in STEPS.into_iter().enumerate() {
            assert_eq!(step as usize, number);
        }
        let bytes: Vec<u8> = sent.iter().flat_map(|record| record.encode()).collect();
        for size in 1..bytes.len() {
            let mut records = Records::default();
            let mut got = Vec::new();
            for part in bytes.chunks(size) {
                records.push(part);
                got.extend(std::iter::from_fn(|| records.next()));
            }
            assert_eq!(got, sent, "{size}");
        }
    }
}
