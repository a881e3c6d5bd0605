//! Time tables (`policy/include/solocore/time_table.h`).

use crate::NONE;
use crate::raw::{self, sc_table_slot as RawSlot};

/// Active entries by time, repeated every major frame. 96 KiB: keep it in a box.
pub use crate::raw::sc_table as Table;

/// Contents of a table at an instant. Times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The active entry.
    pub id: Option<u32>,
    /// Time of the next change; [`crate::UNLIMITED`]: never.
    pub edge_ns: u64,
    /// Start of the active entry; 0 if there is none.
    pub start_ns: u64,
    /// Number of the frame.
    pub frame: u64,
}

impl Table {
    /// An empty table with frame 0 at `origin_ns`; `None` if the frame is 0 or above 73 minutes.
    pub fn new(origin_ns: u64, frame_ns: u64) -> Option<Box<Self>> {
        // SAFETY: integers only; zero is an empty table without a frame.
        let mut t = unsafe { crate::zeroed::<Self>() };
        t.reset(origin_ns, frame_ns).then_some(t)
    }

    /// Empties the table; false, without any change, if the frame is out of range.
    pub fn reset(&mut self, origin_ns: u64, frame_ns: u64) -> bool {
        // SAFETY: `self` is a valid table.
        unsafe { raw::sc_table_init(self, origin_ns, frame_ns) != 0 }
    }

    /// Appends an entry, active in [start, end) of each frame; false if it is empty, leaves the
    /// frame or does not follow the last one.
    pub fn append(&mut self, start_ns: u64, end_ns: u64, id: u32) -> bool {
        // SAFETY: `self` is a valid table.
        unsafe { raw::sc_table_append(self, start_ns, end_ns, id) != 0 }
    }

    /// Contents of the table at `now_ns`.
    pub fn lookup(&self, now_ns: u64) -> Slot {
        let mut raw = RawSlot::default();
        // SAFETY: both are valid.
        unsafe { raw::sc_table_lookup(self, now_ns, &raw mut raw) };
        Slot {
            id: (raw.id != NONE).then_some(raw.id),
            edge_ns: raw.edge_ns,
            start_ns: raw.start_ns,
            frame: raw.frame,
        }
    }

    /// Length of the frame in ns; 0 before the first reset.
    pub fn frame_ns(&self) -> u64 {
        self.frame_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        static sc_size_table: u64;
    }

    #[test]
    fn both_sides_have_the_same_layout() {
        // SAFETY: a constant of the C side.
        assert_eq!(unsafe { sc_size_table }, size_of::<Table>() as u64);
    }

    #[test]
    fn touching_entries_meet_at_an_edge() {
        let mut t = Table::new(1000, 100).unwrap();
        assert!(
            t.append(10, 20, 1)
                && t.append(20, 30, 2)
                && !t.append(25, 40, 3)
                && !t.append(90, 101, 3)
        );
        assert_eq!((t.lookup(1219).id, t.lookup(1219).edge_ns), (Some(1), 1220));
        assert_eq!((t.lookup(1220).id, t.lookup(1220).frame), (Some(2), 2));
        assert_eq!((t.lookup(1230).id, t.lookup(1230).edge_ns), (None, 1310));
        assert_eq!((t.lookup(0).id, t.lookup(0).edge_ns), (None, 1010));
    }
}
