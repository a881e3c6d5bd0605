//! The one list of files from which a description is made.
//!
//! Problem: `detect`, `collect`, and the script for boards without solocore must use the same
//! files. Rule: all three come from [`FILES`]. `*` stands for any part of one name, as in a shell.
//! Does not cover: files that change while they are read; only their constant parts are used.

/// A folder, and files in it.
pub type Files = (&'static str, &'static [&'static str]);

/// Properties of the device tree's CPUs and caches (Devicetree Specification v0.4, sections 3.8
/// and 3.9).
const TREE: &[&str] = &[
    "compatible",
    "device_type",
    "reg",
    "phandle",
    "clock-frequency",
    "next-level-cache",
    "l2-cache",
    "cache-level",
    "cache-size",
    "cache-sets",
    "cache-line-size",
    "cache-block-size",
    "d-cache-size",
    "d-cache-sets",
    "d-cache-line-size",
    "d-cache-block-size",
    "i-cache-size",
    "i-cache-sets",
    "i-cache-line-size",
    "i-cache-block-size",
];

/// Folders as patterns, and the files that are read in each.
pub const FILES: &[Files] = &[
    ("proc", &["cpuinfo", "meminfo"]),
    ("proc/sys/kernel", &["arch"]),
    ("proc/device-tree", &["model", "compatible"]),
    ("proc/device-tree/cpus/*", TREE),
    ("proc/device-tree/cpus/*/*", TREE),
    ("proc/device-tree/*cache*", TREE),
    ("proc/device-tree/soc*/*cache*", TREE),
    ("sys/devices/system/cpu", &["online", "possible", "smt/active", "smt/control"]),
    ("sys/devices/system/cpu/cpu*", &["cpu_capacity"]),
    ("sys/devices/system/cpu/cpu*/regs/identification", &["midr_el1"]),
    (
        "sys/devices/system/cpu/cpu*/topology",
        &["physical_package_id", "thread_siblings_list", "cluster_cpus_list"],
    ),
    (
        "sys/devices/system/cpu/cpu*/cache/index*",
        &[
            "level",
            "type",
            "size",
            "ways_of_associativity",
            "number_of_sets",
            "coherency_line_size",
            "shared_cpu_list",
        ],
    ),
    (
        "sys/devices/system/cpu/cpu*/cpufreq",
        &["base_frequency", "cpuinfo_max_freq", "scaling_governor"],
    ),
    ("sys/devices/cpu_*", &["cpus"]),
    ("board/types/*", &["name", "cpus", "hz"]),
    ("sys/devices/system/node/node*", &["cpulist", "meminfo"]),
    ("sys/kernel/mm/transparent_hugepage", &["hpage_pmd_size"]),
    ("sys/fs/resctrl/info/*", &["cbm_mask", "min_cbm_bits", "num_closids", "shareable_bits"]),
    ("sys/firmware/dmi/tables", &["smbios_entry_point", "DMI"]),
    ("sys/bus/i2c/devices/*", &["name", "eeprom"]),
    ("sys/firmware/acpi/tables", &["MPAM"]),
    ("sys/hypervisor", &["type"]),
];

/// Every pattern of a file.
pub fn patterns() -> impl Iterator<Item = String> {
    FILES.iter().flat_map(|(folder, names)| names.iter().map(move |n| format!("{folder}/{n}")))
}

/// Does a pattern fit a whole name or path? `*` stops at a slash.
pub fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            let end = rest.find('/').unwrap_or(rest.len());
            (0..=end).any(|n| rest.is_char_boundary(n) && fits(after, &rest[n..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_part_of_one_name() {
        assert!(fits("cpu*/cache/index*", "cpu10/cache/index0"));
        assert!(!fits("cpu*/cache", "cpu0/x/cache"));
        assert!(fits("*cache*", "l2-cache@0") && !fits("*cache*", "memory"));
    }
}
