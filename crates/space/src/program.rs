//! Checks that a program can be started in its colours, on this machine.
//!
//! Problem: the loader preloads nothing into static, set-user-ID and 32-bit programs; they would
//! silently run uncoloured. Rule: check before starting; a program that cannot be coloured is
//! refused, with the reason. Does not cover: programs that the program starts later; the library
//! checks and reports these.

use crate::coloured::LIBRARY;
use crate::error::SpaceError;
use crate::sys;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

const REMEDY: &str = "link it dynamically, or isolate it by cache ways";

/// Checks that the machine shows frames and moves pages, and that this solocore has the library for
/// it.
///
/// # Errors
/// The missing part, and the remedy.
pub fn check_machine() -> Result<(), SpaceError> {
    if LIBRARY.is_empty() {
        return Err(SpaceError::Machine(
            "colours of programs need x86-64 or aarch64; use cache ways on this machine".into(),
        ));
    }
    let page = sys::Area::populated(4096, false)?;
    sys::frames_of(page.start(), 1)?;
    sys::can_move_pages()
}

/// The file of a program: a path, or a name found through PATH.
///
/// # Errors
/// There is none.
pub fn find(program: &OsStr) -> Result<PathBuf, SpaceError> {
    let path = Path::new(program);
    if program.as_bytes().contains(&b'/') {
        return path.is_file().then(|| path.to_owned()).ok_or_else(|| {
            SpaceError::Input(format!(
                "cannot run {}: there is no such file; check the path",
                path.display()
            ))
        });
    }
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&dirs)
        .map(|dir| dir.join(path))
        .find(|file| file.metadata().is_ok_and(|m| m.is_file() && m.mode() & 0o111 != 0))
        .ok_or_else(|| {
            SpaceError::Input(format!(
                "cannot run {}: it is not in PATH; give its path",
                path.display()
            ))
        })
}

/// Fails if the loader would leave the library out of this program. Of a script, its interpreter
/// counts.
///
/// # Errors
/// The kind of program, and the remedy.
pub fn check(path: &Path) -> Result<(), SpaceError> {
    let mut path = path.to_owned();
    for _ in 0..4 {
        let refuse = |what: &str| Err(SpaceError::Input(format!("{}: {what}", path.display())));
        let mut file = File::open(&path).map_err(|e| {
            SpaceError::Input(format!("cannot run {}: {e}; check the path", path.display()))
        })?;
        let mut head = Vec::new();
        let read = (&mut file).take(256).read_to_end(&mut head);
        read.map_err(|e| SpaceError::Input(format!("{}: {e}; check the file", path.display())))?;
        if let Some(line) = head.strip_prefix(b"#!") {
            let line = line.split(|&b| b == b'\n').next().unwrap_or_default();
            let word = line
                .split(|&b| b == b' ' || b == b'\t')
                .find(|w| !w.is_empty())
                .unwrap_or_default();
            path = PathBuf::from(OsStr::from_bytes(word));
            continue;
        }
        if !head.starts_with(b"\x7fELF") {
            return refuse(
                "it is neither an ELF program nor a script, so nothing can be preloaded into it; \
                    name a program",
            );
        }
        if head.get(4) != Some(&2) {
            return refuse(
                "it is a 32-bit program, into which a 64-bit library cannot be preloaded; build it \
                    for 64 bits, or isolate it by cache ways",
            );
        }
        let meta = file
            .metadata()
            .map_err(|e| SpaceError::Input(format!("{}: {e}; check the file", path.display())))?;
        let me = rustix::process::geteuid().as_raw();
        if meta.mode() & 0o4000 != 0 && meta.uid() != me || meta.mode() & 0o2000 != 0 {
            return refuse(
                "it is set-user-ID or set-group-ID, and the loader preloads nothing into such \
                    programs; run a copy without that bit, or isolate it by cache ways",
            );
        }
        return match interpreter(&file, &head) {
            None => refuse(&format!(
                "it is linked statically, so there is no loader to preload the library; {REMEDY}"
            )),
            Some(name) if !name.contains("/ld-linux") => refuse(&format!(
                "its loader is {name}, and the library needs that of the GNU C library; {REMEDY}"
            )),
            Some(_) => Ok(()),
        };
    }
    Err(SpaceError::Input(format!(
        "{}: its interpreters go round in circles; check the scripts",
        path.display()
    )))
}

/// The loader that an ELF program names.
fn interpreter(file: &File, head: &[u8]) -> Option<String> {
    const PT_INTERP: u32 = 3;
    let eight =
        |bytes: &[u8], at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let start = eight(head, 32)?;
    let count = u16::from_le_bytes(head.get(56..58)?.try_into().ok()?);
    (0..u64::from(count.min(128))).find_map(|i| {
        let mut part = [0u8; 56];
        file.read_exact_at(&mut part, start.checked_add(i * 56)?).ok()?;
        if u32::from_le_bytes(part[0..4].try_into().ok()?) != PT_INTERP {
            return None;
        }
        let mut name = vec![0; eight(&part, 32)?.min(255) as usize];
        file.read_exact_at(&mut name, eight(&part, 8)?).ok()?;
        Some(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn refusal(bytes: &[u8], mode: u32) -> String {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("job");
        fs::write(&path, bytes).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        check(&path).map_or_else(|e| e.to_string(), |()| String::new())
    }

    #[test]
    fn knows_what_cannot_be_preloaded() {
        let shell = fs::read("/bin/sh").expect("a shell");
        assert_eq!(refusal(&shell, 0o755), "");
        assert_eq!(refusal(b"#! /bin/sh -e\nexit 1\n", 0o755), "");
        assert!(refusal(&shell, 0o2755).contains("set-group-ID"));
        assert!(refusal(b"plain text", 0o755).contains("neither an ELF program nor a script"));
        assert!(refusal(b"#!/nowhere/at/all\n", 0o755).contains("/nowhere/at/all"));
        assert!(refusal(b"#!\n", 0o755).contains("cannot run"));
        let mut narrow = shell.clone();
        narrow[4] = 1;
        assert!(refusal(&narrow, 0o755).contains("32-bit"));
        let mut odd = shell.clone();
        let at = odd.windows(9).position(|w| w == b"/ld-linux").expect("a loader");
        odd[at..at + 9].copy_from_slice(b"/ld-mussl");
        assert!(refusal(&odd, 0o755).contains("/ld-mussl"));
        let mut none = shell;
        none[56..58].copy_from_slice(&[0, 0]);
        assert!(refusal(&none, 0o755).contains("statically"));
        for n in 0..70 {
            // Cut at any place: refused, or at least no panic.
            refusal(&none[..n], 0o755);
        }
    }

    #[test]
    fn finds_programs() {
        assert!(find(OsStr::new("sh")).is_ok_and(|p| p.is_absolute()));
        assert!(find(OsStr::new("no-such-program-anywhere")).is_err());
        assert!(find(OsStr::new("/no/such/program")).is_err());
    }
}
