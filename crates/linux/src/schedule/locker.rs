//! The plan's locked pages, read into ways that no other program may fill.
//!
//! Problem: a plan relies on hits in the hottest pages of its tasks, and stock Linux locks no
//! lines.
//! Rule: with `--resctrl`, some of a core's ways are kept for its locked pages
//! (host/resctrl/shares.rs): no running thread is in their group, so no other line replaces theirs.
//! The daemon joins that group and reads the pages of the running process from outside
//! (process_vm_readv), line by line: a line that is not in the cache yet goes into these ways. A
//! page is read once the process has used it (it is present), and again with every look, some
//! twenty times a second. A line that was already in the cache, in the ways of others, is evicted
//! some time later, and comes back into the right ways. Pages are named by region and offset
//! (profile). Those of anonymous mappings (`mmap#N`) have no stable name and are counted as not
//! found. The locks end with the process.
//! Source: single-core-equivalence, section 2.3 (Colored Lockdown; deferred to the first use of a
//! page).
//! Does not cover: the time between a loss and the next look; more pages of one colour than the
//! ways kept for them; jobs that end before the first look at them. So a bound that rests on locked
//! pages is only approximated, not enforced: the figures give the numbers of pages found and read.

use super::placed::{How, Placed};
use crate::sys::{self, tasks};
use solocore_model::profile::PageName;
use solocore_model::run::RunLocked;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

const PAGE: u64 = 4096;

/// A mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    start: u64,
    end: u64,
    writable: bool,
    file_offset: u64,
    /// Base name of a file, or the kernel's name of the mapping.
    name: String,
}

fn spans(maps: &str) -> Vec<Span> {
    let one = |line: &str| {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let perms = fields.next()?;
        let file_offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        let path = fields.nth(2).unwrap_or_default().trim();
        Some(Span {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            writable: perms.contains('w'),
            file_offset,
            name: path.rsplit('/').next().unwrap_or_default().to_owned(),
        })
    };
    maps.lines().filter_map(one).collect()
}

/// Address of a page of the profile in this process.
fn address(spans: &[Span], page: &PageName) -> Option<u64> {
    let at = page.offset.checked_mul(PAGE)?;
    let inside =
        |span: &Span, address: u64| (span.start..span.end).contains(&address).then_some(address);
    if page.region == "stack" {
        let span = spans.iter().find(|s| s.name == "[stack]")?;
        return inside(span, span.end.checked_sub(at + PAGE)?);
    }
    if page.region == "heap" {
        let span = spans.iter().find(|s| s.name == "[heap]")?;
        return inside(span, span.start.checked_add(at)?);
    }
    if let Some(file) = page.region.strip_suffix(":bss") {
        // The anonymous mapping directly behind the file's last one.
        let behind = spans
            .windows(2)
            .rfind(|w| w[0].name == file && w[1].name.is_empty() && w[0].end == w[1].start)?;
        return inside(&behind[1], behind[1].start.checked_add(at)?);
    }
    let (file, writable) = match page.region.strip_suffix(":data") {
        Some(file) => (file, true),
        None => (page.region.as_str(), false),
    };
    let of_file = spans.iter().filter(|s| s.name == file && s.writable == writable);
    of_file
        .into_iter()
        .find_map(|s| inside(s, s.start.checked_add(at.checked_sub(s.file_offset)?)?))
}

/// A task with locked pages.
struct Task {
    group: PathBuf,
    attached: Option<u32>,
    pages: Vec<PageName>,
    run: RunLocked,
    last: Option<u32>,
    spent_ns: u64,
}

/// Reader of the tasks' locked pages.
pub(crate) struct Locker {
    home: PathBuf,
    tasks: Vec<Task>,
}

impl Locker {
    /// A reader for tasks on cores with ways for locked pages: `groups` has the files for joining
    /// them, by core; `home` is the file of the first group.
    pub fn new(
        placed: &[Placed],
        pages: &BTreeMap<String, Vec<PageName>>,
        groups: &BTreeMap<u32, PathBuf>,
        home: PathBuf,
    ) -> Self {
        let one = |p: &Placed| {
            let (pages, group) = (pages.get(&p.name)?.clone(), groups.get(&p.core)?.clone());
            let attached = if let How::Attach(pid) = p.how { Some(pid) } else { None };
            let run = RunLocked {
                task: p.name.clone(),
                pages: pages.len() as u64,
                ..RunLocked::default()
            };
            (!pages.is_empty()).then_some(Task {
                group,
                attached,
                pages,
                run,
                last: None,
                spent_ns: 0,
            })
        };
        Self { home, tasks: placed.iter().filter_map(one).collect() }
    }

    /// Reads the pages of the running tasks; `running` are the processes of the started ones.
    pub fn look(&mut self, running: &[(String, u32)]) {
        for task in &mut self.tasks {
            let started = running.iter().find(|(name, _)| *name == task.run.task).map(|r| r.1);
            let Some(pid) = task.attached.or(started) else { continue };
            let addresses = task.find(pid);
            if addresses.is_empty() || join(&task.group).is_err() {
                continue;
            }
            task.read(pid, &addresses);
            // A daemon that stayed would put its own lines there.
            let _ = join(&self.home);
        }
    }

    /// Counts of the reads.
    pub fn runs(&self) -> Vec<RunLocked> {
        self.tasks.iter().map(|t| t.run.clone()).collect()
    }
}

fn join(tasks_file: &std::path::Path) -> io::Result<()> {
    fs::write(tasks_file, format!("{}\n", tasks::thread_number()))
}

impl Task {
    /// Addresses of the pages that the process has used.
    fn find(&mut self, pid: u32) -> Vec<u64> {
        let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else { return Vec::new() };
        let spans = spans(&maps);
        let mut addresses: Vec<u64> =
            self.pages.iter().filter_map(|p| address(&spans, p)).collect();
        if self.last.replace(pid) != Some(pid) {
            self.run.processes += 1;
        }
        self.run.found = addresses.len() as u64;
        let Ok(mut pagemap) = fs::File::open(format!("/proc/{pid}/pagemap")) else {
            return Vec::new();
        };
        addresses.retain(|&address| present(&mut pagemap, address));
        self.run.present = addresses.len() as u64;
        addresses
    }

    fn read(&mut self, pid: u32, addresses: &[u64]) {
        let mut page = [0u8; PAGE as usize];
        for &address in addresses {
            let begun = tasks::monotonic_ns();
            if sys::tasks::read_of(pid, address, &mut page).is_ok() {
                self.run.reads += 1;
                self.spent_ns += tasks::monotonic_ns().saturating_sub(begun);
            }
        }
        self.run.mean_read_ns = self.spent_ns / self.run.reads.max(1);
    }
}

/// Whether the page is in memory. Reading an absent page would bring it there before its process
/// needs it.
fn present(pagemap: &mut fs::File, address: u64) -> bool {
    let mut entry = [0; 8];
    let read = pagemap
        .seek(SeekFrom::Start(address / PAGE * 8))
        .and_then(|_| pagemap.read_exact(&mut entry));
    read.is_ok() && u64::from_le_bytes(entry) >> 63 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
400000-401000 r--p 00000000 08:01 5 /opt/job\n\
401000-404000 r-xp 00001000 08:01 5 /opt/job\n\
404000-405000 rw-p 00004000 08:01 5 /opt/job\n\
405000-409000 rw-p 00000000 00:00 0 \n\
a00000-a21000 rw-p 00000000 00:00 0                                  [heap]\n\
7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n\
7ffffff00000-7ffffff21000 rw-p 00000000 00:00 0                      [stack]\n";

    #[test]
    fn pages_are_found_by_region_and_offset() {
        let spans = spans(MAPS);
        let at =
            |region: &str, offset| address(&spans, &PageName { region: region.to_owned(), offset });
        assert_eq!(
            (at("job", 0), at("job", 1), at("job", 3)),
            (Some(0x400000), Some(0x401000), Some(0x403000))
        );
        assert_eq!((at("job:data", 4), at("job", 4)), (Some(0x404000), None));
        assert_eq!(
            (at("job:bss", 0), at("job:bss", 3), at("job:bss", 4)),
            (Some(0x405000), Some(0x408000), None)
        );
        assert_eq!((at("heap", 0), at("heap", 0x21)), (Some(0xa00000), None));
        assert_eq!((at("stack", 0), at("stack", 0x21)), (Some(0x7fff_fff2_0000), None));
        for region in ["mmap#0", "other", "", "other:bss"] {
            assert_eq!(at(region, 0), None, "{region}");
        }
        assert_eq!(at("heap", u64::MAX), None);
        assert!(super::spans("noise\n1-\n").is_empty());
    }

    /// The pages of this test's own process are found, and read from outside.
    #[test]
    fn a_process_is_read() {
        let used = vec![7u8; 3 * PAGE as usize];
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let program =
            spans(&maps).into_iter().find(|s| s.name.starts_with("solocore_linux")).unwrap();
        let place = tempfile::tempdir().unwrap();
        let group = place.path().join("locked");
        let home = place.path().join("home");
        let pages = vec![
            PageName { region: program.name.clone(), offset: 0 },
            PageName { region: "stack".to_owned(), offset: 0 },
            PageName { region: "mmap#3".to_owned(), offset: 0 },
        ];
        let me = std::process::id();
        let placed = Placed::new("t", 1, How::Attach(me));
        let mut locker = Locker::new(
            &[placed],
            &[("t".to_owned(), pages)].into(),
            &[(1, group.clone())].into(),
            home.clone(),
        );
        locker.look(&[]);
        locker.look(&[]);
        let run = locker.runs().remove(0);
        assert_eq!((run.pages, run.found, run.processes), (3, 2, 1), "{run:?}");
        assert!(
            run.present >= 1 && run.reads == 2 * run.present && run.mean_read_ns > 0,
            "{run:?}"
        );
        let me = format!("{}\n", tasks::thread_number());
        assert_eq!(
            (fs::read_to_string(group).unwrap(), fs::read_to_string(home).unwrap()),
            (me.clone(), me)
        );
        assert_eq!(used[5], 7);
    }

    #[test]
    fn without_ways_for_them_no_page_is_read() {
        let locker = Locker::new(&[], &BTreeMap::new(), &BTreeMap::new(), PathBuf::new());
        assert!(locker.runs().is_empty());
    }
}
