//! Arm's cores by their part numbers, and chips by their device trees.
//!
//! Problem: the kernel of an Arm board shows no sizes of caches unless its device tree states them,
//! and Raspberry Pi's older ones do not. Rule: these tables hold the values that the manual of a
//! core fixes, and those that a chip's manual fixes for its shared cache. "Recalled" marks a value
//! from a document that was not read again. Source: technical reference manuals (TRM) of Arm,
//! chapters "L1 memory system" and "L2 memory system"; part numbers from MIDR_EL1, section "Main ID
//! Register" of each. Does not cover: sizes that a core's manual leaves to the chip.

/// Capacity in bytes where the manual fixes it, and ways.
pub type Shape = (Option<u64>, u64);

/// Values that the manual of a core fixes.
#[derive(Debug)]
pub struct ManualCore {
    /// Its name.
    pub name: &'static str,
    part: u32,
    /// First-level instruction cache.
    pub l1i: Option<Shape>,
    /// First-level data cache.
    pub l1d: Option<Shape>,
    /// Second level.
    pub l2: Option<Shape>,
    /// Bytes of a line, of every level.
    pub line: Option<u64>,
}

/// A core with only its name known here.
const fn named(part: u32, name: &'static str) -> ManualCore {
    ManualCore { name, part, l1i: None, l1d: None, l2: None, line: None }
}

const KIB: u64 = 1024;

/// Cores of Arm (implementer 0x41).
const CORES: &[ManualCore] = &[
    ManualCore {
        // Cortex-A72 TRM, L1 and L2 memory system (recalled), as platforms/raspberry-pi-4.toml.
        l1i: Some((Some(48 * KIB), 3)),
        l1d: Some((Some(32 * KIB), 2)),
        l2: Some((None, 16)),
        line: Some(64),
        ..named(0xd08, "Cortex-A72")
    },
    ManualCore {
        // Cortex-A57 TRM, L1 and L2 memory system (recalled).
        l1i: Some((Some(48 * KIB), 3)),
        l1d: Some((Some(32 * KIB), 2)),
        l2: Some((None, 16)),
        line: Some(64),
        ..named(0xd07, "Cortex-A57")
    },
    ManualCore {
        // Cortex-A53 TRM, L1 and L2 memory system (recalled).
        l1i: Some((None, 2)),
        l1d: Some((None, 4)),
        l2: Some((None, 16)),
        line: Some(64),
        ..named(0xd03, "Cortex-A53")
    },
    ManualCore {
        // Cortex-A15 TRM, L1 and L2 memory system (recalled).
        l1i: Some((Some(32 * KIB), 2)),
        l1d: Some((Some(32 * KIB), 2)),
        l2: Some((None, 16)),
        line: Some(64),
        ..named(0xc0f, "Cortex-A15")
    },
    named(0xc07, "Cortex-A7"),
    named(0xc09, "Cortex-A9"),
    named(0xd04, "Cortex-A35"),
    named(0xd05, "Cortex-A55"),
    named(0xd09, "Cortex-A73"),
    named(0xd0a, "Cortex-A75"),
    named(0xd0b, "Cortex-A76"),
    named(0xd0c, "Neoverse-N1"),
    named(0xd0d, "Cortex-A77"),
    named(0xd40, "Neoverse-V1"),
    named(0xd41, "Cortex-A78"),
    named(0xd42, "Cortex-A78AE"),
    named(0xd44, "Cortex-X1"),
    named(0xd49, "Neoverse-N2"),
];

/// Arm Limited, in MIDR_EL1.
const ARM: u32 = 0x41;

/// The core with these numbers.
pub fn core(implementer: u32, part: u32) -> Option<&'static ManualCore> {
    CORES.iter().find(|core| implementer == ARM && core.part == part)
}

/// A chip, or a board that fixes the values that the chip leaves open.
#[derive(Debug)]
pub struct Chip {
    /// Its name in the root's `compatible` of the device tree.
    pub compatible: &'static str,
    /// Size of the cache that all its cores share.
    pub shared: u64,
    /// Type of its memory, as crate::dmi names them, and transfers per second in millions.
    pub memory: Option<(&'static str, u64)>,
    /// Source of these values.
    pub cite: &'static str,
}

const CHIPS: &[Chip] = &[Chip {
    compatible: "brcm,bcm2711",
    shared: 1024 * KIB,
    memory: Some(("LPDDR4", 3200)),
    cite: "BCM2711 peripherals manual and Raspberry Pi 4 specification (recalled)",
}];

/// The chip that a device tree names.
pub fn chip(compatible: &[String]) -> Option<&'static Chip> {
    CHIPS.iter().find(|chip| compatible.iter().any(|c| c == chip.compatible))
}
