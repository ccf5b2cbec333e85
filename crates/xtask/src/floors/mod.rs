//! The floors inside a crate: an ordered list of modules, of which each uses only those below it, judged on the paths in
//! its sources. `tokens` and `source` read a file, `graph` says which file uses which, `circles` finds files that use each
//! other.

mod circles;
mod graph;
mod source;
mod tokens;

use std::io;
use std::path::Path;

use graph::{Arrow, Graph};

/// The crates with floors, and their modules from the top down. Modules in one line share a floor; a name such as
/// `call::report` gives a module below a floor's folder a floor of its own. The root (`lib.rs`) is above all.
const FLOORS: &[(&str, &[&str])] = &[
    (
        "openoxide-core",
        &["manager", "thread", "turn", "tools", "rules", "store", "api", "shares instructions path_text mutex"],
    ),
    (
        "openoxide-mcp-server",
        &[
            "transport",
            "dispatch",
            "methods",
            "call",
            "connection",
            "server",
            "compat",
            "convert",
            "service principal clock random",
        ],
    ),
];

/// What points up or in a circle in the crates below `root`.
///
/// # Errors
/// Where a file or directory cannot be read.
pub(crate) fn check(root: &Path) -> io::Result<Vec<String>> {
    let mut findings = Vec::new();
    for (package, floors) in FLOORS {
        let sources = root.join("crates").join(package).join("src");
        let mut files = Vec::new();
        for path in crate::shape::files_below(&sources)? {
            let name = path.strip_prefix(&sources).unwrap_or(&path).to_string_lossy().into_owned();
            if name.ends_with(".rs") && !name.starts_with("bin/") {
                files.push((name, std::fs::read_to_string(&path)?));
            }
        }
        findings.extend(judge(&format!("crates/{package}/src"), floors, &Graph::new(&files)));
    }
    Ok(findings)
}

/// The floors that are judged, one crate a line.
pub(crate) fn described() -> Vec<String> {
    let line = |(package, floors): &(&str, &[&str])| format!("{package}: {}", floors.join(" > "));
    FLOORS.iter().map(line).collect()
}

fn judge(sources: &str, floors: &[&str], graph: &Graph) -> Vec<String> {
    let mut findings = unplaced(sources, floors, graph);
    let arrows = graph.arrows();
    for arrow in &arrows {
        let (Some(from), to) = (floor_of(floors, &arrow.from), floor_of(floors, &arrow.to)) else { continue };
        let is_up = arrow.to.is_empty() || to.is_some_and(|to| to < from);
        if is_up {
            let below = match &floors[from + 1..] {
                [] => "nothing else of this crate".to_owned(),
                below => below.join(", "),
            };
            findings.push(format!(
                "{sources}/{}:{}: {} must not use {} ({}); it may use {below}",
                graph.file(&arrow.from),
                arrow.line,
                floors[from],
                to.map_or("the root", |to| floors[to]),
                arrow.path,
            ));
        }
    }
    for circle in circles::circles(&arrows) {
        let step = |arrow: &&Arrow| {
            let (from, to) = (graph.file(&arrow.from), graph.file(&arrow.to));
            format!("{from}:{} uses {to} ({})", arrow.line, arrow.path)
        };
        let steps: Vec<String> = circle.arrows.iter().map(step).collect();
        findings.push(format!(
            "{sources}: {} files use each other in a circle: {}; move what they share below both",
            circle.files,
            steps.join(", ")
        ));
    }
    findings
}

/// Files on no floor, and floors of no file.
fn unplaced(sources: &str, floors: &[&str], graph: &Graph) -> Vec<String> {
    let files = graph.modules().filter(|module| !module.is_empty() && floor_of(floors, module).is_none());
    let mut findings: Vec<String> = files
        .map(|module| {
            let file = graph.file(module);
            format!("{sources}/{file}: is on no floor; give it one in crates/xtask/src/floors/mod.rs")
        })
        .collect();
    for name in floors.iter().flat_map(|floor| floor.split_whitespace()) {
        if !graph.modules().any(|module| is_in(module, name)) {
            findings.push(format!("{sources}: has no module {name}; take it out of crates/xtask/src/floors/mod.rs"));
        }
    }
    findings
}

/// The floor of a module: that of the longest name it lies in.
fn floor_of(floors: &[&str], module: &str) -> Option<usize> {
    let names = floors.iter().enumerate().flat_map(|(at, floor)| floor.split_whitespace().map(move |name| (name, at)));
    names.filter(|(name, _)| is_in(module, name)).max_by_key(|(name, _)| name.len()).map(|(_, at)| at)
}

fn is_in(module: &str, name: &str) -> bool {
    module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUSE: &[&str] = &["roof", "hall::door", "hall", "cellar coal"];

    /// What is found in a house of these files, to which each test adds its own.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut house = vec![
            ("lib.rs", "mod roof; mod hall; mod cellar; mod coal;\npub use hall::Stair;\npub struct Key;"),
            ("roof.rs", "use crate::hall::Stair;\nuse crate::hall::door;"),
            ("hall/mod.rs", "pub(crate) mod door; mod stair;\npub(crate) use stair::Stair;"),
            ("hall/door.rs", "use super::Stair;"),
            ("hall/stair.rs", "use crate::cellar::Wine;\npub(crate) struct Stair;"),
            ("cellar.rs", "pub(crate) struct Wine;\nuse crate::coal::Coal;"),
            ("coal.rs", "pub(crate) struct Coal;"),
        ];
        house.retain(|(name, _)| files.iter().all(|(other, _)| other != name));
        house.extend(files);
        let files: Vec<_> = house.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        judge("src", HOUSE, &Graph::new(&files))
    }

    #[test]
    fn a_house_in_which_all_point_down_is_fine() {
        assert_eq!(found(&[]), Vec::<String>::new());
        let talk = "//! crate::roof::Tile\npub(crate) struct Coal;\nconst A: &str = \"crate::roof\";\n#[cfg(test)]\nmod tests { use crate::roof::Tile; }";
        assert_eq!(found(&[("coal.rs", talk)]), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_that_points_up_is_found_with_its_file_its_line_and_what_is_allowed() {
        for (up, what) in [
            ("use crate::{cellar, roof::Tile};", "roof (crate::roof::Tile)"),
            ("fn f() { super::roof::go(); }", "roof (super::roof::go)"),
            ("fn f() { crate::roof::Tile::new(); }", "roof (crate::roof::Tile::new)"),
            ("use crate::Stair;", "hall (crate::Stair)"),
            ("use crate::Key;", "the root (crate::Key)"),
            ("pub(crate) use crate::hall::door::Bell;", "hall::door (crate::hall::door::Bell)"),
        ] {
            let findings = found(&[("coal.rs", &format!("pub(crate) struct Coal;\n{up}"))]);
            let told = format!("src/coal.rs:2: cellar coal must not use {what}; it may use nothing else of this crate");
            assert!(findings.contains(&told), "{up}: {findings:?}");
        }
        let findings = found(&[("hall/stair.rs", "pub(crate) struct Stair;\n\nuse super::door::Bell;")]);
        let told = "src/hall/stair.rs:3: hall must not use hall::door (super::door::Bell); it may use cellar coal";
        assert!(findings.iter().any(|line| line == told), "{findings:?}");
    }

    #[test]
    fn files_that_use_each_other_are_found_on_one_floor_and_within_a_folder() {
        let findings = found(&[("coal.rs", "pub(crate) struct Coal;\nuse crate::cellar::Wine;")]);
        let told = "src: 2 files use each other in a circle: cellar.rs:2 uses coal.rs (crate::coal::Coal), \
                    coal.rs:2 uses cellar.rs (crate::cellar::Wine); move what they share below both";
        assert_eq!(findings, [told]);
        let folder = "pub(crate) mod door; mod stair;\npub(crate) use stair::Stair;\nfn f(_: Stair) {}";
        let findings = found(&[("hall/mod.rs", folder), ("hall/stair.rs", "pub(crate) struct Stair;\nuse super::f;")]);
        assert!(findings.len() == 1 && findings[0].contains("2 files use each other"), "{findings:?}");
    }

    #[test]
    fn a_file_without_a_floor_and_a_floor_without_a_file_are_found() {
        let findings = found(&[("attic.rs", "")]);
        assert!(findings.len() == 1 && findings[0].starts_with("src/attic.rs: is on no floor"), "{findings:?}");
        let files = [("lib.rs".to_owned(), String::new())];
        assert_eq!(judge("src", &["roof"], &Graph::new(&files)).len(), 1);
    }
}
