//! `view_image`: gives the model a picture from a file. Offered to models that take pictures.

use std::path::PathBuf;

use base64::Engine as _;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use openoxide_llm::{HistoryItem, ToolSpec};
use serde_json::json;

use super::args::Args;
use super::files::FileView;
use super::host::Reader;
use super::output::StopFlag;
use super::pictures::PictureRoom;
use super::reads::wire::{Bytes, wire_fields};
use super::reads::{ReadKind, ReadWork};
use super::tool::{PreparedCall, ToolAccess, ready};
use super::{CallOutcome, Prepared, ToolCall};
use super::{ToolEnv, reading};
use crate::ItemStatus;

/// Its name.
const NAME: &str = "view_image";

/// The largest file. Providers refuse what is larger than about this, once it is written as text.
const MAX_BYTES: u64 = 5 << 20;

/// What is offered to the model.
fn spec() -> ToolSpec {
    ToolSpec::Function {
        name: NAME.to_owned(),
        description: "Shows you a picture: a PNG, JPEG, GIF or WebP file of at most 5 MiB.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"path": {"type": "string", "description": "The file, from the thread's directory."}},
            "required": ["path"],
            "additionalProperties": false
        }),
    }
}

/// See the module.
pub(super) struct Tool;

impl super::tool::Tool for Tool {
    fn spec(&self) -> ToolSpec {
        spec()
    }

    fn access(&self) -> ToolAccess {
        ToolAccess::Read
    }

    fn gives_pictures(&self) -> bool {
        true
    }

    fn parse(&self, env: &ToolEnv, call: &ToolCall) -> Result<Box<dyn PreparedCall>, String> {
        Ok(Box::new(ViewImage::new(env, &mut Args::parse(&call.input)?)?))
    }
}

/// A call whose arguments are understood.
#[derive(Debug, Clone)]
pub(super) struct ViewImage {
    shown: String,
    path: PathBuf,
}
wire_fields!(ViewImage { shown, path });

impl ViewImage {
    /// Understands a call.
    fn new(env: &ToolEnv, args: &mut Args) -> Result<Self, String> {
        let shown = args.text("path")?;
        Ok(Self { path: env.resolve(&shown), shown })
    }

    /// What it shows.
    fn summary(&self) -> String {
        format!("looking at {}", self.shown)
    }
}

impl PreparedCall for ViewImage {
    fn prepare<'a>(&'a mut self, env: &'a ToolEnv) -> BoxFuture<'a, Prepared> {
        ready(env, NAME, self.summary())
    }

    fn run(self: Box<Self>, env: ToolEnv, _: u64) -> BoxFuture<'static, CallOutcome> {
        async move {
            let (summary, room) = (self.summary(), env.pictures());
            let shown = self.shown.clone();
            let image = match env.read(NAME, Reader::Server, *self).await {
                // Its text is made on a thread for that: it may have megabytes.
                Ok(Bytes(bytes)) => tokio::task::spawn_blocking(move || picture(&bytes, &shown, &room))
                    .await
                    .unwrap_or_else(|_| Err(format!("`{NAME}` failed inside; try it another way."))),
                Err(why) => Err(why),
            };
            match image {
                Ok(image) => {
                    let item = env.tool_item(NAME, summary, ItemStatus::Completed);
                    let text = "The picture follows.".to_owned();
                    CallOutcome { image: Some(image), ..CallOutcome::plain(text, item) }
                }
                Err(error) => CallOutcome::plain(error, env.tool_item(NAME, summary, ItemStatus::Failed)),
            }
        }
        .boxed()
    }

    fn again(&self) -> Box<dyn PreparedCall> {
        Box::new(self.clone())
    }
}

impl ReadWork for ViewImage {
    type Found = Bytes;

    const KIND: ReadKind = ReadKind::Picture;

    fn read(&self, view: &FileView, _: &StopFlag) -> Result<Bytes, String> {
        let Self { shown, path } = self;
        let file = view.open_file(path).map_err(|error| reading::refusal(shown, error))?;
        let whole = file.read_whole(MAX_BYTES).map_err(|error| format!("{shown} cannot be read: {error}."))?;
        let Some(bytes) = whole else {
            let most = MAX_BYTES >> 20;
            return Err(format!("{shown} is larger than {most} MiB; make a smaller copy with a command first."));
        };
        match media_type(&bytes) {
            Some(_) => Ok(Bytes(bytes)),
            None => Err(format!("{shown} is no PNG, JPEG, GIF or WebP picture; convert it with a command first.")),
        }
    }

    fn max_answer(&self) -> usize {
        usize::try_from(MAX_BYTES).unwrap_or(usize::MAX)
    }

    fn accepts(&self, found: &Bytes) -> bool {
        found.0.len() <= self.max_answer() && media_type(&found.0).is_some()
    }
}

/// The picture for the model, where there is room.
fn picture(bytes: &[u8], shown: &str, room: &PictureRoom) -> Result<HistoryItem, String> {
    let media_type = media_type(bytes).ok_or_else(|| format!("{shown} is no picture."))?;
    room.take(bytes.len().div_ceil(3) * 4).map_err(|most| {
        format!(
            "{shown} is not shown: the pictures of one response may have {most} bytes together as they are sent (half of \
             mcp_server.max_picture_bytes). Look at it with your next response, or make a smaller copy with a command first."
        )
    })?;
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    Ok(HistoryItem::Image { media_type: media_type.to_owned(), data })
}

/// What a file is by its first bytes; its name says nothing.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn pictures_are_known_by_their_bytes_and_others_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.txt");
        std::fs::write(&file, b"\x89PNG\r\n\x1a\nrest").unwrap();
        let view = reading::tests::view(dir.path(), &[]);
        let room = PictureRoom::new(40);
        let read = |path: &Path, shown: &str| {
            let call = ViewImage { shown: shown.to_owned(), path: path.to_owned() };
            call.read(&view, &StopFlag::default()).and_then(|Bytes(bytes)| picture(&bytes, shown, &room))
        };
        let HistoryItem::Image { media_type, data } = read(&file, "a.txt").unwrap() else { panic!("no picture") };
        assert_eq!((media_type.as_str(), data.as_str()), ("image/png", "iVBORw0KGgpyZXN0"));
        let refused = read(&file, "a.txt").unwrap_err();
        assert!(refused.contains("20 bytes together") && refused.contains("mcp_server.max_picture_bytes"), "{refused}");
        std::fs::write(&file, "<svg/>").unwrap();
        assert!(read(&file, "a.txt").unwrap_err().contains("no PNG"));
        std::fs::File::create(&file).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(read(&file, "a.txt").unwrap_err().contains("5 MiB"));
        assert!(read(dir.path(), "d").is_err() && read(&dir.path().join("no"), "no").is_err());
    }
}
