//! `edit`: changes one text of a file into another, for models that were not trained on the language of patches. What it
//! does is a patch of one operation, and is checked, shown, asked about and written as one (`apply_patch`).

use openoxide_apply_patch::FileOp;
use openoxide_llm::ToolSpec;
use serde_json::json;

use super::apply_patch::ApplyPatch;
use super::args::Args;
use super::families::EditStyle;
use super::{PreparedCall, ToolAccess, ToolCall, ToolEnv};

/// Its name.
pub(super) const NAME: &str = "edit";

fn spec() -> ToolSpec {
    ToolSpec::Function {
        name: NAME.to_owned(),
        description:
            "Changes one text of a file into another. `old` must stand in the file exactly once, unless `all` is \
                      set; give lines around it where it does not."
                .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file."},
                "old": {"type": "string", "description": "The text to change, copied from the file without line numbers."},
                "new": {"type": "string", "description": "What it becomes; empty removes it."},
                "all": {"type": "boolean", "description": "Change every place. Default: false."}
            },
            "required": ["path", "old", "new"],
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
        let mut edits = Vec::new();
        match args.take("edits") {
            // Several at once, each on the result of the one before.
            Some(serde_json::Value::Array(list)) if !list.is_empty() => {
                for one in list {
                    edits.push(operation(&mut Args::from_value(one, "edits")?, &path, edits.len() + 1)?);
                }
            }
            Some(_) => return Err("`edits` must be a list of objects with `old` and `new`, and not empty.".to_owned()),
            None => edits.push(operation(&mut args, &path, 1)?),
        }
        Ok(Box::new(ApplyPatch::of(env.cwd().to_owned(), edits, "edit")))
    }
}

fn operation(args: &mut Args, path: &str, line: usize) -> Result<FileOp, String> {
    let old = args.any_text(&["old", "old_string", "oldString", "old_str", "oldText", "old_text", "search"])?;
    let new = args.any_text(&["new", "new_string", "newString", "new_str", "newText", "new_text", "replace"])?;
    let mut all = false;
    for field in ["all", "replace_all", "replaceAll"] {
        all |= args.flag(field)?;
    }
    Ok(FileOp::Edit { line, path: path.into(), old, new, all })
}
