//! Finding the program and the emulator for it.

use crate::error::ProfileError;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Architecture, Endianness, Object};
use solocore_model::platform::Isa;
use std::path::{Path, PathBuf};

/// An ELF program.
#[derive(Debug)]
pub struct Program {
    /// Path of its file.
    pub path: PathBuf,
    /// Its instruction set.
    pub isa: Isa,
    /// Its dynamic loader, if it asks for one.
    pub(crate) interpreter: Option<PathBuf>,
}

impl Program {
    /// Finds `name` as a shell would, run in `dir`.
    ///
    /// # Errors
    /// One line: missing, unreadable, a script, not ELF, or an instruction set without emulator.
    pub fn find(name: &str, dir: &Path) -> Result<Self, String> {
        let path = if name.contains('/') {
            let path = dir.join(name);
            if !path.exists() {
                return Err(format!(
                    "{}: no such program; check the path (it is taken from {})",
                    name,
                    dir.display()
                ));
            }
            path
        } else {
            let paths = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&paths)
                .map(|p| p.join(name))
                .find(|p| p.is_file())
                .ok_or_else(|| format!("{name}: not found in PATH; install it or give its path"))?
        };
        if path.is_dir() {
            return Err(format!("{}: is a directory; name a program", path.display()));
        }
        let bytes = std::fs::read(&path)
            .map_err(|e| format!("{}: cannot read: {e}; check its permissions", path.display()))?;
        if bytes.starts_with(b"#!") {
            let line = bytes[2..].split(|&b| b == b'\n').next().unwrap_or_default();
            let interpreter = String::from_utf8_lossy(line).trim().to_owned();
            return Err(format!(
                "{}: is a script, not an ELF program; profile its interpreter: -- {interpreter} {}",
                path.display(),
                path.display()
            ));
        }
        // The emulator runs in another directory.
        let absolute = path.canonicalize().unwrap_or_else(|_| path.clone());
        Self::parse(absolute, &bytes).map_err(|what| format!("{}: {what}", path.display()))
    }

    fn parse(path: PathBuf, bytes: &[u8]) -> Result<Self, String> {
        if !bytes.starts_with(b"\x7fELF") {
            return Err("is not an ELF program; give a compiled Linux program".to_owned());
        }
        let file = object::File::parse(bytes)
            .map_err(|e| format!("is a damaged ELF file ({e}); build it again"))?;
        if !matches!(file.kind(), object::ObjectKind::Executable | object::ObjectKind::Dynamic) {
            return Err("is an ELF file but not a program; link it first".to_owned());
        }
        let isa = match (file.architecture(), file.is_little_endian()) {
            (Architecture::X86_64, true) => Isa::X86_64,
            (Architecture::I386, true) => Isa::I386,
            (Architecture::Aarch64, true) => Isa::Aarch64,
            (Architecture::Arm, true) => Isa::Arm,
            (Architecture::PowerPc, false) => Isa::Powerpc,
            (Architecture::PowerPc64, false) => Isa::Powerpc64,
            (Architecture::PowerPc64, true) => Isa::Powerpc64le,
            (Architecture::Riscv64, true) => Isa::Riscv64,
            (other, _) => {
                return Err(format!(
                    "is made for {other:?}, which has no emulator here; supported: x86_64, i386, \
                        aarch64, arm, powerpc, powerpc64(le), riscv64"
                ));
            }
        };
        let interpreter = if file.is_64() {
            interpreter::<elf::FileHeader64<Endianness>>(bytes)
        } else {
            interpreter::<elf::FileHeader32<Endianness>>(bytes)
        };
        Ok(Self { path, isa, interpreter })
    }

    /// The emulator's program.
    ///
    /// # Errors
    /// [`ProfileError::Machine`] with the package to install.
    pub fn emulator(&self) -> Result<PathBuf, ProfileError> {
        let name = match self.isa {
            Isa::X86_64 => "qemu-x86_64",
            Isa::I386 => "qemu-i386",
            Isa::Aarch64 => "qemu-aarch64",
            Isa::Arm => "qemu-arm",
            Isa::Powerpc => "qemu-ppc",
            Isa::Powerpc64 => "qemu-ppc64",
            Isa::Powerpc64le => "qemu-ppc64le",
            Isa::Riscv64 => "qemu-riscv64",
        };
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).map(|p| p.join(name)).find(|p| p.is_file()).ok_or_else(|| {
            ProfileError::Machine(format!(
                "{name} is not installed, which runs {} programs; install it with: apt-get install \
                    qemu-user",
                self.isa
            ))
        })
    }

    /// Directory with the libraries of a foreign dynamic program.
    ///
    /// # Errors
    /// [`ProfileError::Machine`] if they are not installed.
    pub fn sysroot(&self) -> Result<Option<PathBuf>, ProfileError> {
        let Some(interpreter) = &self.interpreter else { return Ok(None) };
        if interpreter.exists() {
            return Ok(None);
        }
        let (triplet, package) = match self.isa {
            Isa::X86_64 => ("x86_64-linux-gnu", "libc6-amd64-cross"),
            Isa::I386 => ("i686-linux-gnu", "libc6-i386-cross"),
            Isa::Aarch64 => ("aarch64-linux-gnu", "libc6-arm64-cross"),
            Isa::Arm => ("arm-linux-gnueabihf", "libc6-armhf-cross"),
            Isa::Powerpc => ("powerpc-linux-gnu", "libc6-powerpc-cross"),
            Isa::Powerpc64 => ("powerpc64-linux-gnu", "libc6-ppc64-cross"),
            Isa::Powerpc64le => ("powerpc64le-linux-gnu", "libc6-ppc64el-cross"),
            Isa::Riscv64 => ("riscv64-linux-gnu", "libc6-riscv64-cross"),
        };
        let root = Path::new("/usr").join(triplet);
        let inside = interpreter.strip_prefix("/").unwrap_or(interpreter);
        if root.join(inside).exists() {
            return Ok(Some(root));
        }
        Err(ProfileError::Machine(format!(
            "{}: is a dynamic {} program and its loader {} is not here; install it with: apt-get \
                install {package}",
            self.path.display(),
            self.isa,
            interpreter.display()
        )))
    }
}

fn interpreter<H: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<PathBuf> {
    let header = H::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, bytes).ok()?;
    let path = headers.iter().find_map(|h| h.interpreter(endian, bytes).ok().flatten())?;
    Some(PathBuf::from(String::from_utf8_lossy(path).into_owned()))
}
