//! All facts from the files of a machine, before the keys of its platform file are decided.
//!
//! Problem: a description needs facts from a dozen places, and each place may lack them. Rule: a
//! fact that is missing is `None`; only a machine without CPUs is an error here. Source: the files
//! of crate::paths, by the documents that each module cites. Does not cover: anything that would
//! have to be measured.

use crate::cpuinfo::{self, CpuInfo};
use crate::cpus::{self, Cpu};
use crate::dmi::{self, Module};
use crate::error::MachineError;
use crate::inclusion;
use crate::known::{Known, Note};
use crate::root::Root;
use crate::spd::{self, Spd};
use crate::tables::cores::{self, Chip};
use crate::tree::Tree;
use serde::Serialize;
use solocore_model::platform::Isa;

/// A NUMA node with CPUs or memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// Its CPUs.
    pub cpus: Vec<u32>,
    /// Its memory that the kernel manages, bytes.
    pub bytes: Option<u64>,
}

/// Cache parts that resctrl can divide (Documentation/filesystems/resctrl.rst).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resctrl {
    /// Name, like `L3`, or `L3CODE` with code and data prioritization.
    pub resource: String,
    /// A bit for each part that can be given out.
    pub mask: u64,
    /// Least number of bits of a mask.
    pub min_bits: Option<u64>,
    /// Largest number of groups.
    pub groups: Option<u64>,
    /// Bits that devices use as well.
    pub shareable: Option<u64>,
}

/// A machine.
#[derive(Debug)]
pub struct Machine {
    /// The board, or else the CPU.
    pub title: Known<String>,
    /// Instruction set of its kernel.
    pub isa: Option<Known<Isa>>,
    /// CPUs that are online.
    pub online: Known<Vec<u32>>,
    /// CPUs that can be online.
    pub possible: Option<Vec<u32>>,
    /// The CPUs that are online, with their properties.
    pub cpus: Vec<Cpu>,
    /// Evidence that it is a guest; `None` if there is none.
    pub guest: Option<String>,
    /// Does the kernel keep the second threads of cores off?
    pub smt_off: bool,
    /// Is the CPU one of Intel's?
    pub intel: bool,
    /// Bytes of a page, where a file gives them.
    pub page: Option<Known<u64>>,
    /// NUMA nodes.
    pub nodes: Vec<Node>,
    /// Memory that the kernel manages, bytes.
    pub managed: Option<Known<u64>>,
    /// Populated slots.
    pub modules: Vec<Module>,
    /// Modules whose own data can be read.
    pub spd: Vec<Spd>,
    /// The chip that its device tree names.
    pub chip: Option<&'static Chip>,
    /// Masks of caches; empty if resctrl is not mounted.
    pub resctrl: Vec<Resctrl>,
    /// Levels of caches that could be divided by way if resctrl were mounted, with the evidence.
    pub divisible: Vec<(u32, &'static str)>,
    /// Can lines be locked in the shared cache?
    pub lockable: bool,
    /// Does its last cache take lines that it gives up out of the private ones? `None`: not known.
    pub inclusive: Option<bool>,
    /// Contradictions, and files that could not be used.
    pub notes: Vec<Note>,
}

impl Machine {
    /// Reads all files.
    ///
    /// # Errors
    /// No file lists a CPU.
    pub fn read(root: &Root) -> Result<Self, MachineError> {
        let info = CpuInfo::parse(&root.text(cpuinfo::PATH).unwrap_or_default());
        let tree = Tree::read(root);
        let online = cpus::online(root, &info)?;
        let cpus = cpus::read(root, &info, &tree, &online.value);
        let mut notes = cpus::contradictions(&cpus, &info, &online);
        let modules = root.bytes(dmi::PATH).map(|t| dmi::modules(&t)).unwrap_or_default();
        let mut machine = Self {
            title: title(&tree, &info),
            isa: isa(root, &info),
            possible: root.list(&format!("{}/possible", cpus::SYSFS)),
            guest: guest(root, &info),
            smt_off: root
                .text(&format!("{}/smt/control", cpus::SYSFS))
                .is_some_and(|control| matches!(control.as_str(), "off" | "forceoff")),
            intel: info.intel(),
            page: page(root),
            nodes: nodes(root),
            managed: managed(root),
            modules,
            spd: spd::read(root),
            chip: cores::chip(&tree.compatible),
            resctrl: resctrl(root),
            divisible: divisible(root, &info),
            lockable: tree.lockable,
            inclusive: root.is_this_machine().then(inclusion::of_this_machine).flatten(),
            notes: Vec::new(),
            online,
            cpus,
        };
        notes.extend(root.problems());
        machine.notes = notes;
        Ok(machine)
    }
}

fn title(tree: &Tree, info: &CpuInfo) -> Known<String> {
    if let Some(model) = tree.model.clone().filter(|m| !m.is_empty()) {
        return Known::read(model, "/proc/device-tree/model");
    }
    let key =
        ["model name", "Model", "cpu", "Hardware"].into_iter().find(|k| info.any(k).is_some());
    match key.and_then(|key| Some((key, info.any(key)?))) {
        Some((key, text)) => {
            let clean: String = text.chars().filter(|c| !c.is_control()).take(100).collect();
            Known::read(clean, format!("/{}, {key}", cpuinfo::PATH))
        }
        None => Known::assumed("machine".to_owned(), "nothing names it", "its owner"),
    }
}

fn isa(root: &Root, info: &CpuInfo) -> Option<Known<Isa>> {
    let path = "proc/sys/kernel/arch";
    let kernel = root.parsed(path, "instruction set that solocore knows", cpuinfo::isa_of_kernel);
    let told = kernel.map(|isa| Known::read(isa, format!("/{path}")));
    told.or_else(|| Some(Known::read(info.isa()?, format!("/{}", cpuinfo::PATH))))
}

fn guest(root: &Root, info: &CpuInfo) -> Option<String> {
    if info.flag("hypervisor") {
        return Some(format!("/{}, flag hypervisor", cpuinfo::PATH));
    }
    root.has("sys/hypervisor/type").then(|| "/sys/hypervisor/type".to_owned())
}

/// A page of page-table entries of 8 bytes maps a huge page: 4 KiB pages have huge ones of 2 MiB,
/// 16 KiB of 32 MiB, 64 KiB of 512 MiB (Documentation/admin-guide/mm/transhuge.rst).
fn page(root: &Root) -> Option<Known<u64>> {
    let path = "sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
    let huge = root.number(path)?;
    let page = [4096_u64, 16384, 65536].into_iter().find(|page| page * page / 8 == huge)?;
    Some(Known::read(page, format!("/{path}, {} MiB", huge >> 20)))
}

fn nodes(root: &Root) -> Vec<Node> {
    let folder = "sys/devices/system/node";
    let node = |name: String| {
        let id = name.strip_prefix("node")?.parse().ok()?;
        let bytes = total(root, &format!("{folder}/{name}/meminfo"));
        Some(Node { id, cpus: root.list(&format!("{folder}/{name}/cpulist"))?, bytes })
    };
    let mut nodes: Vec<Node> = root.names(folder).into_iter().filter_map(node).collect();
    nodes.sort_unstable_by_key(|node| node.id);
    nodes
}

fn managed(root: &Root) -> Option<Known<u64>> {
    let path = "proc/meminfo";
    Some(Known::read(total(root, path)?, format!("/{path}, MemTotal")))
}

/// `MemTotal:  123 kB`, and the same of a node.
fn total(root: &Root, path: &str) -> Option<u64> {
    let text = root.text(path)?;
    let line = text.lines().find(|l| l.contains("MemTotal:"))?;
    let (_, value) = line.split_once("MemTotal:")?;
    let kilobytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024).filter(|&bytes| bytes > 0)
}

fn resctrl(root: &Root) -> Vec<Resctrl> {
    let folder = "sys/fs/resctrl/info";
    let read = |resource: String| {
        let dir = format!("{folder}/{resource}");
        Some(Resctrl {
            mask: root.hex(&format!("{dir}/cbm_mask"))?,
            min_bits: root.number(&format!("{dir}/min_cbm_bits")),
            groups: root.number(&format!("{dir}/num_closids")),
            shareable: root.hex(&format!("{dir}/shareable_bits")),
            resource,
        })
    };
    root.names(folder).into_iter().filter(|n| n.starts_with('L')).filter_map(read).collect()
}

/// Flags of Documentation/filesystems/resctrl.rst; the ACPI table of Arm's MPAM (DEN0065).
fn divisible(root: &Root, info: &CpuInfo) -> Vec<(u32, &'static str)> {
    let mpam = root.has("sys/firmware/acpi/tables/MPAM");
    [
        (info.flag("cat_l3"), 3, "/proc/cpuinfo, flag cat_l3"),
        (info.flag("cat_l2"), 2, "/proc/cpuinfo, flag cat_l2"),
        (mpam, 3, "/sys/firmware/acpi/tables/MPAM"),
        (mpam, 2, "/sys/firmware/acpi/tables/MPAM"),
    ]
    .into_iter()
    .filter_map(|(there, level, why)| there.then_some((level, why)))
    .collect()
}
