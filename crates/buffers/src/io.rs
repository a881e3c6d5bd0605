//! Files read straight into chosen pages: by O_DIRECT, or by io_uring into buffers that are
//! registered once.
//!
//! Problem: an ordinary read copies from pages of the kernel's choice; a device's DMA goes to
//! these, in any banks, and the copy goes through the cache. Rule: with O_DIRECT the device writes
//! into the caller's pages, which stay where they are. Registered buffers are pinned once instead
//! of at each read. Both refuse reads without the alignment of the file system. Source:
//! mc2-os-isolation, sections 4.3 and 5.3 (its Load-Generator reads 400 KB at an interval with
//! O_DIRECT). Does not cover: copies by a virtual or encrypted disk below; file systems that accept
//! O_DIRECT and still copy.

use crate::{BufferError, Mapping};
use io_uring::{IoUring, opcode, types};
use rustix::fs::{AtFlags, StatxFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The largest usual alignment, for kernels that give none.
const USUAL: usize = 4096;

/// A file that is read without the kernel's cache.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    path: PathBuf,
    /// Multiple for addresses, bytes.
    pub memory_alignment: usize,
    /// Multiple for offsets and lengths, bytes.
    pub offset_alignment: usize,
    /// Its length.
    pub bytes: u64,
}

impl DirectFile {
    /// Opens it for reading.
    ///
    /// # Errors
    /// The file does not exist, or its file system has no O_DIRECT.
    pub fn open(path: &Path) -> Result<Self, BufferError> {
        let shown = path.display().to_string();
        if path.is_dir() {
            return Err(BufferError::Input(format!("{shown} is a directory; name a file")));
        }
        let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path).map_err(
            |e| match e.raw_os_error() {
                Some(libc::EINVAL) => BufferError::Machine(format!(
                    "{shown}: its file system reads only through the kernel's cache (no O_DIRECT); \
                        name a file on a disk"
                )),
                Some(libc::ENOENT) => BufferError::Input(format!(
                    "{shown}: there is no such file; \
                    name one"
                )),
                _ => BufferError::io(&shown, &e, "name a file that can be read"),
            },
        )?;
        let metadata =
            file.metadata().map_err(|e| BufferError::io(&shown, &e, "name another file"))?;
        let (memory, offset) = alignments(&file);
        let bytes = metadata.len();
        Ok(Self {
            file,
            path: path.to_owned(),
            memory_alignment: memory,
            offset_alignment: offset,
            bytes,
        })
    }

    /// Checks the alignment.
    fn check(&self, address: usize, length: usize, offset: u64) -> Result<(), BufferError> {
        let even = |n: usize, by: usize| n.is_multiple_of(by.max(1));
        let place = usize::try_from(offset).unwrap_or(usize::MAX);
        if even(address, self.memory_alignment)
            && even(length, self.offset_alignment)
            && even(place, self.offset_alignment)
        {
            return Ok(());
        }
        Err(BufferError::Input(format!(
            "{}: reading {length} bytes at {offset} to {address:#x} is not aligned: addresses to \
                {}, lengths and offsets to {}; align them",
            self.path.display(),
            self.memory_alignment,
            self.offset_alignment
        )))
    }

    /// Reads into chosen pages; fewer bytes only at the file's end.
    ///
    /// # Errors
    /// It is not aligned, or the device fails.
    pub fn read_at(&self, memory: &mut [u8], offset: u64) -> Result<usize, BufferError> {
        self.check(memory.as_ptr().addr(), memory.len(), offset)?;
        let mut done = 0;
        while done < memory.len() {
            match self.file.read_at(&mut memory[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    return Err(BufferError::io(
                        &self.path.display().to_string(),
                        &e,
                        "look at the disk",
                    ));
                }
            }
            if !done.is_multiple_of(self.offset_alignment.max(1)) {
                break;
            }
        }
        Ok(done)
    }
}

/// Required alignments of addresses, and of offsets and lengths.
fn alignments(file: &File) -> (usize, usize) {
    let told = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    let told = told
        .filter(|t| StatxFlags::from_bits_retain(t.stx_mask).contains(StatxFlags::DIOALIGN))
        .map(|t| (t.stx_dio_mem_align as usize, t.stx_dio_offset_align as usize));
    told.filter(|&(memory, offset)| memory > 0 && offset > 0).unwrap_or((USUAL, USUAL))
}

/// io_uring with registered buffers.
pub struct Ring {
    // Dropped before the buffers that it holds.
    ring: IoUring,
    buffers: Vec<Mapping>,
}

impl Ring {
    /// Pins and registers the buffers.
    ///
    /// # Errors
    /// The kernel has no io_uring, or forbids it to this process; or the limit of locked memory is
    /// exceeded.
    pub fn new(buffers: Vec<Mapping>) -> Result<Self, BufferError> {
        if buffers.is_empty() {
            return Err(BufferError::Input(
                "there are no buffers to register; give at least one".to_owned(),
            ));
        }
        let ring = IoUring::new(8).map_err(|e| {
            BufferError::io(
                "io_uring",
                &e,
                "use O_DIRECT reads, or allow it (sysctl kernel.io_uring_disabled=0)",
            )
        })?;
        let parts: Vec<libc::iovec> = buffers
            .iter()
            .map(|b| libc::iovec { iov_base: b.as_ptr().cast_mut().cast(), iov_len: b.len() })
            .collect();
        // SAFETY: the buffers live as long as the ring, which is dropped first.
        unsafe { ring.submitter().register_buffers(&parts) }.map_err(|e| {
            BufferError::io(
                "registering buffers",
                &e,
                "raise the limit of locked memory (ulimit -l)",
            )
        })?;
        Ok(Self { ring, buffers })
    }

    /// Reads into the beginning of a buffer; fewer bytes only at the file's end.
    ///
    /// # Errors
    /// It is not aligned, there is no such buffer, or the device fails.
    pub fn read(
        &mut self,
        file: &DirectFile,
        buffer: usize,
        length: usize,
        offset: u64,
    ) -> Result<usize, BufferError> {
        let Some(memory) = self.buffers.get_mut(buffer).filter(|b| length <= b.len()) else {
            return Err(BufferError::Input(format!(
                "there is no buffer {buffer} of {length} bytes; {} are registered",
                self.buffers.len()
            )));
        };
        file.check(memory.as_ptr().addr(), length, offset)?;
        let (Ok(bytes), Ok(index)) = (u32::try_from(length), u16::try_from(buffer)) else {
            return Err(BufferError::Input(format!(
                "{length} bytes in one read are too many; read in parts"
            )));
        };
        let entry = opcode::ReadFixed::new(
            types::Fd(file.file.as_raw_fd()),
            memory.as_mut_ptr(),
            bytes,
            index,
        )
        .offset(offset)
        .build();
        let fail = |e: &io::Error| {
            BufferError::io(&file.path.display().to_string(), e, "look at the disk")
        };
        // SAFETY: the buffer is registered and stays until the read is complete, which is waited
        // for.
        unsafe { self.ring.submission().push(&entry) }.map_err(|e| fail(&io::Error::other(e)))?;
        loop {
            match self.ring.submit_and_wait(1) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(fail(&e)),
                Ok(_) => {}
            }
            if let Some(done) = self.ring.completion().next() {
                return usize::try_from(done.result())
                    .map_err(|_| fail(&io::Error::from_raw_os_error(-done.result())));
            }
        }
    }

    /// A buffer's contents.
    #[must_use]
    pub fn buffer(&self, number: usize) -> Option<&[u8]> {
        self.buffers.get(number).map(|b| &b[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnyFrames, Frames, List, PAGE};
    use std::io::Write;

    /// A file of numbered pages on a disk; none where the tests' directory is in memory.
    fn numbered(pages: usize) -> Option<(tempfile::NamedTempFile, DirectFile)> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut file = tempfile::NamedTempFile::new_in(directory).unwrap();
        for page in 0..pages {
            file.write_all(&[u8::try_from(page).unwrap(); PAGE]).unwrap();
        }
        file.flush().unwrap();
        let direct = DirectFile::open(file.path());
        if direct.is_err() {
            eprintln!("skipped: {:?}", direct.as_ref().err());
        }
        Some((file, direct.ok()?))
    }

    #[test]
    fn pages_come_where_they_should() {
        let Some((_kept, file)) = numbered(10) else { return };
        assert!(file.memory_alignment.is_power_of_two() && file.offset_alignment <= PAGE);
        let mut memory = AnyFrames.frames(List::LevelC, 4 * PAGE).unwrap();
        assert_eq!(file.read_at(&mut memory, 3 * PAGE as u64).unwrap(), 4 * PAGE);
        assert!(
            (0..4)
                .all(|p| memory[p * PAGE..(p + 1) * PAGE].iter().all(|&b| usize::from(b) == 3 + p))
        );
        assert_eq!(file.read_at(&mut memory, 8 * PAGE as u64).unwrap(), 2 * PAGE, "the end");
        assert_eq!(file.read_at(&mut memory, 10 * PAGE as u64).unwrap(), 0);
        let error = file.read_at(&mut memory[1..513], 0).unwrap_err().to_string();
        assert!(error.contains("not aligned") && error.contains(';'), "{error}");
    }

    #[test]
    fn registered_buffers_get_the_same() {
        let Some((_kept, file)) = numbered(10) else { return };
        let buffers = (0..2).map(|_| Mapping::new(4 * PAGE).unwrap()).collect();
        let mut ring = match Ring::new(buffers) {
            Ok(ring) => ring,
            Err(e) => return eprintln!("skipped: {e}"),
        };
        assert_eq!(ring.read(&file, 1, 2 * PAGE, 5 * PAGE as u64).unwrap(), 2 * PAGE);
        let got = ring.buffer(1).unwrap();
        assert!(got[..PAGE].iter().all(|&b| b == 5) && got[PAGE..2 * PAGE].iter().all(|&b| b == 6));
        assert!(
            got[2 * PAGE..].iter().all(|&b| b == 0)
                && ring.buffer(0).unwrap().iter().all(|&b| b == 0)
        );
        assert_eq!(ring.read(&file, 0, 4 * PAGE, 8 * PAGE as u64).unwrap(), 2 * PAGE);
        for (buffer, length) in [(2, PAGE), (0, 5 * PAGE), (0, 100)] {
            assert!(ring.read(&file, buffer, length, 0).is_err(), "{buffer} {length}");
        }
        assert!(Ring::new(Vec::new()).is_err());
    }

    #[test]
    fn what_cannot_be_read_directly_is_refused() {
        for (path, word) in [
            ("/nonexistent/file", "no such file"),
            ("/tmp", "directory"),
            ("/proc/self/stat", "O_DIRECT"),
        ] {
            let error = DirectFile::open(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains(';'), "{path}: {error}");
        }
    }
}
