//! The C of `policy/` on the host, through the drivers of `policy/tests/drive` (`src/c/host.c`).

use crate::{Answer, Event, MECHANISMS, World};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

const _: () = assert!(size_of::<Event>() == 48 && size_of::<Answer>() == 48);

unsafe extern "C" {
    fn sc_host_world_size(mechanism: u32) -> u64;
    fn sc_host_drive(mechanism: u32, world: *mut u8, event: *const Event, answer: *mut Answer);
    fn sc_host_repeat(
        m: u32,
        worlds: *mut u8,
        stride: u64,
        world_count: u32,
        events: *const Event,
        count: u32,
    ) -> u64;
}

/// A mechanism whose driver is compiled in.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    index: u32,
    size: usize,
}

impl Driver {
    /// `None` if `policy/tests/drive/<name>.h` was not there when this crate was built.
    pub fn find(name: &str) -> Option<Self> {
        let index = u32::try_from(MECHANISMS.iter().position(|m| m.name == name)?).ok()?;
        // SAFETY: it takes any number and touches no memory.
        let size = unsafe { sc_host_world_size(index) };
        (size > 0).then_some(Self { index, size: usize::try_from(size).ok()? })
    }

    /// A fresh world.
    pub fn world(self) -> Box<dyn World> {
        Box::new(self.worlds(1))
    }

    /// So many fresh worlds, to measure with.
    pub fn worlds(self, count: u32) -> HostWorlds {
        // A stride of whole cache lines: no world shares a line with its neighbour.
        let stride = self.size.next_multiple_of(64);
        HostWorlds { driver: self, memory: Zeroed::new(stride * count as usize), stride, count }
    }
}

/// Worlds of one mechanism, side by side.
pub struct HostWorlds {
    driver: Driver,
    memory: Zeroed,
    stride: usize,
    count: u32,
}

impl HostWorlds {
    /// Applies all events to each world in one C loop; returns the sum of the answers' first words.
    pub fn repeat(&mut self, events: &[Event]) -> u64 {
        let count = u32::try_from(events.len()).unwrap_or(u32::MAX);
        let stride = self.stride as u64;
        // SAFETY: the memory holds `self.count` worlds `stride` bytes apart, which C alone has
        // written since it was zeroed; the slice holds `count` events or more.
        unsafe {
            sc_host_repeat(
                self.driver.index,
                self.memory.start.as_ptr(),
                stride,
                self.count,
                events.as_ptr(),
                count,
            )
        }
    }
}

impl World for HostWorlds {
    fn apply(&mut self, event: &Event) -> Answer {
        let mut answer = Answer { word: [u64::MAX; 6] };
        // SAFETY: the memory begins with a world of this mechanism, which C alone has written since
        // it was zeroed; event and answer have C's layout (asserted above) and live through the
        // call.
        unsafe {
            sc_host_drive(self.driver.index, self.memory.start.as_ptr(), event, &raw mut answer)
        };
        answer
    }
}

/// Zeroed memory, aligned to cache lines.
struct Zeroed {
    start: NonNull<u8>,
    layout: Layout,
}

impl Zeroed {
    fn new(size: usize) -> Self {
        let layout =
            Layout::from_size_align(size.max(64), 64).expect("a world is far below isize::MAX");
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        Self { start: NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout)), layout }
    }
}

impl Drop for Zeroed {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it with this layout, and nothing else frees it.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_starts_zeroed_and_keeps_its_state() {
        let driver = Driver::find("heap").expect("drive/heap.h is there");
        let mut world = driver.world();
        let push = Event { op: 1, id: 9, a: 70, ..Event::default() };
        assert_eq!(world.apply(&push), Answer::default(), "nothing is answered before init");
        assert_eq!(world.apply(&Event::default()).word[0], 1);
        assert_eq!(world.apply(&push).word, [1, 9, 70, 1, 1, 0]);
        assert_eq!(driver.world().apply(&push), Answer::default(), "another world is fresh");
    }

    #[test]
    fn repeating_reaches_every_world() {
        let mut worlds = Driver::find("heap").expect("drive/heap.h is there").worlds(3);
        assert_eq!(worlds.repeat(&[Event::default()]), 3);
        assert_eq!(worlds.repeat(&[Event::default()]), 0, "a second init is refused");
    }

    #[test]
    fn what_has_no_driver_is_not_found() {
        assert!(Driver::find("nothing").is_none());
    }
}
