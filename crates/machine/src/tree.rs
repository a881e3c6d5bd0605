//! CPUs and caches as the device tree states them.
//!
//! Problem: on Arm, RISC-V and Power boards the sizes of caches are in the device tree, if
//! anywhere. Rule: the nodes of CPUs, in the order of `reg`, are the CPUs from 0. First-level
//! caches are properties of these nodes; `next-level-cache` leads to further ones, by `phandle`.
//! Source: Devicetree Specification v0.4, sections 3.8 (`/cpus/cpu*`) and 3.9 (multi-level and
//! shared caches). Cells are 32 bits, big-endian. Does not cover: CPUs that the firmware leaves out
//! by `status`, boards that boot on another CPU than the first, caches outside `/`, `/soc` and
//! `/cpus`.

use crate::cache::{Cache, Holds};
use crate::known::Known;
use crate::root::Root;
use std::collections::BTreeMap;

/// Directory in which the kernel shows the tree.
const TREE: &str = "proc/device-tree";
/// Longest chain of caches that is followed: a chain may be circular.
const LEVELS: u32 = 6;

/// Content of the tree.
#[derive(Debug, Default)]
pub struct Tree {
    /// The board's name.
    pub model: Option<String>,
    /// The root's `compatible`, most special first.
    pub compatible: Vec<String>,
    /// Is there a cache that can be locked by way?
    pub lockable: bool,
    cpus: Vec<String>,
    caches: BTreeMap<u64, String>,
}

impl Tree {
    /// Reads the tree; a machine without one gets an empty tree.
    pub fn read(root: &Root) -> Self {
        let mut tree = Self {
            model: root.text(&format!("{TREE}/model")).map(|t| printable(&t)),
            compatible: strings(root, TREE),
            ..Self::default()
        };
        for node in cache_nodes(root) {
            tree.lockable |= strings(root, &node).iter().any(|c| c == "arm,pl310-cache");
            if let Some(handle) = cell(root, &node, "phandle") {
                tree.caches.insert(handle, node);
            }
        }
        tree.cpus = cpu_nodes(root);
        tree
    }

    /// The node of a CPU.
    fn node(&self, cpu: u32) -> Option<&str> {
        self.cpus.get(usize::try_from(cpu).ok()?).map(String::as_str)
    }

    /// A CPU's clock in Hz.
    pub fn clock(&self, root: &Root, cpu: u32) -> Option<Known<u64>> {
        let node = self.node(cpu)?;
        let hz = cell(root, node, "clock-frequency").filter(|&hz| hz > 0)?;
        Some(Known::read(hz, format!("/{node}/clock-frequency")))
    }

    /// The caches of a CPU.
    pub fn caches(&self, root: &Root, cpu: u32) -> Vec<Cache> {
        let Some(node) = self.node(cpu) else { return Vec::new() };
        let alone = Known::read(vec![cpu], format!("/{node}"));
        let first = [("d-cache", Holds::Data), ("i-cache", Holds::Instructions)];
        let mut caches: Vec<Cache> = first
            .into_iter()
            .map(|(prefix, holds)| stated(root, node, prefix, Cache::at(1, holds, alone.clone())))
            .filter(|c| c.size.is_some())
            .collect();
        for (place, next) in (2..).zip(self.chain(root, node)) {
            let level = cell(root, next, "cache-level").and_then(|l| u32::try_from(l).ok());
            let level = level.filter(|l| (2..=LEVELS).contains(l)).unwrap_or(place);
            let shared = Known::read(self.users(root, next), format!("/{next}/phandle"));
            caches.push(stated(root, next, "cache", Cache::at(level, Holds::Both, shared)));
        }
        caches
    }

    /// The caches behind a node, nearest first.
    fn chain<'a>(&'a self, root: &Root, node: &'a str) -> Vec<&'a str> {
        let next = |node: &&'a str| -> Option<&'a str> {
            let handle =
                ["next-level-cache", "l2-cache"].iter().find_map(|p| cell(root, node, p))?;
            self.caches.get(&handle).map(String::as_str)
        };
        std::iter::successors(next(&node), next).take(LEVELS as usize - 1).collect()
    }

    /// The CPUs that use a cache.
    fn users(&self, root: &Root, cache: &str) -> Vec<u32> {
        let uses = |node: &String| self.chain(root, node).contains(&cache);
        (0..).zip(&self.cpus).filter(|(_, node)| uses(node)).map(|(cpu, _)| cpu).collect()
    }
}

/// The numbers that a node states with a prefix.
fn stated(root: &Root, node: &str, prefix: &str, cache: Cache) -> Cache {
    let number = |name: &str| {
        let property = format!("{prefix}-{name}");
        let value = cell(root, node, &property).filter(|&v| v > 0)?;
        Some(Known::read(value, format!("/{node}/{property}")))
    };
    let line = number("line-size").or_else(|| number("block-size"));
    Cache { size: number("size"), sets: number("sets"), line, ..cache }
}

fn cpu_nodes(root: &Root) -> Vec<String> {
    let folder = format!("{TREE}/cpus");
    let mut nodes: Vec<(u64, String)> = root
        .names(&folder)
        .into_iter()
        .filter(|name| name.starts_with("cpu@") || name.contains(",") && name.contains('@'))
        .map(|name| format!("{folder}/{name}"))
        .filter_map(|node| Some((reg(root, &node)?, node)))
        .collect();
    nodes.sort_unstable();
    nodes.into_iter().map(|(_, node)| node).collect()
}

fn cache_nodes(root: &Root) -> Vec<String> {
    let below = |folder: &str| {
        let names = root.names(folder);
        let path = |name: String| format!("{folder}/{name}");
        names.into_iter().map(path).collect::<Vec<_>>()
    };
    let cpus = below(&format!("{TREE}/cpus"));
    let mut nodes: Vec<String> = cpus.iter().flat_map(|cpu| below(cpu)).collect();
    nodes.extend(cpus);
    for node in below(TREE) {
        let name = node.rsplit('/').next().unwrap_or_default();
        if name.starts_with("soc") {
            nodes.extend(below(&node));
        }
        nodes.push(node);
    }
    nodes.retain(|node| node.rsplit('/').next().is_some_and(|name| name.contains("cache")));
    nodes
}

/// A property of one cell.
fn cell(root: &Root, node: &str, property: &str) -> Option<u64> {
    let bytes = root.bytes(&format!("{node}/{property}"))?;
    let cell: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    Some(u64::from(u32::from_be_bytes(cell)))
}

/// An address of one or two cells.
fn reg(root: &Root, node: &str) -> Option<u64> {
    let bytes = root.bytes(&format!("{node}/reg"))?;
    let start = bytes.get(..8).or_else(|| bytes.get(..4))?;
    Some(start.iter().fold(0, |sum, &b| sum << 8 | u64::from(b)))
}

fn strings(root: &Root, node: &str) -> Vec<String> {
    let text = root.text(&format!("{node}/compatible")).unwrap_or_default();
    text.split('\0').filter(|s| !s.is_empty()).map(printable).collect()
}

/// Text without the zero at its end, and without control characters of terminals.
fn printable(text: &str) -> String {
    text.trim_matches('\0').chars().filter(|c| !c.is_control()).take(100).collect()
}
