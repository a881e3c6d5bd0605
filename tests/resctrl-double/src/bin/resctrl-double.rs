//! Mounts the imitation: `resctrl-double DIRECTORY [SETTING=VALUE]...`, until SIGTERM or SIGINT.
//!
//! Settings: cpu=intel|broadwell|arm, cpus=N, ways=N, least=N, shareable=HEX, closids=N,
//! caches=0,1, cdp=1, mib=1, no-mba=1, rmids=N. Says `ready` on standard output when it is mounted.

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use solocore_resctrl_double::{Double, Hardware, Kind};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The imitation, and numbers for its paths.
struct State {
    double: Double,
    paths: Vec<String>,
    numbers: BTreeMap<String, u64>,
}

impl State {
    fn number(&mut self, path: &str) -> u64 {
        let next = self.paths.len() as u64 + 1;
        let number = *self.numbers.entry(path.to_owned()).or_insert(next);
        if number == next {
            self.paths.push(path.to_owned());
        }
        number
    }

    fn path(&self, number: INodeNo) -> String {
        let at = usize::try_from(u64::from(number)).unwrap_or(0);
        self.paths.get(at.wrapping_sub(1)).cloned().unwrap_or_default()
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> String {
        let (parent, name) = (self.path(parent), name.to_string_lossy());
        if parent.is_empty() { name.into_owned() } else { format!("{parent}/{name}") }
    }

    fn attributes(&mut self, path: &str) -> Option<FileAttr> {
        let kind = self.double.kind(path)?;
        let (kind, perm) = match kind {
            Kind::Directory => (FileType::Directory, 0o755),
            Kind::File(true) => (FileType::RegularFile, 0o644),
            Kind::File(false) => (FileType::RegularFile, 0o444),
        };
        let ino = INodeNo(self.number(path));
        let at = UNIX_EPOCH;
        Some(FileAttr {
            ino,
            size: 0,
            blocks: 0,
            atime: at,
            mtime: at,
            ctime: at,
            crtime: at,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

struct Mount(Mutex<State>);

/// Nothing is remembered by the kernel: groups come and go.
const TTL: Duration = Duration::ZERO;

impl Mount {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn entry(&self, path: &str, reply: ReplyEntry) {
        match self.state().attributes(path) {
            Some(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }
}

impl Filesystem for Mount {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let path = self.state().child(parent, name);
        self.entry(&path, reply);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let mut state = self.state();
        let path = state.path(number);
        match state.attributes(&path) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Truncation, which these files ignore.
    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.getattr(request, number, handle, reply);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = self.state();
        let path = state.path(number);
        match state.double.read(&path) {
            Ok(text) => {
                let from = text.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
                let to = text.len().min(from.saturating_add(size as usize));
                reply.data(&text.as_bytes()[from..to]);
            }
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.state();
        let path = state.path(number);
        match state.double.write(&path, &String::from_utf8_lossy(data)) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let path = self.state().child(parent, name);
        let made = self.state().double.mkdir(&path);
        match made {
            Ok(()) => self.entry(&path, reply),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.state();
        let path = state.child(parent, name);
        match state.double.rmdir(&path) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut state = self.state();
        let path = state.path(number);
        let Some(entries) = state.double.list(&path) else { return reply.error(Errno::ENOENT) };
        for (at, (name, kind)) in
            entries.into_iter().enumerate().skip(usize::try_from(offset).unwrap_or(0))
        {
            let child = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            let number = INodeNo(state.number(&child));
            let kind =
                if kind == Kind::Directory { FileType::Directory } else { FileType::RegularFile };
            if reply.add(number, at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}

fn hardware(settings: &[String]) -> Result<Hardware, String> {
    let mut h = Hardware::intel();
    for setting in settings {
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| format!("{setting}: it is written SETTING=VALUE"))?;
        let number = || value.parse::<u32>().map_err(|e| format!("{setting}: {e}"));
        match key {
            "cpu" => {
                h = match value {
                    "intel" => Hardware::intel(),
                    "broadwell" => Hardware::broadwell(),
                    "arm" => Hardware::arm(),
                    _ => return Err(format!("{setting}: intel, broadwell or arm")),
                }
            }
            "cpus" => h.cpus = number()?,
            "ways" => h.ways = number()?.min(32),
            "least" => h.least_bits = number()?,
            "shareable" => {
                h.shareable =
                    u32::from_str_radix(value, 16).map_err(|e| format!("{setting}: {e}"))?
            }
            "closids" => h.closids = number()?,
            "caches" => h.caches = value.split(',').filter_map(|c| c.parse().ok()).collect(),
            "cdp" => h.cdp = number()? == 1,
            "mib" => h.bandwidth.iter_mut().for_each(|b| b.in_mib = value == "1"),
            "no-mba" => h.bandwidth = None,
            "rmids" => h.rmids = number()?,
            _ => {
                return Err(format!(
                    "{setting}: no such setting; they are at the head of the source"
                ));
            }
        }
    }
    Ok(h)
}

/// Unmounts at the first of the signals that end programs; they are blocked in all threads.
fn unmount_at_the_end(directory: &Path) {
    let path = std::ffi::CString::new(directory.to_string_lossy().as_bytes()).unwrap_or_default();
    // SAFETY: the set is initialised before it is used, and the functions only read it.
    let set = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGTERM, libc::SIGINT] {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        set
    };
    std::thread::spawn(move || {
        let mut signal = 0;
        // SAFETY: the set lives in this thread, and the path ends with a zero.
        unsafe {
            libc::sigwait(&raw const set, &raw mut signal);
            libc::umount2(path.as_ptr(), libc::MNT_DETACH);
        }
        std::process::exit(0);
    });
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((directory, settings)) = arguments.split_first() else {
        eprintln!("resctrl-double: usage: resctrl-double DIRECTORY [SETTING=VALUE]...");
        return ExitCode::from(2);
    };
    let hardware = match hardware(settings) {
        Ok(hardware) => hardware,
        Err(what) => {
            eprintln!("resctrl-double: {what}");
            return ExitCode::from(2);
        }
    };
    let mut double = Double::new(hardware);
    double.task_exists = |pid| Path::new(&format!("/proc/{pid}")).exists();
    let state = State { double, paths: vec![String::new()], numbers: [(String::new(), 1)].into() };
    unmount_at_the_end(Path::new(directory));
    let mut config = Config::default();
    config.mount_options.extend([MountOption::FSName("resctrl".to_owned()), MountOption::RW]);
    match fuser::spawn_mount(Mount(Mutex::new(state)), directory, &config) {
        Ok(_session) => {
            println!("ready");
            loop {
                std::thread::park();
            }
        }
        Err(e) => {
            eprintln!(
                "resctrl-double: {directory}: {e}; it needs /dev/fuse and the right to mount"
            );
            ExitCode::from(3)
        }
    }
}
