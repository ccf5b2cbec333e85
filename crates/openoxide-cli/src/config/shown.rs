//! Configuration as people are shown it. What looks like a secret is judged by `openoxide-redact`; which keys can hold one is known
//! here.

use openoxide_redact::{REDACTED, holds_secret, is_variable_name, looks_secret, redact};
use toml::Value;

use super::keys;

/// Tables whose values may be secrets whatever their names.
const TABLES: [&str; 4] = ["env_http_headers", "headers", "http_headers", "query_params"];

/// The value of a key, dotted as [`super::layers::origins`] writes it, without what is secret in it.
pub(crate) fn value(key: &str, value: &Value) -> Value {
    let names = split(key);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // A profile holds any key of the top.
    let names = match names.as_slice() {
        ["profiles", _, inner @ ..] if !inner.is_empty() => inner,
        all => all,
    };
    let is_hidden = match names {
        ["model_providers", _, "env_key"] | ["model_providers", _, "env_http_headers", _] => {
            !value.as_str().is_some_and(is_variable_name)
        }
        ["model_providers", _, "http_headers" | "query_params", ..] => true,
        // A key that nothing reads is often the one that another program wants the secret in.
        ["model_providers", _, ..] => !keys::is_known(names),
        ["shell_environment_policy", "set", name] => looks_secret(name) || value.as_str().is_some_and(holds_secret),
        _ if keys::is_known(names) => false,
        _ => names.iter().any(|name| is_secret_name(name)),
    };
    if is_hidden { Value::String(REDACTED.to_owned()) } else { without_secrets(value) }
}

/// A variable's name from configuration, or a stand-in where it rather looks like a key that was put in its place.
pub(crate) fn variable(name: &str) -> &str {
    if is_variable_name(name) { name } else { REDACTED }
}

/// What a parser says of a text, without the values that it quotes: `invalid type: string "sk-...", expected ...`.
pub(crate) fn message(error: &str) -> String {
    const QUOTES: &str = "string \"";
    let mut out = String::new();
    let mut rest = error.trim();
    while let Some(at) = rest.find(QUOTES) {
        out.push_str(&rest[..at + QUOTES.len() - 2]);
        let inside = &rest[at + QUOTES.len()..];
        let mut is_escaped = false;
        let end = inside.find(|c| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        rest = end.map_or("", |end| &inside[end + 1..]);
    }
    redact(&(out + rest)).replace('\n', "; ")
}

fn is_secret_name(name: &str) -> bool {
    looks_secret(name) || TABLES.contains(&name)
}

fn without_secrets(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact(text)),
        Value::Array(list) => Value::Array(list.iter().map(without_secrets).collect()),
        Value::Table(table) => {
            let entry = |(name, value): (&String, &Value)| {
                let value =
                    if is_secret_name(name) { Value::String(REDACTED.to_owned()) } else { without_secrets(value) };
                (name.clone(), value)
            };
            Value::Table(table.iter().map(entry).collect())
        }
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => value.clone(),
    }
}

/// The names of a dotted key, some of which are quoted.
fn split(key: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let (mut is_quoted, mut is_escaped) = (false, false);
    for c in key.chars() {
        match c {
            '"' if !is_escaped => is_quoted = !is_quoted,
            '.' if !is_quoted => names.push(String::new()),
            '\\' if is_quoted && !is_escaped => {
                is_escaped = true;
                continue;
            }
            _ => names.last_mut().into_iter().for_each(|name| name.push(c)),
        }
        is_escaped = false;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown_and_the_rest_is() {
        for (key, text, shown) in [
            ("model_providers.x.base_url", "http://u:hunter2@h/v1?key=hunter2", "http://[redacted]@h/v1?[redacted]"),
            ("model_providers.x.base_url", "http://h:1/v1", "http://h:1/v1"),
            ("model_providers.x.api_key", "hunter2", REDACTED),
            ("model_providers.x.experimental_bearer_token", "hunter2", REDACTED),
            ("model_providers.x.anything.below", "hunter2", REDACTED),
            ("profiles.p.model_providers.x.anything", "hunter2", REDACTED),
            ("model_providers.\"a.b\".env_key", "sk-hunter2", REDACTED),
            ("model_providers.x.env_key", "gsk_hunter2hunter2hunter2", REDACTED),
            ("model_providers.x.env_key", "MY_API_KEY", "MY_API_KEY"),
            ("model_providers.x.env_http_headers.x-team", "TEAM", "TEAM"),
            ("model_providers.x.env_http_headers.x-team", "hunter 2", REDACTED),
            ("model_providers.x.http_headers.x-title", "OpenOxide", REDACTED),
            ("model_providers.x.query_params.v", "1", REDACTED),
            ("shell_environment_policy.set.GITHUB_TOKEN", "hunter2", REDACTED),
            ("shell_environment_policy.set.HTTP_PROXY", "http://u:hunter2@h", REDACTED),
            ("shell_environment_policy.set.EDITOR", "vi", "vi"),
            ("openai_api_key", "hunter2", REDACTED),
            ("mcp_servers.x.http_headers.a", "hunter2", REDACTED),
            ("mcp_servers.x.url", "https://hunter2@h/mcp", "https://[redacted]@h/mcp"),
            ("compact_prompt", "keep sk-hunter2hunter2", "keep [redacted]"),
            ("tool_output_token_limit", "as a text", "as a text"),
            ("projects.\"/a/key.d\".trust_level", "trusted", "trusted"),
        ] {
            let told = value(key, &Value::String(text.to_owned()));
            assert_eq!(told.as_str(), Some(shown), "{key}");
        }
        let table: toml::Table = "list = [{ token = 'hunter2', name = 'n' }, 'http://u:hunter2@h']".parse().unwrap();
        let told = value("unknown", &Value::Table(table)).to_string();
        assert!(!told.contains("hunter2") && told.contains("\"n\""), "{told}");
        assert_eq!(value("tool_output_token_limit", &Value::Integer(5)), Value::Integer(5));
    }

    #[test]
    fn what_a_parser_quotes_is_left_out() {
        let told = message("invalid type: string \"sk-\\\"hunter2\", expected a map\nin `x`\n");
        assert_eq!(told, "invalid type: string, expected a map; in `x`");
        assert_eq!(message("unknown variant `none`, expected `all`"), "unknown variant `none`, expected `all`");
        assert_eq!(message("string \"open"), "string");
    }
}
