//! Ways that are promised only while the kernel has their masks.

use super::lost;
use super::tests::{Tested, Told, given, plan};
use super::{Tree, apply};
use solocore_resctrl_double::Hardware;

/// The plan's shares on this hardware, given.
fn in_place(hardware: Hardware) -> (Tested, super::Shares) {
    let mut tree = Tested::new(hardware);
    let shares = given(&plan(), &tree).unwrap();
    apply(&mut tree, &shares, &mut Told::default()).unwrap();
    (tree, shares)
}

#[test]
fn hardware_without_masks_promises_no_ways() {
    let (tree, shares) = in_place(Hardware { ways: 0, ..Hardware::intel() });
    let why = lost(&tree, &shares, 0).expect("bandwidth alone keeps nobody out of a way");
    assert!(why.contains("no L3 masks") && why.contains("anywhere"), "{why}");
}

#[test]
fn ways_that_were_given_are_kept() {
    for hardware in [
        Hardware::intel(),
        Hardware { caches: vec![0, 1], ..Hardware::intel() },
        Hardware { cdp: true, ..Hardware::intel() },
    ] {
        let (tree, shares) = in_place(hardware);
        assert_eq!([0, 1].map(|core| lost(&tree, &shares, core)), [None, None]);
        let other = lost(&tree, &shares, 7).expect("the plan has no such core");
        assert!(other.contains("core 7"), "{other}");
    }
}

#[test]
fn masks_that_somebody_changed_are_found() {
    let changes = [
        ("solocore-cpu0/schemata", "L3:0=f\n", "L3:0=f now", true),
        ("solocore-cpu1/cpus_list", "0\n", "CPU 1 is no longer", false),
    ];
    for (file, text, word, of_first) in changes {
        let (mut tree, shares) = in_place(Hardware::intel());
        tree.write(file, text).unwrap();
        let why = lost(&tree, &shares, u32::from(!of_first)).expect(file);
        assert!(why.contains(word), "{why}");
    }
    let (mut tree, shares) = in_place(Hardware::intel());
    tree.remove("solocore-cpu1").unwrap();
    assert!(lost(&tree, &shares, 1).expect("no group").contains("is gone"));
    assert_eq!(lost(&tree, &shares, 0), None, "the other core's are as they were");
}

#[test]
fn somebody_elses_group_with_a_cores_ways_is_found() {
    let (mut tree, shares) = in_place(Hardware::intel());
    for group in ["solocore-cpu0", "solocore-cpu1"] {
        tree.write(&format!("{group}/mode"), "shareable\n").unwrap();
    }
    tree.make("theirs").unwrap();
    tree.write("theirs/schemata", "L3:0=10\n").unwrap();
    assert!(lost(&tree, &shares, 0).expect("bit 4 is core 0's").contains("`theirs`"));
    assert_eq!(lost(&tree, &shares, 1), None);
    tree.remove("theirs").unwrap();
    tree.write("schemata", "L3:0=7e0\n").unwrap();
    assert!(lost(&tree, &shares, 1).expect("bits 5 to 7").contains("first group"));
    assert_eq!(lost(&tree, &shares, 0), None);
}
