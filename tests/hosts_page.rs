//! What docs/hosts.md tells people to write is what its form says, and starts this server: each block is parsed, and the command
//! in it is run. `tests/hosts/run` gives the same blocks to the hosts themselves.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

use std::process::{Command, Stdio};

use serde_json::{Value, json};

const PAGE: &str = include_str!("../docs/hosts.md");
const HOSTS: [&str; 8] =
    ["Claude Code", "Codex", "OpenCode", "Gemini CLI", "Qwen Code", "Copilot CLI", "Cline CLI", "Continue CLI"];

/// A fenced block: the host it stands under, its form, its text.
struct Block {
    host: &'static str,
    form: &'static str,
    text: String,
}

/// How a block has a host reach the server.
#[derive(Debug, PartialEq)]
enum Server {
    /// The program and its arguments.
    Started(Vec<String>),
    /// The address, and whether the token's variable is named.
    Reached { url: String, token: bool },
}

fn blocks() -> Vec<Block> {
    let (mut host, mut found, mut open) = ("", Vec::new(), None::<Block>);
    for line in PAGE.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(form)) => open = Some(Block { host, form, text: String::new() }),
            (None, None) => host = line.strip_prefix("## ").unwrap_or(host),
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a block does not end");
    found
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// The entry of a configuration file, whatever the host calls its members.
fn server_of_entry(entry: &Value) -> Server {
    if let Some(url) = entry["url"].as_str() {
        return Server::Reached { url: url.to_owned(), token: entry.to_string().contains("OPENOXIDE_TOKEN") };
    }
    let entry = entry.get("transport").unwrap_or(entry);
    match &entry["command"] {
        Value::String(program) => Server::Started([vec![program.clone()], strings(&entry["args"])].concat()),
        words => Server::Started(strings(words)),
    }
}

/// The command line of a host: what follows the name that the server is given.
fn server_of_line(line: &str) -> Server {
    let words: Vec<_> = line.split_whitespace().map(|word| word.trim_matches('"').to_owned()).collect();
    let at = words.iter().position(|word| word == "openoxide").unwrap();
    let told = &words[at + 1..];
    if let Some(url) = told.iter().find(|word| word.starts_with("http")) {
        return Server::Reached { url: url.clone(), token: line.contains("$OPENOXIDE_TOKEN") };
    }
    Server::Started(told.iter().filter(|word| !matches!(word.as_str(), "--" | "--yes")).cloned().collect())
}

/// As much of YAML as the page uses: a key, and below it a list with one item of scalar or JSON members.
fn yaml(text: &str) -> Value {
    let mut lines = text.lines();
    let key = lines.next().unwrap().strip_suffix(':').unwrap();
    let mut entry = serde_json::Map::new();
    for (at, line) in lines.enumerate() {
        let member = line.strip_prefix(if at == 0 { "  - " } else { "    " }).unwrap();
        let (name, value) = member.split_once(": ").unwrap();
        let value = if value.starts_with('[') { serde_json::from_str(value).unwrap() } else { json!(value) };
        entry.insert(name.to_owned(), value);
    }
    json!({key: [entry]})
}

/// The server that a block is about; none for what configures a host's own hooks.
fn server_of(block: &Block) -> Option<Server> {
    let configured: Value = match block.form {
        "sh" => return Some(server_of_line(&block.text)),
        "toml" => toml::from_str(&block.text).unwrap(),
        "json" => serde_json::from_str(&block.text).unwrap(),
        "yaml" => yaml(&block.text),
        form => panic!("a block under {} is {form:?}, which is not parsed", block.host),
    };
    if configured.get("hooks").is_some() || configured.get("hookSpecificOutput").is_some() {
        return None;
    }
    let servers = ["mcpServers", "mcp_servers", "mcp"].iter().find_map(|key| configured.get(key)).unwrap();
    let named = servers.as_array().and_then(|list| list.iter().find(|entry| entry["name"] == "openoxide"));
    Some(server_of_entry(named.unwrap_or_else(|| &servers["openoxide"])))
}

#[test]
fn each_host_has_a_block_that_starts_the_server() {
    let blocks = blocks();
    for host in HOSTS {
        let first = blocks.iter().find(|block| block.host == host).unwrap_or_else(|| panic!("no block under {host}"));
        let plain = ["openoxide", "mcp-server"].map(str::to_owned).to_vec();
        assert_eq!(server_of(first), Some(Server::Started(plain)), "{host}");
    }
    assert!(blocks.iter().all(|block| HOSTS.contains(&block.host)), "a block stands under no host");
}

#[test]
fn what_each_block_starts_is_understood() {
    let home = tempfile::tempdir().unwrap();
    for block in blocks() {
        match server_of(&block) {
            Some(Server::Started(words)) => {
                assert_eq!(words[0], "openoxide", "{}", block.host);
                let ended = Command::new(env!("CARGO_BIN_EXE_openoxide"))
                    .args(&words[1..])
                    .env("OPENOXIDE_HOME", home.path().join("home"))
                    .current_dir(home.path())
                    .stdin(Stdio::null())
                    .output()
                    .unwrap();
                assert!(ended.status.success(), "{} {words:?}: {}", block.host, String::from_utf8_lossy(&ended.stderr));
            }
            Some(Server::Reached { url, token }) => {
                assert_eq!((url.as_str(), token), ("http://127.0.0.1:8765/mcp", true), "{}", block.host);
            }
            None => assert_eq!(block.host, "Claude Code"),
        }
    }
}
