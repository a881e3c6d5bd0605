//! Messages of unmodified programs, which lie in frames of the programs' colours.
//!
//! Problem: a program makes queues for the tasks of a plan and others, and only the user can tell
//! them. Rule: the user names the queues: `/NAME` for POSIX, a key for System V, or `all` of both;
//! `pipes` that the programs make, UNIX `sockets`, and `fifo:/PATH` for a named pipe. The list
//! is checked here. The library in the program (crates/space/preload) gets it in a variable, with
//! each key as it writes keys itself. Source: MC2 with OS isolation, 3.3 (messages).
//! Does not cover: datagrams, which stay in the kernel's memory (docs/buffers.md).

use std::ffi::OsString;
use std::str::FromStr;

/// The variable of a program's environment that has the list.
pub const QUEUES: &str = "SOLOCORE_QUEUES";
/// Longest list, bytes; the library has room for a little more.
const LONGEST: usize = 1000;
/// Longest name of a POSIX queue, bytes: the name of its file is longer.
const LONGEST_NAME: usize = 240;
/// Kinds of messages that need no name.
const WORDS: [&str; 3] = ["all", "pipes", "sockets"];
/// The beginning of a named pipe, and its longest path, bytes.
const FIFO: &str = "fifo:";
const LONGEST_PATH: usize = 500;

/// A list of queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queues(String);

impl Queues {
    /// The variable for the environment of a program.
    pub fn variable(&self) -> (&'static str, OsString) {
        (QUEUES, OsString::from(&self.0))
    }
}

impl FromStr for Queues {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names =
            text.split(',').map(|name| queue(name.trim())).collect::<Result<Vec<_>, _>>()?;
        let list = names.join(",");
        if list.len() > LONGEST {
            return Err(format!(
                "the list has {} bytes, and at most {LONGEST} are possible; name fewer queues, or \
                    all",
                list.len()
            ));
        }
        Ok(Self(list))
    }
}

/// One queue, in the form that the library compares.
fn queue(text: &str) -> Result<String, String> {
    if WORDS.contains(&text) {
        return Ok(text.to_owned());
    }
    if let Some(path) = text.strip_prefix(FIFO) {
        let fits = path.starts_with('/') && path.len() > 1 && path.len() <= LONGEST_PATH;
        return if fits { Ok(text.to_owned()) } else { Err(wrong(text)) };
    }
    if let Some(name) = text.strip_prefix('/') {
        let fits = !name.is_empty() && name.len() <= LONGEST_NAME && !name.contains('/');
        return if fits { Ok(text.to_owned()) } else { Err(wrong(text)) };
    }
    let key = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    key.map(|key: u32| format!("{key:#x}")).map_err(|_| wrong(text))
}

fn wrong(text: &str) -> String {
    format!(
        "`{text}` is not a queue; write a POSIX name like /frames, a System V key like 0x4d2, \
            all for both, pipes, sockets, or a named pipe like fifo:/run/frames"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> String {
        text.parse::<Queues>().unwrap().0
    }

    #[test]
    fn keys_have_the_form_that_the_library_writes() {
        assert_eq!(list("/frames, 1234,0x4D2,0,/a.b"), "/frames,0x4d2,0x4d2,0x0,/a.b");
        assert_eq!(list("0xffffffff"), "0xffffffff");
        assert_eq!(list("all"), "all");
        assert_eq!(list("pipes,all, fifo:/run/a b,sockets"), "pipes,all,fifo:/run/a b,sockets");
    }

    #[test]
    fn other_words_are_refused_with_the_forms() {
        for text in [
            "",
            "frames",
            "/",
            "/a/b",
            "0x",
            "-1",
            "4294967296",
            "/a,,/b",
            "fifo:",
            "fifo:/",
            "fifo:run",
            "pipe",
        ] {
            let error = text.parse::<Queues>().unwrap_err();
            assert!(error.contains("is not a queue; write a POSIX name"), "{text}: {error}");
        }
        let many = ["/frames"; 200].join(",");
        assert!(many.parse::<Queues>().unwrap_err().contains("name fewer queues, or all"));
        assert!(format!("/{}", "n".repeat(241)).parse::<Queues>().is_err());
    }
}
