//! What the documents point at: a test that docs/architecture.md names as the keeper of an invariant exists.
//!
//! A reference is written `path/of/file.rs::name_of_the_test`, in backticks.

use std::io;
use std::path::Path;

use crate::shape::files_below;

/// References below `docs/` that lead nowhere.
///
/// # Errors
/// Where a document cannot be read.
pub(crate) fn check(root: &Path) -> io::Result<Vec<String>> {
    let mut findings = Vec::new();
    for path in files_below(&root.join("docs"))? {
        let text = std::fs::read_to_string(&path)?;
        let document = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        for (file, name) in references(&text) {
            let source = std::fs::read_to_string(root.join(file)).unwrap_or_default();
            if !defines(&source, name) {
                findings
                    .push(format!("{document}: {file}::{name} is not there; name the test that holds the invariant"));
            }
        }
    }
    Ok(findings)
}

fn references(text: &str) -> Vec<(&str, &str)> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once("::"))
        .filter(|(file, _)| file.ends_with(".rs"))
        .collect()
}

fn defines(source: &str, name: &str) -> bool {
    source
        .match_indices("fn ")
        .any(|(at, open)| source[at + open.len()..].strip_prefix(name).is_some_and(|rest| rest.starts_with(['(', '<'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_found_and_followed() {
        let text = "| law | `a/b.rs::it_holds` and `std::env::var`, `c.rs` |";
        assert_eq!(references(text), [("a/b.rs", "it_holds")]);
        assert!(defines("#[test]\nfn it_holds() {}\n", "it_holds"));
        assert!(!defines("fn it_holds_not() {}\n", "it_holds"));
    }
}
