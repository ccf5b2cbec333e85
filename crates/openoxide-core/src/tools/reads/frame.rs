//! Frames: a length, and that many bytes. One goes to a helper, what to read through which view; one comes back.

use std::io::{self, Read, Write};

use openoxide_sandbox::ViewDescription;

use super::wire::{Bytes, wire_fields};

/// The most bytes of what a helper is asked. The largest tells all files of a directory as they were.
pub(crate) const MAX_ASK: usize = 32 << 20;

/// The most bytes of a sentence that says what is wrong.
pub(crate) const MAX_SENTENCE: usize = 64 << 10;

/// What a helper is asked.
pub(crate) struct Ask {
    /// Which read it is; see [`super::ReadKind`].
    pub(crate) kind: u8,
    /// How long it may take.
    pub(crate) limit_ms: u64,
    /// Through what it looks.
    pub(crate) view: ViewDescription,
    /// The read itself, as it travels.
    pub(crate) work: Bytes,
}
wire_fields!(Ask { kind, limit_ms, view, work });

/// The length that stands before so many bytes.
pub(super) fn header(bytes: usize) -> Option<[u8; 4]> {
    u32::try_from(bytes).ok().map(u32::to_le_bytes)
}

/// The length that a header tells; none where it is more than allowed.
pub(super) fn length(header: [u8; 4], most: usize) -> Result<usize, usize> {
    let length = usize::try_from(u32::from_le_bytes(header)).unwrap_or(usize::MAX);
    if length > most { Err(length) } else { Ok(length) }
}

/// Reads a frame; none at the end of the stream.
pub(crate) fn read_frame(input: &mut impl Read, most: usize) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; 4];
    match input.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = length(head, most).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let mut bytes = Vec::new();
    input.take(length as u64).read_to_end(&mut bytes)?;
    Ok((bytes.len() == length).then_some(bytes))
}

/// Writes a frame.
pub(crate) fn write_frame(output: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let head = header(bytes.len()).ok_or(io::ErrorKind::InvalidInput)?;
    output.write_all(&head)?;
    output.write_all(bytes)
}
