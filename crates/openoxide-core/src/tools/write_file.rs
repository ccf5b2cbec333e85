//! `write_file`: writes a whole file, for models that were not trained on the language of patches. What it does is a patch of
//! one operation, and is checked, shown, asked about and written as one (`apply_patch`).

use std::path::{Path, PathBuf};

use openoxide_apply_patch::FileOp;
use openoxide_llm::ToolSpec;
use serde_json::json;

use super::apply_patch::ApplyPatch;
use super::args::Args;
use super::families::EditStyle;
use super::{PreparedCall, ToolAccess, ToolCall, ToolEnv};

/// Its name.
pub(super) const NAME: &str = "write_file";

fn spec() -> ToolSpec {
    ToolSpec::Function {
        name: NAME.to_owned(),
        description:
            "Writes a whole file, new or in the place of one that is there. To change part of a file use edit."
                .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file; directories are made."},
                "content": {"type": "string", "description": "All of its text."}
            },
            "required": ["path", "content"],
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
        ToolAccess::Full
    }

    fn gives_pictures(&self) -> bool {
        false
    }

    fn style(&self) -> Option<EditStyle> {
        Some(EditStyle::Edit)
    }

    fn parse(&self, env: &ToolEnv, call: &ToolCall) -> Result<Box<dyn PreparedCall>, String> {
        let mut args = Args::parse(&call.input)?;
        let path = args.first_text(&["path", "file_path", "filePath", "filename", "file", "target_file"])?;
        let content = args.any_text(&["content", "contents", "text", "file_text", "fileText"])?;
        let write = FileOp::Add { line: 1, path: literal(&path), content, mode: None, replaces: true };
        Ok(Box::new(ApplyPatch::of(env.cwd().to_owned(), vec![write], "file")))
    }
}

/// A path that means itself: no prefix of a diff stands before it.
fn literal(path: &str) -> PathBuf {
    let path = Path::new(path);
    if path.is_absolute() { path.to_path_buf() } else { Path::new(".").join(path) }
}
