//! The guest's files: copies of the host's, at the same paths.
//!
//! Problem: a program needs its libraries, and a script its interpreter; the guest must not be able
//! to change any. Rule: the files that the command names are copied, with their dependencies, into
//! the memory that the kernel unpacks as its root. A stock kernel needs no module for that, and no
//! request goes to the host while the program runs, so the host's speed does not show in the
//! guest's time. Symbolic links on the way stay links.
//! Does not cover: libraries that a program loads by name at run time, and data that its arguments
//! do not name: `--share` adds these.

use crate::elf;
use crate::error::BoardError;
use crate::initramfs::{Entry, Tree};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Directory of the guest's own files.
pub const HOME: &str = "/board";
/// Maximum number of links on the way to one file, as in the kernel.
const MOST_LINKS: u32 = 40;
/// Directories that the kernel of each guest provides.
const KERNELS: &[&str] = &["/proc", "/sys", "/dev", "/run"];

/// The files of a guest.
#[derive(Debug, Default)]
pub struct Image {
    tree: Tree,
    size: u64,
}

impl Image {
    /// A root with the host's links at its top, so that `/bin/sh` and `/usr/bin/sh` are one where
    /// they are one on the host.
    pub fn new() -> Result<Self, BoardError> {
        let mut image = Self::default();
        for top in ["/bin", "/sbin", "/lib", "/lib64", "/usr", "/etc", "/root"] {
            if Path::new(top).exists() {
                image.walk(Path::new(top))?;
            }
        }
        for empty in ["/proc", "/sys", "/dev", "/run", "/out", "/etc", "/bin", HOME] {
            image.tree.entry(empty.into()).or_insert(Entry::Directory { shared: false });
        }
        image.tree.insert("/tmp".into(), Entry::Directory { shared: true });
        image.make(
            "/etc/passwd",
            "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n",
            0o644,
        );
        image.make("/etc/group", "root:x:0:\nsolocore:x:900:\nuser:x:1000:\n", 0o644);
        if Path::new("/etc/ld.so.cache").is_file() {
            image.walk(Path::new("/etc/ld.so.cache"))?;
        }
        Ok(image)
    }

    /// The files.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Size of all files in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Adds a file with this text or these bytes.
    pub fn make(&mut self, path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>, mode: u32) {
        let bytes = bytes.into();
        self.size += bytes.len() as u64;
        self.tree.insert(path.into(), Entry::Made { bytes, mode });
    }

    /// Adds a link, unless something lies there.
    pub fn link(&mut self, path: impl Into<PathBuf>, target: impl Into<PathBuf>) {
        self.tree.entry(path.into()).or_insert(Entry::Link(target.into()));
    }

    /// Adds a directory that the host does not have.
    pub fn new_directory(&mut self, path: &Path) {
        self.tree.entry(path.to_owned()).or_insert(Entry::Directory { shared: false });
    }

    /// Adds a directory of the host, and those above it.
    pub fn directory(&mut self, path: &Path) -> Result<(), BoardError> {
        self.walk(path).map(|_| ())
    }

    /// Target of a path of the host, without links.
    pub fn real_directory(path: &str) -> PathBuf {
        Path::new(path).canonicalize().unwrap_or_else(|_| PathBuf::from(path))
    }

    /// Adds a file, and its dependencies if it is a program.
    pub fn file(&mut self, path: &Path) -> Result<(), BoardError> {
        let real = self.walk(path)?;
        let mut begin = [0; 2];
        let read =
            |path: &Path| std::fs::read(path).map_err(|e| BoardError::file(path, "read", &e));
        let mut opened =
            std::fs::File::open(&real).map_err(|e| BoardError::file(&real, "read", &e))?;
        let n = std::io::Read::read(&mut opened, &mut begin)
            .map_err(|e| BoardError::file(&real, "read", &e))?;
        if &begin[..n] == b"\x7fE" {
            self.libraries(&real, &read(&real)?)?;
        } else if &begin[..n] == b"#!" {
            for program in interpreters(&read(&real)?) {
                self.file(&program)?;
            }
        }
        Ok(())
    }

    /// Adds the loader and the libraries of a program that lies elsewhere in the guest.
    pub fn libraries(&mut self, program: &Path, bytes: &[u8]) -> Result<(), BoardError> {
        if !elf::is_elf(bytes) {
            return Ok(());
        }
        let needed = elf::libraries(program, bytes)
            .map_err(|what| BoardError::Machine(format!("{}: {what}", program.display())))?;
        for library in needed {
            self.walk(&library)?;
        }
        Ok(())
    }

    /// Adds a file, or a directory with its contents.
    pub fn share(&mut self, path: &Path) -> Result<(), BoardError> {
        check_share(path)?;
        let absolute = std::path::absolute(path).map_err(|e| BoardError::file(path, "read", &e))?;
        if !absolute.is_dir() {
            return self.file(&absolute);
        }
        let real = self.walk(&absolute)?;
        self.share_directory(&real)
    }

    fn share_directory(&mut self, directory: &Path) -> Result<(), BoardError> {
        let fail = |e: std::io::Error| BoardError::file(directory, "read", &e);
        for entry in std::fs::read_dir(directory).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(fail)?);
            if kind.is_dir() {
                self.walk(&path)?;
                self.share_directory(&path)?;
            } else if kind.is_file() {
                self.file(&path)?;
            } else if kind.is_symlink() {
                let target = std::fs::read_link(&path).map_err(fail)?;
                self.link(&path, target);
            }
        }
        Ok(())
    }

    /// Adds the directories and links on the way to a path, and its target; returns the target,
    /// without links.
    fn walk(&mut self, path: &Path) -> Result<PathBuf, BoardError> {
        let mut done = PathBuf::from("/");
        let mut left: Vec<PathBuf> = parts(path);
        let mut links = 0;
        while let Some(part) = left.pop() {
            if part == Path::new("..") {
                done.pop();
                continue;
            }
            let here = done.join(&part);
            let fail = |e: std::io::Error| BoardError::file(&here, "read", &e);
            let kind = std::fs::symlink_metadata(&here).map_err(fail)?;
            if kind.is_symlink() {
                links += 1;
                if links > MOST_LINKS {
                    return Err(fail(std::io::ErrorKind::InvalidInput.into()));
                }
                let target = std::fs::read_link(&here).map_err(fail)?;
                left.extend(parts(&target));
                if target.is_absolute() {
                    done = PathBuf::from("/");
                }
                self.link(&here, target);
            } else if kind.is_dir() {
                self.tree.entry(here.clone()).or_insert(Entry::Directory { shared: false });
                done = here;
            } else {
                self.add_file(&here, &kind);
                done = here;
            }
        }
        Ok(done)
    }

    fn add_file(&mut self, path: &Path, kind: &std::fs::Metadata) {
        if !self.tree.contains_key(path) {
            self.size += kind.len();
            let entry =
                Entry::File { source: path.to_owned(), mode: kind.permissions().mode() & 0o7777 };
            self.tree.insert(path.to_owned(), entry);
        }
    }
}

/// Checks that this can be copied into a guest.
///
/// # Errors
/// [`BoardError::Input`].
pub fn check_share(path: &Path) -> Result<(), BoardError> {
    let wrong = |what: &str| BoardError::Input(format!("--share {}: {what}", path.display()));
    let absolute = std::path::absolute(path)
        .map_err(|e| wrong(&format!("{e}; name a file or a directory")))?;
    if KERNELS.iter().any(|k| absolute.starts_with(k)) || absolute == Path::new("/") {
        return Err(wrong("the guest has its own; share a directory of files"));
    }
    match std::fs::metadata(&absolute) {
        Ok(kind) if kind.is_dir() || kind.is_file() => Ok(()),
        Ok(_) => Err(wrong("is neither a file nor a directory; name one")),
        Err(e) => Err(wrong(&format!("{e}; name a file or a directory"))),
    }
}

/// The names of a path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let names =
        path.components().filter(|c| matches!(c, Component::Normal(_) | Component::ParentDir));
    let mut parts: Vec<PathBuf> = names.map(|c| PathBuf::from(c.as_os_str())).collect();
    parts.reverse();
    parts
}

/// The programs that a script's first line names: its interpreter, and the argument of `env`.
fn interpreters(script: &[u8]) -> Vec<PathBuf> {
    let line = script[2..].split(|&b| b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else { return Vec::new() };
    let mut found = vec![PathBuf::from(first)];
    if first.ends_with("/env") {
        found.extend(words.find(|w| !w.starts_with('-')).and_then(in_path));
    }
    found.retain(|p| p.is_file());
    found
}

/// A program by its name, found as a shell does.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let executable = |p: &PathBuf| {
        std::fs::metadata(p).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&paths).filter(|p| p.is_absolute()).map(|p| p.join(name)).find(executable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_on_the_way_stay_links() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("real");
        std::fs::create_dir(root.join("real")).expect("made");
        std::fs::write(root.join("real/data"), "12345").expect("written");
        std::os::unix::fs::symlink("real", root.join("way")).expect("linked");
        std::os::unix::fs::symlink("../way/data", root.join("real/also")).expect("linked");
        let mut image = Image::default();
        let end = image.walk(&root.join("way/also")).expect("found");
        assert_eq!(end, root.join("real/data"));
        assert_eq!(image.tree[&root.join("way")], Entry::Link("real".into()));
        assert_eq!(image.tree[&root.join("real/also")], Entry::Link("../way/data".into()));
        assert!(matches!(image.tree[&root.join("real/data")], Entry::File { .. }));
        assert_eq!(image.size(), 5);
    }

    #[test]
    fn a_circle_of_links_ends() {
        let directory = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink("a", directory.path().join("a")).expect("linked");
        assert!(Image::default().walk(&directory.path().join("a")).is_err());
    }

    #[test]
    fn a_script_brings_its_interpreter() {
        let directory = tempfile::tempdir().expect("a directory");
        let script = directory.path().canonicalize().expect("real").join("script");
        std::fs::write(&script, "#!/bin/sh -e\necho\n").expect("written");
        let mut image = Image::new().expect("a root");
        image.file(&script).expect("added");
        let shell = Path::new("/bin/sh").canonicalize().expect("a shell");
        assert!(image.tree.contains_key(&shell), "{shell:?}");
        assert!(image.tree.keys().any(|p| p.to_string_lossy().contains("libc.so")));
    }

    #[test]
    fn the_kernels_own_directories_are_not_shared() {
        for path in ["/proc", "/sys/kernel", "/", "/nowhere/at/all"] {
            assert!(
                matches!(Image::default().share(Path::new(path)), Err(BoardError::Input(_))),
                "{path}"
            );
        }
    }
}
