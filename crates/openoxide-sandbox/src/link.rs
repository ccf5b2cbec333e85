//! What goes over the socket between the launcher and its supervisor: one request down, then single control bytes;
//! records up. Only the form lives here; both ends are the same program, so it need not be understood by any other.
//!
//! A request is a header of eight 32-bit numbers in native order (mark, bytes that follow, flags, mode, backend, words,
//! entries of the environment, paths of the confinement), then strings that each end with NUL: directory, words,
//! `NAME=value`, paths with a letter in front for what they are and, for directories, which one it must be. The supervisor hands the words to `execve` where they
//! lie. The paths of the command's entry in the ledger and of its control group follow, each with its letter. A record is a tag byte and two 32-bit numbers.
//!
//! Where directories are written, what is protected in them follows the request: a length, and absolute paths that each end
//! with NUL. The launcher looks for them while the supervisor starts.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::backend::Backend;
use crate::ledger::{CommandId, Entry};
use crate::{CommandSpec, Confinement, DirectoryId, SandboxError, SandboxMode, WritableRoot};

/// Asks the supervisor to end everything below it. The end of the stream asks the same.
pub(crate) const TERMINATE: u8 = b'T';

/// Sends SIGINT to the command's group.
pub(crate) const INTERRUPT: u8 = b'I';

/// What a server asks of a thread's keeper: a byte, and the number of the command in native order.
pub(crate) const KEEPER_MESSAGE: usize = 9;

/// Start a command. Two descriptors go along: the socket of the command, on which its request follows, and its output.
pub(crate) const START: u8 = b'C';

/// Kill what supervises a command, and with it all of the command.
pub(crate) const KILL: u8 = b'K';

/// A message to a keeper.
pub(crate) fn keeper_message(what: u8, command: u64) -> [u8; KEEPER_MESSAGE] {
    let mut message = [what; KEEPER_MESSAGE];
    message[1..].copy_from_slice(&command.to_ne_bytes());
    message
}

/// The most a request may be long; above what Linux takes for one program.
const MAX_REQUEST: usize = 16 << 20;

/// Stands first in a request. It changes with the form, so that a replaced binary is noticed.
const MARK: u32 = 0x4f58_5305;
const NUMBERS: usize = 8;
const HEADER: usize = 4 * NUMBERS;
const FLAG_TTY: u32 = 1;
const FLAG_NETWORK: u32 = 2;
const FLAG_PROBE: u32 = 4;
const FLAG_STDIN: u32 = 8;
const FLAG_READER: u32 = 16;

/// What a path of the confinement is.
const WORKSPACE: u8 = b'w';
const TEMPORARY: u8 = b't';
/// A repository's own directory.
const GIT: u8 = b'r';
const HIDDEN: u8 = b'h';
const LEDGERS: u8 = b'l';
const PRIVATE_TMP: u8 = b'p';
const ENTRY: u8 = b'e';
const GROUP: u8 = b'g';

/// Bytes of a record.
const RECORD: usize = 9;

/// What the supervisor is to do with a command, beside what the command is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaunchMode<'a> {
    /// By which means it is confined.
    pub(crate) backend: Backend,
    /// Whether everything is done but the last step: the command is confined and not run.
    pub(crate) probe: bool,
    /// Whether descriptor 3 becomes its stdin.
    pub(crate) stdin: bool,
    /// Where it is written down, if it is.
    pub(crate) entry: Option<&'a Entry>,
    /// Whether no program is executed, but the function that the program has for reading is called.
    pub(crate) reader: bool,
}

/// The request for a command.
pub(crate) fn encode_request(
    spec: &CommandSpec,
    confinement: &Confinement,
    manner: LaunchMode<'_>,
) -> Result<Vec<u8>, SandboxError> {
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
    // That of the command in which this server itself may run is not this command's.
    let variables = spec.env.iter().filter(|(name, _)| manner.entry.is_none() || *name != CommandId::VARIABLE);
    let mut entries = 0;
    for (name, value) in variables {
        push(&[name.as_bytes(), b"=", value.as_bytes()]);
        entries += 1;
    }
    if let Some(entry) = manner.entry {
        push(&[CommandId::VARIABLE.as_bytes(), b"=", entry.id.to_string().as_bytes()]);
        entries += 1;
    }
    let mut paths = 0;
    let mut push_path = |what: u8, id: Option<&DirectoryId>, path: &Path| {
        push(&[&[what], id.map_or("", DirectoryId::as_str).as_bytes(), path.as_os_str().as_bytes()]);
        paths += 1;
    };
    for root in &confinement.writable {
        let what = match (root.is_git, root.is_workspace) {
            (true, _) => GIT,
            (false, true) => WORKSPACE,
            (false, false) => TEMPORARY,
        };
        push_path(what, root.id.as_ref(), &root.path);
    }
    confinement.hidden.iter().for_each(|path| push_path(HIDDEN, None, path));
    confinement.ledgers.iter().for_each(|path| push_path(LEDGERS, None, path));
    confinement.private_tmp.iter().for_each(|path| push_path(PRIVATE_TMP, None, path));
    manner.entry.into_iter().for_each(|entry| push_path(ENTRY, None, &entry.path));
    let group = manner.entry.and_then(|entry| entry.group.as_ref());
    group.into_iter().for_each(|group| push_path(GROUP, None, group.path()));
    let bytes = out.len() - HEADER;
    if bytes > MAX_REQUEST {
        return Err(SandboxError::TooLarge { bytes, limit: MAX_REQUEST });
    }
    // Each string takes a byte at least, so that no count is larger than the length.
    let count = |number: usize| u32::try_from(number).expect("the limit is below 32 bits");
    let flags = [
        (spec.tty, FLAG_TTY),
        (confinement.network, FLAG_NETWORK),
        (manner.probe, FLAG_PROBE),
        (manner.stdin, FLAG_STDIN),
        (manner.reader, FLAG_READER),
    ];
    let flags = flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
    let numbers: [u32; NUMBERS] = [
        MARK,
        count(bytes),
        flags,
        confinement.mode.to_wire(),
        manner.backend.to_wire(),
        count(spec.argv.len()),
        count(entries),
        paths,
    ];
    for (place, number) in out.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
    Ok(out)
}

/// The protected places that were found, for a request with writable directories; they follow it when the search has ended.
pub(crate) fn encode_places<'a>(places: impl IntoIterator<Item = &'a Path>) -> Result<Vec<u8>, SandboxError> {
    let mut out = vec![0; 4];
    for place in places {
        out.extend_from_slice(place.as_os_str().as_bytes());
        out.push(0);
    }
    let bytes = out.len() - 4;
    if bytes > MAX_REQUEST {
        return Err(SandboxError::TooLarge { bytes, limit: MAX_REQUEST });
    }
    out[..4].copy_from_slice(&u32::try_from(bytes).expect("the limit is below 32 bits").to_ne_bytes());
    Ok(out)
}

/// Reads them; none where the stream ends early, because the launcher is gone or has given up.
pub(crate) fn read_places(mut input: impl std::io::Read) -> Option<Vec<PathBuf>> {
    let mut length = [0; 4];
    input.read_exact(&mut length).ok()?;
    let length = usize::try_from(u32::from_ne_bytes(length)).ok().filter(|length| *length <= MAX_REQUEST)?;
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes).ok()?;
    let places = bytes.split(|byte| *byte == 0).filter(|place| !place.is_empty());
    Some(places.map(|place| PathBuf::from(OsStr::from_bytes(place))).collect())
}

/// A request as the supervisor reads it.
pub(crate) struct Request {
    pub(crate) tty: bool,
    pub(crate) probe: bool,
    pub(crate) stdin: bool,
    pub(crate) reader: bool,
    pub(crate) backend: Backend,
    pub(crate) confinement: Confinement,
    /// Where the command is written down, if it is.
    pub(crate) entry: Option<Entry>,
    header: [u8; HEADER],
    /// What follows the header.
    strings: Vec<u8>,
    /// Where each string starts: the directory, the words, the environment.
    starts: Vec<usize>,
    words: usize,
    entries: usize,
}

impl Request {
    /// Reads a request; none where the stream ends early or holds something else.
    pub(crate) fn read(mut input: impl std::io::Read) -> Option<Self> {
        let mut header = [0; HEADER];
        input.read_exact(&mut header).ok()?;
        let mut numbers = header.chunks_exact(4).map(|four| u32::from_ne_bytes([four[0], four[1], four[2], four[3]]));
        let mut next = || numbers.next();
        let (mark, bytes, flags, mode, backend) = (next()?, next()? as usize, next()?, next()?, next()?);
        let (words, entries, paths) = (next()? as usize, next()? as usize, next()? as usize);
        if mark != MARK || bytes > MAX_REQUEST {
            return None;
        }
        let mut strings = vec![0; bytes];
        input.read_exact(&mut strings).ok()?;
        let room = |count: usize| count.min(bytes);
        let mut starts = Vec::with_capacity(1 + room(words) + room(entries) + room(paths));
        let mut start = 0;
        for (at, _) in strings.iter().enumerate().filter(|(_, byte)| **byte == 0) {
            starts.push(start);
            start = at + 1;
        }
        let is_whole = start == bytes && starts.len() == 1 + words + entries + paths && words > 0;
        if !is_whole {
            return None;
        }
        let mut request = Self {
            tty: flags & FLAG_TTY != 0,
            probe: flags & FLAG_PROBE != 0,
            stdin: flags & FLAG_STDIN != 0,
            reader: flags & FLAG_READER != 0,
            backend: Backend::from_wire(backend)?,
            confinement: Confinement {
                network: flags & FLAG_NETWORK != 0,
                ..Confinement::new(SandboxMode::from_wire(mode)?)
            },
            entry: None,
            header,
            strings,
            starts,
            words,
            entries,
        };
        request.read_paths()?;
        Some(request)
    }

    fn read_paths(&mut self) -> Option<()> {
        let first = 1 + self.words + self.entries;
        let (mut entry, mut group) = (None, None);
        for position in first..self.starts.len() {
            let (what, text) = self.string(position).to_bytes().split_first()?;
            // Every path is absolute, and no identity has a slash in it.
            let (id, path) = text.split_at(text.iter().position(|byte| *byte == b'/')?);
            let id = (!id.is_empty()).then(|| std::str::from_utf8(id).map(DirectoryId::from_text)).transpose().ok()?;
            let (what, path) = (*what, PathBuf::from(OsStr::from_bytes(path)));
            match what {
                WORKSPACE | TEMPORARY | GIT => {
                    let (is_workspace, is_git) = (what != TEMPORARY, what == GIT);
                    self.confinement.writable.push(WritableRoot { path, is_workspace, is_git, id });
                }
                HIDDEN => self.confinement.hidden.push(path),
                LEDGERS => self.confinement.ledgers = Some(path),
                PRIVATE_TMP => self.confinement.private_tmp = Some(path),
                ENTRY => entry = Some(path),
                GROUP => group = Some(path),
                _ => return None,
            }
        }
        if let Some(path) = entry {
            self.entry = Some(Entry::at(path, group.as_deref())?);
        }
        Some(())
    }

    /// The request as it was read, for the stage that follows.
    pub(crate) fn write(&self, mut to: impl std::io::Write) -> std::io::Result<()> {
        to.write_all(&self.header)?;
        to.write_all(&self.strings)
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
        (1 + self.words..1 + self.words + self.entries).map(|position| self.string(position))
    }

    fn string(&self, position: usize) -> &CStr {
        CStr::from_bytes_until_nul(&self.strings[self.starts[position]..]).expect("`read` has seen the NUL of each")
    }
}

/// Where between the request and exec a command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Prepare,
    Fork,
    Session,
    Terminal,
    Directory,
    Exec,
    /// A means of confinement is not to be had on this system. Another may be.
    Unavailable,
    /// The confinement cannot be set up for this command.
    Confine,
}

const STEPS: [Step; 8] = [
    Step::Prepare,
    Step::Fork,
    Step::Session,
    Step::Terminal,
    Step::Directory,
    Step::Exec,
    Step::Unavailable,
    Step::Confine,
];

impl Step {
    /// The step of a number.
    pub(crate) fn from_wire(number: u8) -> Option<Self> {
        STEPS.get(usize::from(number)).copied()
    }
}

/// Bytes of text that one record carries.
const DETAIL: usize = RECORD - 1;

/// What the supervisor tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    /// A keeper has the command; what it says of it follows. Without this word the command was not started.
    Taken,
    /// The command runs under this process id.
    Started { pid: u32 },
    /// A piece of text, padded with zeros, that says more of the failure told next.
    Detail { text: [u8; DETAIL] },
    /// It does not run, for this error number.
    Failed { step: Step, errno: i32 },
    /// The command ended with this code. What it started may go on, unless this was the last of it: then [`Record::Gone`]
    /// follows at once, and until it does something may have to be put away.
    Exited { code: i32, is_last: bool },
    /// The command was ended by this signal, and otherwise the same.
    Signaled { signal: i32, is_last: bool },
    /// Nothing is left below the supervisor, which ends.
    Gone,
}

impl Record {
    /// What an exit is told as; none where the process was only stopped.
    pub(crate) fn of_exit(status: rustix::process::WaitStatus, is_last: bool) -> Option<Self> {
        let code = status.exit_status().map(|code| Self::Exited { code, is_last });
        code.or(status.terminating_signal().map(|signal| Self::Signaled { signal, is_last }))
    }

    /// The record as bytes.
    pub(crate) fn encode(self) -> [u8; RECORD] {
        let (tag, first, second) = match self {
            Self::Started { pid } => (b'S', pid.cast_signed(), 0),
            Self::Failed { step, errno } => (b'F', step as i32, errno),
            Self::Exited { code, is_last } => (b'X', code, is_last.into()),
            Self::Signaled { signal, is_last } => (b'K', signal, is_last.into()),
            Self::Gone => (b'G', 0, 0),
            Self::Taken => (b'T', 0, 0),
            Self::Detail { text } => {
                let mut out = [b'D'; RECORD];
                out[1..].copy_from_slice(&text);
                return out;
            }
        };
        let mut out = [tag; RECORD];
        out[1..5].copy_from_slice(&first.to_ne_bytes());
        out[5..].copy_from_slice(&second.to_ne_bytes());
        out
    }

    fn decode(bytes: &[u8; RECORD]) -> Option<Self> {
        let [tag, a, b, c, d, e, f, g, h] = *bytes;
        if tag == b'D' {
            return Some(Self::Detail { text: [a, b, c, d, e, f, g, h] });
        }
        let (first, second) = (i32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h]));
        Some(match tag {
            b'S' => Self::Started { pid: first.cast_unsigned() },
            b'F' => Self::Failed { step: Step::from_wire(u8::try_from(first).ok()?)?, errno: second },
            b'X' => Self::Exited { code: first, is_last: second != 0 },
            b'K' => Self::Signaled { signal: first, is_last: second != 0 },
            b'G' => Self::Gone,
            b'T' => Self::Taken,
            _ => return None,
        })
    }
}

/// Text as the records that carry it.
pub(crate) fn details(text: &str) -> impl Iterator<Item = Record> {
    text.as_bytes().chunks(DETAIL).map(|chunk| {
        let mut text = [0; DETAIL];
        text[..chunk.len()].copy_from_slice(chunk);
        Record::Detail { text }
    })
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

    /// Puts a record back, to be the next.
    ///
    /// An init tells its command's exit itself, which may come before the supervisor's word that the command runs.
    pub(crate) fn unread(&mut self, record: Record) {
        self.bytes.splice(..0, record.encode());
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
    use crate::SandboxPolicy;
    use std::collections::BTreeMap;

    fn spec() -> CommandSpec {
        CommandSpec {
            argv: vec!["echo".into(), String::new(), "grüße".into()],
            cwd: "/some where".into(),
            env: BTreeMap::from([("A".into(), "1=2".into()), ("B".into(), "".into())]),
            tty: true,
            policy: SandboxPolicy::full_access(),
            git_from: Vec::new(),
            output_limit: 1,
            thread_marker: None,
        }
    }

    fn confinement() -> Confinement {
        Confinement {
            writable: vec![
                WritableRoot {
                    path: "/w s".into(),
                    is_workspace: true,
                    is_git: false,
                    id: Some(DirectoryId::from_text("fe:2:b1.0")),
                },
                WritableRoot { path: "/w s/.git".into(), is_workspace: true, is_git: true, id: None },
                WritableRoot { path: "/tmp".into(), is_workspace: false, is_git: false, id: None },
            ],
            hidden: vec!["/h".into()],
            network: true,
            ledgers: Some("/l".into()),
            private_tmp: Some("/tmp".into()),
            ..Confinement::new(SandboxMode::WorkspaceWrite)
        }
    }

    const MANNER: LaunchMode<'_> =
        LaunchMode { backend: Backend::Landlock, probe: true, stdin: false, entry: None, reader: false };

    fn encoded() -> Vec<u8> {
        encode_request(&spec(), &confinement(), MANNER).unwrap()
    }

    #[test]
    fn places_arrive_as_they_were_sent_and_whole() {
        for places in [vec![], vec![Path::new("/a b/.git"), Path::new("/c")]] {
            let bytes = encode_places(places.iter().copied()).unwrap();
            assert_eq!(read_places(&bytes[..]).unwrap(), places);
            assert!((0..bytes.len()).all(|end| read_places(&bytes[..end]).is_none()));
        }
        assert!(read_places(&[0xff; 9][..]).is_none());
    }

    #[test]
    fn a_request_arrives_as_it_was_sent() {
        let bytes = encoded();
        let request = Request::read(&bytes[..]).unwrap();
        assert_eq!(request.cwd(), c"/some where");
        assert_eq!(request.argv().collect::<Vec<_>>(), [c"echo", c"", c"grüße"]);
        assert_eq!(request.env().collect::<Vec<_>>(), [c"A=1=2", c"B="]);
        assert!(request.tty && request.probe && !request.stdin);
        assert_eq!(request.backend, Backend::Landlock);
        assert_eq!(request.confinement, confinement());
    }

    #[test]
    fn an_entry_of_the_ledger_arrives_and_its_id_is_the_commands_own() {
        let entry =
            Entry::at("/h/run/commands/4000000000000001".into(), Some(Path::new("/g/openoxide-4000000000000001")));
        let mut spec = spec();
        spec.env.insert(CommandId::VARIABLE.into(), "of the command in which the server runs".into());
        let bytes = encode_request(&spec, &confinement(), LaunchMode { entry: entry.as_ref(), ..MANNER }).unwrap();
        let request = Request::read(&bytes[..]).unwrap();
        assert_eq!(request.env().collect::<Vec<_>>(), [c"A=1=2", c"B=", c"OPENOXIDE_COMMAND_ID=4000000000000001"]);
        let (arrived, entry) = (request.entry.unwrap(), entry.unwrap());
        assert_eq!((arrived.id, &arrived.path, &arrived.group), (entry.id, &entry.path, &entry.group));
        assert!(entry.group.is_some());
    }

    #[test]
    fn anything_else_is_no_request() {
        let bytes = encoded();
        for end in 0..bytes.len() {
            assert!(Request::read(&bytes[..end]).is_none(), "{end}");
        }
        // The mark, the length, the mode, the means, and the three counts; the flags may be anything.
        for at in [0, 4, 12, 16, 20, 24, 28] {
            let mut other = bytes.clone();
            other[at] = other[at].wrapping_add(100);
            assert!(Request::read(&other[..]).is_none(), "{at}");
        }
    }

    #[test]
    fn what_no_system_takes_is_refused_with_the_limit() {
        let mut spec = spec();
        spec.argv[1] = "x".repeat(MAX_REQUEST + 1);
        let error = encode_request(&spec, &confinement(), MANNER).unwrap_err();
        assert!(matches!(error, SandboxError::TooLarge { limit: MAX_REQUEST, .. }));
    }

    #[test]
    fn records_arrive_whole_from_reads_of_any_size() {
        let sent = [
            Record::Started { pid: u32::MAX },
            Record::Detail { text: *b"why not?" },
            Record::Failed { step: Step::Exec, errno: 2 },
            Record::Exited { code: 255, is_last: true },
            Record::Signaled { signal: 9, is_last: false },
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
