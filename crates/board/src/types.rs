//! The board's types of cores, stated in the guest.
//!
//! Problem: all vCPUs have one model of CPU and one time stamp counter, so no file of the guest's
//! kernel has their types or clocks. Rule: each type has a folder `/board/types/N` with its name,
//! its CPUs and its clock in Hz, as real machines have counter units and cpufreq.
//! `solocore platform detect` reads them (crates/machine/src/stated.rs). A type without a CPU of
//! the guest is left out. Does not cover: cycles per instruction and miss registers; no real
//! machine states them either.

use crate::image::{HOME, Image};
use solocore_model::Platform;
use std::path::PathBuf;

/// Adds the folders of the types of a board with this number of CPUs.
pub fn add(image: &mut Image, platform: &Platform, cpus: u32) {
    let all = PathBuf::from(format!("{HOME}/types"));
    for (at, kind) in platform.core_types.iter().enumerate() {
        let mut own: Vec<u32> = kind.cores.iter().copied().filter(|&core| core < cpus).collect();
        if own.is_empty() {
            continue;
        }
        own.sort_unstable();
        let list: Vec<String> = own.iter().map(u32::to_string).collect();
        let folder = all.join(at.to_string());
        image.new_directory(&all);
        image.new_directory(&folder);
        for (name, text) in [
            ("name", kind.name.clone()),
            ("cpus", list.join(",")),
            ("hz", kind.frequency.0.to_string()),
        ] {
            image.make(folder.join(name), format!("{text}\n"), 0o644);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initramfs::Entry;
    use solocore_model::Frequency;
    use solocore_model::platform::CoreType;
    use std::path::Path;

    /// Breaks when a type is stated with CPUs that the guest lacks, or with another's clock.
    #[test]
    fn each_type_has_its_cpus_and_its_clock() {
        let mut platform = Platform::find("p4080", Path::new(".")).unwrap();
        let kind = |name: &str, cores: &[u32], mhz: u64| {
            CoreType::of_clock(name, cores.to_vec(), Frequency(mhz * 1_000_000))
        };
        platform.core_types =
            vec![kind("big", &[2, 0], 1500), kind("little", &[3, 1], 800), kind("far", &[7], 800)];
        let mut image = Image::default();
        add(&mut image, &platform, 3);
        let text = |path: &str| match image.tree().get(Path::new(path)) {
            Some(Entry::Made { bytes, .. }) => String::from_utf8(bytes.clone()).unwrap(),
            other => format!("{other:?}"),
        };
        assert_eq!(text("/board/types/0/cpus"), "0,2\n");
        assert_eq!(text("/board/types/1/cpus"), "1\n");
        assert_eq!(text("/board/types/1/hz"), "800000000\n");
        assert_eq!(text("/board/types/0/name"), "big\n");
        assert!(image.tree().get(Path::new("/board/types/2")).is_none());
        let mut none = Image::default();
        platform.core_types.clear();
        add(&mut none, &platform, 3);
        assert!(none.tree().is_empty(), "a board without types states none");
    }
}
