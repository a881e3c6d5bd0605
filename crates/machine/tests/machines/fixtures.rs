//! Directories of the form that `collect` writes, of machines that are not available here.
//!
//! Made up from the machines' data sheets and from the output of kernels; not copies of real ones.

use solocore_machine::{Description, MachineError, Root, describe};
use std::fmt::Write;
use std::path::Path;

/// A root that is removed at the end of its test.
pub struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory") }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        std::fs::write(path, content).expect("written");
        self
    }

    pub fn remove(&self, path: &str) -> &Self {
        let path = self.path().join(path);
        if path.is_dir() {
            std::fs::remove_dir_all(path).expect("removed");
        } else {
            std::fs::remove_file(path).expect("removed");
        }
        self
    }

    pub fn root(&self) -> Root {
        Root::collected(self.path()).expect("a root")
    }

    pub fn describe(&self, cpus: Option<&[u32]>) -> Result<Description, MachineError> {
        describe(&self.root(), cpus)
    }

    pub fn described(&self) -> Description {
        self.describe(None).unwrap_or_else(|e| panic!("{e}"))
    }

    fn cpus(&self, online: &str) -> &Self {
        self.put("sys/devices/system/cpu/online", format!("{online}\n"))
            .put("sys/devices/system/cpu/possible", format!("{online}\n"))
    }

    fn cpu(&self, cpu: u32, package: u32, siblings: &str) -> &Self {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        self.put(&format!("{dir}/physical_package_id"), format!("{package}\n"))
            .put(&format!("{dir}/thread_siblings_list"), format!("{siblings}\n"))
    }

    /// A cache with size in KiB, ways and sets.
    fn cache(&self, cpu: u32, index: u32, shape: (&str, &str, u64, u64, u64), shared: &str) {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
        let (level, kind, kib, ways, sets) = shape;
        for (name, value) in [
            ("level", level.to_owned()),
            ("type", kind.to_owned()),
            ("size", format!("{kib}K")),
            ("ways_of_associativity", ways.to_string()),
            ("number_of_sets", sets.to_string()),
            ("coherency_line_size", "64".to_owned()),
            ("shared_cpu_list", shared.to_owned()),
        ] {
            self.put(&format!("{dir}/{name}"), format!("{value}\n"));
        }
    }

    /// One memory, with four-KiB pages.
    fn memory(&self, kib: u64) -> &Self {
        self.put("proc/meminfo", format!("MemTotal:       {kib} kB\nMemFree:  1 kB\n"))
            .put("sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152\n")
    }

    fn x86(&self, cpus: u32, name: &str, flags: &str) -> &Self {
        let mut text = String::new();
        for cpu in 0..cpus {
            let _ = writeln!(
                text,
                "processor\t: {cpu}\nvendor_id\t: GenuineIntel\nmodel name\t: {name}\ncpu \
                    MHz\t\t: 1600.123\nflags\t\t: fpu lm {flags}\nbogomips\t: 6600.00\n"
            );
        }
        self.put("proc/cpuinfo", text).put("proc/sys/kernel/arch", "x86_64\n")
    }

    fn arm(&self, parts: &[u32]) -> &Self {
        let mut text = String::new();
        for (cpu, part) in parts.iter().enumerate() {
            let _ = writeln!(
                text,
                "processor\t: {cpu}\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: \
                    {part:#x}\n"
            );
        }
        self.put("proc/cpuinfo", text).put("proc/sys/kernel/arch", "aarch64\n")
    }
}

/// A structure of an SMBIOS table, with its strings.
fn structure(kind: u8, handle: u8, body: &[u8], strings: &[&str]) -> Vec<u8> {
    let length = u8::try_from(body.len() + 4).expect("short");
    let mut out = vec![kind, length, handle, 0];
    out.extend(body);
    for text in strings {
        out.extend(text.as_bytes());
        out.push(0);
    }
    out.extend(if strings.is_empty() { &[0, 0][..] } else { &[0] });
    out
}

/// A table with modules: locator, type, MiB, MT/s, ranks.
pub fn dmi(modules: &[(&str, u8, u16, u16, u8)]) -> Vec<u8> {
    // System memory in the mother board (DSP0134, section 7.17).
    let mut table = structure(16, 1, &[3, 3, 3, 0, 0, 0, 0, 0xfe, 0xff, 4, 0], &[]);
    for (n, &(locator, kind, mib, speed, ranks)) in modules.iter().enumerate() {
        let mut body = vec![0; 0x54 - 4];
        body[0] = 1;
        body[0x0c - 4..0x0e - 4].copy_from_slice(&mib.to_le_bytes());
        body[0x10 - 4] = 1;
        body[0x12 - 4] = kind;
        body[0x15 - 4..0x17 - 4].copy_from_slice(&speed.to_le_bytes());
        body[0x1b - 4] = ranks;
        body[0x20 - 4..0x22 - 4].copy_from_slice(&speed.to_le_bytes());
        table.extend(structure(17, 2 + u8::try_from(n).expect("few"), &body, &[locator]));
    }
    table.extend(structure(127, 99, &[], &[]));
    table
}

/// The EEPROM of a module of DDR4-2400R: 8 GiB, one rank of eight chips (JEDEC 21-C, Annex L).
pub fn ddr4_module() -> Vec<u8> {
    let mut rom = vec![0; 512];
    let set: [(usize, &[u8]); 4] = [
        (0, &[0x23, 0x11, 0x0c, 0x02, 0x85, 0x21, 0, 8, 0, 0x60, 0, 3, 1, 3]),
        (18, &[0x07, 0x0d, 0xfc, 0x2b, 0, 0, 0x6b, 0x6b, 0x6b, 0x11, 0]),
        (121, &[0xca, 0xca, 0xca, 0, 0xd6]),
        (126, &[0x53, 0xb5]),
    ];
    for (at, bytes) in set {
        rom[at..at + bytes.len()].copy_from_slice(bytes);
    }
    rom
}

/// Two modules of one rank in one channel, as the desktop of the MARACAS paper.
pub fn desktop() -> Machine {
    let machine = Machine::new();
    machine.x86(4, "Intel(R) Core(TM) i5-2500K CPU @ 3.30GHz", "").cpus("0-3").memory(8_130_000);
    for cpu in 0..4 {
        let own = cpu.to_string();
        machine.cpu(cpu, 0, &own);
        machine.cache(cpu, 0, ("1", "Data", 32, 8, 64), &own);
        machine.cache(cpu, 1, ("1", "Instruction", 32, 8, 64), &own);
        machine.cache(cpu, 2, ("2", "Unified", 256, 8, 512), &own);
        machine.cache(cpu, 3, ("3", "Unified", 6144, 12, 8192), "0-3");
        let dir = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq");
        machine.put(&format!("{dir}/cpuinfo_max_freq"), "3700000\n");
        machine.put(&format!("{dir}/scaling_governor"), "powersave\n");
    }
    let module = |place| (place, 0x18, 4096, 1333, 1);
    let table = dmi(&[module("ChannelA-DIMM0"), module("ChannelA-DIMM1")]);
    machine.put("sys/firmware/dmi/tables/DMI", table);
    machine
}

/// A Raspberry Pi 4 with an older kernel: no cache has a size anywhere.
pub fn raspberry() -> Machine {
    let machine = Machine::new();
    machine.arm(&[0xd08; 4]).cpus("0-3").memory(3_884_360);
    machine.put("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4\0");
    machine.put("proc/device-tree/compatible", "raspberrypi,4-model-b\0brcm,bcm2711\0");
    for cpu in 0..4 {
        machine.cpu(cpu, 0, &cpu.to_string());
        let dir = format!("sys/devices/system/cpu/cpu{cpu}");
        machine.put(&format!("{dir}/cpufreq/cpuinfo_max_freq"), "1500000\n");
        machine.put(&format!("{dir}/cpufreq/scaling_governor"), "performance\n");
        machine.put(&format!("{dir}/cpu_capacity"), "1024\n");
        let node = format!("proc/device-tree/cpus/cpu@{cpu}");
        machine.put(&format!("{node}/device_type"), "cpu\0");
        machine.put(&format!("{node}/reg"), cpu.to_be_bytes());
    }
    machine
}

/// The same with a device tree that states its caches, as of Linux 6.1.
pub fn raspberry_with_tree() -> Machine {
    let machine = raspberry();
    let cell = |path: String, value: u32| {
        machine.put(&path, value.to_be_bytes());
    };
    for cpu in 0..4 {
        let node = format!("proc/device-tree/cpus/cpu@{cpu}");
        for (name, value) in [
            ("d-cache-size", 0x8000),
            ("d-cache-line-size", 64),
            ("d-cache-sets", 256),
            ("i-cache-size", 0xc000),
            ("i-cache-line-size", 64),
            ("i-cache-sets", 256),
            ("next-level-cache", 5),
        ] {
            cell(format!("{node}/{name}"), value);
        }
    }
    let cache = "proc/device-tree/cpus/l2-cache0";
    machine.put(&format!("{cache}/compatible"), "cache\0");
    for (name, value) in [
        ("phandle", 5),
        ("cache-level", 2),
        ("cache-size", 0x10_0000),
        ("cache-line-size", 64),
        ("cache-sets", 1024),
    ] {
        cell(format!("{cache}/{name}"), value);
    }
    machine
}

/// Four cores with two threads each, and eight small ones in clusters of four.
pub fn hybrid() -> Machine {
    let machine = Machine::new();
    machine.x86(16, "12th Gen Intel(R) Core(TM) i7-12650X", "").cpus("0-15").memory(16_100_000);
    machine.put("sys/devices/cpu_core/cpus", "0-7\n").put("sys/devices/cpu_atom/cpus", "8-15\n");
    for cpu in 0..16 {
        let small = cpu >= 8;
        let pair = format!("{}-{}", cpu & !1, cpu | 1);
        let own = if small { cpu.to_string() } else { pair.clone() };
        let second = if small { format!("{}-{}", cpu & !3, cpu | 3) } else { pair };
        machine.cpu(cpu, 0, &own);
        let (data, code) = if small {
            (("1", "Data", 32, 8, 64), ("1", "Instruction", 64, 8, 128))
        } else {
            (("1", "Data", 48, 12, 64), ("1", "Instruction", 32, 8, 64))
        };
        machine.cache(cpu, 0, data, &own);
        machine.cache(cpu, 1, code, &own);
        let size = if small { (2048, 16) } else { (1280, 10) };
        machine.cache(cpu, 2, ("2", "Unified", size.0, size.1, 2048), &second);
        machine.cache(cpu, 3, ("3", "Unified", 20480, 10, 32768), "0-15");
        let base = if small { "1800000\n" } else { "2700000\n" };
        machine.put(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/base_frequency"), base);
    }
    let module = |place| (place, 0x22, 8192, 4800, 1);
    let table = dmi(&[module("Controller0-ChannelA-DIMM0"), module("Controller1-ChannelA-DIMM0")]);
    machine.put("sys/firmware/dmi/tables/DMI", table);
    machine
}

/// Two sockets of eight cores, a node each, with masks of ways.
pub fn server() -> Machine {
    let machine = Machine::new();
    machine
        .x86(16, "Intel(R) Xeon(R) Test CPU @ 2.00GHz", "cat_l3")
        .cpus("0-15")
        .memory(131_000_000);
    for cpu in 0..16 {
        let (own, socket) = (cpu.to_string(), cpu / 8);
        machine.cpu(cpu, socket, &own);
        machine.cache(cpu, 0, ("1", "Data", 32, 8, 64), &own);
        machine.cache(cpu, 1, ("1", "Instruction", 32, 8, 64), &own);
        machine.cache(cpu, 2, ("2", "Unified", 1024, 16, 1024), &own);
        let shared = format!("{}-{}", socket * 8, socket * 8 + 7);
        machine.cache(cpu, 3, ("3", "Unified", 11264, 11, 16384), &shared);
    }
    for node in 0..2 {
        let dir = format!("sys/devices/system/node/node{node}");
        machine.put(&format!("{dir}/cpulist"), format!("{}-{}\n", node * 8, node * 8 + 7));
        machine.put(&format!("{dir}/meminfo"), format!("Node {node} MemTotal: 65500000 kB\n"));
    }
    for (name, value) in [
        ("cbm_mask", "7ff"),
        ("min_cbm_bits", "1"),
        ("num_closids", "16"),
        ("shareable_bits", "600"),
    ] {
        machine.put(&format!("sys/fs/resctrl/info/L3/{name}"), format!("{value}\n"));
    }
    let places = ["CPU1_DIMM_A1", "CPU1_DIMM_B1", "CPU2_DIMM_A1", "CPU2_DIMM_B1"];
    let modules: Vec<_> = places.iter().map(|place| (*place, 0x1a, 0x7000, 2666, 2)).collect();
    machine.put("sys/firmware/dmi/tables/DMI", dmi(&modules));
    machine
}

/// Four small cores and two large ones, each with a cache of their own.
pub fn big_little() -> Machine {
    let machine = Machine::new();
    machine.arm(&[0xd03, 0xd03, 0xd03, 0xd03, 0xd08, 0xd08]).cpus("0-5").memory(3_900_000);
    machine.put("proc/device-tree/model", "Test board RK3399\0");
    for cpu in 0..6 {
        let large = cpu >= 4;
        let own = cpu.to_string();
        machine.cpu(cpu, u32::from(large), &own);
        machine.put(
            &format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity"),
            if large { "1024\n" } else { "485\n" },
        );
        let code =
            if large { ("1", "Instruction", 48, 3, 256) } else { ("1", "Instruction", 32, 2, 256) };
        let data = if large { ("1", "Data", 32, 2, 256) } else { ("1", "Data", 32, 4, 128) };
        machine.cache(cpu, 0, data, &own);
        machine.cache(cpu, 1, code, &own);
        let (kib, sets, shared) = if large { (1024, 1024, "4-5") } else { (512, 512, "0-3") };
        machine.cache(cpu, 2, ("2", "Unified", kib, 16, sets), shared);
        let khz = if large { "1800000\n" } else { "1416000\n" };
        machine.put(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq"), khz);
    }
    machine
}

/// Four small cores and four large ones behind one shared cache.
pub fn shared_types() -> Machine {
    let machine = Machine::new();
    machine.arm(&[0xd05, 0xd05, 0xd05, 0xd05, 0xd0b, 0xd0b, 0xd0b, 0xd0b]);
    machine.cpus("0-7").memory(3_900_000);
    machine.put("proc/device-tree/model", "Test board RK3588\0");
    for cpu in 0..8 {
        let large = cpu >= 4;
        let own = cpu.to_string();
        machine.cpu(cpu, 0, &own);
        machine.put(
            &format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity"),
            if large { "1024\n" } else { "414\n" },
        );
        let (sets, second) = if large { (256, 512) } else { (128, 128) };
        machine.cache(cpu, 0, ("1", "Data", sets / 4, 4, sets), &own);
        machine.cache(cpu, 1, ("1", "Instruction", sets / 4, 4, sets), &own);
        machine.cache(cpu, 2, ("2", "Unified", second, 8, second * 2), &own);
        machine.cache(cpu, 3, ("3", "Unified", 2048, 16, 2048), "0-7");
        let khz = if large { "2400000\n" } else { "1800000\n" };
        machine.put(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq"), khz);
    }
    machine
}

/// A desktop's container without sysfs.
pub fn container() -> Machine {
    let machine = desktop();
    machine.remove("sys");
    machine
}

/// Every fixture that has a description, by name.
pub fn all() -> Vec<(&'static str, Machine)> {
    vec![
        ("desktop", desktop()),
        ("raspberry", raspberry()),
        ("raspberry_with_tree", raspberry_with_tree()),
        ("hybrid", hybrid()),
        ("server", server()),
        ("big_little", big_little()),
        ("shared_types", shared_types()),
    ]
}
