//! The occupied stretches of one resource, queried by residues.
//!
//! Problem: unrolling a hyperperiod to see whether an activity fits takes time and memory that grow
//! with the periods. Rule: strictly periodic, non-preemptive i and j never overlap iff, with g =
//! gcd(T_i, T_j), c_i <= (o_j - o_i) mod g <= g - c_j. So an activity of period T meets each other
//! one in the residues modulo some divisor g of T. For every period that may be queried, and every
//! g that occurs with it, the others are kept sorted by their residue modulo g. An offset that
//! collides is moved past the other activity until it collides with none.

use super::problem::gcd;

/// One occupied stretch, modulo the g of its group.
#[derive(Clone, Copy, Debug)]
struct Slot {
    residue: i64,
    dur: i64,
    act: u32,
}

/// Activities that meet a period modulo `g`.
#[derive(Clone, Debug)]
struct Group {
    g: i64,
    /// Sorted by residue, then activity.
    slots: Vec<Slot>,
    /// At least the longest duration among the slots.
    longest: i64,
}

/// One resource.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// By the class of the queried period; empty for classes that are never queried.
    views: Vec<Vec<Group>>,
    /// The periods of all classes, in ticks.
    periods: Vec<i64>,
}

/// A stretch of the queried partition itself: same period, so its residues are modulo that period.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Activity.
    pub act: usize,
    /// Resource.
    pub resource: usize,
    /// Start in ticks.
    pub offset: i64,
    /// Duration in ticks.
    pub dur: i64,
}

/// The activity to be placed, and the placed activities of its own partition.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// Class of its period.
    pub class: usize,
    /// Duration in ticks.
    pub dur: i64,
    /// Resource, which selects the relevant entries of `own`.
    pub resource: usize,
    /// Placed activities of the same partition.
    pub own: &'a [Own],
}

impl Timeline {
    /// An empty resource; `asks` marks the classes that may be queried.
    pub fn new(periods: &[i64], asks: &[bool]) -> Self {
        let view = |q: usize| {
            let mut divisors: Vec<i64> = periods.iter().map(|p| gcd(*p, periods[q])).collect();
            divisors.sort_unstable();
            divisors.dedup();
            // The smallest first: its slots exclude most.
            divisors.into_iter().map(|g| Group { g, slots: Vec::new(), longest: 0 }).collect()
        };
        let views =
            (0..periods.len()).map(|q| if asks[q] { view(q) } else { Vec::new() }).collect();
        Self { views, periods: periods.to_vec() }
    }

    /// Occupies a stretch.
    pub fn insert(&mut self, act: usize, class: usize, offset: i64, dur: i64) {
        self.each_group(class, |group| {
            let slot = Slot { residue: offset.rem_euclid(group.g), dur, act: id(act) };
            let at = group.slots.partition_point(|s| (s.residue, s.act) < (slot.residue, slot.act));
            group.slots.insert(at, slot);
            group.longest = group.longest.max(dur);
        });
    }

    /// Frees what [`Timeline::insert`] occupied.
    pub fn remove(&mut self, act: usize, class: usize, offset: i64) {
        self.each_group(class, |group| {
            let key = (offset.rem_euclid(group.g), id(act));
            let at = group.slots.partition_point(|s| (s.residue, s.act) < key);
            if group.slots.get(at).is_some_and(|s| s.act == key.1) {
                group.slots.remove(at);
            }
            if group.slots.is_empty() {
                group.longest = 0;
            }
        });
    }

    /// Frees everything.
    pub fn clear(&mut self) {
        for group in self.views.iter_mut().flatten() {
            group.slots.clear();
            group.longest = 0;
        }
    }

    fn each_group(&mut self, class: usize, mut change: impl FnMut(&mut Group)) {
        for (q, view) in self.views.iter_mut().enumerate().filter(|(_, v)| !v.is_empty()) {
            let g = gcd(self.periods[q], self.periods[class]);
            if let Ok(at) = view.binary_search_by_key(&g, |group| group.g) {
                change(&mut view[at]);
            }
        }
    }

    /// Is there an activity that every offset collides with?
    pub fn shut(&self, ask: &Ask) -> bool {
        let full =
            |g: &Group| g.longest + ask.dur > g.g && g.slots.iter().any(|s| s.dur + ask.dur > g.g);
        self.views[ask.class].iter().any(full)
    }

    /// The first free offset from `low` to `high`; `work` counts the look-ups.
    pub fn first_free(&self, ask: &Ask, low: i64, high: i64, work: &mut u64) -> Option<i64> {
        // Offsets one period apart are alike.
        let high = high.min(low + self.periods[ask.class] - 1);
        let mut at = low;
        if self.shut(ask) {
            return None;
        }
        while at <= high {
            *work += 1;
            match self.push_right(ask, at) {
                0 => return Some(at),
                step => at += step,
            }
        }
        None
    }

    /// The last free offset from `low` to `high`.
    pub fn last_free(&self, ask: &Ask, low: i64, high: i64, work: &mut u64) -> Option<i64> {
        let low = low.max(high - self.periods[ask.class] + 1);
        let mut at = high;
        if self.shut(ask) {
            return None;
        }
        while at >= low {
            *work += 1;
            match self.push_left(ask, at) {
                0 => return Some(at),
                step => at -= step,
            }
        }
        None
    }

    /// Distance that an offset must move right to pass an activity that it collides with; 0 without
    /// a collision.
    fn push_right(&self, ask: &Ask, at: i64) -> i64 {
        let mut most = 0;
        for group in &self.views[ask.class] {
            group.collisions(at.rem_euclid(group.g), ask.dur, |s, behind| {
                // `behind`: distance of the offset from the slot's start.
                most = most.max((s.dur - behind).rem_euclid(group.g).max(1));
            });
        }
        let period = self.periods[ask.class];
        for o in ask.own.iter().filter(|o| o.resource == ask.resource) {
            let behind = (at - o.offset).rem_euclid(period);
            if behind < o.dur || period - behind < ask.dur {
                most = most.max((o.dur - behind).rem_euclid(period).max(1));
            }
        }
        most
    }

    /// The same to the left.
    fn push_left(&self, ask: &Ask, at: i64) -> i64 {
        let mut most = 0;
        for group in &self.views[ask.class] {
            group.collisions(at.rem_euclid(group.g), ask.dur, |_, behind| {
                most = most.max((behind + ask.dur).rem_euclid(group.g).max(1));
            });
        }
        let period = self.periods[ask.class];
        for o in ask.own.iter().filter(|o| o.resource == ask.resource) {
            let behind = (at - o.offset).rem_euclid(period);
            if behind < o.dur || period - behind < ask.dur {
                most = most.max((behind + ask.dur).rem_euclid(period).max(1));
            }
        }
        most
    }

    /// Distance that a free offset can move left before it touches an activity; `None` on an empty
    /// resource.
    pub fn gap_left(&self, ask: &Ask, at: i64) -> Option<i64> {
        let groups = self.views[ask.class].iter().filter_map(|group| {
            let x = at.rem_euclid(group.g);
            // Slots of one group may overlap, so the nearest start need not have the nearest end.
            let end = |s: &Slot| (x - s.residue - s.dur).rem_euclid(group.g);
            let split = group.slots.partition_point(|s| s.residue <= x);
            let (before, after) = group.slots.split_at(split);
            before.iter().rev().chain(after.iter().rev()).take(8).map(end).min()
        });
        groups.min()
    }

    /// Calls `found` for every activity that an offset collides with, own ones excepted.
    pub fn collisions(&self, ask: &Ask, at: i64, mut found: impl FnMut(usize)) {
        for group in &self.views[ask.class] {
            group.collisions(at.rem_euclid(group.g), ask.dur, |s, _| found(s.act as usize));
        }
    }

    /// Does an offset collide with the asking partition's own?
    pub fn own_collision(&self, ask: &Ask, at: i64) -> bool {
        let period = self.periods[ask.class];
        ask.own.iter().filter(|o| o.resource == ask.resource).any(|o| {
            let behind = (at - o.offset).rem_euclid(period);
            behind < o.dur || period - behind < ask.dur
        })
    }

    /// The activity at a place of the list of all that may be met, with its residue, duration and
    /// g; for drawing critical offsets at random. `pick` is any number.
    pub fn pick(&self, class: usize, pick: usize) -> Option<(i64, i64, i64)> {
        let total: usize = self.views[class].iter().map(|g| g.slots.len()).sum();
        let mut at = pick.checked_rem(total)?;
        for group in &self.views[class] {
            if let Some(s) = group.slots.get(at) {
                return Some((s.residue, s.dur, group.g));
            }
            at -= group.slots.len();
        }
        None
    }
}

impl Group {
    /// Calls `found` with every slot that overlaps `[x, x + dur)` modulo g, and the distance of x
    /// from its start.
    fn collisions(&self, x: i64, dur: i64, mut found: impl FnMut(&Slot, i64)) {
        let g = self.g;
        let mut look = |s: &Slot| {
            let behind = if x >= s.residue { x - s.residue } else { x - s.residue + g };
            if behind < s.dur || g - behind < dur {
                found(s, behind);
            }
        };
        if self.longest + dur > g {
            self.slots.iter().for_each(look);
            return;
        }
        // Starts in (x - longest, x + dur), around the circle.
        let (low, high) = (x - self.longest + 1, x + dur - 1);
        let from = |r: i64| self.slots.partition_point(|s| s.residue < r);
        if low < 0 {
            self.slots[from(low + g)..].iter().for_each(&mut look);
        }
        let tail = from(low.max(0));
        self.slots[tail..].iter().take_while(|s| s.residue <= high).for_each(&mut look);
        if high >= g {
            self.slots.iter().take_while(|s| s.residue <= high - g).for_each(&mut look);
        }
    }
}

fn id(act: usize) -> u32 {
    u32::try_from(act).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The answer by unrolling.
    fn overlap(a: (i64, i64, i64), b: (i64, i64, i64)) -> bool {
        let h = a.0 / gcd(a.0, b.0) * b.0;
        (0..h / a.0).any(|k| {
            (-1..=h / b.0).any(|l| {
                let (x, y) = (a.1 + k * a.0, b.1 + l * b.0);
                x < y + b.2 && y < x + a.2
            })
        })
    }

    proptest! {
        #[test]
        fn agrees_with_unrolling(
            items in prop::collection::vec((0usize..4, 0i64..60, 1i64..5), 1..7), class in 0usize..4, dur in 1i64..5
        ) {
            let periods = [12, 20, 30, 60];
            let mut line = Timeline::new(&periods, &[true; 4]);
            for (i, (c, o, d)) in items.iter().enumerate() {
                line.insert(i, *c, *o, *d);
            }
            let ask = Ask { class, dur, resource: 0, own: &[] };
            let free = |x: i64| {
                items.iter().all(|(c, o, d)| !overlap((periods[class], x, dur), (periods[*c], o % periods[*c], *d)))
            };
            let all: Vec<i64> = (0..periods[class]).filter(|x| free(*x)).collect();
            prop_assert_eq!(line.first_free(&ask, 0, 1000, &mut 0), all.first().copied());
            prop_assert_eq!(line.last_free(&ask, 0, periods[class] - 1, &mut 0), all.last().copied());
            for (i, (c, o, _)) in items.iter().enumerate() {
                line.remove(i, *c, *o);
            }
            prop_assert_eq!(line.first_free(&ask, 0, 1000, &mut 0), Some(0));
        }
    }
}
