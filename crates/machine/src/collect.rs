//! Copies of the files from which a description is made.
//!
//! Problem: many boards cannot run solocore, or should not. Rule: a copy has the same paths below a
//! directory of its own. [`script`] copies the same files as [`collect`], in any POSIX shell, from
//! the one list of crate::paths. A copy is made beside its place and renamed, so that it is
//! complete or absent. Does not cover: the SMBIOS table and the modules' data, which hold serial
//! numbers, are copied as they are.

use crate::error::MachineError;
use crate::paths;
use crate::root::Root;
use solocore_model::files;
use std::io::{Error, ErrorKind};
use std::path::Path;

/// Number and size of the copied files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Files.
    pub files: usize,
    /// Sum of their sizes, bytes.
    pub bytes: usize,
}

/// Copies the files below a root.
///
/// # Errors
/// The directory exists and is not empty, or cannot be written.
pub fn collect(root: &Root, dir: &Path) -> Result<Copied, MachineError> {
    check_free(dir)?;
    let fail = |e: Error| MachineError::from(files::unwritten(dir, e));
    let parent = files::parent_dir(dir);
    let made = tempfile::Builder::new().prefix(".solocore-").tempdir_in(parent);
    let made = made.map_err(fail)?;
    let copied = copy(root, made.path()).map_err(fail)?;
    readable(made.path()).map_err(fail)?;
    std::fs::rename(made.path(), dir).map_err(fail)?;
    // The temporary directory no longer exists under this name, so it is not removed.
    drop(made.keep());
    Ok(copied)
}

fn check_free(dir: &Path) -> Result<(), MachineError> {
    let refuse = |why: &str| {
        let text =
            format!("{}: {why}; name a directory that does not exist with -o", dir.display());
        Err(MachineError::Input(text))
    };
    match std::fs::read_dir(dir).map(|mut entries| entries.next().is_some()) {
        Ok(true) => refuse("the directory is not empty"),
        Ok(false) => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotADirectory => refuse("it is not a directory"),
        Err(e) => refuse(&e.to_string()),
    }
}

fn copy(root: &Root, to: &Path) -> Result<Copied, Error> {
    let mut copied = Copied { files: 0, bytes: 0 };
    for path in files_of(root) {
        let Some(bytes) = root.bytes(&path) else { continue };
        let to = to.join(&path);
        std::fs::create_dir_all(files::parent_dir(&to))?;
        std::fs::write(&to, &bytes)?;
        copied.files += 1;
        copied.bytes += bytes.len();
    }
    Ok(copied)
}

/// Gives a copy the permissions of an ordinary directory; a temporary one is its owner's alone.
fn readable(dir: &Path) -> Result<(), Error> {
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755))
}

/// Every path of the list that may be there.
fn files_of(root: &Root) -> Vec<String> {
    let below = |(folder, names): &paths::Files| {
        let paths = |folder: String| names.iter().map(move |name| format!("{folder}/{name}"));
        folders(root, folder).into_iter().flat_map(paths).collect::<Vec<_>>()
    };
    let mut all: Vec<String> = paths::FILES.iter().flat_map(below).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The folders that a pattern fits.
fn folders(root: &Root, pattern: &str) -> Vec<String> {
    pattern.split('/').fold(vec![String::new()], |above, part| {
        above.iter().flat_map(|folder| children(root, folder, part)).collect()
    })
}

fn children(root: &Root, folder: &str, part: &str) -> Vec<String> {
    let join = |name: &str| {
        if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
    };
    if !part.contains('*') {
        return vec![join(part)];
    }
    let names = root.names(folder);
    // As in a shell, a star fits no hidden name.
    let fit = names.iter().filter(|name| !name.starts_with('.') && paths::fits(part, name));
    fit.map(|name| join(name)).collect()
}

const HEAD: &str = r#"#!/bin/sh
# Copies what `solocore platform detect --from DIR` reads, on machines without solocore. Changes nothing else.
# Usage: sh collect.sh DIR; as root, the list of memory modules (SMBIOS) is copied as well. It and the
# modules' own data (SPD) hold serial numbers.
set -eu
case ${1:-} in
'' | -*) echo "usage: sh collect.sh DIR" >&2; exit 2 ;;
/*) out=$1 ;;
*) out=$PWD/$1 ;;
esac
root=${2:-/}
if [ -e "$out" ] && [ "$(ls -A "$out")" ]; then
	echo "collect.sh: $out is there, and not empty; name a directory that does not exist" >&2
	exit 2
fi
part=$out.part.$$
mkdir "$part"
trap 'rm -rf "$part"' EXIT
trap 'exit 130' HUP INT TERM
cd "$root"
for file in"#;

const TAIL: &str = r#"
do
	[ -f "$file" ] && [ -r "$file" ] || continue
	mkdir -p "$part/${file%/*}"
	cat "$file" >"$part/$file" 2>/dev/null || rm -f "$part/$file"
done
if [ -e "$out" ]; then rmdir "$out"; fi
mv "$part" "$out"
"#;

/// A POSIX shell script that copies the same files.
pub fn script() -> String {
    let mut out = HEAD.to_owned();
    for pattern in paths::patterns() {
        out += " \\\n\t";
        out += &pattern;
    }
    out + TAIL
}
