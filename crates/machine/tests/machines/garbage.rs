//! Files with any content: no panic, and either a file that plans can use, or an error with the
//! place.

use super::fixtures::{self, Machine, all};
use solocore_machine::file;
use solocore_model::Platform;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Every regular file below a directory, in order.
fn files(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { left.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next().to_le_bytes()[3]).collect()
    }
}

/// Contents that a file gets in place of its own.
fn mutants(original: &[u8], random: &mut Numbers) -> Vec<Vec<u8>> {
    let cut = usize::try_from(random.next()).unwrap_or(0) % (original.len() + 1);
    let mut flipped = original.to_vec();
    for _ in 0..3 {
        let at = usize::try_from(random.next() % original.len().max(1) as u64).unwrap();
        if let Some(byte) = flipped.get_mut(at) {
            *byte ^= 1 << (random.next() % 8);
        }
    }
    let mut all: Vec<Vec<u8>> = [
        "",
        "0",
        "1",
        "3",
        "-1",
        "18446744073709551615",
        "99999999999999999999",
        "4294967295",
        "0-8191",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    all.extend([
        original[..cut].to_vec(),
        flipped,
        random.bytes(64),
        vec![0; 300],
        vec![0xff; 300],
    ]);
    all.push(b"0K\nMemTotal: 18446744073709551615 kB\nprocessor: 4294967295\n".to_vec());
    all.push(b"MemTotal: 18014398509481983 kB\n".to_vec());
    all.push(original.repeat(2));
    all
}

/// The content is described, or refused in one line.
fn judge(machine: &Machine, what: &str) {
    match machine.describe(None) {
        Ok(found) => {
            let text = file(&found);
            let read = Platform::parse(Path::new("m.toml"), &text);
            assert_eq!(read.unwrap_or_else(|e| panic!("{what}: {e}")), found.platform, "{what}");
            solocore_planner::memory::of(&found.platform).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(": ") && !text.contains('\n'), "{what}: {text}");
        }
    }
}

#[test]
fn every_file_may_hold_anything() {
    let mut random = Numbers(0x9e37_79b9_7f4a_7c15);
    // A file that an earlier machine has as well, or an earlier CPU, is read in the same way.
    let mut seen = BTreeSet::new();
    for (name, machine) in all() {
        for path in files(machine.path()) {
            let shown = path.strip_prefix(machine.path()).unwrap().display().to_string();
            if !seen.insert(shown.replace(|c: char| c.is_ascii_digit(), "")) {
                continue;
            }
            let original = std::fs::read(&path).unwrap();
            for (n, mutant) in mutants(&original, &mut random).into_iter().enumerate() {
                std::fs::write(&path, mutant).unwrap();
                judge(&machine, &format!("{name}: {shown}, mutant {n}"));
            }
            std::fs::remove_file(&path).unwrap();
            judge(&machine, &format!("{name}: {shown}, removed"));
            std::fs::write(&path, original).unwrap();
        }
    }
    assert!(seen.len() > 40, "{} kinds of files", seen.len());
}

/// The same number in the same file of every CPU, so that no other CPU gives a right one.
#[test]
fn every_cpu_may_say_the_same_nonsense() {
    for name in ["level", "size", "ways_of_associativity", "number_of_sets", "coherency_line_size"]
    {
        let machine = fixtures::desktop();
        for value in
            ["0", "1", "7", "63", "1000000", "18446744073709551615", "9223372036854775808K"]
        {
            for (cpu, index) in (0..4).flat_map(|cpu| (0..4).map(move |index| (cpu, index))) {
                let path = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}");
                machine.put(&path, value);
            }
            judge(&machine, &format!("{name} = {value}"));
        }
    }
}

#[test]
fn endless_and_odd_files_are_left_alone() {
    let machine = fixtures::desktop();
    let dmi = machine.path().join("sys/firmware/dmi/tables/DMI");
    // Sparse: it uses no space on the disk.
    File::options().write(true).open(&dmi).unwrap().set_len(1 << 34).unwrap();
    let found = machine.described();
    let said: Vec<String> = found.notes.iter().map(|n| n.line()).collect();
    assert!(said.iter().any(|s| s.contains("tables/DMI: longer than 16 MiB")), "{said:?}");
    std::fs::remove_file(&dmi).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &dmi).unwrap();
    assert!(machine.described().facts.iter().all(|f| f.key != "dram.module"));
    let meminfo = machine.path().join("proc/meminfo");
    std::fs::remove_file(&meminfo).unwrap();
    std::fs::create_dir(&meminfo).unwrap();
    judge(&machine, "a directory in place of a file");
}
