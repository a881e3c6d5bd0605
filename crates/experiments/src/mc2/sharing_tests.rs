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
