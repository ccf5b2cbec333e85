//! Reads one source file as far as floors need it: the modules it declares, what it imports, the paths in its code and the
//! names it defines. Comments, strings, attributes and whatever is `#[cfg(test)]` are left out. Where a path leads is for
//! `graph` to say.

use std::collections::BTreeSet;

use super::tokens::{Token, tokens};

/// What one file says about others.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// Modules declared with `mod name;`.
    pub(super) children: BTreeSet<String>,
    /// The same behind `#[cfg(test)]`.
    pub(super) test_children: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
    pub(super) paths: Vec<Path>,
    /// Names of items, however deep they are.
    pub(super) defined: BTreeSet<String>,
    /// Words of the code outside of declarations of modules and imports.
    pub(super) words: BTreeSet<String>,
}

/// A path in code.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Path {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
    /// The inline modules around it.
    pub(super) inside: Vec<String>,
}

/// One name that a `use` brings in.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Import {
    pub(super) path: Path,
    /// What it is called here; `*` for everything.
    pub(super) name: String,
    pub(super) is_public: bool,
}

/// Reads a file.
pub(super) fn read(text: &str) -> Source {
    let tokens = tokens(text);
    let mut reader = Reader { tokens: &tokens, at: 0, depth: 0, inside: Vec::new(), source: Source::default() };
    while reader.at < tokens.len() {
        reader.step();
    }
    reader.source
}

struct Reader<'a> {
    tokens: &'a [(Token, usize)],
    at: usize,
    /// Open braces.
    depth: usize,
    /// Inline modules that are open, with the depth at which each ends.
    inside: Vec<(String, usize)>,
    source: Source,
}

impl Reader<'_> {
    fn token(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead).map(|(token, _)| token)
    }

    fn word(&self, ahead: usize) -> Option<&str> {
        match self.token(ahead)? {
            Token::Word(word) => Some(word),
            Token::Colons | Token::Mark(_) => None,
        }
    }

    fn is_mark(&self, ahead: usize, mark: char) -> bool {
        self.token(ahead) == Some(&Token::Mark(mark))
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |(_, line)| *line)
    }

    fn modules(&self) -> Vec<String> {
        self.inside.iter().map(|(name, _)| name.clone()).collect()
    }

    fn step(&mut self) {
        if self.is_mark(0, '#') {
            return self.attribute();
        }
        if self.is_mark(0, '{') {
            self.depth += 1;
        } else if self.is_mark(0, '}') {
            self.depth = self.depth.saturating_sub(1);
            if self.inside.last().is_some_and(|(_, depth)| *depth == self.depth) {
                self.inside.pop();
            }
        }
        let Some(word) = self.word(0).map(str::to_owned) else {
            self.at += 1;
            return;
        };
        match word.as_str() {
            "pub" => self.public(),
            "use" if !self.is_mark(1, '<') => self.import(false),
            "mod" if self.word(1).is_some() => self.module(),
            "struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static" | "macro_rules" => {
                self.at += 1;
                if self.is_mark(0, '!') {
                    self.at += 1;
                }
                if let Some(name) = self.word(0) {
                    let name = name.to_owned();
                    self.source.defined.insert(name);
                }
            }
            _ => self.path(word),
        }
    }

    /// A visibility, which names modules without using them, and perhaps a re-export behind it.
    fn public(&mut self) {
        self.at += 1;
        if self.is_mark(0, '(') && matches!(self.word(1), Some("crate" | "super" | "self" | "in")) {
            self.skip_group();
        }
        if self.word(0) == Some("use") {
            self.import(true);
        }
    }

    fn module(&mut self) {
        let Some(name) = self.word(1).map(str::to_owned) else { return };
        self.at += 2;
        if self.is_mark(0, '{') {
            self.inside.push((name, self.depth));
        } else if self.is_mark(0, ';') {
            self.source.children.insert(name);
        }
    }

    /// A path of several segments, or a word of the code.
    fn path(&mut self, first: String) {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map(|(token, _)| token);
        let continues = matches!(before, Some(Token::Colons | Token::Mark('.')));
        let line = self.line();
        let mut segments = vec![first];
        self.at += 1;
        while self.token(0) == Some(&Token::Colons)
            && let Some(next) = self.word(1)
        {
            segments.push(next.to_owned());
            self.at += 2;
        }
        if continues {
            return;
        }
        self.source.words.insert(segments[0].clone());
        if segments.len() > 1 {
            let inside = self.modules();
            self.source.paths.push(Path { segments, line, inside });
        }
    }

    fn import(&mut self, is_public: bool) {
        self.at += 1;
        // A leading `::` names another crate.
        if self.token(0) == Some(&Token::Colons) {
            while self.token(0).is_some() && !self.is_mark(0, ';') {
                self.at += 1;
            }
            return;
        }
        self.tree(&[], is_public);
    }

    /// One branch of a `use`, up to its comma, brace or semicolon.
    fn tree(&mut self, before: &[String], is_public: bool) {
        let (line, inside) = (self.line(), self.modules());
        let mut segments = before.to_vec();
        let mut name = None;
        while let Some(token) = self.token(0).cloned() {
            match token {
                Token::Word(word) if word == "as" => {
                    self.at += 1;
                    name = Some(self.word(0).unwrap_or("_").to_owned());
                }
                Token::Word(word) if word == "self" && !segments.is_empty() => {}
                Token::Word(word) => segments.push(word),
                Token::Colons => {}
                Token::Mark('*') => name = Some("*".to_owned()),
                Token::Mark('{') => {
                    self.at += 1;
                    while self.token(0).is_some() && !self.is_mark(0, '}') {
                        self.tree(&segments, is_public);
                        if self.is_mark(0, ',') {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                Token::Mark(_) => break,
            }
            self.at += 1;
        }
        let name = name.or_else(|| segments.last().cloned()).unwrap_or_default();
        self.source.imports.push(Import { path: Path { segments, line, inside }, name, is_public });
    }

    /// An attribute, and the item behind it where that is for tests alone.
    fn attribute(&mut self) {
        self.at += 1;
        if self.is_mark(0, '!') {
            self.at += 1;
        }
        let from = self.at;
        self.skip_group();
        let words: Vec<&str> = (from..self.at).filter_map(|at| self.tokens[at].0.word()).collect();
        if words.first() == Some(&"cfg") && words.contains(&"test") && !words.contains(&"not") {
            self.skip_item();
        }
    }

    /// Skips one group of parentheses, brackets or braces with all that is in it.
    fn skip_group(&mut self) {
        let mut depth = 0_usize;
        while let Some(token) = self.token(0) {
            match token {
                Token::Mark('(' | '[' | '{') => depth += 1,
                Token::Mark(')' | ']' | '}') => depth = depth.saturating_sub(1),
                Token::Mark(_) | Token::Colons | Token::Word(_) => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Skips an item, a statement, a field or an arm.
    fn skip_item(&mut self) {
        while self.is_mark(0, '#') {
            self.at += 1;
            self.skip_group();
        }
        if self.word(0) == Some("pub") {
            self.at += 1;
            if self.is_mark(0, '(') {
                self.skip_group();
            }
        }
        if self.word(0) == Some("mod")
            && self.is_mark(2, ';')
            && let Some(name) = self.word(1).map(str::to_owned)
        {
            self.source.test_children.insert(name);
        }
        let ends_with_semicolon = matches!(self.word(0), Some("use" | "const" | "static" | "type" | "let"));
        let items =
            ["mod", "fn", "async", "unsafe", "extern", "struct", "enum", "union", "impl", "trait", "macro_rules"];
        let is_item = ends_with_semicolon || self.word(0).is_some_and(|word| items.contains(&word));
        while let Some(token) = self.token(0) {
            match token {
                Token::Mark(';') => {
                    self.at += 1;
                    return;
                }
                Token::Mark(',') if !is_item => return,
                Token::Mark('}') => return,
                Token::Mark('{') if !ends_with_semicolon => return self.skip_group(),
                Token::Mark('(' | '[' | '{') => self.skip_group(),
                Token::Mark(_) | Token::Colons | Token::Word(_) => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(source: &Source) -> Vec<String> {
        source.paths.iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn only_code_counts() {
        let source = read(
            r##"//! crate::a::A
/* crate::b::B /* nested */ crate::c::C */
mod child;
#[cfg(test)]
mod child_tests;
#[serde(with = "crate::d")]
pub(in crate::e) struct Here<'a> { s: &'a str, c: char }
fn f() { let _ = ("crate::f::F", r#"crate::g::"G""#, '"', '\'', b'x', crate::real::one()); }
#[cfg(test)]
use crate::h::H;
#[cfg(not(test))]
fn real() { super::two::<u8>(); x.y(child::three); }
#[cfg(test)]
mod tests { use super::*; fn f() { crate::i::I; } }
fn last() { Self::no(); std::fs::read(); }
"##,
        );
        assert_eq!(paths(&source), ["crate::real::one", "super::two", "child::three", "Self::no", "std::fs::read"]);
        assert_eq!(source.paths[0].line, 8);
        assert!(source.imports.is_empty(), "{:?}", source.imports);
        assert!(source.children.contains("child") && source.test_children.contains("child_tests"));
        assert!(source.defined.contains("Here") && source.defined.contains("last") && !source.defined.contains("F"));
    }

    #[test]
    fn every_form_of_use_is_read() {
        let source = read(
            "use crate::a::{self, b::{C, D as E}, f::*};\npub(crate) use self::g;\nmod inner {\n use super::h;\n}\nuse ::serde::x;\nuse i::J;\n",
        );
        let read: Vec<(String, &str)> =
            source.imports.iter().map(|import| (import.path.segments.join("::"), import.name.as_str())).collect();
        let expected = [
            ("crate::a", "a"),
            ("crate::a::b::C", "C"),
            ("crate::a::b::D", "E"),
            ("crate::a::f", "*"),
            ("self::g", "g"),
            ("super::h", "h"),
            ("i::J", "J"),
        ];
        assert_eq!(read, expected.map(|(path, name)| (path.to_owned(), name)));
        assert!(source.imports[4].is_public && !source.imports[0].is_public);
        assert_eq!((source.imports[4].path.line, &source.imports[5].path.inside[..]), (2, &["inner".to_owned()][..]));
    }
}
