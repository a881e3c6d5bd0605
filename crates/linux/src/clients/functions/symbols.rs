//! Finds a function of a program by its name: the offset of its first instruction in the file.
//!
//! Problem: a probe is set at an offset in a file, and one at a wrong offset destroys an
//! instruction.
//! Rule: the offset is that of a symbol of the program's own ELF file, from its symbol table or its
//! exported symbols. A name that occurs twice, or not at all, is refused before anything changes.
//! Does not cover: functions that were inlined everywhere (the compiler keeps no symbol of them:
//! `__attribute__((noinline))`), and those of libraries that the program loads.

use crate::error::LinuxError;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum number of similar names in an error message.
const SUGGESTIONS: usize = 3;

/// A function of a program, and its place in the program's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Name in the symbol table.
    pub name: String,
    /// File of the program.
    pub file: PathBuf,
    /// Offset of its first byte in the file.
    pub offset: u64,
}

impl Function {
    /// Looks for a function in a program.
    ///
    /// # Errors
    /// [`LinuxError::Input`]: the program or the function does not exist, or several functions have
    /// this name. The message says what to do.
    pub fn find(file: &Path, name: &str) -> Result<Self, LinuxError> {
        let wrong = |what: &str| LinuxError::Input(format!("{}: {what}", file.display()));
        let bytes = std::fs::read(file).map_err(|e| wrong(&format!("{e}; check the path")))?;
        let program = object::File::parse(&*bytes)
            .map_err(|_| wrong("it is not an ELF program (a script?); name the program itself"))?;
        let functions = functions(&program);
        let offset = match functions.get(name).map(Vec::as_slice) {
            Some([one]) => in_file(&program, *one),
            Some(several) => {
                return Err(wrong(&format!(
                    "{} functions are called `{name}`; give it a name of its own",
                    several.len()
                )));
            }
            None => return Err(wrong(&missing(&program, &functions, name))),
        };
        let offset = offset.ok_or_else(|| {
            wrong(&format!("`{name}` lies outside of the file; check that the file is complete"))
        })?;
        Ok(Self { name: name.to_owned(), file: file.to_owned(), offset })
    }
}

impl Function {
    /// The function at an address of this process.
    pub(super) fn at(address: u64) -> Option<Self> {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        maps.lines().find_map(|line| {
            let mut fields = line.split_whitespace();
            let (range, offset) = (fields.next()?, fields.nth(1)?);
            let number = |text: &str| u64::from_str_radix(text, 16).ok();
            let (start, end) = range.split_once('-')?;
            let within = address.checked_sub(number(start)?)?;
            let file = PathBuf::from(fields.nth(2)?);
            (address < number(end)?).then(|| Self {
                name: format!("{address:#x}"),
                file,
                offset: number(offset).unwrap_or(0) + within,
            })
        })
    }
}

/// Functions of a program by name, with the addresses at which each begins.
fn functions<'f>(program: &'f object::File<'_>) -> BTreeMap<&'f str, Vec<u64>> {
    let mut found: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for symbol in program.symbols().chain(program.dynamic_symbols()) {
        if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
            continue;
        }
        if let Ok(name) = symbol.name() {
            let places = found.entry(name).or_default();
            if !places.contains(&symbol.address()) {
                places.push(symbol.address());
            }
        }
    }
    found
}

/// Offset in the file of an address of the program's memory.
fn in_file(program: &object::File<'_>, address: u64) -> Option<u64> {
    program.segments().find_map(|segment| {
        let within = address.checked_sub(segment.address())?;
        let (start, length) = segment.file_range();
        (within < length).then_some(start + within)
    })
}

/// Error message for a name that no function has.
fn missing(program: &object::File<'_>, functions: &BTreeMap<&str, Vec<u64>>, name: &str) -> String {
    let wanted = name.to_lowercase();
    let like: Vec<&str> = functions
        .keys()
        .filter(|have| have.to_lowercase().contains(&wanted))
        .take(SUGGESTIONS)
        .copied()
        .collect();
    if !like.is_empty() {
        return format!("there is no function `{name}`; did you mean {}?", like.join(", "));
    }
    if program.symbols().next().is_none() {
        return format!(
            "there is no function `{name}`: the program is stripped of its names; build it without \
                -s, or keep them with strip --strip-debug"
        );
    }
    format!(
        "there is no function `{name}` (inlined, or spelled in another way?); `nm` lists the \
        functions of the file"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A program of C, linked with these options.
    fn built(options: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let (source, program) = (dir.path().join("p.c"), dir.path().join("p"));
        let text = "static int __attribute__((noinline)) half(int x) { return x / 2 + (x & 1); }\n\
            int filter_image(int x) { return half(x) * 3; }\n\
            int main(int n, char **v) { return filter_image(n); }\n";
        std::fs::write(&source, text).expect("written");
        let mut cc = Command::new("cc");
        let made = cc.args(["-O1", "-o"]).arg(&program).arg(&source).args(options).status();
        assert!(made.expect("a compiler").success());
        (dir, program)
    }

    /// Compares the offset with `readelf` and with the bytes in the file.
    #[test]
    fn a_functions_place_is_that_of_its_code() {
        for options in [&["-no-pie"][..], &["-pie"], &["-static"]] {
            let (_dir, program) = built(options);
            let found = Function::find(&program, "filter_image").expect("found");
            let bytes = std::fs::read(&program).expect("read");
            let listed = Command::new("objdump")
                .args(["-d", "--disassemble=filter_image"])
                .arg(&program)
                .output()
                .expect("objdump runs");
            let text = String::from_utf8_lossy(&listed.stdout).into_owned();
            let line = text.lines().skip_while(|l| !l.contains("<filter_image>:")).nth(1);
            let codes = line.expect("its first line").split('\t').nth(1).expect("codes");
            let codes: Vec<u8> = codes
                .split_whitespace()
                .map(|byte| u8::from_str_radix(byte, 16).expect("a byte"))
                .collect();
            let at = usize::try_from(found.offset).expect("small");
            if cfg!(target_arch = "x86_64") {
                assert_eq!(bytes[at..at + codes.len()], codes[..], "{options:?}");
            }
            assert!(Function::find(&program, "half").is_ok(), "one that is not exported");
        }
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_to_do() {
        let said = |path: &Path, name: &str| Function::find(path, name).expect_err("").to_string();
        let (_dir, program) = built(&[]);
        assert!(said(&program, "Filter").contains("did you mean filter_image?"));
        assert!(said(&program, "nothing_like_it").contains("nm"));
        let (dir, program) = built(&["-s"]);
        assert!(said(&program, "filter_image").contains("stripped"));
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").expect("written");
        assert!(said(&script, "main").contains("not an ELF program"));
        assert!(said(&dir.path().join("none"), "main").contains("check the path"));
        let whole = std::fs::read(built(&[]).1).expect("read");
        for cut in (0..whole.len()).step_by(97) {
            // Cut anywhere: refused or found, and no panic.
            std::fs::write(&script, &whole[..cut]).expect("written");
            let _ = Function::find(&script, "filter_image");
        }
    }

    #[test]
    fn a_name_that_is_there_twice_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let one = "static int __attribute__((noinline)) f(int x) { return x * 7 + 1; }\n";
        std::fs::write(path("a.c"), format!("{one}int g(int x) {{ return f(x) / 3; }}\n")).unwrap();
        let main = "int g(int x);\nint main(int n, char **v) { return f(n) + g(n); }\n";
        std::fs::write(path("b.c"), format!("{one}{main}")).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-fno-ipa-icf", "-o"]).arg(path("p")).arg(path("a.c")).arg(path("b.c"));
        assert!(cc.status().unwrap().success());
        let said = Function::find(&path("p"), "f").expect_err("two").to_string();
        assert!(said.contains("2 functions are called `f`"), "{said}");
    }
}
