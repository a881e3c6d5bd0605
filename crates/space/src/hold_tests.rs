//! What a hold takes, keeps and gives back, on this machine.

use super::*;
use crate::map::Map;

/// Colours 0 to 3 of 16, and a hold of them; frames are shown to root only.
fn hold() -> Option<Hold> {
    let map =
        Map { colours: (12..16).map(|b| 1 << b).collect(), banks: vec![], slices: Vec::new() };
    let choice = Choice::new(&map, Some(&[0, 1, 2, 3]), None).expect("valid");
    match Hold::new(choice) {
        Ok(hold) => Some(hold),
        Err(SpaceError::Machine(why)) if why.contains("CAP_SYS_ADMIN") => None,
        Err(other) => panic!("{other}"),
    }
}

/// A hold with at least 2,000 frames, if there are that many.
fn filled() -> Option<Hold> {
    let mut hold = hold()?;
    let pass = hold.pass(64 << 20, &|| false).expect("taken");
    (pass.kept >= 2000).then_some(hold)
}

#[test]
fn frames_of_the_choice_stay_and_others_go_back() {
    let Some(mut hold) = hold() else { return };
    let pass = hold.pass(64 << 20, &|| false).expect("taken");
    if pass.taken == 0 {
        return;
    }
    assert_eq!(pass.kept, hold.held());
    assert_eq!(hold.lost(), 0);
    // A quarter of what was taken, as the frames are spread.
    assert!(hold.held() > pass.taken / 16, "{pass:?}");
    assert!(hold.frames().all(|frame| frame % 16 < 4));
    let mut frames: Vec<u64> = hold.frames().collect();
    frames.sort_unstable();
    frames.dedup();
    assert_eq!(frames.len() as u64, hold.held());
    // What the kernel says of the areas: their present pages are the held ones alone.
    let present: usize = hold
        .pieces
        .iter()
        .map(|piece| {
            let mut entries = vec![0; piece.area.bytes() / PAGE as usize];
            sys::entries_of(&hold.pagemap, &piece.area, 0, &mut entries).expect("read");
            entries.iter().filter(|&&e| sys::frame_of(e).is_some()).count()
        })
        .sum();
    assert_eq!(present as u64, hold.held());
    let held = hold.held();
    // Single ones first: the neighbour of each stays.
    let before = hold.frames().collect::<std::collections::BTreeSet<_>>();
    assert_eq!(hold.give(100, &|frame| frame % 16 < 2), 100);
    assert_eq!(hold.held(), held - 100);
    let after = hold.frames().collect::<std::collections::BTreeSet<_>>();
    let given: Vec<u64> = before.difference(&after).copied().collect();
    assert_eq!(given.len(), 100);
    assert!(given.iter().all(|&f| f % 16 < 2 && after.contains(&(f ^ 1))), "{given:?}");
    assert!((0..2).all(|colour| given.iter().any(|f| f % 16 == colour)), "{given:?}");
    assert_eq!(hold.give(u64::MAX, &|_| true), held - 100);
    assert_eq!((hold.held(), hold.frames().count()), (0, 0));
}

/// It fails if a program's frames do not come back, or if others are lent before them. Another
/// program on this CPU may be quicker, but not each time.
#[test]
fn frames_that_were_lent_come_back_and_are_lent_first() {
    let Some(mut hold) = filled() else { return };
    let came_back = |hold: &mut Hold| {
        sys::on_this_cpu(|| {
            let held = hold.held();
            assert_eq!(hold.give(64, &|_| true), 64);
            let back = hold.take_back(64).expect("taken");
            assert_eq!(hold.held(), held - 64 + back);
            back >= 60
        })
    };
    assert!((0..20).any(|_| came_back(&mut hold)), "in no try");
    assert!(hold.frames().all(|frame| frame % 16 < 4));
    assert_eq!(hold.frames().count() as u64, hold.held());
    let returned = |hold: &Hold| {
        let pieces = hold.pieces.iter().filter(|piece| piece.returned);
        pieces.map(|piece| piece.pages.len()).sum::<usize>()
    };
    let before = returned(&hold);
    assert!(before >= 60);
    assert_eq!(hold.give(40, &|_| true), 40);
    assert_eq!(returned(&hold), before - 40);
}

/// Frames of blocks without the kernel go first; the others only once these are used up.
#[test]
fn blocks_of_the_kernel_are_lent_last() {
    let Some(mut hold) = filled() else { return };
    hold.zone = 0;
    let block = |frame: u64| usize::try_from(frame / BLOCK).expect("small");
    let blocks: std::collections::BTreeSet<usize> = hold.frames().map(block).collect();
    let last = blocks.last().copied().unwrap_or(0);
    // All blocks but every second one that is held.
    let mut kernels = vec![true; last + 1];
    blocks.iter().step_by(2).for_each(|&block| kernels[block] = false);
    let clean = |hold: &Hold| hold.frames().filter(|&f| !kernels[block(f)]).count() as u64;
    hold.avoid(kernels.clone());
    let (before, others) = (clean(&hold), hold.held() - clean(&hold));
    assert!(before > 100 && others > 100, "{before} {others}");
    assert_eq!(hold.give(100, &|_| true), 100);
    assert_eq!(clean(&hold), before - 100);
    assert_eq!(hold.give(before, &|_| true), before);
    assert_eq!((clean(&hold), hold.held()), (0, others - 100));
}

/// Breaks when pages of this CPU's list alone come back, or if the caller has to know their number.
#[test]
fn what_cpus_have_on_their_lists_comes_back() {
    let Some(mut hold) = filled().filter(|_| sys::usable_cpus().len() > 1) else { return };
    let all = |hold: &Hold| hold.frames().collect::<std::collections::BTreeSet<u64>>();
    let came_back = |hold: &mut Hold| {
        let mut given = Vec::new();
        for cpu in [0, 1] {
            let before = all(hold);
            sys::on_cpu(cpu, || assert_eq!(hold.give(50, &|_| true), 50));
            given.push(&before - &all(hold));
        }
        let held = hold.held();
        let taken = hold.take_lists().expect("taken");
        assert_eq!(hold.held(), held + taken);
        let now = all(hold);
        given.iter().all(|frames| frames.intersection(&now).count() >= 40)
    };
    assert!((0..20).any(|_| came_back(&mut hold)), "in no try");
    assert!(hold.frames().all(|frame| frame % 16 < 4));
}

#[test]
fn the_kernel_makes_no_huge_pages_of_what_is_held() {
    let Some(mut hold) = hold() else { return };
    let pass = hold.pass(64 << 20, &|| false).expect("taken");
    if pass.kept == 0 || !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        return;
    }
    let text = std::fs::read_to_string("/proc/self/smaps").expect("shown");
    for start in hold.pieces.iter().map(|piece| piece.area.start()) {
        let holds = |line: &&str| {
            let ends = line.split(' ').next().and_then(|ends| ends.split_once('-'));
            let end = |text| usize::from_str_radix(text, 16).unwrap_or(0);
            ends.is_some_and(|(from, to)| (end(from)..end(to)).contains(&start))
        };
        let mut lines = text.lines().skip_while(|line| !holds(line));
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags: "));
        assert!(flags.is_some_and(|flags| flags.split(' ').any(|f| f == "nh")), "{flags:?}");
    }
}

/// Without blocks of a size a pass ends after a step. Only frames of the choice stay.
#[test]
fn a_pass_of_blocks_ends_without_blocks_and_holds_only_the_choice() {
    let Some(mut hold) = hold() else { return };
    let pass = hold.pass_of_blocks(64, 64 << 20, &|| false).expect("taken");
    assert!(pass.end != End::Barren || pass.taken < 64 << 8, "{pass:?}");
    assert!(hold.frames().all(|frame| frame % 16 < 4));
    assert_eq!((hold.held(), hold.frames().count() as u64), (pass.kept, pass.kept));
    let entries = |first: u64| (0..64).map(|n| 1 << 63 | (first + n)).collect::<Vec<u64>>();
    assert!(is_block(&entries(128)) && !is_block(&entries(160)), "from a multiple of its size");
    let mut gap = entries(128);
    gap[40] += 1;
    assert!(!is_block(&gap));
}

/// The kernel would put its page of zeroes in the place of a held page that is all zeroes.
#[test]
fn no_held_page_is_all_zeroes() {
    let Some(mut hold) = filled() else { return };
    // Single pages, too.
    hold.give(512, &|_| true);
    hold.take_back(512).expect("taken");
    let zero = |piece: &&Piece| {
        let first = |page: u32| (piece.area.start() + page as usize * PAGE as usize) as *const u8;
        // SAFETY: the page is the hold's, present, and nobody writes to it meanwhile.
        piece.pages.iter().any(|&(page, _)| unsafe { first(page).read_volatile() } == 0)
    };
    assert_eq!(hold.pieces.iter().filter(zero).count(), 0);
}

#[test]
fn moved_pages_are_noticed() {
    let Some(mut hold) = hold() else { return };
    let pass = hold.pass(32 << 20, &|| false).expect("taken");
    if pass.taken == 0 {
        return;
    }
    let held = hold.held();
    // As if the pages had other frames when they were noted: one of the choice, one not.
    let move_two = |hold: &mut Hold| {
        hold.pieces[0].pages[0].1 ^= 1 << 20;
        hold.pieces[0].pages[1].1 = 5;
        hold.look().expect("looked")
    };
    assert_eq!(move_two(&mut hold), 0, "these moves may have begun before the pages were locked");
    let before = hold.lost();
    assert_eq!(move_two(&mut hold), 2);
    assert_eq!(hold.lost(), before + 2);
    assert_eq!(hold.held(), held, "both have frames of the choice again");
    // A page that is gone is no longer held.
    let page = hold.pieces[0].pages[0].0;
    hold.pieces[0].area.give_back(page as usize, 1);
    assert_eq!(hold.look().expect("looked"), 1);
    assert_eq!(hold.held(), held - 1);
}

#[test]
fn a_stop_ends_a_pass_before_its_first_step() {
    let Some(mut hold) = hold() else { return };
    let pass = hold.pass(64 << 20, &|| true).expect("taken");
    assert_eq!((pass.taken, pass.kept, hold.held()), (0, 0, 0));
}

#[test]
fn huge_pages_are_told_by_their_frames() {
    let present = 1u64 << 63;
    let entries = |first: u64| (first..first + 512).map(|f| f | present).collect::<Vec<_>>();
    assert!(is_block(&entries(1024)));
    assert!(!is_block(&entries(1025)));
    let mut one = entries(1024);
    one[7] = 0;
    assert!(!is_block(&one));
}
