//! What a helper that reads runs: it takes one frame, does what it is asked through the view that it is told, sends one
//! frame back, and waits for the next until the server's end is closed.
//!
//! The process has one thread, no runtime, and whatever limits its maker gave it. A read that takes more memory than it has
//! ends it; so does a panic. The server sees the stream end.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use openoxide_sandbox::ViewDescription;
use tokio::time::Instant;

use super::grep::Grep;
use super::list_dir::ListDir;
use super::look::{Look, LookAgain};
use super::output::{StopFlag, truncate};
use super::read_file::ReadFile;
use super::reads::wire::{decode, encode};
use super::reads::{Ask, MAX_ASK, MAX_SENTENCE, ReadKind, ReadWork, read_frame, write_frame};
use super::view_image::ViewImage;

/// Reads for the server until it closes its end of the stream. For a process of the thread's box, whose view of the disk is
/// that of the thread's commands.
pub fn serve_reads(socket: OwnedFd) {
    let mut stream = UnixStream::from(socket);
    while let Ok(Some(frame)) = read_frame(&mut stream, MAX_ASK) {
        // What is not understood was not sent by the server that this program is a part of.
        let Some(answer) = decode::<Ask>(&frame).and_then(answer) else { return };
        if write_frame(&mut stream, &answer).is_err() {
            return;
        }
    }
}

/// Does what is asked, and says it as it travels.
fn answer(ask: Ask) -> Option<Vec<u8>> {
    match ReadKind::from_wire(ask.kind)? {
        ReadKind::File => done::<ReadFile>(ask),
        ReadKind::List => done::<ListDir>(ask),
        ReadKind::Search => done::<Grep>(ask),
        ReadKind::Picture => done::<ViewImage>(ask),
        ReadKind::Look => done::<Look>(ask),
        ReadKind::LookAgain => done::<LookAgain>(ask),
    }
}

fn done<W: ReadWork>(ask: Ask) -> Option<Vec<u8>> {
    let work: W = decode(&ask.work.0)?;
    let stop = StopFlag::until(Instant::now() + Duration::from_millis(ask.limit_ms));
    let found = read(&work, ask.view, &stop).map_err(|sentence| truncate(&sentence, MAX_SENTENCE / 2));
    Some(encode(&found))
}

fn read<W: ReadWork>(work: &W, view: ViewDescription, stop: &StopFlag) -> Result<W::Found, String> {
    let view = view.open().map_err(|error| format!("The thread's directory cannot be read: {error}."))?;
    work.read(&view, stop)
}
