//! Ways for pages that are to stay in the cache, or for a program: nobody else allocates in them
//! any more.
//!
//! Rule: a number of ways (for pages, the fewest that hold them) gets an exclusive group of its
//! own; the first group keeps the rest. A thread is in that group while it brings lines in
//! (`enter`, `leave`). Afterwards every program hits the lines, and none replaces them. The keeper
//! removes the group and returns the ways at the end, also after a kill.
//! On the models that pseudo-lock, the kernel does all of this itself, in memory of its own
//! (`pseudo_lock`).
//! Source: single-core-equivalence, section 2.3; resctrl.rst, "mode" and "Cache Pseudo-Locking".
//! Does not cover: other groups that have these ways already (refused); several caches (the first
//! is used).

use super::info::values;
use super::shares::{First, Group, Members, Shares, check_others, left_over, mask_lines};
use super::{Info, Mounted, Record, Tree, apply, mounts, pseudo_lock, root};
use crate::error::LinuxError;
use crate::host::keeper::Changes;
use crate::sys::tasks;
use std::io;
use std::path::PathBuf;

const NAME: &str = "solocore-locked";

/// Reserved ways. Everything is put back when this is dropped.
pub struct Reservation {
    name: String,
    /// The ways, as a mask.
    pub mask: u64,
    /// Bytes that they hold.
    pub bytes: u64,
    /// Memory that the kernel itself has locked, to be mapped.
    pub device: Option<PathBuf>,
    _changes: Changes,
}

/// Ways that hold a number of bytes, for a cache of a given size.
fn ways_for(info: &Info, bytes: u64, cache_bytes: u64) -> Result<u64, LinuxError> {
    let whole = info.cache.map_or(0, |c| c.mask.count_ones());
    match cache_bytes / u64::from(whole.max(1)) {
        0 => Err(LinuxError::Machine(
            "the kernel does not say how large the shared cache is \
                (/sys/devices/system/cpu/cpu0/cache); is it a virtual machine?"
                .to_owned(),
        )),
        way => Ok(bytes.div_ceil(way)),
    }
}

/// The lowest ways without devices, for a group of this name.
pub(super) fn plan(
    info: &Info,
    tree: &dyn Tree,
    name: &str,
    ways: u64,
) -> Result<(Shares, u64), LinuxError> {
    let refused = |what: String| Err(LinuxError::Machine(what));
    let Some(cache) = info.cache else {
        return refused(
            "the hardware cannot share out the ways of its cache; do without".to_owned(),
        );
    };
    let ways = ways.max(u64::from(cache.least_bits.max(1)));
    let free = cache.mask & !cache.shared;
    let bits = u32::try_from(ways).ok().filter(|&n| n < 64).map_or(u64::MAX, |n| (1 << n) - 1);
    let mask = bits.checked_shl(free.trailing_zeros()).unwrap_or(0);
    let rest = left_over(cache, mask);
    if mask == 0 || mask & !free != 0 || rest.is_none() {
        return refused(format!(
            "{ways} ways are wanted of the cache's {} that no device uses as well, and others need \
                some; want fewer",
            free.count_ones()
        ));
    }
    let schemata = mask_lines(info, mask).iter().map(|l| format!("{l}\n")).collect();
    let group = Group { name: name.to_owned(), members: Members::Tasks, schemata, exclusive: true };
    let schemata = tree.read("schemata").unwrap_or_default();
    let old = |l: &&str| values(&schemata, l).map(|v| format!("{l}:{}", v.trim()));
    let first = First {
        lines: mask_lines(info, rest.unwrap_or(cache.mask)),
        back: info.lines.iter().filter_map(old).collect(),
    };
    let (groups, masks) = (vec![group], info.lines.clone());
    let shares = Shares { groups, first: Some(first), masks, ..Shares::default() };
    check_others(&shares, tree)?;
    Ok((shares, mask))
}

impl Reservation {
    /// Takes the ways.
    ///
    /// # Errors
    /// The machine has no free ways, or another group has them.
    pub fn take(bytes: u64, cache_bytes: u64) -> Result<Self, LinuxError> {
        let mut tree = Mounted(root());
        let info = Info::read(&tree, &mounts())?;
        let (shares, mask) = plan(&info, &tree, NAME, ways_for(&info, bytes, cache_bytes)?)?;
        let mut changes = Changes::begin()?;
        let whole = info.cache.map_or(1, |c| c.mask.count_ones().max(1));
        let held = cache_bytes / u64::from(whole) * u64::from(mask.count_ones());
        if pseudo_lock::model(&crate::host::machine::cpuinfo()).is_some() {
            let first = shares.first.as_ref();
            for line in first.iter().flat_map(|f| &f.back) {
                changes
                    .line(line)
                    .map_err(|e| LinuxError::of_io("the keeper", &e, "start again"))?;
            }
            for line in first.iter().flat_map(|f| &f.lines) {
                tree.write("schemata", &format!("{line}\n")).map_err(|e| {
                    LinuxError::of_io(
                        "resctrl's first group",
                        &e,
                        "another group may have these ways",
                    )
                })?;
            }
            let cache = info.cache_domains.first().copied().unwrap_or(0);
            if let Ok(device) = pseudo_lock::lock(&mut tree, NAME, cache, mask, &mut changes) {
                return Ok(Self {
                    name: NAME.to_owned(),
                    mask,
                    bytes: held,
                    device: Some(device),
                    _changes: changes,
                });
            }
        }
        apply(&mut tree, &shares, &mut changes)?;
        Ok(Self { name: NAME.to_owned(), mask, bytes: held, device: None, _changes: changes })
    }

    /// Takes this number of ways for a program.
    ///
    /// # Errors
    /// The machine has no free ways, or another group has them.
    pub fn ways(ways: u32) -> Result<Self, LinuxError> {
        let mut tree = Mounted(root());
        let name = format!("solocore-exec{}", std::process::id());
        let (shares, mask) = plan(&Info::read(&tree, &mounts())?, &tree, &name, u64::from(ways))?;
        let mut changes = Changes::begin()?;
        apply(&mut tree, &shares, &mut changes)?;
        Ok(Self { name, mask, bytes: 0, device: None, _changes: changes })
    }

    /// Allocates the calling thread's lines in these ways from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter(&self) -> Result<(), LinuxError> {
        self.add(tasks::thread_number())
    }

    /// Allocates a thread's lines in these ways from now on, and those of its later children.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add(&self, thread: u32) -> Result<(), LinuxError> {
        join(&root().join(&self.name).join("tasks"), thread)
    }

    /// Allocates the calling thread's lines in the other ways from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn leave(&self) -> Result<(), LinuxError> {
        join(&root().join("tasks"), tasks::thread_number())
    }
}

fn join(file: &std::path::Path, thread: u32) -> Result<(), LinuxError> {
    let written: io::Result<()> = std::fs::write(file, format!("{thread}\n"));
    written.map_err(|e| LinuxError::of_io(&file.display().to_string(), &e, "run as root"))
}
