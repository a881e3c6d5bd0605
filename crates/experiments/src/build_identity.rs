//! The identity of the build whose experiments run: a hash of the file that holds their code.
//!
//! Problem: a stored outcome of an older build looks like one of today's, though the simulator may
//! have changed in between. Rule: each [`crate::Record`] holds [`this`]. The file is the command's
//! program, or the library in another program's process. Two builds of the same sources may differ,
//! too: then outcomes are named as of another build though they are the same, which is the safe
//! side.

use solocore_model::provenance::sha256;
use std::path::PathBuf;
use std::sync::LazyLock;

/// Hash of the file, in 16 hexadecimal digits; empty where it cannot be read.
static THIS: LazyLock<String> = LazyLock::new(|| {
    let bytes = file().and_then(|path| std::fs::read(path).ok());
    bytes.map_or(String::new(), |bytes| hash(&bytes))
});

/// The identity of this build; empty where its file cannot be read.
#[must_use]
pub fn this() -> &'static str {
    &THIS
}

/// The file that is mapped where this function's code is.
fn file() -> Option<PathBuf> {
    let here = this as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok();
    let mapped = maps.as_deref().and_then(|maps| maps.lines().find_map(|line| at(line, here)));
    mapped.or_else(|| std::env::current_exe().ok())
}

/// The file of a line of /proc/self/maps if the address is in it.
fn at(line: &str, address: usize) -> Option<PathBuf> {
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let parse = |digits| usize::from_str_radix(digits, 16).ok();
    let inside = (parse(from)?..parse(to)?).contains(&address);
    inside.then(|| rest.find('/').map(|start| PathBuf::from(&rest[start..])))?
}

/// The first digits of its SHA-256: they tell builds apart.
fn hash(bytes: &[u8]) -> String {
    let mut digits = sha256(bytes);
    digits.truncate(16);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_hash_of_the_file_with_this_code() {
        let exe = std::env::current_exe().expect("a program");
        assert_eq!(file(), Some(exe.clone()));
        assert_eq!(this(), hash(&std::fs::read(exe).expect("it is read")));
    }

    #[test]
    fn a_changed_byte_changes_it() {
        let bytes: Vec<u8> = (0..=250).collect();
        for at in [0, 7, 8, 100, 250] {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(hash(&bytes), hash(&other), "{at}");
        }
        assert_ne!(hash(&bytes), hash(&bytes[..250]));
    }

    #[test]
    fn a_line_of_the_maps_has_the_file_of_its_addresses() {
        let line = "55d0-55e0 r-xp 00001000 fe:00 12 /usr/bin/a b";
        assert_eq!(at(line, 0x55d8), Some(PathBuf::from("/usr/bin/a b")));
        assert_eq!(at(line, 0x55e0), None);
        assert_eq!(at("55d0-55e0 rw-p 00000000 00:00 0", 0x55d8), None);
    }
}
