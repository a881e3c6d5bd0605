//! The hash that spreads lines over the slices of the shared cache.
//!
//! Problem: lines of one colour lie in every slice, and a slice has fewer ways than all of them
//! together. Rule: each bit of a slice's number is the parity of some address bits, as on the chips
//! whose hash is published (Maurice et al., RAID 2015). Pages that agree in the parts of these
//! functions above the page offset have their lines of the same number in one slice. Does not
//! cover: numbers of slices that are not powers of two.

/// Checks the functions of `[llc]` for this number of slices and lines of `line` bytes.
pub(super) fn check(slices: u32, line: u64, functions: &[u64]) -> Result<(), String> {
    const MOST: u32 = 256;
    if slices > MOST {
        return Err(format!("llc.slices = {slices}; give at most {MOST}"));
    }
    let wanted = slices.trailing_zeros() as usize;
    if functions.is_empty() {
        return Ok(());
    }
    if functions.len() != wanted {
        return Err(format!(
            "llc.slice_functions has {} masks, and {slices} slices have {wanted} bits; give one mask \
                a bit",
            functions.len()
        ));
    }
    if let Some(mask) = functions.iter().find(|&&mask| mask == 0 || mask & (line - 1) != 0) {
        return Err(format!(
            "llc.slice_functions has {mask:#x}; a mask has address bits above those within a line"
        ));
    }
    if rank(functions.iter().copied()) < wanted {
        return Err("llc.slice_functions depend on each other, so some slices get no lines; \
            correct a mask"
            .to_owned());
    }
    Ok(())
}

/// The parts of the functions above some low bits, without those that follow from others.
pub(super) fn above(functions: &[u64], low: u64) -> Vec<u64> {
    let mut known: Vec<u64> = Vec::new();
    for part in functions.iter().map(|mask| mask & !low) {
        if rank(known.iter().copied().chain([part])) > known.len() {
            known.push(part);
        }
    }
    known
}

/// Dimension of the span of masks over GF(2).
fn rank(masks: impl Iterator<Item = u64>) -> usize {
    let mut basis: Vec<u64> = Vec::new();
    for mut mask in masks {
        for row in &basis {
            mask = mask.min(mask ^ row);
        }
        if mask != 0 {
            basis.push(mask);
        }
    }
    basis.len()
}

#[cfg(test)]
mod tests {
    use crate::Platform;
    use std::path::Path;

    fn board() -> Platform {
        Platform::find("core-i5-2500k", Path::new(".")).unwrap()
    }

    #[test]
    fn pages_of_a_colour_lie_in_each_slice_alike() {
        let board = board();
        let functions = board.slice_functions_of_pages();
        assert_eq!(functions.len(), 2);
        let slice = |address: u64, masks: &[u64]| {
            masks.iter().zip(0..).map(|(m, i)| ((address & m).count_ones() & 1) << i).sum::<u32>()
        };
        // Of colour 3, in frames that follow each other.
        let frames = (0..64u64).map(|n| n << 17 | 3 << 12);
        let mut lines = std::collections::BTreeMap::new();
        for frame in frames {
            for line in 0..64 {
                let at = frame | line << 6;
                let key = (slice(frame, &functions), line);
                let of = *lines.entry(key).or_insert_with(|| slice(at, &board.llc.slice_functions));
                assert_eq!(of, slice(at, &board.llc.slice_functions), "one slice for a line");
            }
        }
        assert_eq!(lines.len(), 4 * 64, "four kinds of pages");
    }

    #[test]
    fn wrong_functions_are_refused() {
        let with = |functions: &[u64]| {
            let mut board = board();
            board.llc.slice_functions = functions.to_vec();
            board.check()
        };
        assert!(with(&[]).is_ok() && with(&[1 << 20, 1 << 21]).is_ok());
        assert!(with(&[1 << 20]).unwrap_err().contains("has 1 masks, and 4 slices have 2 bits"));
        assert!(with(&[1 << 5, 1 << 21]).unwrap_err().contains("0x20"));
        assert!(with(&[0, 1 << 21]).is_err());
        assert!(with(&[3 << 20, 3 << 20]).unwrap_err().contains("depend on each other"));
    }
}
