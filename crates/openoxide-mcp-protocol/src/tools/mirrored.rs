//! Arguments of a tool that the headers of its calls repeat (`x-mcp-header`, MCP 2026-07-28 "Custom Headers from Tool
//! Parameters").

use serde_json::{Map, Value};

/// An argument that a header repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirrored {
    /// `Mcp-Param-` and the name that the schema gives.
    pub header: String,
    /// The keys that lead to the value.
    pub path: Vec<String>,
}

impl Mirrored {
    /// Those of an input schema.
    #[must_use]
    pub fn of_schema(schema: &Map<String, Value>) -> Vec<Self> {
        let mut found = Vec::new();
        collect(schema, &mut Vec::new(), &mut found);
        found
    }
}

fn collect(schema: &Map<String, Value>, path: &mut Vec<String>, found: &mut Vec<Mirrored>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, schema) in properties.into_iter().flatten() {
        let Some(schema) = schema.as_object() else { continue };
        path.push(key.clone());
        if let Some(name) = schema.get("x-mcp-header").and_then(Value::as_str) {
            found.push(Mirrored { header: format!("Mcp-Param-{name}"), path: path.clone() });
        }
        collect(schema, path, found);
        path.pop();
    }
}
