use super::super::comparisons;
use super::*;

/// The comparisons of all cells, each with a growth of its own.
fn all() -> (Vec<Point>, Vec<Found>) {
    let cells = (0..ROWS.len()).flat_map(|r| (0..COLUMNS.len()).map(move |c| (r, c)));
    let points: Vec<Point> = cells.flat_map(comparisons).collect();
    let found = (0..points.len()).map(|at| Found {
        with_us: 2.0 + at as f64,
        without_us: 1.0,
        moved_us: 1.0,
        alone_us: 1.0,
    });
    let found = found.collect();
    (points, found)
}

#[test]
fn each_cell_that_can_be_tested_counts_once() {
    let (points, found) = all();
    let groups = claims(&points, &found);
    let mut cells: Vec<(usize, usize)> = groups.iter().flatten().map(|c| c.cell).collect();
    cells.sort_unstable();
    cells.dedup();
    // Six of the eight rows, and the columns of levels A and C.
    assert_eq!(
        (groups.len(), groups.iter().map(Vec::len).sum::<usize>(), cells.len()),
        (11, 18, 18)
    );
}

#[test]
fn no_simulation_is_to_show_both_yes_and_no() {
    let (points, found) = all();
    let groups = claims(&points, &found);
    for (at, group) in groups.iter().enumerate() {
        assert!(groups[at + 1..].iter().all(|other| other[0].by.0 != group[0].by.0), "{at}");
    }
}

#[test]
fn a_device_is_one_interferer_whoever_uses_it() {
    let cell = |same, c| {
        let row = ROWS.iter().position(|r| r.same == same && !r.causes && r.kind == Kind::Dma);
        comparisons((row.unwrap_or_else(|| panic!("no such row")), c))
    };
    // Level A's buffer in level C's banks: others of the same core, and of other cores.
    let [same, other] = [true, false].map(|same| runs(&cell(same, 1)[0]));
    assert_eq!(same, other);
}

/// The change of a group moves the value of each of its cells, not only of the first one.
#[test]
fn a_groups_change_is_that_of_each_cell() {
    let (points, found) = all();
    for group in claims(&points, &found) {
        assert!(group.iter().all(|c| c.mutation == group[0].mutation));
    }
    let grown = |with_us| Found { with_us, without_us: 1.0, moved_us: 1.0, alone_us: 1.0 };
    // Without the interferer, and with levels A and B in level C's bank: a cell that has to grow
    // somewhere does not, and one that has to grow nowhere else does.
    let cells: Vec<(usize, usize)> =
        claims(&points, &found).iter().flatten().map(|c| c.cell).collect();
    for cell in cells {
        let quiet: Vec<Found> = points.iter().map(|_| grown(1.0)).collect();
        let shared: Vec<Found> = points.iter().map(|_| grown(2.0)).collect();
        let of = |found: &[Found]| Claim::of(cell, &points, found);
        match PAPER[cell.0][cell.1] {
            "No" => assert!(of(&quiet).value <= GROWTH && of(&shared).value > GROWTH, "{cell:?}"),
            "Yes" => assert!(of(&quiet).value <= GROWTH, "{cell:?}"),
            _ => assert!(of(&quiet).value <= GROWTH && of(&shared).value.is_nan(), "{cell:?}"),
        }
    }
}
