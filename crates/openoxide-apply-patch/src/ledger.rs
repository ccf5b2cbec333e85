//! The ledger of a patch: what it is about to do on disk, written down before it is done, so that [`crate::Leftover`] can
//! take it back, or finish it, after the process was killed.
//!
//! One line for each entry, in the order of the writer: directories and files under temporary names before and after they
//! are made, then all renames, then `done`. The renames are durable before the first of them is taken. Up to `done` a
//! patch is taken back; from there on it counts.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _, Write as _},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

/// What a ledger opens with; the number is that of the format.
const MAGIC: &str = "openoxide-patch-ledger-1";

/// The most bytes that are read of a ledger: the note, and a few hundred for each file.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Device and inode.
pub(crate) type FileId = (u64, u64);

/// One line. Paths are absolute and without links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A directory is about to be made.
    Making(PathBuf),
    /// It was made.
    Made(PathBuf, FileId),
    /// A file is about to be made under a temporary name.
    Creating(PathBuf),
    /// It was made.
    Created(PathBuf, FileId),
    /// A rename is about to be taken.
    Step(StepEntry),
    /// All steps were taken.
    Done,
}

/// A rename. `hash` is of the new content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StepEntry {
    /// `temp` gets the name `target`, which is free.
    Create { temp: PathBuf, target: PathBuf, hash: String },
    /// The two change places; `old` is the file at `target` before.
    Exchange { temp: PathBuf, target: PathBuf, hash: String, old: FileId },
    /// `temp` takes the name `target` from `old`, of which `backup` is a copy.
    Replace { backup: PathBuf, temp: PathBuf, target: PathBuf, hash: String, old: FileId },
    /// `old` at `target` gets the name `temp`.
    SetAside { target: PathBuf, temp: PathBuf, old: FileId },
}

/// A ledger that is being written. The caller owns its file: it makes it, holds a lock on it for as long as the patch is
/// applied, and removes it afterwards.
#[derive(Debug)]
pub struct Ledger {
    file: File,
}

impl Ledger {
    /// Begins a ledger in an empty file that is open for writing. `note` is the caller's, for [`crate::Leftover::note`]; on
    /// return it is durable.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(file: File, note: &[u8]) -> io::Result<Self> {
        let mut ledger = Self { file };
        let mut line = format!("{MAGIC} ").into_bytes();
        escape(note, &mut line);
        line.push(b'\n');
        ledger.file.write_all(&line)?;
        ledger.sync()?;
        Ok(ledger)
    }

    /// Writes a line; the system has it on return.
    pub(crate) fn append(&mut self, entry: &Entry) -> io::Result<()> {
        #[cfg(test)]
        crate::kills::point();
        let written = self.file.write_all(&entry.to_line());
        written.map_err(|error| named(&error))
    }

    /// Makes all lines so far durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        #[cfg(test)]
        crate::kills::point();
        self.file.sync_data().map_err(|error| named(&error))
    }
}

fn named(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("the patch's ledger cannot be written: {error}"))
}

/// Reads a ledger: its note, and its entries up to the first that is not whole. None where not even the note is whole;
/// then nothing was begun.
pub(crate) fn read(file: &File) -> io::Result<Option<(Vec<u8>, Vec<Entry>)>> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').map_while(|line| line.strip_suffix(b"\n"));
    let Some(first) = lines.next() else { return Ok(None) };
    let Some(note) = first.strip_prefix(MAGIC.as_bytes()).and_then(|rest| rest.strip_prefix(b" ")) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no ledger that this version knows"));
    };
    let Some(note) = unescape(note) else { return Ok(None) };
    Ok(Some((note, lines.map_while(Entry::from_line).collect())))
}

/// The hash of a content as ledgers have it: SHA-256 in hex.
pub(crate) fn hash(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Entry {
    fn to_line(&self) -> Vec<u8> {
        let mut line = Line::default();
        match self {
            Self::Making(path) => line.word("making").path(path),
            Self::Made(path, id) => line.word("made").path(path).id(*id),
            Self::Creating(path) => line.word("creating").path(path),
            Self::Created(path, id) => line.word("created").path(path).id(*id),
            Self::Done => line.word("done"),
            Self::Step(StepEntry::Create { temp, target, hash }) => {
                line.word("create").path(temp).path(target).word(hash)
            }
            Self::Step(StepEntry::Exchange { temp, target, hash, old }) => {
                line.word("exchange").path(temp).path(target).word(hash).id(*old)
            }
            Self::Step(StepEntry::Replace { backup, temp, target, hash, old }) => {
                line.word("replace").path(backup).path(temp).path(target).word(hash).id(*old)
            }
            Self::Step(StepEntry::SetAside { target, temp, old }) => {
                line.word("set-aside").path(target).path(temp).id(*old)
            }
        };
        line.0.push(b'\n');
        line.0
    }

    fn from_line(line: &[u8]) -> Option<Self> {
        let mut words = Words(line.split(|byte| *byte == b' ').collect::<Vec<_>>().into_iter());
        let entry = match words.0.next()? {
            b"making" => Self::Making(words.path()?),
            b"made" => Self::Made(words.path()?, words.id()?),
            b"creating" => Self::Creating(words.path()?),
            b"created" => Self::Created(words.path()?, words.id()?),
            b"done" => Self::Done,
            b"create" => {
                Self::Step(StepEntry::Create { temp: words.path()?, target: words.path()?, hash: words.text()? })
            }
            b"exchange" => Self::Step(StepEntry::Exchange {
                temp: words.path()?,
                target: words.path()?,
                hash: words.text()?,
                old: words.id()?,
            }),
            b"replace" => Self::Step(StepEntry::Replace {
                backup: words.path()?,
                temp: words.path()?,
                target: words.path()?,
                hash: words.text()?,
                old: words.id()?,
            }),
            b"set-aside" => {
                Self::Step(StepEntry::SetAside { target: words.path()?, temp: words.path()?, old: words.id()? })
            }
            _ => return None,
        };
        words.0.next().is_none().then_some(entry)
    }
}

#[derive(Default)]
struct Line(Vec<u8>);

impl Line {
    fn word(&mut self, word: &str) -> &mut Self {
        if !self.0.is_empty() {
            self.0.push(b' ');
        }
        self.0.extend(word.as_bytes());
        self
    }

    fn path(&mut self, path: &Path) -> &mut Self {
        self.0.push(b' ');
        escape(path.as_os_str().as_bytes(), &mut self.0);
        self
    }

    fn id(&mut self, (device, inode): FileId) -> &mut Self {
        self.word(&device.to_string()).word(&inode.to_string())
    }
}

struct Words<'a>(std::vec::IntoIter<&'a [u8]>);

impl Words<'_> {
    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.0.next()?.to_vec()).ok()
    }

    fn path(&mut self) -> Option<PathBuf> {
        Some(PathBuf::from(OsString::from_vec(unescape(self.0.next()?)?)))
    }

    fn id(&mut self) -> Option<FileId> {
        Some((self.text()?.parse().ok()?, self.text()?.parse().ok()?))
    }
}

/// Writes bytes without a space or a control character.
fn escape(bytes: &[u8], to: &mut Vec<u8>) {
    for byte in bytes {
        if *byte <= b' ' || *byte == b'%' || *byte == 0x7f {
            to.extend(format!("%{byte:02x}").as_bytes());
        } else {
            to.push(*byte);
        }
    }
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first == b'%' {
            let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok())?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(*first);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Seek as _;

    fn all() -> Vec<Entry> {
        let path = |name: &[u8]| PathBuf::from(OsString::from_vec(name.to_vec()));
        let (temp, target) = (path(b"/w/.openoxide-patch-1"), path(b"/w/a b%\n\xff"));
        let (hash, old) = (hash(b"x"), (7, 8));
        vec![
            Entry::Making(path(b"/w/d")),
            Entry::Made(path(b"/w/d"), (1, 2)),
            Entry::Creating(temp.clone()),
            Entry::Created(temp.clone(), (3, u64::MAX)),
            Entry::Step(StepEntry::Create { temp: temp.clone(), target: target.clone(), hash: hash.clone() }),
            Entry::Step(StepEntry::Exchange { temp: temp.clone(), target: target.clone(), hash: hash.clone(), old }),
            Entry::Step(StepEntry::Replace {
                backup: path(b"/b"),
                temp: temp.clone(),
                target: target.clone(),
                hash,
                old,
            }),
            Entry::Step(StepEntry::SetAside { target, temp, old }),
            Entry::Done,
        ]
    }

    fn reread(bytes: &[u8]) -> Option<(Vec<u8>, Vec<Entry>)> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        read(&file).unwrap()
    }

    #[test]
    fn what_was_written_is_read_and_a_torn_line_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l");
        let note = b"{\"a b\":\"%\n\"}\0";
        let mut ledger = Ledger::begin(File::create(&path).unwrap(), note).unwrap();
        for entry in all() {
            ledger.append(&entry).unwrap();
        }
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(reread(&bytes), Some((note.to_vec(), all())));
        let mut whole = 0;
        for length in 0..bytes.len() {
            let Some((read, entries)) = reread(&bytes[..length]) else { continue };
            assert!(read == note && entries[..] == all()[..entries.len()] && entries.len() >= whole, "{length}");
            whole = entries.len();
        }
        assert_eq!(whole, all().len() - 1);
    }
}
