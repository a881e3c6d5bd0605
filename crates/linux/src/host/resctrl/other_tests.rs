//! Other ways and limits of bandwidth for a run that goes on: no two groups overlap at any moment.

use super::info::values;
use super::other::Other;
use super::shares::all_ways;
use super::tests::{Tested, Told, given, plan};
use super::{Info, Shares, Tree, apply};
use crate::error::LinuxError;
use solocore_model::Plan;
use solocore_resctrl_double::Hardware;
use std::io;

/// The imitation, which refuses the write with this number. After each write the masks are looked
/// at.
struct Watched {
    tree: Tested,
    writes: usize,
    refused: Option<usize>,
}

impl Watched {
    fn masks(&self) -> Vec<u64> {
        let groups = self.tree.directories().into_iter().filter(|d| d.starts_with("solocore"));
        let files = groups.map(|group| format!("{group}/schemata")).chain(["schemata".to_owned()]);
        files.map(|file| all_ways(&["L3"], &self.tree.read(&file).unwrap())).collect()
    }
}

impl Tree for Watched {
    fn read(&self, path: &str) -> io::Result<String> {
        self.tree.read(path)
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        self.writes += 1;
        if self.refused == Some(self.writes) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.tree.write(path, text)?;
        let masks = self.masks();
        let ways: u32 = masks.iter().map(|mask| mask.count_ones()).sum();
        assert_eq!(masks.iter().fold(0, |all, mask| all | mask).count_ones(), ways, "{masks:x?}");
        Ok(())
    }

    fn make(&mut self, group: &str) -> io::Result<()> {
        self.tree.make(group)
    }

    fn remove(&mut self, group: &str) -> io::Result<()> {
        self.tree.remove(group)
    }

    fn directories(&self) -> Vec<String> {
        self.tree.directories()
    }
}

fn with_ways(ways: [u32; 2]) -> Plan {
    let mut plan = plan();
    for (core, ways) in plan.cores.iter_mut().zip(ways) {
        core.ways = ways;
    }
    plan
}

/// A run with these ways.
fn running(ways: [u32; 2]) -> (Watched, Shares) {
    let mut tree = Tested::new(Hardware::intel());
    let shares = given(&with_ways(ways), &tree).unwrap();
    apply(&mut tree, &shares, &mut Told::default()).unwrap();
    (Watched { tree, writes: 0, refused: None }, shares)
}

fn other(tree: &Watched, shares: &Shares, ways: [u32; 2]) -> Result<Other, LinuxError> {
    Other::of(shares, &with_ways(ways), &Info::read(tree, "")?, tree)
}

#[test]
fn ways_change_and_return_without_overlaps() {
    let mut changed = 0;
    // Devices use the last two ways, so cores can have up to nine of them alone.
    let all = || (1..6u32).flat_map(|one| (1..=6 - one).map(move |two| [one, two]));
    for (old, new) in all().flat_map(|old| all().map(move |new| (old, new))) {
        let (mut tree, shares) = running(old);
        let before = tree.masks();
        let Ok(change) = other(&tree, &shares, new) else { continue };
        change.give(&mut tree).unwrap();
        let (fresh, of_fresh) = running(new);
        assert_eq!((tree.masks(), &change.shares), (fresh.masks(), &of_fresh), "{old:?} {new:?}");
        change.take_back(&mut tree);
        assert_eq!(tree.masks(), before);
        changed += 1;
    }
    assert_eq!(changed, 155);
}

#[test]
fn a_mask_that_the_kernel_refuses_leaves_the_old_ones() {
    let (tree, _) = running([5, 3]);
    let before = tree.masks();
    let mut refused = 0;
    for at in 1.. {
        let (mut tree, shares) = running([5, 3]);
        let change = other(&tree, &shares, [3, 4]).unwrap();
        tree.refused = Some(at);
        let Err(e) = change.give(&mut tree) else { break };
        assert!(e.to_string().contains("schemata") && e.to_string().contains("end the run"), "{e}");
        assert_eq!(tree.masks(), before, "write {at}");
        refused += 1;
    }
    assert_eq!(refused, 6, "three groups, two steps");
}

#[test]
fn ways_that_cannot_follow_the_old_ones_are_refused() {
    let (tree, shares) = running([5, 3]);
    let cases: [([u32; 2], &str); 3] =
        [([8, 1], "`solocore-cpu1`"), ([5, 5], "exclusive"), ([5, 7], "the hardware gives")];
    for (ways, why) in cases {
        let refused = other(&tree, &shares, ways).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

/// The limits of bandwidth of both cores.
fn limits(tree: &Watched) -> [String; 2] {
    ["solocore-cpu0", "solocore-cpu1"].map(|group| {
        let schemata = tree.read(&format!("{group}/schemata")).unwrap();
        values(&schemata, "MB").unwrap().trim().to_owned()
    })
}

/// The plan of [`running`] with these bandwidths.
fn with_bandwidths(bandwidths: [Option<u64>; 2]) -> Plan {
    let mut plan = with_ways([5, 3]);
    for (core, bandwidth) in plan.cores.iter_mut().zip(bandwidths) {
        core.bandwidth_bytes_per_s = bandwidth;
    }
    plan
}

/// Fails when a limit stays that of the old plan, or is not that again after a refusal.
#[test]
fn limits_of_bandwidth_change_and_return() {
    for hardware in [Hardware::intel(), Hardware { ways: 0, ..Hardware::intel() }] {
        let mut tree = Tested::new(hardware);
        let shares = given(&with_bandwidths([Some(750), Some(250)]), &tree).unwrap();
        apply(&mut tree, &shares, &mut Told::default()).unwrap();
        let info = Info::read(&tree, "").unwrap();
        let of = |tree: &Tested, bandwidths| {
            Other::of(&shares, &with_bandwidths(bandwidths), &info, tree)
        };
        let change = of(&tree, [Some(250), Some(750)]).unwrap();
        let comes = of(&tree, [Some(250), None]).unwrap_err().to_string();
        assert!(comes.contains("`solocore-cpu1`") && comes.contains("come or go"), "{comes}");
        let mut tree = Watched { tree, writes: 0, refused: None };
        let (before, of_new) = (["0=70", "0=20"], ["0=20", "0=70"]);
        assert_eq!(limits(&tree), before);
        change.give(&mut tree).unwrap();
        assert_eq!((limits(&tree), tree.writes), (of_new.map(str::to_owned), 2));
        change.take_back(&mut tree);
        assert_eq!(limits(&tree), before);
        tree.refused = Some(tree.writes + 2);
        let refused = change.give(&mut tree).unwrap_err().to_string();
        assert!(refused.contains("resctrl refuses solocore-cpu1/schemata"), "{refused}");
        assert_eq!(limits(&tree), before, "after the second write is refused");
    }
}
