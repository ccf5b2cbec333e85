//! Which file of a crate uses which other: every path is followed to the file that defines what it names, through imports
//! and re-exports.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{self, Import, Path, Source};

/// Imports that are followed for one path. A longer chain is a circle of imports, which the compiler refuses.
const LONGEST_CHAIN: usize = 16;

/// One file uses another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrow {
    /// Modules, such as `call::begin`; empty for the root.
    pub(super) from: String,
    pub(super) to: String,
    pub(super) line: usize,
    /// As it is written, but for groups.
    pub(super) path: String,
}

/// The files of one crate by module, without those for tests alone.
pub(super) struct Graph {
    sources: BTreeMap<String, Source>,
    files: BTreeMap<String, String>,
}

impl Graph {
    /// Of files by their names below `src`, such as `call/begin.rs`.
    pub(super) fn new(files: &[(String, String)]) -> Self {
        let mut graph = Self { sources: BTreeMap::new(), files: BTreeMap::new() };
        for (name, text) in files {
            let module = module_of(name);
            graph.sources.insert(module.clone(), source::read(text));
            graph.files.insert(module, name.clone());
        }
        let for_tests: Vec<String> = graph
            .sources
            .iter()
            .flat_map(|(module, source)| source.test_children.iter().map(move |child| join(module, child)))
            .collect();
        let is_test =
            |module: &String| for_tests.iter().any(|test| module == test || module.starts_with(&format!("{test}::")));
        graph.sources.retain(|module, _| !is_test(module));
        graph
    }

    /// Every module that has a file.
    pub(super) fn modules(&self) -> impl Iterator<Item = &str> {
        self.sources.keys().map(String::as_str)
    }

    /// The file of a module, below `src`.
    pub(super) fn file<'a>(&'a self, module: &'a str) -> &'a str {
        self.files.get(module).map_or(module, String::as_str)
    }

    /// Every use of another file, in order.
    pub(super) fn arrows(&self) -> Vec<Arrow> {
        let mut arrows = BTreeSet::new();
        for (module, source) in &self.sources {
            let imports = source.imports.iter().filter(|import| !is_only_passed_on(source, import));
            let imported = imports.map(|import| &import.path);
            for path in imported.chain(&source.paths) {
                let Some(absolute) = self.absolute(module, path, LONGEST_CHAIN) else { continue };
                let to = self.resolve(&absolute, LONGEST_CHAIN);
                if to != *module {
                    let (from, path, line) = (module.clone(), path.segments.join("::"), path.line);
                    arrows.insert(Arrow { from, to, line, path });
                }
            }
        }
        arrows.into_iter().collect()
    }

    /// A path from the root of the crate; none where it leads out of it.
    fn absolute(&self, module: &str, path: &Path, chain: usize) -> Option<Vec<String>> {
        let source = self.sources.get(module)?;
        let mut here: Vec<String> = module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        here.extend(path.inside.iter().cloned());
        let (first, rest) = path.segments.split_first()?;
        match first.as_str() {
            "crate" => here.clear(),
            "self" => {}
            "super" => {
                let ups = 1 + rest.iter().take_while(|segment| *segment == "super").count();
                here.truncate(here.len().checked_sub(ups)?);
                here.extend(rest[ups - 1..].iter().cloned());
                return Some(here);
            }
            child if path.inside.is_empty() && source.children.contains(child) => here.push(child.to_owned()),
            name => {
                // What was imported counts at its import, unless more of the path says which file is meant.
                let import = source.imports.iter().find(|import| import.name == name && import.path != *path)?;
                let of_import = self.absolute(module, &import.path, chain.checked_sub(1)?)?;
                if !self.sources.contains_key(&of_import.join("::")) {
                    return None;
                }
                here = of_import;
            }
        }
        here.extend(rest.iter().cloned());
        Some(here)
    }

    /// The module whose file defines what a path from the root names.
    fn resolve(&self, path: &[String], chain: usize) -> String {
        let mut module = String::new();
        let mut rest = path;
        while let Some((next, after)) = rest.split_first() {
            let below = join(&module, next);
            if !self.sources.contains_key(&below) {
                break;
            }
            (module, rest) = (below, after);
        }
        let (Some(name), Some(source), Some(chain)) = (rest.first(), self.sources.get(&module), chain.checked_sub(1))
        else {
            return module;
        };
        let at_top = || source.imports.iter().filter(|import| import.path.inside.is_empty());
        if let Some(import) = at_top().find(|import| import.name == *name)
            && let Some(absolute) = self.absolute(&module, &import.path, chain)
        {
            return self.resolve(&absolute, chain);
        }
        if !source.defined.contains(name) {
            for glob in at_top().filter(|import| import.name == "*") {
                let Some(absolute) = self.absolute(&module, &glob.path, chain) else { continue };
                let named = [&absolute[..], std::slice::from_ref(name)].concat();
                let found = self.resolve(&named, chain);
                if self.sources.get(&found).is_some_and(|source| source.defined.contains(name)) {
                    return found;
                }
            }
        }
        module
    }
}

/// Whether a file only passes on what a module below it has: its users are led to that one.
fn is_only_passed_on(source: &Source, import: &Import) -> bool {
    let first = import.path.segments.first().map(String::as_str);
    let second = import.path.segments.get(1).map(String::as_str);
    let is_below = match first {
        Some("self") => second.is_some_and(|name| source.children.contains(name)),
        first => first.is_some_and(|name| source.children.contains(name)),
    };
    import.is_public && is_below && !source.words.contains(&import.name)
}

fn module_of(file: &str) -> String {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    match stem {
        "lib" | "main" => String::new(),
        stem => stem.replace('/', "::"),
    }
}

fn join(module: &str, child: &str) -> String {
    if module.is_empty() { child.to_owned() } else { format!("{module}::{child}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Graph::new(&files).arrows().iter().map(|arrow| format!("{}>{}:{}", arrow.from, arrow.to, arrow.line)).collect()
    }

    #[test]
    fn a_path_is_followed_to_the_file_that_defines_its_name() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b; pub use b::{Deep as Shallow, Other}; pub use a::*;"),
            ("a.rs", "use crate::Shallow;\nuse crate::b;\nfn f() { b::deep::go(); }\npub struct Glob;"),
            ("b/mod.rs", "mod deep; mod user;\npub use deep::Deep;\npub struct Other;"),
            ("b/deep.rs", "pub struct Deep; pub fn go() {}"),
            ("b/user.rs", "use super::{Deep, Other};\nuse crate::Glob;\nfn f() { super::super::a::f(); }"),
        ]);
        // The import of a module and what is used of it are two arrows. What is passed on is none.
        assert_eq!(
            found,
            ["a>b:2", "a>b::deep:1", "a>b::deep:3", "b::user>a:2", "b::user>a:3", "b::user>b:1", "b::user>b::deep:1"]
        );
    }

    #[test]
    fn a_module_that_uses_what_it_passes_on_uses_it() {
        let found = arrows(&[
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b;\npub(crate) use b::B;\nfn f(_: B) {}"),
            ("a/b.rs", "pub(crate) struct B;\nmod inner { use super::super::f; }"),
        ]);
        assert_eq!(found, ["a>a::b:2", "a::b>a:2"]);
    }

    #[test]
    fn files_for_tests_do_not_count() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "#[cfg(test)]\nmod tests;\n#[cfg(test)]\nuse crate::b::B;"),
            ("a/tests.rs", "use crate::b::B;"),
            ("a/tests/more.rs", "use crate::b::B;"),
            ("b.rs", "pub(crate) struct B;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }
}
