//! Masks of ways: their overlaps with those of other groups, and the first ones of a new group.

use crate::group::{Group, Mode};
use crate::hardware::Hardware;

/// The ways of a cache that are pseudo-locked.
pub(crate) fn locked_in(groups: &[Group], cache: usize) -> u32 {
    groups.iter().filter_map(|g| g.locked).filter(|l| l.0 == cache).fold(0, |all, l| all | l.1)
}

/// Does the mask meet that of another group? With CDP, code's and data's share the same ways.
pub(crate) fn overlaps(
    hardware: &Hardware,
    groups: &[Group],
    group: usize,
    line: usize,
    cache: usize,
    mask: u32,
    exclusive_only: bool,
) -> bool {
    if !exclusive_only && mask & hardware.shareable != 0 {
        return true;
    }
    let lines = if hardware.cdp { 0..groups[group].masks.len() } else { line..line + 1 };
    let others = groups.iter().enumerate().filter(|(at, g)| {
        *at != group
            && !matches!(g.mode, Mode::LockSetup | Mode::Locked)
            && (!exclusive_only || g.mode == Mode::Exclusive)
    });
    others.into_iter().any(|(_, g)| lines.clone().any(|l| g.masks[l][cache] & mask != 0))
}

/// Does any mask of the group meet anybody else's, or a device's?
pub(crate) fn overlaps_anything(hardware: &Hardware, groups: &[Group], group: usize) -> bool {
    let masks = &groups[group].masks;
    let all = masks
        .iter()
        .enumerate()
        .flat_map(|(l, by)| by.iter().enumerate().map(move |(c, &m)| (l, c, m)));
    all.into_iter()
        .any(|(line, cache, mask)| overlaps(hardware, groups, group, line, cache, mask, false))
}

/// The masks of a new group: all that is free or may be shared, as far as it is in one piece.
///
/// # Errors
/// The line and the cache that have no room.
pub(crate) fn first_masks(hardware: &Hardware, groups: &[Group]) -> Result<Vec<Vec<u32>>, String> {
    let mut masks = Vec::new();
    for (line, name) in hardware.cache_lines().iter().enumerate() {
        let mut row = Vec::new();
        for cache in 0..hardware.caches.len() {
            let (mut used, mut may) = (hardware.shareable, hardware.shareable);
            for g in groups.iter().filter(|g| !matches!(g.mode, Mode::LockSetup | Mode::Locked)) {
                let has = if hardware.cdp {
                    g.masks.iter().fold(0, |all, m| all | m[cache])
                } else {
                    g.masks[line][cache]
                };
                used |= has;
                if g.mode == Mode::Shareable {
                    may |= has;
                }
            }
            used |= locked_in(groups, cache);
            may |= !used & hardware.all_ways();
            let first = may.trailing_zeros();
            let run = may.checked_shr(first).unwrap_or(0).trailing_ones();
            if run < hardware.least_bits.max(1) {
                let id = hardware.caches[cache];
                return Err(format!("No space on {name}:{id}"));
            }
            row.push(u32::MAX.checked_shr(32 - run).unwrap_or(0) << first);
        }
        masks.push(row);
    }
    Ok(masks)
}
