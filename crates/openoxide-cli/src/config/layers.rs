//! The layers of configuration, from the built-in values up, and which of them each value came from.
//!
//! ```text
//! built-in < /etc/openoxide/config.toml < $OPENOXIDE_HOME/config.toml < its profile < project (if trusted) < -c and -m
//! ```
//! What a call asks for lies above all of them, within the operator's ceiling.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::bail;
use openoxide_redact::redact;
use toml::{Table, Value};

use super::home::Privacy;
use super::{Config, keys, reading, shown};

/// Where the machine's configuration is.
pub(crate) const SYSTEM: &str = "/etc/openoxide/config.toml";

/// A project's configuration, beneath its directory.
const PROJECT: &str = ".openoxide/config.toml";

/// What a project, even a trusted one, does not set: who is trusted with keys, and what the server allows.
const NOT_FOR_PROJECTS: [&str; 5] = ["mcp_server", "model_providers", "profile", "profiles", "projects"];

/// One layer.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    /// As to show: a path, a profile, or the command line.
    pub(crate) name: String,
    pub(crate) table: Table,
}

/// What the layers are read from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources<'a> {
    pub(crate) system: Option<PathBuf>,
    /// `$OPENOXIDE_HOME`.
    pub(crate) home: Option<PathBuf>,
    /// The directory whose project's file is read, where the user trusts it.
    pub(crate) project: Option<PathBuf>,
    pub(crate) profile: Option<&'a str>,
    /// Each `dotted.key=value`.
    pub(crate) overrides: &'a [String],
    pub(crate) model: Option<&'a str>,
}

/// Reads all layers, the lowest first.
///
/// # Errors
/// A file that cannot be read or parsed, a value of the wrong type, a profile that does not exist, a malformed override.
pub(crate) fn read(sources: &Sources<'_>) -> anyhow::Result<Vec<Layer>> {
    let mut layers = Vec::new();
    layers.extend(sources.system.as_deref().and_then(|path| file(path, None).transpose()).transpose()?);
    let user = sources.home.as_ref().map(|home| home.join("config.toml"));
    layers.extend(user.as_deref().and_then(|path| file(path, Some(Privacy::WriteAlone)).transpose()).transpose()?);
    let so_far = merged(&layers);
    let configured = so_far.get("profile").and_then(Value::as_str).map(str::to_owned);
    if let Some(name) = sources.profile.map(str::to_owned).or(configured) {
        layers.push(profile(&so_far, &name)?);
    }
    if let Some(layer) = sources.project.as_deref().map(|at| project(&so_far, at)).transpose()?.flatten() {
        layers.push(layer);
    }
    let mut table = Table::new();
    for pair in sources.overrides {
        apply_override(&mut table, pair)?;
    }
    if let Some(model) = sources.model {
        table.insert("model".to_owned(), Value::String(model.to_owned()));
    }
    if !table.is_empty() {
        layers.push(Layer { name: "the command line".to_owned(), table });
    }
    Ok(layers)
}

/// All layers as one table.
pub(crate) fn merged(layers: &[Layer]) -> Table {
    let mut all = Table::new();
    layers.iter().for_each(|layer| lay_over(&mut all, &layer.table));
    all
}

/// Each key that is set, dotted, with its value and the name of the layer it came from.
pub(crate) fn origins(layers: &[Layer]) -> BTreeMap<String, (Value, String)> {
    let mut all = BTreeMap::new();
    for layer in layers {
        leaves(&layer.table, &mut String::new(), &mut |key, value| {
            all.insert(key.to_owned(), (value.clone(), layer.name.clone()));
        });
    }
    all
}

fn leaves(table: &Table, path: &mut String, act: &mut dyn FnMut(&str, &Value)) {
    for (name, value) in table {
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        if is_plain {
            path.push_str(name)
        } else {
            path.push_str(&format!("{name:?}"))
        }
        match value {
            Value::Table(inner) if !inner.is_empty() => leaves(inner, path, act),
            _ => act(path, value),
        }
        path.truncate(length);
    }
}

/// Tables are merged, everything else is replaced.
fn lay_over(below: &mut Table, above: &Table) {
    for (name, value) in above {
        match (below.get_mut(name), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => lay_over(inner, value),
            _ => {
                below.insert(name.clone(), value.clone());
            }
        }
    }
}

/// Reads one file; `None` where it does not exist.
fn file(path: &Path, privacy: Option<Privacy>) -> anyhow::Result<Option<Layer>> {
    reading::read(path, privacy)?.map(|text| layer(path, &text)).transpose()
}

/// A file's text as a layer.
fn layer(path: &Path, text: &str) -> anyhow::Result<Layer> {
    let shown = path.display();
    // Parsed by itself, so that an error points into the file. The line is not quoted: it may hold a key.
    let invalid = |error: toml::de::Error| {
        let at = error.span().map(|span| keys::place(text, span.start));
        let at = at.map(|(line, column)| format!("line {line}, column {column}: ")).unwrap_or_default();
        anyhow::anyhow!("{shown} is not valid: {at}{}", shown::message(error.message()))
    };
    toml::from_str::<Config>(text).map_err(invalid)?;
    let table: Table = text.parse().map_err(invalid)?;
    for keys::Unknown { key, nearest, line, column } in keys::unknown(text) {
        tracing::warn!("{shown}:{line}:{column}: unknown key {key:?} is ignored; the nearest known key is {nearest:?}");
    }
    Ok(Layer { name: shown.to_string(), table })
}

fn profile(table: &Table, name: &str) -> anyhow::Result<Layer> {
    let profiles = table.get("profiles").and_then(Value::as_table);
    let Some(found) = profiles.and_then(|profiles| profiles.get(name)).and_then(Value::as_table) else {
        let known: Vec<_> = profiles.into_iter().flat_map(Table::keys).map(String::as_str).collect();
        let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
        bail!("no profile {name:?} is configured; known: {known}. Add a table [profiles.{name}] to config.toml");
    };
    let shown = format!("profile {name}");
    Table::try_into::<Config>(found.clone())
        .map_err(|error| anyhow::anyhow!("{shown} is not valid: {}", shown::message(&error.to_string())))?;
    Ok(Layer { name: shown, table: found.clone() })
}

/// The file of the project around a directory, where the user trusts that project.
fn project(user: &Table, directory: &Path) -> anyhow::Result<Option<Layer>> {
    let projects = user.get("projects").and_then(Value::as_table);
    let is_trusted = |at: &Path| {
        let level = projects.and_then(|projects| projects.get(at.to_str()?)?.get("trust_level")?.as_str());
        level == Some("trusted")
    };
    // Nothing of a project is opened before it is known to be trusted.
    let Some(root) = directory.ancestors().find(|at| at.join(PROJECT).symlink_metadata().is_ok()) else {
        return Ok(None);
    };
    if !is_trusted(root) {
        tracing::info!("{} is not read: its project is not trusted", root.join(PROJECT).display());
        return Ok(None);
    }
    let Some(text) = reading::read_beneath(root, Path::new(PROJECT))? else { return Ok(None) };
    let mut layer = layer(&root.join(PROJECT), &text)?;
    for key in NOT_FOR_PROJECTS {
        if layer.table.remove(key).is_some() {
            tracing::warn!("{}: {key} is ignored; a project cannot set it", layer.name);
        }
    }
    Ok(Some(layer))
}

/// Applies `dotted.key=value`. The value is TOML, or else a plain string.
fn apply_override(table: &mut Table, pair: &str) -> anyhow::Result<()> {
    let Some((key, value)) = pair.split_once('=') else {
        bail!("-c {:?} has no '='; write key=value, for instance -c model=\"name\"", redact(pair));
    };
    let value = format!("value = {value}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(value.to_owned()));
    let mut parts: Vec<&str> = key.trim().split('.').collect();
    let last = parts.pop().unwrap_or_default();
    if last.is_empty() || parts.iter().any(|part| part.is_empty()) {
        bail!("-c {key:?} has an empty key; write key=value with dots between the parts of the key");
    }
    let mut at = table;
    for part in parts {
        let entry = at.entry(part).or_insert_with(|| Value::Table(Table::new()));
        let Some(inner) = entry.as_table_mut() else {
            bail!("-c {key:?}: {part:?} is a value and has no keys below it");
        };
        at = inner;
    }
    at.insert(last.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    }

    #[test]
    fn each_layer_lies_over_those_below_and_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().canonicalize().unwrap();
        let (home, work) = (place.join("home"), place.join("work/deep"));
        std::fs::create_dir_all(&work).unwrap();
        write(&place.join("etc.toml"), "model = \"system\"\nmax_steps = 1\nproject_doc_max_bytes = 1\n");
        let trust = format!("[projects.{:?}]\ntrust_level = \"trusted\"\n", place.join("work").to_str().unwrap());
        write(
            &home.join("config.toml"),
            &format!("model = \"user\"\nmax_turn_seconds = 2\n[profiles.p]\nmax_steps = 3\n{trust}"),
        );
        write(&place.join("work/.openoxide/config.toml"), "max_turn_seconds = 4\n[mcp_server]\nmax_threads = 1\n");
        let overrides = ["tool_output_token_limit=5".to_owned()];
        let sources = Sources {
            system: Some(place.join("etc.toml")),
            home: Some(home.clone()),
            project: Some(work.clone()),
            profile: Some("p"),
            overrides: &overrides,
            model: Some("flag"),
        };
        let origins = origins(&read(&sources).unwrap());
        let of = |key: &str| (origins[key].0.to_string(), origins[key].1.rsplit('/').next().unwrap().to_owned());
        assert_eq!(of("model"), ("\"flag\"".into(), "the command line".into()));
        assert_eq!(of("max_steps"), ("3".into(), "profile p".into()));
        assert_eq!(of("max_turn_seconds"), ("4".into(), "config.toml".into()));
        assert_eq!(of("project_doc_max_bytes"), ("1".into(), "etc.toml".into()));
        assert_eq!(of("tool_output_token_limit").0, "5");
        assert!(!origins.contains_key("mcp_server.max_threads"), "a project does not set it");

        write(&home.join("config.toml"), "model = \"user\"\n");
        let untrusted = Sources { home: Some(home), project: Some(work), ..Sources::default() };
        assert!(!super::origins(&read(&untrusted).unwrap()).contains_key("max_turn_seconds"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let fails = |text: &str, profile: Option<&str>, overrides: &[&str]| {
            write(&dir.path().join("config.toml"), text);
            let overrides: Vec<String> = overrides.iter().map(|pair| (*pair).to_owned()).collect();
            let home = Some(dir.path().to_path_buf());
            let sources = Sources { home, profile, overrides: &overrides, ..Sources::default() };
            format!("{:#}", read(&sources).map(|_| ()).unwrap_err())
        };
        let wrong_type = fails("a = 1\nmodel = 1\n", None, &[]);
        assert!(wrong_type.contains("config.toml") && wrong_type.contains("line 2, column 9"), "{wrong_type}");
        assert!(fails("[profiles.a]\n", Some("b"), &[]).contains("known: a"));
        assert!(fails("[profiles.a]\nmax_steps = \"x\"\n", Some("a"), &[]).contains("profile a"));
        assert!(fails("", None, &["nonsense"]).contains("no '='"));
        assert!(fails("", None, &[".x=hunter2"]).contains("empty key"));
        for (text, overrides) in [
            ("[model_providers.x]\nhttp_headers = \"hunter2\"\n", &[][..]),
            ("[model_providers.x]\napi_key = \"hunter2\n", &[]),
            ("[profiles.p.model_providers.x]\nhttp_headers = \"hunter2\"\n", &[]),
            ("", &[".x=hunter2"]),
            ("", &["a=1", "a.b=hunter2"]),
            ("", &["sk-hunter2hunter2"]),
        ] {
            let told = fails(text, text.contains("profiles").then_some("p"), overrides);
            assert!(!told.contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn a_projects_file_is_its_own_and_never_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().canonicalize().unwrap();
        let (home, work) = (place.join("home"), place.join("work"));
        write(&place.join("other/.openoxide/config.toml"), "model = \"hijack\"\n");
        write(
            &home.join("config.toml"),
            &format!("[projects.{:?}]\ntrust_level = \"trusted\"\n", work.to_str().unwrap()),
        );
        std::fs::create_dir(&work).unwrap();
        let read = |home: &Path| {
            let sources = Sources { home: Some(home.into()), project: Some(work.clone()), ..Sources::default() };
            super::read(&sources).map_err(|error| format!("{error:#}"))
        };
        std::os::unix::fs::symlink("../other/.openoxide", work.join(".openoxide")).unwrap();
        let told = read(&home).unwrap_err();
        assert!(told.contains("work/.openoxide/config.toml") && told.contains("leads out of the project"), "{told}");
        let untrusting = place.join("untrusting");
        std::fs::create_dir(&untrusting).unwrap();
        assert_eq!(read(&untrusting).unwrap().len(), 0, "what is not trusted is not looked into");

        std::fs::remove_file(work.join(".openoxide")).unwrap();
        std::fs::create_dir(work.join(".openoxide")).unwrap();
        let fifo = work.join(".openoxide/config.toml");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        assert!(read(&home).unwrap_err().contains("no regular file"));
        assert_eq!(read(&untrusting).unwrap().len(), 0);
    }
}
