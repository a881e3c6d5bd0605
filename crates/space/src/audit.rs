//! Checks from outside whether a process's pages are in their colours and banks.
//!
//! Problem: the library that moves a program's pages must not be the judge of it, and the kernel
//! may move pages later. Rule: every present page of every mapping, by /proc/PID/maps and pagemap,
//! is compared with the chosen colours and banks. Pages that the library examines, and old ones
//! that it has taken out, belong to no mapping until it gives them back. It names their addresses,
//! and they are left out. Files of /dev/shm are also counted one by one, because message queues of
//! programs are such files. Does not cover: page tables and other memory that the kernel has for
//! the process.

use crate::error::SpaceError;
use crate::map::{Choice, PAGE};
use crate::sys::present_ranges;
use serde::Serialize;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Name that crates/space/preload/start.c gives to the addresses of pages that are not the
/// program's.
const LOOKED_THROUGH: &str = "[anon:solocore-looks]";
/// Name that it gives to the addresses of free pages in the program's colours.
const POOL: &str = "[anon:solocore-pool]";

/// Pages of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Resident pages.
    pub resident: u64,
    /// Resident pages in a frame of another colour or bank.
    pub wrong: u64,
}

/// The pages of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// Private memory: data, heap, stacks, and the programs and libraries that were copied to it;
    /// with the pool.
    pub anonymous: Share,
    /// Private mappings of files: the page cache's pages, which other processes may share.
    pub files: Share,
    /// Shared mappings.
    pub shared: Share,
    /// The kernel's own: vdso, vvar, the page of zeroes.
    pub kernel: Share,
}

/// A file of /dev/shm that a process maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedFile {
    /// Its number, by which processes that know it under different names have it in common.
    pub inode: u64,
    /// Its path; its maker may know it by a number alone.
    pub path: String,
    /// Its pages that the process has touched.
    pub pages: Share,
}

/// The pages of a process, and the files of shared memory among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// All pages, by kind.
    pub audit: Audit,
    /// Files of /dev/shm.
    pub shared: Vec<SharedFile>,
}

impl Look {
    /// Looks at a process; a running one may change meanwhile.
    ///
    /// # Errors
    /// There is no such process, or its frames are hidden from this one.
    pub fn at(pid: u32, choice: &Choice) -> Result<Self, SpaceError> {
        let path = format!("/proc/{pid}/maps");
        let maps = fs::read_to_string(&path)
            .map_err(|e| SpaceError::of_io(&path, &e, "is the process there, and is this root?"))?;
        let path = format!("/proc/{pid}/pagemap");
        let remedy = "Linux 6.7 or newer is needed, and root";
        let failed = |e: std::io::Error| SpaceError::of_io(&path, &e, remedy);
        let pagemap = File::open(&path).map_err(failed)?;
        let mut look = Self::default();
        for line in maps.lines() {
            let Some((start, end, kind)) = mapping(line) else { continue };
            let mut pages = Share::default();
            for (from, to, zero) in present_ranges(&pagemap, start, end).map_err(failed)? {
                let share = match kind {
                    _ if zero => &mut look.audit.kernel,
                    Kind::Anonymous => &mut look.audit.anonymous,
                    Kind::File => &mut look.audit.files,
                    Kind::Shared => &mut pages,
                    Kind::Kernel => &mut look.audit.kernel,
                };
                count(&pagemap, from, to, choice, share).map_err(failed)?;
            }
            look.audit.shared.add(pages);
            look.shared.extend(shared_file(line).map(|file| SharedFile { pages, ..file }));
        }
        Ok(look)
    }
}

impl Share {
    fn add(&mut self, more: Self) {
        self.resident += more.resident;
        self.wrong += more.wrong;
    }
}

impl Audit {
    /// Audits a process; a running one may change meanwhile.
    ///
    /// # Errors
    /// As [`Look::at`].
    pub fn of(pid: u32, choice: &Choice) -> Result<Self, SpaceError> {
        Look::at(pid, choice).map(|look| look.audit)
    }

    /// The audit as one line of text.
    pub fn describe(&self) -> String {
        let part = |name: &str, share: Share| {
            format!("{name} {} pages, {} in wrong colours", share.resident, share.wrong)
        };
        format!(
            "{} ({:.2} %); {}; {}; the kernel's {}",
            part("private", self.anonymous),
            self.anonymous.wrong as f64 * 100.0 / self.anonymous.resident.max(1) as f64,
            part("files'", self.files),
            part("shared", self.shared),
            self.kernel.resident
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Anonymous,
    File,
    Shared,
    Kernel,
}

/// A line of /proc/PID/maps: first address, end, and kind of the pages.
fn mapping(line: &str) -> Option<(u64, u64, Kind)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let rights = words.next()?;
    let inode = words.nth(2)?;
    let name = words.next().unwrap_or_default();
    let kind = if name.starts_with("[v") || name == "[uprobes]" {
        Kind::Kernel
    } else if rights.ends_with('s') || name == "/anon_hugepage" {
        Kind::Shared
    } else if inode == "0" {
        Kind::Anonymous
    } else {
        Kind::File
    };
    // The vsyscall page lies in the kernel's half of the addresses.
    (start < 1 << 63 && name != LOOKED_THROUGH).then_some((start, end, kind))
}

/// The private pages of a process that are not in its pool: those that it takes along to other
/// colours.
///
/// # Errors
/// As [`Look::at`].
pub fn own_pages(pid: u32) -> Result<u64, SpaceError> {
    let path = format!("/proc/{pid}/maps");
    let failed =
        |e: std::io::Error| SpaceError::of_io(&path, &e, "is the process there, and is this root?");
    let maps = fs::read_to_string(&path).map_err(failed)?;
    let pagemap = File::open(format!("/proc/{pid}/pagemap")).map_err(failed)?;
    let mut pages = 0;
    for line in maps.lines().filter(|line| !line.ends_with(POOL)) {
        let Some((start, end, Kind::Anonymous)) = mapping(line) else { continue };
        let ranges = present_ranges(&pagemap, start, end).map_err(failed)?;
        pages += ranges.iter().filter(|r| !r.2).map(|r| (r.1 - r.0) / PAGE).sum::<u64>();
    }
    Ok(pages)
}

/// The file of /dev/shm that a line of /proc/PID/maps has.
fn shared_file(line: &str) -> Option<SharedFile> {
    let mut words = line.split_ascii_whitespace().skip(4);
    let inode = words.next()?.parse().ok()?;
    let path = words.next().filter(|path| path.starts_with("/dev/shm/"))?.to_owned();
    Some(SharedFile { inode, path, pages: Share::default() })
}

fn count(
    pagemap: &File,
    from: u64,
    to: u64,
    choice: &Choice,
    share: &mut Share,
) -> std::io::Result<()> {
    const CHUNK: u64 = 4096;
    let (mut page, last) = (from / PAGE, to / PAGE);
    let mut bytes = vec![0u8; (CHUNK.min(last - page) * 8) as usize];
    while page < last {
        let n = CHUNK.min(last - page);
        let chunk = &mut bytes[..(n * 8) as usize];
        pagemap.read_exact_at(chunk, page * 8)?;
        for entry in
            chunk.chunks_exact(8).map(|c| u64::from_ne_bytes(c.try_into().unwrap_or_default()))
        {
            let frame = entry & ((1 << 55) - 1);
            // It may have gone since the ranges were read.
            if entry >> 63 == 1 {
                if frame == 0 {
                    return Err(std::io::ErrorKind::PermissionDenied.into());
                }
                share.resident += 1;
                share.wrong += u64::from(!choice.allows(frame));
            }
        }
        page += n;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Map;
    use crate::sys::Area;

    /// Frames are shown to root only.
    #[test]
    fn files_of_shared_memory_are_counted_one_by_one() {
        let path = format!("/dev/shm/solocore-audit-{}", std::process::id());
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let Ok(file) = file else { return };
        fs::remove_file(&path).unwrap();
        file.set_len(3 * PAGE).unwrap();
        let area = Area::of_file(&file, 3 * PAGE as usize).unwrap();
        assert!(area.populate(0, 2));
        let map = Map { colours: vec![1 << 12], banks: vec![], slices: Vec::new() };
        let choice = Choice::new(&map, Some(&[0, 1]), None).unwrap();
        let Ok(look) = Look::at(std::process::id(), &choice) else { return };
        let found = look.shared.iter().find(|f| f.path == path).unwrap();
        assert_eq!(found.pages, Share { resident: 2, wrong: 0 });
        assert!(look.audit.shared.resident >= 2);
    }

    #[test]
    fn lines_have_kinds() {
        let kind = |line: &str| mapping(line).map(|m| m.2);
        assert_eq!(kind("7f00-8000 rw-p 00000000 00:00 0 "), Some(Kind::Anonymous));
        assert_eq!(kind("7f00-8000 rw-p 00000000 00:00 0     [heap]"), Some(Kind::Anonymous));
        assert_eq!(
            kind("7f00-8000 r-xp 00001000 fe:00 316526   /usr/lib/a b.so"),
            Some(Kind::File)
        );
        assert_eq!(
            kind("7f00-8000 rw-s 00000000 00:01 1        /dev/zero (deleted)"),
            Some(Kind::Shared)
        );
        assert_eq!(kind("7f00-8000 r-xp 00000000 00:00 0        [vdso]"), Some(Kind::Kernel));
        assert_eq!(
            kind("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]"),
            None
        );
        assert_eq!(kind("7f00-8000 rw-p 00000000 00:00 0        [anon:solocore-looks]"), None);
        assert!(own_pages(std::process::id()).is_ok_and(|pages| pages > 10));
        assert_eq!(
            kind("7f00-8000 rw-p 00000000 00:00 0        [anon:mine]"),
            Some(Kind::Anonymous)
        );
        assert_eq!(kind("nonsense"), None);
        let file = |line: &str| shared_file(line).map(|f| (f.inode, f.path));
        let queue = "/dev/shm/solocore-queue-frames";
        let line = format!("7f00-8000 rw-s 00000000 00:1a 77    {queue}");
        assert_eq!(file(&line), Some((77, queue.to_owned())));
        // The one that made it, before it had a name.
        let line = "7f00-8000 rw-s 00000000 00:1a 77   /dev/shm/#77 (deleted)";
        assert_eq!(file(line), Some((77, "/dev/shm/#77".to_owned())));
        assert_eq!(file("7f00-8000 rw-s 00000000 00:01 1        /dev/zero (deleted)"), None);
        assert_eq!(file("7f00-8000 rw-p 00000000 00:00 0 "), None);
        assert_eq!(mapping("1000-3000 rw-p 0 00:00 0"), Some((0x1000, 0x3000, Kind::Anonymous)));
    }
}
