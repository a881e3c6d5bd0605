//! The archive that the guest's kernel unpacks as its root: cpio, format `newc` (Linux,
//! Documentation/driver-api/early-userspace/buffer-format.rst).
//!
//! Rule: all entries belong to root, have the same date, and come in the order of their paths, so
//! that the same files make the same bytes.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Kinds of entries, in the bits of their permissions (`man 7 inode`).
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
const REGULAR: u32 = 0o100_000;

/// An entry at a path of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A directory that everybody may read; if `shared`, everybody may write there as well.
    Directory {
        /// Whether everybody may write, as in /tmp.
        shared: bool,
    },
    /// A symbolic link.
    Link(PathBuf),
    /// The bytes of a host file, with its permissions.
    File {
        /// Path on the host.
        source: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Bytes made here.
    Made {
        /// Contents of the file.
        bytes: Vec<u8>,
        /// Its permissions.
        mode: u32,
    },
}

/// The files of a guest by their paths, which begin with `/`.
pub type Tree = BTreeMap<PathBuf, Entry>;

/// Writes the archive and returns its length.
///
/// # Errors
/// A host file cannot be read, or the archive cannot be written; the error names the file.
pub fn write(tree: &Tree, out: &mut impl Write) -> io::Result<u64> {
    let mut archive = Archive { out, length: 0, number: 0 };
    for (path, entry) in tree {
        let name = path.strip_prefix("/").unwrap_or(path);
        archive
            .entry(name, entry)
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    }
    archive.header(Path::new("TRAILER!!!"), 0, 0)?;
    Ok(archive.length)
}

struct Archive<'a, W> {
    out: &'a mut W,
    length: u64,
    number: u32,
}

impl<W: Write> Archive<'_, W> {
    fn entry(&mut self, name: &Path, entry: &Entry) -> io::Result<()> {
        match entry {
            Entry::Directory { shared } => {
                self.header(name, DIRECTORY | if *shared { 0o1777 } else { 0o755 }, 0)
            }
            Entry::Link(target) => {
                let bytes = target.as_os_str().as_bytes();
                self.header(name, LINK | 0o777, bytes.len() as u64)?;
                self.bytes(bytes)?;
                self.pad()
            }
            Entry::Made { bytes, mode } => {
                self.header(name, REGULAR | (mode & 0o7777), bytes.len() as u64)?;
                self.bytes(bytes)?;
                self.pad()
            }
            Entry::File { source, mode } => self.file(name, source, *mode),
        }
    }

    /// Writes a file. A file that shrinks meanwhile is filled with zeros: the header has its length
    /// already.
    fn file(&mut self, name: &Path, source: &Path, mode: u32) -> io::Result<()> {
        let mut file = std::fs::File::open(source)?;
        let length = file.metadata()?.len();
        self.header(name, REGULAR | (mode & 0o7777), length)?;
        let mut left = length;
        let mut buffer = vec![0; 1 << 16];
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let n = file.read(&mut buffer[..most])?;
            if n == 0 {
                buffer.fill(0);
            }
            let n = if n == 0 { most } else { n };
            self.bytes(&buffer[..n])?;
            left -= n as u64;
        }
        self.pad()
    }

    fn header(&mut self, name: &Path, mode: u32, size: u64) -> io::Result<()> {
        let size = u32::try_from(size)
            .map_err(|_| io::Error::other("has 4 GiB or more, more than an initramfs can hold"))?;
        let name = name.as_os_str().as_bytes();
        self.number += 1;
        let links = if mode & 0o170_000 == DIRECTORY { 2 } else { 1 };
        let name_size =
            u32::try_from(name.len() + 1).map_err(|_| io::Error::other("has too long a name"))?;
        // ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor,
        // namesize, check
        let fields = [self.number, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0];
        let mut header = b"070701".to_vec();
        for field in fields {
            write!(header, "{field:08x}")?;
        }
        self.bytes(&header)?;
        self.bytes(name)?;
        self.bytes(&[0])?;
        self.pad()
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.length += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn pad(&mut self) -> io::Result<()> {
        let missing = self.length.next_multiple_of(4) - self.length;
        self.bytes(&[0; 4][..usize::try_from(missing).unwrap_or(0)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn tree(source: &Path) -> Tree {
        let mut tree = Tree::new();
        tree.insert("/tmp".into(), Entry::Directory { shared: true });
        tree.insert("/bin".into(), Entry::Directory { shared: false });
        tree.insert("/bin/sh".into(), Entry::Link("busybox".into()));
        tree.insert("/bin/odd".into(), Entry::Made { bytes: b"12345".to_vec(), mode: 0o755 });
        tree.insert("/bin/file".into(), Entry::File { source: source.to_owned(), mode: 0o640 });
        tree
    }

    #[test]
    fn the_layout_is_that_of_the_format() {
        let mut bytes = Vec::new();
        let mut tree = Tree::new();
        tree.insert("/a".into(), Entry::Made { bytes: b"xyz".to_vec(), mode: 0o600 });
        let length = write(&tree, &mut bytes).expect("written");
        assert_eq!(length, bytes.len() as u64);
        let expect = b"070701000000010000818000000000000000000000000100000000000000030000000000000000000000000000000000000002000000\
00a\0xyz\0";
        assert_eq!(&bytes[..expect.len()], expect);
        assert!(bytes[expect.len()..].starts_with(b"070701"));
        assert_eq!(bytes.len() % 4, 0);
    }

    #[test]
    fn cpio_reads_what_was_written() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), vec![7; 100_001]).expect("written");
        let mut bytes = Vec::new();
        write(&tree(file.path()), &mut bytes).expect("written");
        let Ok(mut cpio) = Command::new("cpio")
            .args(["-itv", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
        else {
            eprintln!("skipped: cpio is not installed");
            return;
        };
        cpio.stdin.take().expect("stdin").write_all(&bytes).expect("cpio reads");
        let said =
            String::from_utf8(cpio.wait_with_output().expect("cpio ends").stdout).expect("text");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 5, "{said}");
        assert!(lines[1].starts_with("-rw-r-----") && lines[1].contains(" 100001 "), "{said}");
        assert!(lines[3].ends_with("bin/sh -> busybox"), "{said}");
        assert!(lines[4].starts_with("drwxrwxrwt"), "{said}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let mut tree = Tree::new();
        tree.insert("/x".into(), Entry::File { source: "/nowhere/x".into(), mode: 0 });
        let error = write(&tree, &mut Vec::new()).expect_err("missing").to_string();
        assert!(error.starts_with("/x: "), "{error}");
    }
}
