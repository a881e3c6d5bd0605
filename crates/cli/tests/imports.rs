//! No files import each other in a circle.
//!
//! Problem: files that need each other in a circle can only be read and changed together. Rule: an
//! arrow goes from file A to file B when A names, by `use` or by a path, an item that is defined in
//! B. Re-exports are followed. A file that re-exports the item counts too, unless it is that of a
//! parent module of A: a parent hands names on to its children, but another module that does so is
//! needed. A parent module is else a file like any other. The usual remedies: the items that the
//! children share move from their parent into a file of its own; a user names the file that defines
//! an item; a function takes the parts that it needs in place of the whole. Within the crates of
//! [`LAYERS`] no arrow goes up either.
//!
//! Not covered: tests (`#[cfg(test)]`), examples, and programs beside a library; items that are
//! reached through a value (methods, fields) or a glob without their names; items with the name of
//! a module beside them. Items that macros define count for the module in which they are looked up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Crates whose files and folders at the top stand in layers, the lowest first: no arrow goes up.
const LAYERS: &[(&str, &[&str])] = &[(
    "crates/linux",
    &[
        "contract", "error", "sys", "host", "regulate", "latency", "count", "clients", "schedule",
        "daemon", "doctor", "lib",
    ],
)];

/// Segments of a path, from the root of the crate.
type Names = Vec<String>;

/// A module, in a file of its own or inline.
#[derive(Default)]
struct Module {
    file: String,
    items: BTreeSet<String>,
    /// Path of each imported name, as it is written.
    imports: BTreeMap<String, Names>,
    /// Every path that occurs, imports too.
    paths: Vec<Names>,
}

#[derive(Default)]
struct Crate {
    modules: BTreeMap<Names, Module>,
    /// Modules for tests only.
    tests: Vec<Names>,
    macros: BTreeMap<String, String>,
}

/// Words and signs, without comments and literals.
fn tokens(text: &str) -> Vec<&str> {
    let (mut tokens, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (length, counts) = match literal(rest) {
            Some(length) => (length, false),
            None if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), false),
            None if rest.starts_with("/*") => {
                (rest.find("*/").map_or(rest.len(), |at| at + 2), false)
            }
            None if rest.starts_with("::") => (2, true),
            None if word > 0 => (word, true),
            None => (first.len_utf8(), !first.is_whitespace()),
        };
        if counts {
            tokens.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    tokens
}

/// Length of the string, character or lifetime at the start of a text.
fn literal(text: &str) -> Option<usize> {
    let quoted = text.trim_start_matches(['b', 'c', 'r', '#']);
    let start = text.len() - quoted.len() + 1;
    let (prefix, inner) = (&text[..start - 1], quoted.get(1..).unwrap_or_default());
    let plain = ["", "b", "c"].contains(&prefix);
    if quoted.starts_with('"') && !plain {
        let end = format!("\"{}", prefix.trim_start_matches(['b', 'c', 'r']));
        return Some(inner.find(&end).map_or(text.len(), |at| start + at + end.len()));
    }
    let quote = quoted.chars().next().filter(|q| plain && ['"', '\''].contains(q))?;
    let mut chars = inner.chars();
    if quote == '\'' && chars.next() != Some('\\') && chars.next() != Some('\'') {
        return Some(start);
    }
    let mut escaped = false;
    let end = inner.find(|c| {
        let ends = c == quote && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    Some(end.map_or(text.len(), |at| start + at + 1))
}

/// First token after the item at `at`: after its block, or its semicolon.
fn after_item(tokens: &[&str], at: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match *token {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 && ["}", ";"].contains(token) {
            return index + 1;
        }
    }
    tokens.len()
}

/// Reads the use tree at `at`, up to the sign after it; adds names and their paths.
fn use_tree(tokens: &[&str], at: &mut usize, prefix: &[String], found: &mut Vec<(String, Names)>) {
    let mut path = prefix.to_vec();
    let begin = *at;
    while ![",", "}", ";", "as"].contains(&tokens[*at]) {
        match tokens[*at] {
            "{" => {
                while tokens[*at] != "}" {
                    *at += 1;
                    use_tree(tokens, at, &path, found);
                }
                *at += 1;
                return;
            }
            "::" => {}
            "self" if !path.is_empty() => {}
            name => path.push(name.to_owned()),
        }
        *at += 1;
    }
    // A comma may end a list.
    if *at > begin {
        let name = path[path.len() - 1].clone();
        let alias = tokens[*at] == "as";
        found.push((if alias { tokens[*at + 1].to_owned() } else { name }, path));
        *at += if alias { 2 } else { 0 };
    }
}

impl Crate {
    /// Reads the sources below `src`. A program beside a library is a crate of its own, of one
    /// file: it is left out.
    fn read(src: &Path) -> Self {
        let mut all = Self::default();
        let library = src.join("lib.rs").exists();
        all.read_folder(src, &Names::new(), "", &|name| {
            library && ["main.rs", "bin"].contains(&name)
        });
        let tests = std::mem::take(&mut all.tests);
        all.modules.retain(|module, _| !tests.iter().any(|t| module.starts_with(t)));
        all
    }

    fn read_folder(
        &mut self,
        folder: &Path,
        module: &[String],
        prefix: &str,
        skipped: &dyn Fn(&str) -> bool,
    ) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let stem = name.trim_end_matches(".rs");
            let inner = below(module, stem);
            let file = format!("{prefix}{name}");
            if skipped(&name) {
                continue;
            } else if path.is_dir() {
                self.read_folder(&path, &inner, &format!("{file}/"), &|_| false);
            } else if stem != name {
                let root = ["lib", "main", "mod"].contains(&stem);
                let text = std::fs::read_to_string(&path).expect("a source");
                self.read_module(&tokens(&text), if root { module } else { &inner }, &file);
            }
        }
    }

    fn read_module(&mut self, tokens: &[&str], path: &[String], file: &str) {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        let (mut at, mut depth) = (0, 0);
        while at < tokens.len() {
            let rest = &tokens[at..];
            match *rest {
                ["#", "[", "cfg", "(", "test", ..]
                | ["#", "[", "cfg", "(", "all", "(", "test", ..] => {
                    let end = after_item(tokens, at);
                    if let [.., "mod", name, ";"] = tokens[at..end] {
                        self.tests.push(below(path, name));
                    }
                    at = end;
                    continue;
                }
                ["mod", name, "{", ..] => {
                    let end = after_item(tokens, at);
                    self.read_module(&tokens[at + 3..end - 1], &below(path, name), file);
                    at = end;
                    continue;
                }
                ["use", next, ..] if next != "<" => {
                    at += 1;
                    let mut found = Vec::new();
                    use_tree(tokens, &mut at, &[], &mut found);
                    module.paths.extend(found.iter().map(|(_, path)| path.clone()));
                    module.imports.extend(found);
                }
                ["{", ..] => depth += 1,
                ["}", ..] => depth -= 1,
                ["macro_rules", "!", name, ..] => {
                    self.macros.insert(name.to_owned(), file.to_owned());
                }
                [
                    "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static",
                    name,
                    ..,
                ] if depth == 0 => {
                    module.items.insert(name.to_owned());
                }
                [first, "::", ..] if is_word(first) => {
                    let mut names = vec![first.to_owned()];
                    while let ["::", name, ..] = tokens[at + 1..]
                        && is_word(name)
                    {
                        names.push(name.to_owned());
                        at += 2;
                    }
                    module.paths.push(names);
                }
                _ => {}
            }
            at += 1;
        }
        self.modules.insert(path.to_vec(), module);
    }

    /// Adds the files to which `path` leads from `module`, for a name that is written in `writer`:
    /// that of the item, and those that re-export it, without the writer's parents. None: another
    /// crate, a module, a local name.
    fn follow<'a>(
        &'a self,
        (writer, module): (&[String], &[String]),
        path: &[String],
        steps: usize,
        found: &mut Vec<&'a str>,
    ) {
        let (mut at, mut rest) = (module.to_vec(), path);
        let child = |at: &[String], name: &String| self.modules.contains_key(&below(at, name));
        match path[0].as_str() {
            _ if steps == 0 => return,
            "crate" => (at, rest) = (Names::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|n| n == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            _ if child(&at, &path[0]) => {}
            name => {
                if let Some(import) = self.modules[module].imports.get(name) {
                    let path = [import, &path[1..]].concat();
                    self.follow((writer, module), &path, steps - 1, found);
                }
                return;
            }
        }
        while let Some(name) = rest.first().filter(|n| child(&at, n)) {
            at.push(name.clone());
            rest = &rest[1..];
        }
        let Some(name) = rest.first() else { return };
        let place = &self.modules[&at];
        match place.imports.get(name) {
            _ if place.items.contains(name) => found.push(&place.file),
            Some(import) => {
                if !writer.starts_with(&at) {
                    found.push(&place.file);
                }
                let path = [import, &rest[1..]].concat();
                self.follow((writer, &at), &path, steps - 1, found);
            }
            None => {
                let of_macro = self.macros.get(name).filter(|_| at.is_empty());
                found.push(of_macro.unwrap_or(&place.file));
            }
        }
    }

    fn arrows(&self) -> BTreeSet<(&str, &str)> {
        let mut arrows = BTreeSet::new();
        for (name, module) in &self.modules {
            let mut found = Vec::new();
            for path in &module.paths {
                self.follow((name, name), path, 16, &mut found);
            }
            arrows.extend(found.into_iter().map(|to| (module.file.as_str(), to)));
        }
        arrows.retain(|(from, to)| from != to);
        arrows
    }
}

/// The path of the item `name` in `module`.
fn below(module: &[String], name: &str) -> Names {
    [module, &[name.to_owned()]].concat()
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The circles, the largest first.
fn circles<'a>(arrows: &BTreeSet<(&'a str, &'a str)>) -> Vec<BTreeSet<&'a str>> {
    let reached = |from: &'a str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(file) = next.pop() {
            next.extend(
                arrows.iter().filter(|(a, b)| *a == file && seen.insert(*b)).map(|(_, b)| *b),
            );
        }
        seen
    };
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        arrows.iter().map(|&(from, _)| (from, reached(from))).collect();
    let circle = |from: &&str| -> BTreeSet<&str> {
        reach[from]
            .iter()
            .copied()
            .filter(|to| reach.get(to).is_some_and(|back| back.contains(from)))
            .collect()
    };
    let circles: BTreeSet<BTreeSet<&str>> =
        reach.keys().map(circle).filter(|c| !c.is_empty()).collect();
    let mut circles: Vec<_> = circles.into_iter().collect();
    circles.sort_by_key(|c| std::cmp::Reverse(c.len()));
    circles
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut wrong = String::new();
    let within = |folder: &str| {
        std::fs::read_dir(root.join(folder))
            .expect("a folder of crates")
            .map(|e| e.expect("an entry").path())
    };
    let all = ["crates", "policy", "client", "tests"]
        .into_iter()
        .flat_map(within)
        .chain([root.join("python")])
        .filter(|p| p.join("Cargo.toml").exists());
    for folder in all {
        let name = folder.strip_prefix(&root).expect("below the root").display().to_string();
        let read = Crate::read(&folder.join("src"));
        let arrows = read.arrows();
        for circle in circles(&arrows) {
            wrong += &format!("{name}: a circle of {} files:\n", circle.len());
            for (from, to) in
                arrows.iter().filter(|(from, to)| circle.contains(from) && circle.contains(to))
            {
                wrong += &format!("    {from} -> {to}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn no_arrow_goes_up_a_layer() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (name, layers) in LAYERS {
        let read = Crate::read(&root.join(name).join("src"));
        let layer = |file: &str| {
            let top = file.split('/').next().unwrap_or_default().trim_end_matches(".rs");
            layers
                .iter()
                .position(|l| *l == top)
                .unwrap_or_else(|| panic!("{name}: LAYERS lacks {top}"))
        };
        let up: Vec<_> =
            read.arrows().into_iter().filter(|(from, to)| layer(from) < layer(to)).collect();
        assert!(up.is_empty(), "{name}: arrows up: {up:?}");
    }
}

/// A crate of sources given by the names of their modules.
fn sources(modules: &[(&str, &str)]) -> Crate {
    let mut all = Crate::default();
    for (path, text) in modules {
        let names: Names = path.split("::").filter(|n| !n.is_empty()).map(str::to_owned).collect();
        all.read_module(&tokens(text), &names, if path.is_empty() { "root" } else { path });
    }
    all
}

/// The files to which `text`, in module `a::b` of a crate with some others, has arrows.
fn targets(text: &str) -> Vec<String> {
    let crate_ = sources(&[
        ("", "pub use a::Inner as Outer; pub use c::Item; fn shared() {}"),
        (
            "a",
            "pub use b::own; pub struct Inner; pub mod group { pub use super::super::c::d::deep; }",
        ),
        ("c", "pub struct Item; pub enum Kind { One } macro_rules! row { () => {} }"),
        ("c::d", "pub(crate) fn deep() {} pub const unsafe fn fast() {}"),
        ("e", "pub use crate::c::Item; pub use crate::Outer as Other;"),
        ("a::b", text),
    ]);
    crate_
        .arrows()
        .into_iter()
        .filter(|(from, _)| *from == "a::b")
        .map(|(_, to)| to.to_owned())
        .collect()
}

#[test]
fn trees_of_uses_are_read() {
    assert_eq!(
        targets("use crate::{a::Inner, c::{self, d::{deep, fast as quick},},};"),
        ["a", "c::d"]
    );
    assert_eq!(targets("use super::super::c::Kind as Sort; use super::Inner;"), ["a", "c"]);
    assert_eq!(targets("use super::super::shared;"), ["root"]);
    assert_eq!(
        targets("pub(crate) use std::{fmt, io::{self, Read}}; fn f(_: impl Sized + use<'_>) {}"),
        [""; 0]
    );
    assert_eq!(targets("fn f() { use crate::c::Kind; }"), ["c"]);
    assert_eq!(targets("use crate::c::*;"), ["c"]);
}

#[test]
fn re_exports_lead_to_where_an_item_is_defined() {
    assert_eq!(targets("use crate::Outer;"), ["a"]);
    assert_eq!(targets("use crate::{Item, row};"), ["c"]);
    assert_eq!(targets("use super::group::deep;"), ["a", "c::d"]);
    // Its own, through its parent.
    assert_eq!(targets("pub fn own() {} use super::own;"), [""; 0]);
}

#[test]
fn a_module_that_hands_an_item_on_counts_too_but_no_parent() {
    assert_eq!(targets("use crate::e::Item;"), ["c", "e"]);
    assert_eq!(targets("fn f() -> crate::e::Other { todo() }"), ["a", "e"]);
    assert_eq!(targets("use super::super::Item;"), ["c"]);
}

#[test]
fn paths_within_code_count_and_modules_alone_do_not() {
    assert_eq!(
        targets("fn f() -> crate::c::Kind { crate::c::d::deep::<u8>(); todo() }"),
        ["c", "c::d"]
    );
    assert_eq!(targets("use crate::c::d;"), [""; 0]);
    assert_eq!(targets("use crate::c::d as e; fn f() { e::fast() }"), ["c::d"]);
    assert_eq!(
        targets("pub(in crate::a) fn f() { Vec::new(); self::f(); std::mem::take(x.d) }"),
        [""; 0]
    );
}

#[test]
fn comments_literals_and_tests_are_left_out() {
    assert_eq!(
        targets("// crate::c::Item\n/* crate::c::Item */ /// [`crate::c::Item`]\n"),
        [""; 0]
    );
    assert_eq!(
        targets(
            r##"fn f<'a>() { ("\"crate::c::Item", r#""crate::c::Item"#, b'"', '\'', '"'); super::Inner }"##
        ),
        ["a"]
    );
    assert_eq!(targets("#[cfg(test)] mod tests { use crate::c::Item; } use super::Inner;"), ["a"]);
    assert_eq!(
        targets(
            "#[cfg(all(test, unix))] use crate::c::Item; #[cfg(test)] mod more; use super::Inner;"
        ),
        ["a"]
    );
}

#[test]
fn circles_of_two_and_of_three_are_found() {
    let three = sources(&[
        ("", "mod a; use a::f; fn h() {}"),
        ("a", "use crate::b::g; fn f() {}"),
        ("b", "fn g() { crate::h() }"),
        ("c", "use crate::b::g;"),
    ]);
    assert_eq!(circles(&three.arrows()), [BTreeSet::from(["a", "b", "root"])]);
    let two = sources(&[("a", "use crate::b::g; fn f() {}"), ("b", "fn g() { crate::a::f() }")]);
    assert_eq!(circles(&two.arrows()), [BTreeSet::from(["a", "b"])]);
    let handed_on = sources(&[
        ("a", "pub use inner::f; use crate::b::g;"),
        ("a::inner", "pub fn f() {}"),
        ("b", "use crate::a::f; fn g() {}"),
    ]);
    assert_eq!(circles(&handed_on.arrows()), [BTreeSet::from(["a", "b"])]);
    let one_way = sources(&[("a", "use crate::b::g; fn f() {}"), ("b", "fn g() {}")]);
    assert!(circles(&one_way.arrows()).is_empty() && one_way.arrows().len() == 1);
}
