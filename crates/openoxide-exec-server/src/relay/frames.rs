//! The lines between the server and a relay. A letter says what a line is; bytes are base64, so that the stream is text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bytes of output that the server has not taken yet, at most. Then the command is held up.
pub(crate) const OUTPUT_WINDOW: usize = 256 << 10;
/// Bytes of input that the command has not taken yet, at most. Then the server keeps more of it.
pub(crate) const INPUT_WINDOW: usize = 64 << 10;

/// From a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FromRelay {
    /// The command runs, or files may be changed.
    Ready,
    /// The command does not run, by this `errno`.
    Failed(i32),
    /// It wrote to its standard output.
    Stdout(Vec<u8>),
    /// It wrote to its standard error.
    Stderr(Vec<u8>),
    /// It has exited so; what it wrote before is told.
    Exited(i32),
    /// It has taken so many bytes of its input.
    Taken(usize),
    /// It reads no more.
    InputClosed,
    /// What a file operation came to, as JSON.
    Answer(String),
}

/// To a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToRelay {
    /// Input of the command.
    Input(Vec<u8>),
    /// So many bytes of output were taken.
    Taken(usize),
    /// SIGINT to the command's process group.
    Interrupt,
    /// A file operation, as JSON.
    Order(String),
}

impl FromRelay {
    /// Without its newline.
    pub(crate) fn encode(&self) -> String {
        match self {
            Self::Ready => "R".to_owned(),
            Self::Failed(errno) => format!("F{errno}"),
            Self::Stdout(bytes) => format!("O{}", STANDARD.encode(bytes)),
            Self::Stderr(bytes) => format!("E{}", STANDARD.encode(bytes)),
            Self::Exited(code) => format!("X{code}"),
            Self::Taken(bytes) => format!("T{bytes}"),
            Self::InputClosed => "C".to_owned(),
            Self::Answer(json) => format!("J{json}"),
        }
    }

    /// None for what no relay writes.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (kind, rest) = line.split_at_checked(1)?;
        let bytes = || STANDARD.decode(rest).ok();
        match kind {
            "R" => Some(Self::Ready),
            "F" => rest.parse().ok().map(Self::Failed),
            "O" => bytes().map(Self::Stdout),
            "E" => bytes().map(Self::Stderr),
            "X" => rest.parse().ok().map(Self::Exited),
            "T" => rest.parse().ok().map(Self::Taken),
            "C" => Some(Self::InputClosed),
            "J" => Some(Self::Answer(rest.to_owned())),
            _ => None,
        }
    }
}

impl ToRelay {
    /// With its newline.
    pub(crate) fn encode(&self) -> String {
        match self {
            Self::Input(bytes) => format!("I{}\n", STANDARD.encode(bytes)),
            Self::Taken(bytes) => format!("T{bytes}\n"),
            Self::Interrupt => "S\n".to_owned(),
            Self::Order(json) => format!("J{json}\n"),
        }
    }

    /// None for what no server writes.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (kind, rest) = line.split_at_checked(1)?;
        match kind {
            "I" => STANDARD.decode(rest).ok().map(Self::Input),
            "T" => rest.parse().ok().map(Self::Taken),
            "S" => Some(Self::Interrupt),
            "J" => Some(Self::Order(rest.to_owned())),
            _ => None,
        }
    }
}

/// Cuts what is read into lines. Lines are as long as their writers make them: a window of base64, or one file operation.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pending: Vec<u8>,
    searched: usize,
}

impl Lines {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole line, without its newline.
    pub(crate) fn next(&mut self) -> Option<String> {
        let found = self.pending[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(at) = found.map(|at| self.searched + at) else {
            self.searched = self.pending.len();
            return None;
        };
        let rest = self.pending.split_off(at + 1);
        let mut line = std::mem::replace(&mut self.pending, rest);
        line.pop();
        self.searched = 0;
        Some(String::from_utf8_lossy(&line).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_went() {
        let from = [
            FromRelay::Ready,
            FromRelay::Failed(2),
            FromRelay::Stdout(vec![0, 255, b'\n']),
            FromRelay::Stderr(Vec::new()),
            FromRelay::Exited(137),
            FromRelay::Taken(7),
            FromRelay::InputClosed,
            FromRelay::Answer("{}".to_owned()),
        ];
        for frame in from {
            assert_eq!(FromRelay::parse(&frame.encode()), Some(frame));
        }
        for frame in [ToRelay::Input(vec![1]), ToRelay::Taken(7), ToRelay::Interrupt, ToRelay::Order("{}".to_owned())] {
            let line = frame.encode();
            assert_eq!(ToRelay::parse(line.trim_end()), Some(frame));
        }
        for wrong in ["", "O!", "Q", "X", "é"] {
            assert_eq!(FromRelay::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lines_are_whole_however_they_arrive() {
        let mut lines = Lines::default();
        for byte in b"one\ntwo\nth" {
            lines.push(&[*byte]);
        }
        assert_eq!((lines.next(), lines.next(), lines.next()), (Some("one".into()), Some("two".into()), None));
        lines.push(b"ree\n");
        assert_eq!((lines.next(), lines.next()), (Some("three".into()), None));
    }
}
