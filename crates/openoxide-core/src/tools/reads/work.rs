//! One read as a value: what is asked, what may come back, and how it is done where the files are.

use super::super::files::FileView;
use super::super::output::StopFlag;
use super::wire::Wire;

/// Which read it is, as it travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadKind {
    /// `read_file`.
    File,
    /// `list_dir`.
    List,
    /// `grep`.
    Search,
    /// `view_image`.
    Picture,
    /// What a directory holds before commands run.
    Look,
    /// What is different there now.
    LookAgain,
}

impl ReadKind {
    const ALL: [Self; 6] = [Self::File, Self::List, Self::Search, Self::Picture, Self::Look, Self::LookAgain];

    /// The byte that stands for it.
    pub(crate) fn to_wire(self) -> u8 {
        self as u8
    }

    /// What a byte stands for.
    pub(crate) fn from_wire(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.to_wire() == byte)
    }
}

/// A read. It is done in the server, or in a process of the thread's box that knows nothing but this value and the view.
pub(crate) trait ReadWork: Wire + Send + Sync + 'static {
    /// What comes back.
    type Found: Wire + Send + 'static;

    /// Which one it is.
    const KIND: ReadKind;

    /// Reads what the view shows, or says in a sentence for the model what is wrong. Blocks on the disk, until the flag is
    /// raised. A plain function: it runs in a process with one thread and no runtime as well.
    fn read(&self, view: &FileView, stop: &StopFlag) -> Result<Self::Found, String>;

    /// The most bytes that [`ReadWork::Found`] takes as it travels.
    fn max_answer(&self) -> usize;

    /// Whether this can be what was asked for. Whoever sent it is not believed.
    fn accepts(&self, found: &Self::Found) -> bool;
}
