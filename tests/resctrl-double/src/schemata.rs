//! The lines of a schemata: what is read, checked in the kernel's order, and taken over all at
//! once.

use crate::errno::Errno;
use crate::group::Mode;
use crate::groups::Double;
use crate::masks::{locked_in, overlaps};

/// What was read of a line, by line and cache, before anything is changed.
type Staged = Vec<(usize, usize, u32)>;
/// The line of throttling comes after those of the cache.
const MB: usize = usize::MAX;

/// Writes to a group's `schemata`.
pub(crate) fn write(double: &mut Double, group: usize, text: &str) -> Result<(), Errno> {
    let Some(text) = text.strip_suffix('\n') else { return Err(libc::EINVAL) };
    double.status.clear();
    if double.groups[group].mode == Mode::Locked {
        return double.refuse(libc::EINVAL, "Resource group is pseudo-locked");
    }
    let mut staged = Staged::new();
    for line in text.split('\n') {
        let Some((name, values)) = line.split_once(':') else {
            return double.refuse(libc::EINVAL, "Missing ':'");
        };
        let name = name.trim();
        if values.is_empty() {
            return double.refuse(libc::EINVAL, &format!("Missing '{name}' value"));
        }
        read_line(double, group, name, values, &mut staged)?;
    }
    let setup = double.groups[group].mode == Mode::LockSetup;
    let first = staged.iter().find(|s| s.0 != MB).map(|&(_, cache, mask)| (cache, mask));
    for (line, cache, value) in staged {
        if line == MB {
            double.groups[group].bandwidth[cache] = value;
        } else {
            double.groups[group].masks[line][cache] = value;
        }
    }
    match first {
        Some((cache, mask)) if setup => double.lock(group, cache, mask),
        _ => Ok(()),
    }
}

fn read_line(
    double: &mut Double,
    group: usize,
    name: &str,
    values: &str,
    staged: &mut Staged,
) -> Result<(), Errno> {
    let lines = double.hardware.cache_lines();
    let line = match lines.iter().position(|&l| l == name) {
        Some(line) => line,
        None if name == "MB" && double.hardware.bandwidth.is_some() => MB,
        None => {
            return double
                .refuse(libc::EINVAL, &format!("Unknown or unsupported resource name '{name}'"));
        }
    };
    if double.groups[group].closid >= double.hardware.closids_of(name) {
        return double
            .refuse(libc::EINVAL, &format!("Unknown or unsupported resource name '{name}'"));
    }
    let setup = double.groups[group].mode == Mode::LockSetup;
    if setup && line == MB {
        return double.refuse(libc::EINVAL, "Cannot pseudo-lock MBA resource");
    }
    for part in values.split(';') {
        if part.is_empty() {
            return Ok(());
        }
        let number = part
            .split_once('=')
            .and_then(|(id, value)| Some((id.parse::<u32>().ok()?, value.trim())));
        let Some((id, value)) = number else {
            return double.refuse(libc::EINVAL, "Missing '=' or non-numeric domain");
        };
        // A cache that there is not is refused without a word.
        let Some(cache) = double.hardware.caches.iter().position(|&c| c == id) else {
            return Err(libc::EINVAL);
        };
        if staged.iter().any(|s| s.0 == line && s.1 == cache) {
            return double.refuse(libc::EINVAL, &format!("Duplicate domain {id}"));
        }
        if line == MB {
            let value = bandwidth(double, value)?;
            // The software controller is told at once.
            if double.hardware.bandwidth.is_some_and(|b| b.in_mib) {
                double.groups[group].bandwidth[cache] = value;
            } else {
                staged.push((MB, cache, value));
            }
            continue;
        }
        let mask = mask(double, group, line, cache, value)?;
        staged.push((line, cache, mask));
        if setup {
            return Ok(());
        }
    }
    Ok(())
}

fn bandwidth(double: &mut Double, text: &str) -> Result<u32, Errno> {
    let Some(b) = double.hardware.bandwidth else { return Err(libc::EINVAL) };
    let Ok(value) = text.parse::<u32>() else {
        return double.refuse(libc::EINVAL, &format!("Invalid MB value {text}"));
    };
    if b.in_mib {
        return Ok(value);
    }
    if value < b.least || value > 100 {
        return double
            .refuse(libc::EINVAL, &format!("MB value {value} out of range [{},100]", b.least));
    }
    Ok(value.next_multiple_of(b.step.max(1)))
}

fn mask(
    double: &mut Double,
    group: usize,
    line: usize,
    cache: usize,
    text: &str,
) -> Result<u32, Errno> {
    let mode = double.groups[group].mode;
    if mode == Mode::LockSetup && locked_in(&double.groups, cache) != 0 {
        return double.refuse(libc::EINVAL, "Pseudo-locked region in hierarchy");
    }
    let mask = valid(double, text)?;
    if matches!(mode, Mode::Exclusive | Mode::Shareable)
        && locked_in(&double.groups, cache) & mask != 0
    {
        return double.refuse(libc::EINVAL, "CBM overlaps with pseudo-locked region");
    }
    if overlaps(&double.hardware, &double.groups, group, line, cache, mask, true) {
        return double.refuse(libc::EINVAL, "Overlaps with exclusive group");
    }
    if overlaps(&double.hardware, &double.groups, group, line, cache, mask, false)
        && matches!(mode, Mode::Exclusive | Mode::LockSetup)
    {
        return double.refuse(libc::EINVAL, "Overlaps with other group");
    }
    Ok(mask)
}

/// Is it a mask for this hardware?
fn valid(double: &mut Double, text: &str) -> Result<u32, Errno> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let Ok(value) = u64::from_str_radix(digits, 16) else {
        return double.refuse(libc::EINVAL, &format!("Non-hex character in the mask {text}"));
    };
    let (all, least) = (double.hardware.all_ways(), double.hardware.least_bits);
    let mask = match u32::try_from(value) {
        Ok(mask) if mask <= all && !(least > 0 && mask == 0) => mask,
        _ => return double.refuse(libc::EINVAL, "Mask out of range"),
    };
    // The first run of ones, and what lies beyond it.
    let run = (mask >> mask.trailing_zeros().min(31)).trailing_ones();
    if !double.hardware.sparse && mask.count_ones() != run {
        return double
            .refuse(libc::EINVAL, &format!("The mask {mask:x} has non-consecutive 1-bits"));
    }
    if run < least {
        return double.refuse(libc::EINVAL, &format!("Need at least {least} bits in the mask"));
    }
    Ok(mask)
}
