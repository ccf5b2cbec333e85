//! The keys that configuration knows, and the places of unknown ones in a file.

use toml::de::{DeTable, DeValue};

/// Every key, dotted; `*` stands for one name of the user's, and a last `**` for whatever follows.
pub(crate) const KNOWN: &[&str] = &[
    "approval_policy",
    "compact_prompt",
    "history.max_age_days",
    "history.max_bytes",
    "history.max_bytes_per_principal",
    "history.max_load_bytes",
    "history.persistence",
    "max_steps",
    "max_turn_seconds",
    "max_turn_tokens",
    "mcp_server.abandoned_turn_sec",
    "mcp_server.allow_roots",
    "mcp_server.answer_within_sec",
    "mcp_server.approval_fallback",
    "mcp_server.approval_timeout_sec",
    "mcp_server.http.body_timeout_sec",
    "mcp_server.http.head_timeout_sec",
    "mcp_server.http.max_body_bytes",
    "mcp_server.http.max_connections",
    "mcp_server.http.max_sessions",
    "mcp_server.http.max_unauthenticated",
    "mcp_server.http.max_unauthenticated_per_peer",
    "mcp_server.http.max_unread_bytes",
    "mcp_server.idle_thread_sec",
    "mcp_server.max_approval",
    "mcp_server.max_diff_bytes",
    "mcp_server.max_history_bytes",
    "mcp_server.max_open_prompt_bytes",
    "mcp_server.max_open_turns",
    "mcp_server.max_picture_bytes",
    "mcp_server.max_queued_turns",
    "mcp_server.max_sandbox",
    "mcp_server.max_threads",
    "mcp_server.max_wait_sec",
    "mcp_server.person_takes_ms",
    "mcp_server.principal_share_percent",
    "mcp_server.task_after_ms",
    "mcp_server.write_timeout_sec",
    "model",
    "model_auto_compact_token_limit",
    "model_context_window",
    "model_max_output_tokens",
    "model_provider",
    "model_providers.*.allow_plain_http",
    "model_providers.*.base_url",
    "model_providers.*.connect_timeout_ms",
    "model_providers.*.env_http_headers.*",
    "model_providers.*.env_key",
    "model_providers.*.header_timeout_ms",
    "model_providers.*.http_headers.*",
    "model_providers.*.name",
    "model_providers.*.query_params.*",
    "model_providers.*.request_max_retries",
    "model_providers.*.stream_idle_timeout_ms",
    "model_providers.*.stream_max_retries",
    "model_providers.*.supports_freeform",
    "model_providers.*.supports_images",
    "model_providers.*.wire_api",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "profile",
    "profiles.*.**",
    "project_doc_max_bytes",
    "projects.*.trust_level",
    "rules",
    "sandbox_mode",
    "sandbox_workspace_write.exclude_slash_tmp",
    "sandbox_workspace_write.exclude_tmpdir_env_var",
    "sandbox_workspace_write.network_access",
    "sandbox_workspace_write.private_tmp",
    "sandbox_workspace_write.writable_roots",
    "shell_environment_policy.exclude",
    "shell_environment_policy.inherit",
    "shell_environment_policy.login_path",
    "shell_environment_policy.set.*",
    "tool_output_token_limit",
];

/// A key that nothing reads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// Dotted.
    pub(crate) key: String,
    /// The known key that looks most like it.
    pub(crate) nearest: &'static str,
    /// Where it stands, both from 1.
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// The unknown keys of a file, in its order. A text that is no TOML has none; reading it fails elsewhere.
pub(crate) fn unknown(text: &str) -> Vec<Unknown> {
    let mut found = Vec::new();
    if let Ok(table) = DeTable::parse(text) {
        visit(table.get_ref(), &mut Vec::new(), text, &mut found);
    }
    found.sort_by_key(|unknown| (unknown.line, unknown.column));
    found
}

fn visit<'a>(table: &'a DeTable<'_>, path: &mut Vec<&'a str>, text: &str, found: &mut Vec<Unknown>) {
    for (name, value) in table {
        path.push(name.get_ref());
        match known(path) {
            Known::Key => {}
            Known::Above => {
                // A value where a table belongs is a wrong type, which reading the file says.
                if let DeValue::Table(inner) = value.get_ref() {
                    visit(inner, path, text, found);
                }
            }
            Known::No => {
                let key = path.join(".");
                let (line, column) = place(text, name.span().start);
                found.push(Unknown { nearest: nearest(&key), key, line, column });
            }
        }
        path.pop();
    }
}

/// Whether something reads the key, or one above it.
pub(crate) fn is_known(path: &[&str]) -> bool {
    (1..=path.len()).any(|length| matches!(known(&path[..length]), Known::Key))
}

enum Known {
    /// The key itself, or below one whose names are the user's.
    Key,
    /// A table in which known keys are.
    Above,
    No,
}

fn known(path: &[&str]) -> Known {
    let mut is_above = false;
    for pattern in KNOWN {
        // A profile holds any key of the top.
        if let ["profiles", _, inner @ ..] = path {
            return if inner.is_empty() { Known::Above } else { known(inner) };
        }
        let mut parts = pattern.split('.');
        let fits = path.iter().all(|name| parts.next().is_some_and(|part| part == "*" || part == *name));
        match (fits, parts.next()) {
            (true, None) => return Known::Key,
            (true, Some(_)) => is_above = true,
            (false, _) => {}
        }
    }
    if is_above { Known::Above } else { Known::No }
}

/// The known key that looks most like one.
pub(crate) fn nearest(key: &str) -> &'static str {
    let distance = |known: &&str| strsim::damerau_levenshtein(known, key);
    KNOWN.iter().copied().min_by_key(distance).unwrap_or("model")
}

/// Line and column of a byte, both from 1.
pub(crate) fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_found_with_their_place_and_the_nearest_known_one() {
        let text = "model = \"a\"\nmodle = 1\n[model_providers.x]\nbase_url = \"u\"\n  base_ulr = \"u\"\n\
                    [profiles.p]\nsandbox_mod = \"read-only\"\n[model_providers.x.http_headers]\nanything = \"v\"\n";
        let found: Vec<_> = unknown(text).into_iter().map(|u| (u.key, u.nearest, u.line, u.column)).collect();
        assert_eq!(
            found,
            [
                ("modle".to_owned(), "model", 2, 1),
                ("model_providers.x.base_ulr".to_owned(), "model_providers.*.base_url", 5, 3),
                ("profiles.p.sandbox_mod".to_owned(), "profiles.*.**", 7, 1),
            ]
        );
    }

    #[test]
    fn the_list_has_what_is_read_and_nothing_else() {
        let mut read = super::super::asked::keys::<crate::config::Config>();
        // The layers read these and hand them on to nobody.
        read.extend(["profile", "profiles.*.**", "projects.*.trust_level"].map(str::to_owned));
        let unlisted: Vec<&String> = read.iter().filter(|key| !KNOWN.contains(&key.as_str())).collect();
        let unread: Vec<&&str> = KNOWN.iter().filter(|key| !read.iter().any(|read| read == **key)).collect();
        assert!(unlisted.is_empty() && unread.is_empty(), "not in KNOWN: {unlisted:?}; read by nothing: {unread:?}");
    }

    #[test]
    fn the_list_is_sorted_and_without_doubles() {
        assert!(KNOWN.is_sorted_by(|a, b| a < b));
    }
}
