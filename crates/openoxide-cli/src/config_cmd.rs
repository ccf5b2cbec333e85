//! `openoxide config`: the effective value of each key that is set, and the layer it came from.

use std::io::Write as _;
use std::process::ExitCode;

use openoxide_core::visible_lines;
use serde_json::json;

use crate::Global;
use crate::config::{Config, layers, shown};

/// Arguments of `openoxide config`.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Print only keys that begin so.
    #[arg(value_name = "KEY")]
    key: Option<String>,
}

/// Prints.
pub(crate) fn run(args: &ConfigArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let layers = Config::layers(global)?;
    // What would stop the server stops this too, with the same words.
    Config::load(global)?;
    let mut out = std::io::stdout().lock();
    let prefix = args.key.as_deref().unwrap_or_default();
    let shown = layers::origins(&layers).into_iter().filter(|(key, _)| key.starts_with(prefix));
    let shown = shown.map(|(key, (value, from))| (key.clone(), (shown::value(&key, &value), from)));
    if args.json {
        let object: serde_json::Map<String, serde_json::Value> =
            shown.map(|(key, (value, from))| (key, json!({ "value": value, "from": from }))).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&object)?)?;
    } else {
        for (key, (value, from)) in shown {
            writeln!(out, "{}", visible_lines(&format!("{key} = {value}    # {from}")))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
