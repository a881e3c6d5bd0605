//! Content of `/proc/cpuinfo`, for every architecture.
//!
//! Problem: its keys differ between architectures, and some stand once for all CPUs. Rule: a line
//! `processor : N` begins a CPU; keys before the first or after a blank line without one are common
//! to all. Does not cover: facts that sysfs gives better (topology, caches).

use solocore_model::platform::Isa;
use std::collections::BTreeMap;

/// Its path.
pub const PATH: &str = "proc/cpuinfo";

type Fields = BTreeMap<String, String>;

/// Keys and values by CPU.
#[derive(Clone, Debug, Default)]
pub struct CpuInfo {
    cpus: BTreeMap<u32, Fields>,
    common: Fields,
}

impl CpuInfo {
    /// Reads the text; lines without a key and a value are left out.
    pub fn parse(text: &str) -> Self {
        let mut all = Self::default();
        let mut cpu = None;
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                cpu = None;
                continue;
            };
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            if key == "processor"
                && let Ok(id) = value.parse()
            {
                cpu = Some(id);
                all.cpus.entry(id).or_default();
                continue;
            }
            let fields = cpu.and_then(|id| all.cpus.get_mut(&id)).unwrap_or(&mut all.common);
            fields.entry(key).or_insert(value);
        }
        all
    }

    /// The CPUs that it names.
    pub fn cpus(&self) -> Vec<u32> {
        self.cpus.keys().copied().collect()
    }

    /// A value of a CPU, or one that is common to all.
    pub fn of(&self, cpu: u32, key: &str) -> Option<&str> {
        let own = self.cpus.get(&cpu).and_then(|fields| fields.get(key));
        own.or_else(|| self.common.get(key)).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// A value of the first CPU that has it.
    pub fn any(&self, key: &str) -> Option<&str> {
        let own = self.cpus.values().find_map(|fields| fields.get(key));
        own.or_else(|| self.common.get(key)).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// Has the first CPU this flag?
    pub fn flag(&self, flag: &str) -> bool {
        self.any("flags").is_some_and(|flags| flags.split_whitespace().any(|f| f == flag))
    }

    /// Is it one of Intel's?
    pub fn intel(&self) -> bool {
        self.any("vendor_id") == Some("GenuineIntel")
    }

    /// Is it of the x86 family?
    pub fn x86(&self) -> bool {
        self.any("vendor_id").is_some() && self.any("flags").is_some()
    }

    /// Arm's implementer and part, as in the register MIDR_EL1.
    pub fn part(&self, cpu: u32) -> Option<(u32, u32)> {
        let hex = |key| {
            let digits = self.of(cpu, key)?.trim_start_matches("0x");
            u32::from_str_radix(digits, 16).ok()
        };
        Some((hex("CPU implementer")?, hex("CPU part")?))
    }

    /// The instruction set, by a key that only its kernel writes.
    pub fn isa(&self) -> Option<Isa> {
        if self.x86() {
            return Some(if self.flag("lm") { Isa::X86_64 } else { Isa::I386 });
        }
        if let Some(isa) = self.any("isa") {
            return isa.starts_with("rv64").then_some(Isa::Riscv64);
        }
        // A 32-bit kernel on a 64-bit CPU writes 8 as well; there, /proc/sys/kernel/arch decides.
        let architecture = self.any("CPU architecture")?;
        Some(if architecture.starts_with('8') { Isa::Aarch64 } else { Isa::Arm })
    }
}

/// The instruction set by the kernel's name of it.
pub fn isa_of_kernel(arch: &str) -> Option<Isa> {
    Some(match arch {
        "x86_64" => Isa::X86_64,
        "i386" | "i486" | "i586" | "i686" => Isa::I386,
        "aarch64" => Isa::Aarch64,
        "ppc" => Isa::Powerpc,
        "ppc64" => Isa::Powerpc64,
        "ppc64le" => Isa::Powerpc64le,
        "riscv64" => Isa::Riscv64,
        arm if arm.starts_with("arm") => Isa::Arm,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_belong_to_a_cpu_or_to_all() {
        let info = CpuInfo::parse(
            "processor\t: 0\nCPU part\t: 0xd08\nCPU implementer\t: 0x41\n\nprocessor\t: 1\nCPU \
                part\t: 0xd03\n\nHardware\t: BCM2835\nModel\t: Pi\n",
        );
        assert_eq!(info.cpus(), [0, 1]);
        assert_eq!(info.part(0), Some((0x41, 0xd08)));
        assert_eq!(info.part(1), None);
        assert_eq!(info.of(1, "Model"), Some("Pi"));
        assert_eq!(info.any("CPU part"), Some("0xd08"));
    }

    #[test]
    fn the_instruction_set_is_told_by_its_keys() {
        for (text, isa) in [
            ("processor: 0\nvendor_id: GenuineIntel\nflags: fpu lm\n", Some(Isa::X86_64)),
            ("processor: 0\nvendor_id: GenuineIntel\nflags: fpu\n", Some(Isa::I386)),
            ("processor: 0\nCPU architecture: 8\n", Some(Isa::Aarch64)),
            ("processor: 0\nCPU architecture: 7\n", Some(Isa::Arm)),
            ("processor: 0\nisa: rv64imafdc\n", Some(Isa::Riscv64)),
            ("garbage", None),
        ] {
            assert_eq!(CpuInfo::parse(text).isa(), isa, "{text}");
        }
        assert_eq!(isa_of_kernel("armv7l"), Some(Isa::Arm));
        assert_eq!(isa_of_kernel("vax"), None);
    }
}
