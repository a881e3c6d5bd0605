//! A program that replaces another, and its start under the emulator.
//!
//! Rule: the file to execute is found as the kernel finds it: a program, or the interpreter that a
//! script names. Not covered: programs of another instruction set, which are named.

use solocore_cache::contract::{Config, STACK_BYTES};
use std::ffi::{CString, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A program that can be started under the emulator.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<Vec<u8>>,
    /// Scripts and their interpreters on the way.
    pub files: Vec<PathBuf>,
}

impl Program {
    /// The program that the kernel would execute for `path` with `arguments`; `None` where it would
    /// refuse.
    ///
    /// # Errors
    /// The reason why it cannot be followed.
    pub fn of(
        path: &Path,
        mut arguments: Vec<Vec<u8>>,
        like: &Path,
    ) -> Result<Option<Self>, &'static str> {
        /// Maximum depth of interpreters, as in the kernel.
        const DEEPEST: usize = 5;
        let mut path = path.to_owned();
        let mut files = Vec::new();
        for _ in 0..DEEPEST {
            if path.starts_with("/proc") {
                return Err("a path in /proc");
            }
            if !executable(&path) {
                return Ok(None);
            }
            let Some(head) = head(&path) else { return Err("it cannot be read") };
            files.push(path.clone());
            let Some(line) = head.strip_prefix(b"#!") else {
                let own = self::head(like).unwrap_or_default();
                return match (machine(&head), machine(&own)) {
                    (Some(a), Some(b)) if a == b => Ok(Some(Self { path, arguments, files })),
                    (Some(_), _) => Err("it is for another instruction set"),
                    (None, _) => Ok(None),
                };
            };
            let line = line.split(|&b| b == b'\n').next().unwrap_or_default();
            let line = line.trim_ascii();
            let at = line.iter().position(|b| b" \t".contains(b)).unwrap_or(line.len());
            let (interpreter, option) = (&line[..at], line[at..].trim_ascii());
            if interpreter.is_empty() {
                return Ok(None);
            }
            let script = path.as_os_str().as_bytes().to_vec();
            let option = (!option.is_empty()).then(|| option.to_vec());
            let rest = arguments.into_iter().skip(1);
            arguments = [interpreter.to_vec()]
                .into_iter()
                .chain(option)
                .chain([script])
                .chain(rest)
                .collect();
            path = PathBuf::from(OsString::from_vec(interpreter.to_vec()));
        }
        Ok(None)
    }

    /// Starts the program in place of this process; returns only if the kernel refuses.
    pub fn execute(self, config: &Config, part: u32, environment: Vec<Vec<u8>>) {
        let Ok(emulator) = std::fs::read_link("/proc/self/exe") else { return };
        let quoted = |path: &Path| path.to_string_lossy().replace(',', ",,").into_bytes();
        let plugin = [
            b"file=".to_vec(),
            quoted(&config.plugin),
            b",config=".to_vec(),
            quoted(&config.dir.join("config.json")),
            format!(",from={}", part).into_bytes(),
        ]
        .concat();
        let mut line: Vec<Vec<u8>> = vec![emulator.as_os_str().as_bytes().to_vec()];
        line.extend([b"-s".to_vec(), STACK_BYTES.to_string().into_bytes()]);
        line.extend([b"-seed".to_vec(), b"1".to_vec()]);
        if let Some(root) = &config.sysroot {
            line.extend([b"-L".to_vec(), root.as_os_str().as_bytes().to_vec()]);
        }
        line.extend([b"-plugin".to_vec(), plugin, b"-0".to_vec()]);
        let name = self.arguments.first().cloned();
        line.push(name.unwrap_or_else(|| self.path.as_os_str().as_bytes().to_vec()));
        line.push(self.path.as_os_str().as_bytes().to_vec());
        line.extend(self.arguments.into_iter().skip(1));
        let strings = |all: Vec<Vec<u8>>| -> Vec<CString> {
            all.into_iter().filter_map(|text| CString::new(text).ok()).collect()
        };
        let (line, environment) = (strings(line), strings(environment));
        let pointers = |all: &[CString]| -> Vec<*const libc::c_char> {
            all.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (arguments, variables) = (pointers(&line), pointers(&environment));
        // SAFETY: both arrays end with a null pointer and point to strings that live until here.
        unsafe { libc::execve(line[0].as_ptr(), arguments.as_ptr(), variables.as_ptr()) };
    }
}

fn executable(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: a string that ends with NUL.
    path.is_file() && unsafe { libc::access(name.as_ptr(), libc::X_OK) } == 0
}

/// The first bytes of a file: the header of a program, or the first line of a script.
fn head(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(256).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Width, order and machine of an ELF file.
fn machine(head: &[u8]) -> Option<[u8; 4]> {
    let elf = head.starts_with(b"\x7fELF") && head.len() >= 20;
    elf.then(|| [head[4], head[5], head[18], head[19]])
}
