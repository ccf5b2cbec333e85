//! The messages of a tool server: requests, answers, tools, calls and their results. Rust names here, MCP's names on the
//! wire (`inputSchema`, `isError`). [`crate::transport`] moves them, [`crate::server`] routes them.

use std::fmt;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use openoxide_rpc::{RequestId as Id, RpcError};

use crate::schema::schema_of;

const VERSION: &str = "2.0";

/// A request, or a notification where it has no id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Always `2.0`.
    pub jsonrpc: String,
    /// To be echoed. None, absent or `null`: a notification, which gets no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// The method.
    pub method: String,
    /// Its parameters; `null` where there are none.
    #[serde(default)]
    pub params: Value,
}

impl Request {
    /// A request that wants an answer.
    pub fn new(id: Id, method: impl Into<String>, params: Value) -> Self {
        Self { jsonrpc: VERSION.to_owned(), id: Some(id), method: method.into(), params }
    }

    /// A notification.
    pub fn notification(method: impl Into<String>, params: Value) -> Self {
        Self { jsonrpc: VERSION.to_owned(), id: None, method: method.into(), params }
    }
}

/// The answer to a request: a result or an error.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Response {
    /// Always `2.0`.
    pub jsonrpc: String,
    /// The request. None where its id could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// What came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why nothing came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
}

impl Response {
    /// A result.
    pub fn ok(id: Option<Id>, result: Value) -> Self {
        Self { jsonrpc: VERSION.to_owned(), id, result: Some(result), error: None }
    }

    /// An error.
    pub fn err(id: Option<Id>, code: i32, message: impl Into<String>, data: Option<Value>) -> Self {
        let error = RpcError { data: data.map(Box::new), ..RpcError::new(code, message) };
        Self { jsonrpc: VERSION.to_owned(), id, result: None, error: Some(error) }
    }

    /// The result or the error; a response with neither has the result `null`.
    pub(crate) fn outcome(&self) -> Result<&Value, &RpcError> {
        match &self.error {
            Some(error) => Err(error),
            None => Ok(self.result.as_ref().unwrap_or(&Value::Null)),
        }
    }
}

/// A tool, as `tools/list` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// Stable, lowercase, without blanks. A namespace is part of it: `fs.read_file`.
    pub name: String,
    /// What the model is told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments, an object. Nothing is checked against it: the tool decodes its arguments.
    pub input_schema: Value,
}

impl Tool {
    /// A tool with a schema written by hand.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        Self { name: name.into(), description: Some(description.into()), input_schema }
    }

    /// A tool that takes `T`: the schema is made from the struct, its doc comments describe the fields.
    /// [`ToolCallParams::arguments_as`] reads it.
    pub fn typed<T: JsonSchema>(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::new(name, description, Value::Object(schema_of::<T>()))
    }
}

/// The result of `tools/list`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ToolsListResult {
    /// All tools.
    pub tools: Vec<Tool>,
}

/// The parameters of `tools/call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCallParams {
    /// The tool.
    pub name: String,
    /// Its arguments; `null` where there are none.
    #[serde(default)]
    pub arguments: Value,
}

impl ToolCallParams {
    /// The arguments as `T`; none at all are an empty object.
    ///
    /// # Errors
    /// What is wrong, with the field. Returned from a handler by `?`, it becomes a result with `isError`, which the model
    /// reads and corrects.
    pub fn arguments_as<T: DeserializeOwned>(&self) -> Result<T, ArgumentsError> {
        let refused = |reason| ArgumentsError { tool: self.name.clone(), reason };
        let given = match &self.arguments {
            Value::Null => json!({}),
            // An array would be taken for the fields in their order.
            given @ Value::Object(_) => given.clone(),
            _ => return Err(refused("arguments must be an object".to_owned())),
        };
        serde_path_to_error::deserialize(given).map_err(|error| {
            let path = error.path().to_string();
            let reason = error.into_inner();
            // A missing field is named by the reason; the path is then that of the object that lacks it.
            refused(if path == "." { reason.to_string() } else { format!("{path}: {reason}") })
        })
    }
}

/// Arguments that are not what the tool takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentsError {
    tool: String,
    reason: String,
}

impl fmt::Display for ArgumentsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid arguments for {}: {}", self.tool, self.reason)
    }
}

impl std::error::Error for ArgumentsError {}

/// The result of `tools/call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallResult {
    /// What the tool says.
    pub content: Vec<ToolResultContent>,
    /// Whether it failed: an unknown tool, wrong arguments, or whatever can go wrong in the tool's own field.
    #[serde(default)]
    pub is_error: bool,
}

impl ToolCallResult {
    /// One text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![ToolResultContent::Text { text: text.into() }], is_error: false }
    }

    /// One text that says what went wrong and what to do.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// The result of a call of a tool that is not there.
    pub fn unknown_tool(name: &str) -> Self {
        Self::error(format!("unknown tool: {name}; tools/list names those that are there"))
    }
}

/// A part of a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum ToolResultContent {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "the schema and the errors are looked at")]
    struct Args {
        /// Whom to greet.
        name: String,
        #[serde(default)]
        places: Vec<Place>,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "the schema and the errors are looked at")]
    struct Place {
        row: u8,
    }

    fn error_of(arguments: Value) -> String {
        let params = ToolCallParams { name: "greet".to_owned(), arguments };
        params.arguments_as::<Args>().expect_err("should be refused").to_string()
    }

    #[test]
    fn the_wire_has_the_names_of_mcp() {
        let tool = Tool::new("echo", "Says it back", json!({ "type": "object" }));
        let listed = serde_json::to_value(ToolsListResult { tools: vec![tool] }).unwrap();
        assert_eq!(
            listed,
            json!({ "tools": [{ "name": "echo", "description": "Says it back", "inputSchema": { "type": "object" } }] })
        );
        assert_eq!(
            serde_json::to_value(ToolCallResult::error("no")).unwrap(),
            json!({ "content": [{ "type": "text", "text": "no" }], "isError": true })
        );
    }

    #[test]
    fn a_request_without_id_or_with_null_is_a_notification_and_params_may_be_absent() {
        for text in [r#"{"jsonrpc":"2.0","method":"x"}"#, r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#] {
            let request: Request = serde_json::from_str(text).unwrap();
            assert_eq!(request, Request::notification("x", Value::Null));
        }
    }

    #[test]
    fn a_typed_tool_shows_its_fields() {
        let schema = Tool::typed::<Args>("greet", "Greets").input_schema;
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["required"], json!(["name"]));
        assert_eq!(schema["properties"]["name"], json!({ "type": "string", "description": "Whom to greet." }));
    }

    #[test]
    fn wrong_arguments_name_the_tool_and_the_field() {
        assert_eq!(error_of(json!({})), "invalid arguments for greet: missing field `name`");
        assert_eq!(error_of(Value::Null), error_of(json!({})));
        let wrong = error_of(json!({ "name": 7 }));
        assert!(wrong.starts_with("invalid arguments for greet: name: invalid type"), "{wrong}");
        let deep = error_of(json!({ "name": "x", "places": [{ "row": 1 }, { "row": 300 }] }));
        assert!(deep.starts_with("invalid arguments for greet: places[1].row: invalid value"), "{deep}");
        assert_eq!(error_of(json!(["x"])), "invalid arguments for greet: arguments must be an object");
    }
}
