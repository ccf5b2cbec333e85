//! The patch language as a grammar, for providers that constrain a freeform tool's input while the model writes.
//!
//! It describes the strict form only: what a model should write. The parser accepts more (`parse`).

/// Lark grammar of a patch, for a freeform (custom) tool.
///
/// Stricter than [`crate::parse`]: every chunk starts with an `@@` line, markers carry no padding, and blank lines inside
/// a chunk keep their leading space.
pub const GRAMMAR: &str = r#"start: "*** Begin Patch" LF operation+ "*** End Patch" LF?

operation: add_file | delete_file | update_file

add_file: "*** Add File: " REST LF added_line*
delete_file: "*** Delete File: " REST LF
update_file: "*** Update File: " REST LF (move_to chunk* | chunk+)

move_to: "*** Move to: " REST LF
chunk: locator+ changed_line+ end_of_file?
locator: "@@" (" " REST)? LF
changed_line: (" " | "-" | "+") REST? LF
added_line: "+" REST? LF
end_of_file: "*** End of File" LF

REST: /[^\n]+/

%import common.LF
"#;
