//! Checks that files and folders of this repository, targets of make, packages and tests of cargo
//! exist if the documents name them.
//!
//! Problem: files move, and a sentence that names the old place reads as well as before.
//!
//! Rule, for README.md, ARCHITECTURE.md, CAVEATS.md, CONTRIBUTING.md and docs/*.md:
//! * a word that begins with a folder at the root (`docs/linux.md`) names a file or a folder;
//! * a link to no other site names one, from the document's folder;
//! * in code, a name of a source file (`attack/bounds.rs`) is the end of some path;
//! * in code, `make TARGET` has a rule, and what `cargo -p P --test T` names (or --bin, --example,
//!   --bench) is in the workspace.
//!
//! `*` and `<name>` stand for any part of one name, `{a,b}` for one and the other. Not covered:
//! CHANGES.md, which names old files; files that are made (target/, build/); whether a sentence is
//! true.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether the path, from the root, is that of a generated file, which git does not know.
fn is_made(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    ["target", "build", ".git"].contains(&first) || first.starts_with("target-")
}

/// Endings of the names of source files.
const SOURCES: &[&str] = &[".rs", ".py", ".sh", ".c", ".h"];

#[test]
fn documents_name_what_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the source tree");
    let tree = Tree::read(&root);
    let mut wrong = String::new();
    for document in documents(&root) {
        let text = std::fs::read_to_string(root.join(&document)).expect("readable");
        for (line, what) in mistakes(&tree, &document, &text) {
            let _ = writeln!(wrong, "{document}:{line}: {what}");
        }
    }
    assert!(wrong.is_empty(), "name what is there, or take the sentence out:\n{wrong}");
}

/// The documents, as paths from the root.
fn documents(root: &Path) -> Vec<String> {
    let mut found: Vec<String> =
        ["README.md", "ARCHITECTURE.md", "CAVEATS.md", "CONTRIBUTING.md"].map(str::to_owned).into();
    for entry in std::fs::read_dir(root.join("docs")).expect("docs/") {
        let name = entry.expect("entry").file_name().into_string().expect("a name in UTF-8");
        if name.ends_with(".md") {
            found.push(format!("docs/{name}"));
        }
    }
    found.sort();
    found
}

/// Names that documents may use.
struct Tree {
    root: PathBuf,
    /// Folders at the root.
    folders: BTreeSet<String>,
    /// Files and folders, from the root; folders without a slash at the end.
    paths: BTreeSet<String>,
    packages: BTreeSet<String>,
    /// Package, kind (`test`, `bench`, ...) and name.
    targets: BTreeSet<(String, String, String)>,
}

impl Tree {
    fn read(root: &Path) -> Self {
        let mut paths = BTreeSet::new();
        let mut left = vec![root.to_owned()];
        while let Some(folder) = left.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("entry").path();
                let name = path
                    .strip_prefix(root)
                    .expect("below the root")
                    .to_str()
                    .expect("UTF-8")
                    .to_owned();
                if is_made(&name) {
                    continue;
                }
                if path.is_dir() {
                    left.push(path);
                }
                paths.insert(name);
            }
        }
        let folders =
            paths.iter().filter(|p| !p.contains('/') && root.join(p).is_dir()).cloned().collect();
        let (packages, targets) = cargo_targets(root);
        Self { root: root.to_owned(), folders, paths, packages, targets }
    }

    /// Whether the pattern fits a path.
    fn has(&self, pattern: &str) -> bool {
        let pattern = pattern.trim_end_matches('/');
        pattern.is_empty()
            || self.paths.contains(pattern)
            || (pattern.contains('*') && self.paths.iter().any(|p| fits(pattern, p)))
    }

    /// Whether the pattern fits the end of a path.
    fn has_end(&self, pattern: &str) -> bool {
        let parts = pattern.split('/').count();
        self.paths.iter().any(|path| {
            let skipped = path.split('/').count().saturating_sub(parts);
            fits(pattern, &path.split('/').skip(skipped).collect::<Vec<_>>().join("/"))
        })
    }

    /// Whether the Makefile in this folder has a rule for the target.
    fn makes(&self, folder: &str, target: &str) -> bool {
        let text =
            std::fs::read_to_string(self.root.join(folder).join("Makefile")).unwrap_or_default();
        text.lines().any(|line| {
            line.split_once(':').is_some_and(|(targets, rest)| {
                !line.starts_with(['\t', '#', '.'])
                    && !rest.starts_with('=')
                    && targets.split(' ').any(|t| t == target)
            })
        })
    }
}

/// The workspace's packages, and cargo's targets in them.
fn cargo_targets(root: &Path) -> (BTreeSet<String>, BTreeSet<(String, String, String)>) {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("a string").to_owned();
    let (mut packages, mut targets) = (BTreeSet::new(), BTreeSet::new());
    for package in metadata["packages"].as_array().expect("packages") {
        packages.insert(text(&package["name"]));
        for target in package["targets"].as_array().expect("targets") {
            targets.insert((
                text(&package["name"]),
                text(&target["kind"][0]),
                text(&target["name"]),
            ));
        }
    }
    (packages, targets)
}

/// Whether the pattern fits the whole text; `*` is any part of one name.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            let end = rest.find('/').unwrap_or(rest.len());
            (0..=end).any(|n| rest.is_char_boundary(n) && fits(after, &rest[n..]))
        }),
    }
}

/// The patterns that a word stands for: `<name>` as `*`, each choice of `{a,b}` for itself.
fn patterns(word: &str) -> Vec<String> {
    let between = |open: char, close: char| {
        let start = word.find(open)?;
        Some((&word[..start], word[start + 1..].split_once(close)?))
    };
    if let Some((before, (_, after))) = between('<', '>') {
        return patterns(&format!("{before}*{after}"));
    }
    if let Some((before, (choices, after))) = between('{', '}') {
        return choices
            .split(',')
            .flat_map(|choice| patterns(&format!("{before}{choice}{after}")))
            .collect();
    }
    vec![word.to_owned()]
}

/// Text of one kind, and the line on which it begins.
#[derive(Debug, PartialEq)]
struct Piece {
    line: usize,
    code: bool,
    text: String,
}

/// Splits a document into text and code. Code is between backticks, between fences, or indented by
/// four; each line between fences is a piece of its own.
fn pieces(document: &str) -> Vec<Piece> {
    let mut pieces = vec![Piece { line: 1, code: false, text: String::new() }];
    let (mut fence, mut in_code, mut blank) = (false, false, true);
    for (line, text) in document.lines().enumerate().map(|(n, text)| (n + 1, text)) {
        if text.trim_start().starts_with("```") {
            (fence, in_code) = (!fence, false);
        } else if fence || (blank && text.starts_with("    ")) {
            pieces.push(Piece { line, code: true, text: text.trim().to_owned() });
            continue;
        } else {
            if text.trim().is_empty() {
                in_code = false;
            }
            for (n, part) in text.split('`').enumerate() {
                in_code ^= n > 0;
                match pieces.last_mut() {
                    // Code goes on over the end of a line.
                    Some(last) if n == 0 && in_code && last.code => {
                        last.text += &format!(" {part}")
                    }
                    _ => pieces.push(Piece { line, code: in_code, text: part.to_owned() }),
                }
            }
        }
        blank = text.trim().is_empty() || text.starts_with("    ") || fence;
    }
    pieces.retain(|p| !p.text.is_empty());
    pieces
}

/// Wrong names in a document, by line.
fn mistakes(tree: &Tree, document: &str, text: &str) -> Vec<(usize, String)> {
    let mut wrong = Vec::new();
    for (line, text) in text.lines().enumerate() {
        for link in links(text) {
            let folder = Path::new(document).parent().and_then(Path::to_str).unwrap_or_default();
            let path = if folder.is_empty() { link.to_owned() } else { format!("{folder}/{link}") };
            if !tree.has(&normal(&path)) {
                wrong.push((line + 1, format!("the link to {link} leads nowhere")));
            }
        }
    }
    for Piece { line, code, text } in pieces(text) {
        let mut say = |what: Option<String>| wrong.extend(what.map(|what| (line, what)));
        for word in words(&text) {
            say(path_mistake(tree, word, code));
        }
        if code {
            let words: Vec<&str> = text.split_whitespace().collect();
            for (n, word) in words.iter().enumerate() {
                match *word {
                    // A command's name, not the verb: it begins the code.
                    "make" if n == 0 => say(make_mistake(tree, &words[1..])),
                    "cargo" => say(cargo_mistake(tree, &words[n + 1..])),
                    _ => {}
                }
            }
        }
    }
    wrong
}

/// Targets of a line's links on this site, without their `#section`.
fn links(line: &str) -> Vec<&str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets
        .filter(|(target, _)| !target.contains("://") && !target.starts_with("mailto:"))
        .map(|(target, _)| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty())
        .collect()
}

/// A path without `.` and `..`.
fn normal(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Words that could be paths, without the signs around them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "()[]\"'=;|".contains(c))
        .map(|word| word.trim_end_matches(['.', ',', ':', '!', '?']).trim_start_matches("./"))
        .filter(|word| !word.is_empty())
}

fn path_mistake(tree: &Tree, word: &str, code: bool) -> Option<String> {
    let word = word.split(['#', ':']).next().unwrap_or_default();
    let at_root = word.split_once('/').is_some_and(|(first, _)| tree.folders.contains(first));
    let source =
        code && SOURCES.iter().any(|end| word.ends_with(end)) && !word.starts_with(['/', '-', '<']);
    let missing = patterns(word).into_iter().find(|pattern| {
        if at_root {
            !tree.has(pattern)
        } else {
            source && !is_made(word) && !tree.has_end(pattern)
        }
    })?;
    Some(format!("there is no {missing}"))
}

/// Mistake in the words behind `make`.
fn make_mistake(tree: &Tree, words: &[&str]) -> Option<String> {
    let mut folder = ".";
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "#" | "&&" | "||" | ";" | "|" => return None,
            "-C" => folder = words.next()?,
            _ if word.starts_with('-') || word.contains('=') || placeholder(word) => {}
            _ if tree.makes(folder, word) => {}
            _ => return Some(format!("{folder}/Makefile has no target {word}")),
        }
    }
    None
}

/// Mistake in the words behind `cargo`.
fn cargo_mistake(tree: &Tree, words: &[&str]) -> Option<String> {
    let words = words
        .iter()
        .copied()
        .take_while(|word| !["#", "&&", "||", ";", "|", "--", "cargo"].contains(word));
    let words: Vec<&str> = words.collect();
    let mut package = None;
    for pair in words.windows(2) {
        let [option, name] = *pair else { continue };
        if placeholder(name) {
            continue;
        }
        if ["-p", "--package"].contains(&option) {
            if !tree.packages.contains(name) {
                return Some(format!("the workspace has no package {name}"));
            }
            package = Some(name);
        }
        let kind = option
            .strip_prefix("--")
            .filter(|kind| ["test", "bin", "example", "bench"].contains(kind));
        if let Some(kind) = kind
            && !tree.targets.iter().any(|(p, k, n)| {
                package.is_none_or(|package| p == package) && k == kind && n == name
            })
        {
            return Some(format!("{} has no {kind} {name}", package.unwrap_or("the workspace")));
        }
    }
    None
}

/// Whether a word is a placeholder.
fn placeholder(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_uppercase() || "_<>.[]".contains(c))
}

/// A made-up tree, for the tests of this file.
fn small_tree() -> Tree {
    let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    Tree {
        root: PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.."),
        folders: set(&["docs", "crates"]),
        paths: set(&[
            "docs",
            "docs/a.md",
            "crates",
            "crates/x",
            "crates/x/src",
            "crates/x/src/one.rs",
            "README.md",
        ]),
        packages: set(&["solocore-x"]),
        targets: [("solocore-x".to_owned(), "test".to_owned(), "all".to_owned())].into(),
    }
}

#[test]
fn notices_what_is_not_there() {
    let tree = small_tree();
    for (text, expected) in [
        ("See docs/b.md.", Some((1, "there is no docs/b.md"))),
        ("\n`crates/y/src`", Some((2, "there is no crates/y/src"))),
        ("`crates/*/src/{one,two}.rs`", Some((1, "there is no crates/*/src/two.rs"))),
        ("`two.rs`", Some((1, "there is no two.rs"))),
        ("\n\n[here](b.md)", Some((3, "the link to b.md leads nowhere"))),
        ("```\nmake nothing # docs\n```", Some((2, "./Makefile has no target nothing"))),
        ("`make -C client/c nothing`", Some((1, "client/c/Makefile has no target nothing"))),
        ("    cargo test -p solocore-y", Some((1, "the workspace has no package solocore-y"))),
        ("`cargo test -p solocore-x --test\nnone`", Some((1, "solocore-x has no test none"))),
        (
            "See docs/a.md, `crates/<name>/src/one.rs` and `src/*.rs`; [there](../README.md#use) \
                [or](https://x.org/y).",
            None,
        ),
        (
            "They make a plan: `make lint`, `make test`; `cargo test -p solocore-x --test all two \
                -- --test none`.",
            None,
        ),
        ("`target/release/x.rs` and `/usr/include/x.h`", None),
    ] {
        let found = mistakes(&tree, "docs/a.md", text);
        let found: Vec<(usize, &str)> =
            found.iter().map(|(line, what)| (*line, what.as_str())).collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{text}");
    }
}

#[test]
fn code_is_told_from_text() {
    let piece = |line, code, text: &str| Piece { line, code, text: text.to_owned() };
    assert_eq!(
        pieces("a `b c\nd` e\n\n```\nf `g\n```\n`h\n\ni"),
        [
            piece(1, false, "a "),
            piece(1, true, "b c d"),
            piece(2, false, " e"),
            piece(5, true, "f `g"),
            piece(7, true, "h"),
            piece(9, false, "i"),
        ]
    );
}
