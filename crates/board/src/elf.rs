//! Files that a program of this machine needs to start elsewhere, and programs without their
//! unloaded parts.

use object::Endianness;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

type Header = FileHeader64<Endianness>;

/// The loader and the libraries of a program, or of a library, as this machine's loader finds them.
/// Static programs need none.
///
/// # Errors
/// The libraries that are missing.
pub fn libraries(path: &Path, bytes: &[u8]) -> Result<Vec<PathBuf>, String> {
    let Some(loader) = interpreter(bytes) else { return Ok(Vec::new()) };
    let output = Command::new(&loader).arg("--list").arg(path).stdin(Stdio::null()).output();
    let output =
        output.map_err(|e| format!("its loader {} does not start: {e}", loader.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let (found, missing) = read_list(&said);
    if !missing.is_empty() || !output.status.success() {
        let what = if missing.is_empty() {
            "its loader refuses it".to_owned()
        } else {
            missing.join(", ")
        };
        return Err(format!("a library is missing: {what}; install it"));
    }
    Ok(std::iter::once(loader).chain(found).collect())
}

/// Lines like `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f...)`,
/// `/lib64/ld-linux-x86-64.so.2 (0x...)`, `libx.so => not found`.
fn read_list(said: &str) -> (Vec<PathBuf>, Vec<String>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for line in said.lines().map(str::trim) {
        let target = line.split_once(" => ").map_or(line, |(_, t)| t);
        if target.starts_with("not found") {
            missing.push(line.split(' ').next().unwrap_or_default().to_owned());
        } else if target.starts_with('/') {
            found.push(PathBuf::from(target.split(" (0x").next().unwrap_or(target)));
        }
    }
    (found, missing)
}

/// The dynamic loader that a program asks for.
pub fn interpreter(bytes: &[u8]) -> Option<PathBuf> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, bytes).ok()?;
    let path = headers.iter().find_map(|h| h.interpreter(endian, bytes).ok().flatten())?;
    Some(PathBuf::from(String::from_utf8_lossy(path).into_owned()))
}

/// Whether it is a program or a library for x86-64.
pub fn is_elf(bytes: &[u8]) -> bool {
    let Ok(header) = Header::parse(bytes) else { return false };
    header.endian().is_ok_and(|e| header.e_machine(e) == object::elf::EM_X86_64)
}

/// A program without its symbols and debug information, which lie behind its last loaded byte. This
/// saves memory of the guest.
pub fn loaded_part(mut bytes: Vec<u8>) -> Vec<u8> {
    let Some(end) = loaded_end(&bytes) else { return bytes };
    if end >= bytes.len() {
        return bytes;
    }
    bytes.truncate(end);
    // e_shoff, e_shnum and e_shstrndx: there are no sections any more.
    bytes[0x28..0x30].fill(0);
    bytes[0x3c..0x40].fill(0);
    bytes
}

fn loaded_end(bytes: &[u8]) -> Option<usize> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, bytes).ok()?;
    headers.iter().any(|h| h.p_type(endian) == PT_INTERP).then_some(())?;
    let end = headers.iter().map(|h| h.p_offset(endian) + h.p_filesz(endian)).max()?;
    usize::try_from(end).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_list_is_read() {
        let said = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibz.so.1 => /lib/libz.so.1 \
            (0x00007f)\n\t/lib64/ld.so.2 (0x7f)\n\tliby.so => not found\n";
        let (found, missing) = read_list(said);
        assert_eq!(found, [PathBuf::from("/lib/libz.so.1"), PathBuf::from("/lib64/ld.so.2")]);
        assert_eq!(missing, ["liby.so"]);
    }

    #[test]
    fn a_program_runs_without_what_is_not_loaded() {
        let path = std::env::current_exe().expect("the test's own program");
        let bytes = std::fs::read(&path).expect("readable");
        assert!(is_elf(&bytes));
        let needed = libraries(&path, &bytes).expect("all there");
        assert!(needed.iter().any(|l| l.to_string_lossy().contains("libc.so")), "{needed:?}");
        let short = loaded_part(bytes.clone());
        assert!(short.len() < bytes.len());
        let directory = tempfile::tempdir().expect("a directory");
        let copy = directory.path().join("copy");
        std::fs::write(&copy, short).expect("written");
        // By its loader: a file that was just written cannot be executed while another test forks.
        let loader = interpreter(&bytes).expect("a dynamic program");
        let output = Command::new(loader).arg(&copy).arg("--list").output().expect("starts");
        assert!(output.status.success() && !output.stdout.is_empty());
    }
}
