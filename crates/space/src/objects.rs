//! Small objects on the pages of a list.
//!
//! Problem: a page per message header or timer wastes coloured pages, and there are few. Rule:
//! sizes from 16 to 2048 bytes, each twice the one before. A page holds objects of one size, is
//! taken when none of its size has room, and goes back when its last object does. Source: the slab
//! caches that MC2's kernel has above its buddy lists (mc2-os-isolation, 3.2). Does not cover:
//! objects beyond half a page; those are blocks.

use crate::lists::{Block, ListError, Lists};
use std::collections::HashMap;

/// Sizes of objects, in bytes.
pub const SIZES: [u32; 8] = [16, 32, 64, 128, 256, 512, 1024, 2048];
const PAGE: u32 = 4096;

/// An object: its frame, and its place in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Number of the frame in [`Lists`].
    pub frame: u32,
    /// First byte within it.
    pub offset: u32,
}

/// Reasons for which an object is not given or not taken back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The list has no page for it.
    #[error(transparent)]
    List(#[from] ListError),
    /// Its size is 0, or more than half a page.
    #[error("an object has 1 to 2048 bytes, not {0}; get a block")]
    Size(u32),
    /// The object is not one that was taken.
    #[error("there is no object at byte {} of frame {}; put back each taken object once", .0.offset, .0.frame)]
    NotTaken(Object),
}

#[derive(Clone, Debug)]
struct Slab {
    list: usize,
    class: usize,
    used: u32,
    /// Bit i: slot i is free.
    free: [u64; 4],
    /// Its place among the slabs with room.
    place: usize,
}

const FULL: usize = usize::MAX;

/// The objects on the pages of some lists.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    slabs: HashMap<u32, Slab>,
    /// Frames with room, by list and class.
    room: HashMap<(usize, usize), Vec<u32>>,
}

impl Objects {
    /// Takes an object of at least `size` bytes, on a page of this list.
    ///
    /// # Errors
    /// The size is none of [`SIZES`], or the list is empty.
    pub fn get(
        &mut self,
        lists: &mut Lists,
        list: usize,
        bytes: u32,
    ) -> Result<Object, ObjectError> {
        let class = SIZES
            .iter()
            .position(|&size| size >= bytes)
            .filter(|_| bytes > 0)
            .ok_or(ObjectError::Size(bytes))?;
        let room = self.room.entry((list, class)).or_default();
        let frame = match room.last() {
            Some(&frame) => frame,
            None => {
                let frame = lists.get(list, 0)?.first;
                self.slabs.insert(
                    frame,
                    Slab { list, class, used: 0, free: all_free(class), place: room.len() },
                );
                room.push(frame);
                frame
            }
        };
        let Some(slab) = self.slabs.get_mut(&frame) else {
            return Err(ObjectError::NotTaken(Object { frame, offset: 0 }));
        };
        let slot = slab.take_slot();
        if slab.free == [0; 4] {
            slab.place = FULL;
            room.pop();
        }
        Ok(Object { frame, offset: slot * SIZES[class] })
    }

    /// Takes an object back.
    ///
    /// # Errors
    /// The object is not one that was taken; nothing is changed.
    pub fn put(&mut self, lists: &mut Lists, object: Object) -> Result<(), ObjectError> {
        let slab = self.slabs.get_mut(&object.frame).ok_or(ObjectError::NotTaken(object))?;
        let slot = object.offset / SIZES[slab.class];
        let taken = object.offset < PAGE && slab.free[slot as usize / 64] >> (slot % 64) & 1 == 0;
        if !object.offset.is_multiple_of(SIZES[slab.class]) || !taken {
            return Err(ObjectError::NotTaken(object));
        }
        slab.free[slot as usize / 64] |= 1 << (slot % 64);
        slab.used -= 1;
        let (key, used) = ((slab.list, slab.class), slab.used);
        let room = self.room.entry(key).or_default();
        if slab.place == FULL {
            slab.place = room.len();
            room.push(object.frame);
        }
        if used == 0 {
            let place = slab.place;
            room.swap_remove(place);
            let moved = room.get(place).copied();
            if let Some(slab) = moved.and_then(|frame| self.slabs.get_mut(&frame)) {
                slab.place = place;
            }
            self.slabs.remove(&object.frame);
            lists.put(Block { first: object.frame, order: 0 })?;
        }
        Ok(())
    }

    /// Pages that hold objects.
    pub fn pages(&self) -> usize {
        self.slabs.len()
    }
}

impl Slab {
    fn take_slot(&mut self) -> u32 {
        let word = self.free.iter().position(|&w| w != 0).unwrap_or(0);
        let bit = self.free[word].trailing_zeros();
        self.free[word] &= self.free[word].wrapping_sub(1);
        self.used += 1;
        word as u32 * 64 + bit
    }
}

fn all_free(class: usize) -> [u64; 4] {
    let slots = PAGE / SIZES[class];
    std::array::from_fn(|word| match slots.saturating_sub(word as u32 * 64) {
        0 => 0,
        n @ 1..64 => (1 << n) - 1,
        _ => u64::MAX,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use std::collections::BTreeMap;

    #[test]
    fn pages_come_and_go() {
        let mut lists =
            Lists::new(2, &(0..8).collect::<Vec<u64>>(), |frame| Some(usize::from(frame >= 4)));
        let mut objects = Objects::default();
        let got: Vec<Object> =
            (0..512).map(|_| objects.get(&mut lists, 0, 30).expect("room")).collect();
        // 128 objects of 32 bytes a page.
        assert_eq!(objects.pages(), 4);
        assert!(matches!(
            objects.get(&mut lists, 0, 30),
            Err(ObjectError::List(ListError::Empty { list: 0, .. }))
        ));
        assert!(objects.get(&mut lists, 1, 2048).is_ok(), "the other list has its own");
        for &object in &got {
            objects.put(&mut lists, object).expect("taken");
            assert_eq!(objects.put(&mut lists, object), Err(ObjectError::NotTaken(object)));
        }
        assert_eq!(lists.stats(0).map(|s| s.free), Some(4));
        for bytes in [0, 2049] {
            assert_eq!(objects.get(&mut lists, 0, bytes), Err(ObjectError::Size(bytes)));
        }
    }

    #[test]
    fn objects_never_overlap() {
        let frames: Vec<u64> = (0..256).collect();
        let mut lists = Lists::new(2, &frames, |frame| Some((frame % 2) as usize));
        let mut objects = Objects::default();
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        // By address: length, list.
        let mut taken: BTreeMap<u32, (u32, usize)> = BTreeMap::new();
        for _ in 0..200_000 {
            if random.random_bool(0.52) {
                let (list, bytes) = (random.random_range(0..2), random.random_range(1..=2048));
                let Ok(object) = objects.get(&mut lists, list, bytes) else { continue };
                assert_eq!(lists.owner(object.frame), Some(list));
                let start = object.frame * PAGE + object.offset;
                assert!(object.offset + bytes <= PAGE);
                assert!(taken.range(start..start + bytes).next().is_none());
                assert!(taken.range(..start).next_back().is_none_or(|(s, (n, _))| s + n <= start));
                taken.insert(start, (bytes, list));
            } else if let Some((&start, _)) =
                taken.range(random.random_range(0..256 * PAGE)..).next()
            {
                taken.remove(&start);
                objects
                    .put(&mut lists, Object { frame: start / PAGE, offset: start % PAGE })
                    .expect("taken");
            }
        }
        lists.check().expect("consistent");
        for start in taken.into_keys() {
            objects
                .put(&mut lists, Object { frame: start / PAGE, offset: start % PAGE })
                .expect("taken");
        }
        assert_eq!(objects.pages(), 0);
        assert_eq!(lists.stats(0).map(|s| s.free), Some(128));
    }
}
