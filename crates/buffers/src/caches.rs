//! Sizes of this machine's caches, according to the kernel.

use std::fs;
use std::path::Path;

/// Sizes in bytes; 0: the kernel does not give it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Caches {
    /// Size of the largest private cache.
    pub private_bytes: u64,
    /// Size of the last cache, which cores share.
    pub shared_bytes: u64,
    /// Ways of that cache.
    pub shared_ways: u32,
}

/// A size like `2048K` or `105M`, in bytes.
fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// Caches that a CPU uses, from a directory like /sys/devices/system/cpu/cpu0/cache.
#[must_use]
pub fn read(directory: &Path) -> Caches {
    let mut caches = Caches::default();
    let text = |index: usize, file: &str| {
        fs::read_to_string(directory.join(format!("index{index}")).join(file)).ok()
    };
    let mut levels: Vec<(u32, u64, u32)> = (0..8)
        .filter(|&i| text(i, "type").is_some_and(|t| t.trim() != "Instruction"))
        .filter_map(|i| {
            let ways =
                text(i, "ways_of_associativity").and_then(|w| w.trim().parse().ok()).unwrap_or(0);
            Some((text(i, "level")?.trim().parse().ok()?, size(&text(i, "size")?)?, ways))
        })
        .collect();
    levels.sort_unstable();
    if let Some((_, bytes, ways)) = levels.pop() {
        (caches.shared_bytes, caches.shared_ways) = (bytes, ways);
    }
    caches.private_bytes = levels.pop().map_or(0, |l| l.1);
    caches
}

/// Caches of the first CPU.
#[must_use]
pub fn here() -> Caches {
    read(Path::new("/sys/devices/system/cpu/cpu0/cache"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_level_is_the_shared_one() {
        let dir = tempfile::tempdir().unwrap();
        let caches = [
            ("1", "Data", "48K", "12"),
            ("1", "Instruction", "32K", "8"),
            ("2", "Unified", "2048K", "16"),
            ("3", "Unified", "105M", "15"),
        ];
        for (i, (level, kind, size, ways)) in caches.into_iter().enumerate() {
            let index = dir.path().join(format!("index{i}"));
            fs::create_dir(&index).unwrap();
            for (file, text) in
                [("level", level), ("type", kind), ("size", size), ("ways_of_associativity", ways)]
            {
                fs::write(index.join(file), format!("{text}\n")).unwrap();
            }
        }
        let expected = Caches { private_bytes: 2 << 20, shared_bytes: 105 << 20, shared_ways: 15 };
        assert_eq!(read(dir.path()), expected);
        assert_eq!(read(Path::new("/nonexistent")), Caches::default());
        assert_eq!((size("x"), size("K"), size("17")), (None, None, Some(17)));
    }
}
