//! Who may depend on whom: the arrows of docs/architecture.md, checked on what `cargo metadata` says.
//!
//! Arrows between our crates are judged on normal and build dependencies; a dev-dependency may point anywhere below,
//! and the test-support crate may be nothing else. Bans on other people's crates are judged on direct or on all
//! (transitive) normal dependencies, as each rule says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Each of our crates with the crates of ours that it may use.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "openoxide-cli",
        &[
            "openoxide-app-server",
            "openoxide-mcp-server",
            "openoxide-mcp-protocol",
            "openoxide-exec-server",
            "openoxide-core",
            "openoxide-llm",
            "openoxide-providers",
            "openoxide-redact",
            "openoxide-sandbox",
            "openoxide-apply-patch",
            "openoxide-display",
        ],
    ),
    ("openoxide-app-server", &["openoxide-rpc", "openoxide-core"]),
    ("openoxide-mcp-server", &["openoxide-mcp-protocol", "openoxide-rpc", "openoxide-core"]),
    ("openoxide-mcp-protocol", &["openoxide-rpc"]),
    ("openoxide-exec-server", &["openoxide-rpc", "openoxide-sandbox"]),
    ("openoxide-rpc", &[]),
    ("openoxide-core", &["openoxide-llm", "openoxide-sandbox", "openoxide-apply-patch", "openoxide-display"]),
    ("openoxide-llm", &[]),
    ("openoxide-providers", &["openoxide-llm", "openoxide-redact"]),
    ("openoxide-redact", &[]),
    ("openoxide-sandbox", &["openoxide-redact"]),
    ("openoxide-display", &[]),
    ("openoxide-apply-patch", &["openoxide-display"]),
    ("openoxide-conformance", &["openoxide-mcp-server", "openoxide-mcp-protocol", "openoxide-rpc"]),
    ("openoxide-test-support", &["openoxide-mcp-protocol", "openoxide-core", "openoxide-llm"]),
    ("xtask", &[]),
];

/// Used for tests alone.
const DEV_ONLY: &str = "openoxide-test-support";

/// Of our crates only this one may name this crate, in whatever kind of dependency.
const SOLE_USERS: &[(&str, &str)] = &[("rmcp", "openoxide-mcp-protocol")];

/// Crates that must not be among the direct normal dependencies.
const NOT_DIRECTLY: &[(&str, &[&str])] = &[("openoxide-mcp-protocol", &["tokio"])];

/// Crates that must not be among the normal dependencies, however far away.
const NOT_AT_ALL: &[(&str, &[&str])] = &[
    ("openoxide-core", &["rmcp", "clap", "rustls", "reqwest"]),
    ("openoxide-llm", &["rmcp", "clap", "tokio", "rustls", "reqwest"]),
    ("openoxide-providers", &["rmcp", "clap"]),
    ("openoxide-sandbox", &["rmcp", "clap"]),
    ("openoxide-apply-patch", &["rmcp", "clap", "tokio"]),
];

/// Crates that are small without a feature, with all they may depend on then. Other normal dependencies are optional, no
/// feature is on by default, and tokio has no network.
const SMALL: &[(&str, &[&str])] =
    &[("openoxide-rpc", &["memchr", "serde", "serde_json", "thiserror", "tokio", "tracing"])];

/// One package of the build: its name and what it depends on.
struct Package<'a> {
    name: &'a str,
    edges: Vec<Edge<'a>>,
}

struct Edge<'a> {
    to: &'a str,
    is_normal: bool,
    is_build: bool,
}

/// The arrows that point where they must not, from the output of `cargo metadata --format-version 1`.
pub(crate) fn check(metadata: &Value) -> Vec<String> {
    let packages = packages(metadata);
    let names: BTreeMap<&str, &str> = packages.iter().map(|(id, package)| (*id, package.name)).collect();
    let members: Vec<&str> = strings(&metadata["workspace_members"]).collect();
    let ours: BTreeSet<&str> = members.iter().filter_map(|id| names.get(id).copied()).collect();
    let mut findings = list(&metadata["packages"]).flat_map(larger_than_small).collect::<Vec<_>>();
    for id in &members {
        let Some(package) = packages.get(id) else { continue };
        let from = package.name;
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == from) else {
            findings.push(format!("{from} has no place in the layers; give it one in crates/xtask/src/layers.rs"));
            continue;
        };
        for edge in &package.edges {
            let Some(to) = names.get(edge.to).copied() else { continue };
            let counts = edge.is_normal || edge.is_build;
            if to == DEV_ONLY && counts {
                findings.push(format!("{from} uses {to} outside its tests; make it a dev-dependency"));
            } else if ours.contains(to) && counts && !allowed.contains(&to) {
                let may = if allowed.is_empty() { "none of ours".to_owned() } else { allowed.join(", ") };
                findings.push(format!("{from} must not depend on {to}; it may use {may}"));
            }
            if let Some((_, user)) = SOLE_USERS.iter().find(|(name, user)| *name == to && *user != from) {
                findings.push(format!(
                    "{from} must not depend on {to}; only {user} names it and re-exports what others need"
                ));
            }
            if edge.is_normal && is_banned(NOT_DIRECTLY, from, to) {
                findings.push(format!("{from} must not depend on {to} directly"));
            }
        }
        for (banned, way) in reachable(&packages, id) {
            if is_banned(NOT_AT_ALL, from, banned) {
                findings.push(format!("{from} must not depend on {banned}, not even by way of others: {way}"));
            }
        }
    }
    findings
}

/// The crates from the top down: each uses only such as come after it.
pub(crate) fn described() -> Vec<String> {
    let mut floors: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (name, _) in ARROWS {
        floors.entry(height(name)).or_default().push(name);
    }
    let floors: Vec<String> = floors.into_values().rev().map(|names| names.join(" ")).collect();
    vec![format!("crates: {}", floors.join(" > "))]
}

/// How many crates lie below one, in the longest way down.
fn height(name: &str) -> usize {
    let below = ARROWS.iter().find(|(from, _)| *from == name).map_or(&[][..], |(_, below)| below);
    below.iter().map(|name| 1 + height(name)).max().unwrap_or(0)
}

/// What a crate that is small without a feature has too much.
fn larger_than_small(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some((_, allowed)) = SMALL.iter().find(|(small, _)| *small == name) else { return Vec::new() };
    let mut findings = Vec::new();
    let always = list(&package["dependencies"]).filter(|one| one["kind"].is_null() && one["optional"] == false);
    for dependency in always {
        let to = dependency["name"].as_str().unwrap_or_default();
        if !allowed.contains(&to) {
            findings.push(format!("{name} depends on {to} without a feature; make it optional, behind `listeners`"));
        }
        if to == "tokio" && strings(&dependency["features"]).any(|feature| feature == "net") {
            findings.push(format!("{name} takes the network of tokio without a feature; put it behind `listeners`"));
        }
    }
    if strings(&package["features"]["default"]).next().is_some() {
        findings.push(format!("{name} has features by default; whoever needs one names it"));
    }
    findings
}

fn is_banned(rules: &[(&str, &[&str])], from: &str, to: &str) -> bool {
    rules.iter().any(|(name, banned)| *name == from && banned.contains(&to))
}

fn packages(metadata: &Value) -> BTreeMap<&str, Package<'_>> {
    let names: BTreeMap<&str, &str> = list(&metadata["packages"])
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    list(&metadata["resolve"]["nodes"])
        .filter_map(|node| {
            let id = node["id"].as_str()?;
            let edges = list(&node["deps"]).filter_map(edge).collect();
            Some((id, Package { name: names.get(id).copied()?, edges }))
        })
        .collect()
}

fn edge(dependency: &Value) -> Option<Edge<'_>> {
    let kinds: Vec<Option<&str>> = list(&dependency["dep_kinds"]).map(|kind| kind["kind"].as_str()).collect();
    let has = |kind| kinds.contains(&kind);
    Some(Edge { to: dependency["pkg"].as_str()?, is_normal: has(None), is_build: has(Some("build")) })
}

/// Every package that `from` needs by normal dependencies, with the way to it.
fn reachable<'a>(packages: &BTreeMap<&'a str, Package<'a>>, from: &'a str) -> Vec<(&'a str, String)> {
    let mut seen = BTreeSet::from([from]);
    let mut waiting = vec![(from, String::new())];
    let mut found = Vec::new();
    while let Some((id, way)) = waiting.pop() {
        let Some(package) = packages.get(id) else { continue };
        let way = if way.is_empty() { package.name.to_owned() } else { format!("{way} > {}", package.name) };
        if id != from {
            found.push((package.name, way.clone()));
        }
        for edge in package.edges.iter().filter(|edge| edge.is_normal) {
            if seen.insert(edge.to) {
                waiting.push((edge.to, way.clone()));
            }
        }
    }
    found
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    list(value).filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Metadata of a workspace with these arrows (from, to, kind); whatever begins with `openoxide` or is `xtask` is a
    /// member.
    fn metadata(arrows: &[(&str, &str, Option<&str>)]) -> Value {
        let names: BTreeSet<&str> = arrows.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
        let is_ours = |name: &&&str| name.starts_with("openoxide") || **name == "xtask";
        let nodes: Vec<Value> = names
            .iter()
            .map(|name| {
                let deps: Vec<Value> = arrows
                    .iter()
                    .filter(|(from, ..)| from == name)
                    .map(|(_, to, kind)| json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] }))
                    .collect();
                json!({ "id": name, "deps": deps })
            })
            .collect();
        json!({
            "packages": names.iter().map(|name| json!({ "id": name, "name": name })).collect::<Vec<_>>(),
            "workspace_members": names.iter().filter(is_ours).collect::<Vec<_>>(),
            "resolve": { "nodes": nodes },
        })
    }

    #[test]
    fn arrows_that_go_down_are_fine() {
        let arrows = [
            ("openoxide-cli", "openoxide-mcp-server", None),
            ("openoxide-cli", "openoxide-sandbox", None),
            ("openoxide-cli", "clap", None),
            ("openoxide-mcp-server", "openoxide-mcp-protocol", None),
            ("openoxide-mcp-server", "openoxide-core", None),
            ("openoxide-mcp-server", "openoxide-test-support", Some("dev")),
            ("openoxide-mcp-protocol", "rmcp", None),
            ("rmcp", "tokio", None),
            ("openoxide-core", "openoxide-llm", None),
            ("openoxide-core", "tokio", None),
            ("openoxide-apply-patch", "similar", None),
            ("openoxide-apply-patch", "tokio", Some("dev")),
        ];
        assert_eq!(check(&metadata(&arrows)), Vec::<String>::new());
    }

    #[test]
    fn each_forbidden_arrow_is_reported_by_name() {
        for (from, to, kind) in [
            ("openoxide-core", "openoxide-mcp-server", None),
            ("openoxide-core", "openoxide-mcp-protocol", Some("build")),
            ("openoxide-providers", "openoxide-sandbox", None),
            ("openoxide-core", "openoxide-providers", None),
            ("openoxide-apply-patch", "openoxide-providers", None),
            ("openoxide-mcp-protocol", "openoxide-core", None),
            ("openoxide-mcp-server", "openoxide-cli", None),
            ("openoxide-mcp-server", "rmcp", None),
            ("openoxide-mcp-server", "rmcp", Some("dev")),
            ("openoxide-mcp-protocol", "tokio", None),
            ("openoxide-core", "clap", None),
            ("openoxide-core", "openoxide-test-support", None),
            ("xtask", "openoxide-core", None),
        ] {
            let findings = check(&metadata(&[(from, to, kind)]));
            assert!(!findings.is_empty(), "{from} -> {to} ({kind:?}) is not seen");
            assert!(findings.iter().all(|line| line.contains(from) && line.contains(to)), "{findings:?}");
        }
    }

    #[test]
    fn a_ban_reaches_through_other_crates_and_shows_the_way() {
        let findings = check(&metadata(&[
            ("openoxide-core", "openoxide-sandbox", None),
            ("openoxide-sandbox", "helper", None),
            ("helper", "clap", None),
            ("openoxide-apply-patch", "helper", Some("dev")),
        ]));
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].ends_with("openoxide-core > openoxide-sandbox > helper > clap"), "{findings:?}");
    }

    #[test]
    fn a_small_crate_has_the_rest_behind_a_feature() {
        let package = |dependency: Value, features: Value| {
            let package = json!({ "name": "openoxide-rpc", "dependencies": [dependency], "features": features });
            check(&json!({ "packages": [package] }))
        };
        let axum = |optional| json!({ "name": "axum", "kind": null, "optional": optional, "features": [] });
        let tokio = |feature| json!({ "name": "tokio", "kind": null, "optional": false, "features": [feature] });
        assert_eq!(package(axum(true), json!({ "listeners": ["dep:axum"] })), Vec::<String>::new());
        assert_eq!(package(tokio("time"), json!({})), Vec::<String>::new());
        for findings in [
            package(axum(false), json!({})),
            package(tokio("net"), json!({})),
            package(axum(true), json!({ "default": ["x"] })),
        ] {
            assert!(findings.len() == 1 && findings[0].starts_with("openoxide-rpc "), "{findings:?}");
        }
    }

    #[test]
    fn a_crate_without_a_place_is_reported() {
        let findings = check(&metadata(&[("openoxide-utils", "serde", None)]));
        assert!(findings.len() == 1 && findings[0].contains("openoxide-utils"), "{findings:?}");
    }
}
