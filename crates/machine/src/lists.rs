//! Lists of CPUs as the kernel writes them: `0-3,6`.
//!
//! Problem: a list from a file may name four thousand million CPUs in a few bytes. Rule: a list
//! with a number above those of the largest machines is not a list. Source:
//! Documentation/admin-guide/kernel-parameters.rst, "cpu lists". Does not cover: groups within
//! ranges (`0-10:1/2`), which no file of sysfs has.

/// Largest number of CPUs that is accepted.
const MOST: u32 = 8192;

/// The numbers of a list, in order, each once. `None`: it is not a list, or names too many.
pub fn parse(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        numbers.extend(first..=last);
        if numbers.len() > 4 * MOST as usize {
            return None;
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    Some(numbers)
}

/// The list that [`parse`] reads; the numbers are in order.
pub fn show(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let range = |&(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_are_shown() {
        for text in ["", "0", "0-3", "0-3,6", "1,3,5-7"] {
            assert_eq!(show(&parse(text).unwrap()), text);
        }
        assert_eq!(parse(" 2,0-1,1\n"), Some(vec![0, 1, 2]));
        for wrong in ["x", "3-1", "0-", "-1", "0-99999999999", "0-9999", "1 2"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
