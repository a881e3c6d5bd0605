//! Types of CPUs that the machine states by itself: their names, CPUs and clocks.
//!
//! Problem: no file of an x86 kernel has the type of each CPU, and the guest of a virtual board
//! sees one model of CPU and one clock. Rule: hybrid CPUs of Intel have a counter unit for each
//! type. A virtual board states its types in folders of its own, with their clocks; these count
//! first. Source: crates/board/src/types.rs for these folders; drivers/base and arch/x86/events of
//! Linux for the units. Does not cover: Arm, whose part numbers and capacities crate::cpus reads.

use crate::known::Known;
use crate::root::Root;

/// Folder of the types of a virtual board.
pub const BOARD: &str = "board/types";

/// A type of CPUs.
#[derive(Clone, Debug)]
pub struct Stated {
    /// Like `core`, `atom`.
    pub name: String,
    /// Its CPUs.
    pub cpus: Vec<u32>,
    /// Its clock in Hz, where it is stated.
    pub clock: Option<Known<u64>>,
}

/// All types that are stated.
pub fn read(root: &Root) -> Vec<Stated> {
    let board = root.names(BOARD);
    let units = root.names("sys/devices");
    let board = board.iter().filter_map(|folder| of_board(root, &format!("{BOARD}/{folder}")));
    let units = units.iter().filter_map(|unit| {
        let name = unit.strip_prefix("cpu_")?.to_owned();
        Some(Stated { name, cpus: root.list(&format!("sys/devices/{unit}/cpus"))?, clock: None })
    });
    board.chain(units).collect()
}

fn of_board(root: &Root, folder: &str) -> Option<Stated> {
    let path = format!("{folder}/hz");
    let hz = root.number(&path).filter(|&hz| hz > 0);
    Some(Stated {
        name: root.text(&format!("{folder}/name"))?,
        cpus: root.list(&format!("{folder}/cpus"))?,
        clock: hz.map(|hz| Known::read(hz, format!("/{path}"))),
    })
}
