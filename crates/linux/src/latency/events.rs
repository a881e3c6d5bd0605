//! Counters outside the cores that give the latency of memory, by CPU.
//!
//! Problem: occupancy (requests waiting, summed over clocks) and the number of requests have other
//! names and numbers on every generation, and many machines count only the requests.
//! Rule: a [`Recipe`] names a unit and groups of events; the events of a group count in the same
//! stretches of time, so that occupancy / requests of a group is a latency (Little's law). Recipes
//! without occupancy only tell how many requests there were, for the rate rule. A machine without a
//! fitting recipe gets none: nothing is guessed from the numbers of a related machine.
//! Source: maracas, section IV (UNC_ARB_TRK_*); Intel's event lists (github.com/intel/perfmon, by
//! family and model; as of August 2026); drivers/perf/arm-cmn.c, arm_dsu_pmu.c, arm_dmc620_pmu.c
//! and tools/perf/pmu-events (amdzen4, arm/cmn) of Linux.
//! Does not cover: clients from Ice Lake (7D, 7E) and Meteor Lake on, and Alder Lake N. Their lists
//! have no occupancy of the arbiter that its counters could take together with the requests. Nor
//! servers from Ivy Bridge to Broadwell (their lists count no occupancy of the read queue), memory
//! on the package (MCHBM) and persistent memory. Latency from the DMC-620 is not covered: its queue
//! depth needs a multiplier (`incr`) that its driver does not explain. Nor is latency on AMD, where
//! the memory controllers count commands, not waiting. None of these recipes has been tried on
//! hardware by its authors; the encodings are tested on copies of the kernel's files.

use crate::error::LinuxError;

/// The events to count, and their unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Description for people, by the vendor's names.
    pub title: &'static str,
    /// The unit's name without its number.
    pub unit: &'static str,
    /// Events that count together.
    pub groups: &'static [Group],
    /// Whether requests of devices are counted, too. (They lengthen a latency in any case.)
    pub counts_dma: bool,
}

/// Events that are counted in the same stretches of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Occupancy: waiting requests, summed over clocks.
    pub occupancy: &'static [&'static str],
    /// Requests; the occupancy is divided by their sum.
    pub requests: &'static [&'static str],
}

/// The arbiter's tracker of client CPUs: from the miss of the last level to the data.
const ARB: Recipe = Recipe {
    title: "UNC_ARB_TRK_OCCUPANCY.ALL / UNC_ARB_TRK_REQUESTS.ALL",
    unit: "uncore_arb",
    groups: &[Group { occupancy: &["event=0x80,umask=0x1"], requests: &["event=0x81,umask=0x1"] }],
    // "initiated by IA cores, processor graphics units, or LLC"
    counts_dma: false,
};
/// The read queue of a memory channel.
const RPQ: Recipe = Recipe {
    title: "UNC_M_RPQ_OCCUPANCY / UNC_M_RPQ_INSERTS",
    unit: "uncore_imc",
    groups: &[Group { occupancy: &["event=0x80"], requests: &["event=0x10"] }],
    counts_dma: true,
};
/// The same with two pseudo channels.
const RPQ_PCH: Recipe = Recipe {
    title: "UNC_M_RPQ_OCCUPANCY_PCH0, 1 / UNC_M_RPQ_INSERTS.PCH0, 1",
    unit: "uncore_imc",
    groups: &[Group {
        occupancy: &["event=0x80", "event=0x81"],
        requests: &["event=0x10,umask=0x1", "event=0x10,umask=0x2"],
    }],
    counts_dma: true,
};
/// The same with two subchannels of two pseudo channels: a group each, because there are four
/// counters.
const RPQ_SCH: Recipe = Recipe {
    title: "UNC_M_RPQ_OCCUPANCY_SCHx_PCHy / UNC_M_RPQ_INSERTS.SCHx_PCHy",
    unit: "uncore_imc",
    groups: &[
        Group {
            occupancy: &["event=0x80", "event=0x81"],
            requests: &["event=0x10,umask=0x10", "event=0x10,umask=0x20"],
        },
        Group {
            occupancy: &["event=0x82", "event=0x83"],
            requests: &["event=0x10,umask=0x40", "event=0x10,umask=0x80"],
        },
    ],
    counts_dma: true,
};

/// A recipe of requests only: one group without occupancy.
macro_rules! requests {
    ($title:literal, $unit:literal, $dma:literal, $($event:literal),+) => {
        Recipe {
            title: $title,
            unit: $unit,
            groups: &[$(Group { occupancy: &[], requests: &[$event] }),+],
            counts_dma: $dma,
        }
    };
}

const CAS: Recipe = requests!("UNC_M_CAS_COUNT.ALL", "uncore_imc", true, "event=0x4,umask=0xf");
const CAS_ICX: Recipe =
    requests!("UNC_M_CAS_COUNT.ALL", "uncore_imc", true, "event=0x4,umask=0x3f");
const CAS_SPR: Recipe =
    requests!("UNC_M_CAS_COUNT.ALL", "uncore_imc", true, "event=0x5,umask=0xff");
const CAS_SCH: Recipe = requests!(
    "UNC_M_CAS_COUNT_SCH0.ALL, SCH1.ALL",
    "uncore_imc",
    true,
    "event=0x5,umask=0xff",
    "event=0x6,umask=0xff"
);
const ARB_REQUESTS: Recipe =
    requests!("UNC_ARB_TRK_REQUESTS.ALL", "uncore_arb", false, "event=0x81,umask=0x1");

/// A generation of Intel's CPUs: models of family 6, the recipe for latency, the recipe for
/// requests.
type Generation = (&'static [u32], Option<Recipe>, Option<Recipe>);

const INTEL: &[Generation] = &[
    // Sandy and Ivy Bridge, Haswell, Broadwell, Skylake to Comet Lake, Tiger Lake, Rocket Lake,
    // Alder and Raptor Lake.
    (
        &[
            0x2a, 0x3a, 0x3c, 0x45, 0x46, 0x3d, 0x47, 0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6, 0x8c,
            0x8d, 0xa7, 0x97, 0x9a, 0xb7, 0xba, 0xbf,
        ],
        Some(ARB),
        Some(ARB_REQUESTS),
    ),
    // Ice Lake clients: requests only.
    (&[0x7d, 0x7e], None, Some(ARB_REQUESTS)),
    // Jaketown; Skylake and Cascade Lake servers.
    (&[0x2d, 0x55], Some(RPQ), Some(CAS)),
    // Ivytown; Haswell and Broadwell servers, Broadwell-DE.
    (&[0x3e, 0x3f, 0x4f, 0x56], None, Some(CAS)),
    // Ice Lake servers, Snow Ridge.
    (&[0x6a, 0x6c, 0x86], Some(RPQ_PCH), Some(CAS_ICX)),
    // Sapphire and Emerald Rapids.
    (&[0x8f, 0xcf], Some(RPQ_PCH), Some(CAS_SPR)),
    // Granite Rapids, Sierra Forest, Grand Ridge, Clearwater Forest.
    (&[0xad, 0xae, 0xaf, 0xb6, 0xdd], Some(RPQ_SCH), Some(CAS_SCH)),
];

/// AMD from Zen 4 on, where the kernel has the memory controllers' units.
const UMC: Recipe = requests!("umc_cas_cmd.all", "amd_umc", true, "event=0x0a");

/// Arm's mesh: requests at its home nodes, those that its own cache answers included.
const CMN: Recipe = Recipe {
    title: "hnf_qos_pocq_occupancy_all / hnf_pocq_reqs_recvd (hits of the system-level cache \
        included)",
    unit: "arm_cmn",
    groups: &[Group {
        occupancy: &["type=0x5,eventid=0xf,occupid=0x0"],
        requests: &["type=0x5,eventid=0x5"],
    }],
    counts_dma: true,
};
/// Requests from the mesh to memory, beside its latency.
const CMN_REQUESTS: Recipe = requests!("hnf_mc_reqs", "arm_cmn", true, "type=0x5,eventid=0xd");
const DMC_620: Recipe = requests!("clkdiv2_rdwr", "arm_dmc620", true, "event=0x12,clkdiv2=0x1");
const DSU: Recipe =
    requests!("l3d_cache_refill, l3d_cache_wb", "arm_dsu", false, "event=0x2a", "event=0x2c");

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let line =
        cpuinfo.lines().find(|l| l.split(':').next().is_some_and(|key| key.trim() == name))?;
    Some(line.split_once(':')?.1.trim())
}

/// Intel's generation; `Err` with the model if it is unknown.
fn intel(cpuinfo: &str) -> Result<&'static Generation, String> {
    let number = |name| field(cpuinfo, name).and_then(|t| t.parse::<u32>().ok()).unwrap_or(0);
    let (family, model) = (number("cpu family"), number("model"));
    let found = INTEL.iter().find(|(models, ..)| family == 6 && models.contains(&model));
    found.ok_or_else(|| format!("Intel family {family} model {model:#x}"))
}

fn none(what: &str) -> LinuxError {
    LinuxError::Machine(format!(
        "the table of uncore events has none for {what}; use --source probe"
    ))
}

/// Recipes for the latency on the CPU that `cpuinfo` describes, the best first.
///
/// # Errors
/// There is none for this CPU.
pub fn latency(cpuinfo: &str) -> Result<Vec<Recipe>, LinuxError> {
    match field(cpuinfo, "vendor_id") {
        Some("GenuineIntel") => match intel(cpuinfo) {
            Ok((_, Some(recipe), _)) => Ok(vec![*recipe]),
            Ok(_) => Err(none("the latency on this generation, only requests")),
            Err(model) => Err(none(&format!("the latency on {model}"))),
        },
        Some("AuthenticAMD") => {
            Err(none("the latency on AMD: memory controllers there count commands, not waiting"))
        }
        _ if field(cpuinfo, "CPU implementer").is_some() => Ok(vec![CMN]),
        _ => Err(none("the latency on this CPU")),
    }
}

/// Recipes for the number of requests, the best first.
///
/// # Errors
/// There is none for this CPU.
pub fn requests(cpuinfo: &str) -> Result<Vec<Recipe>, LinuxError> {
    match field(cpuinfo, "vendor_id") {
        Some("GenuineIntel") => match intel(cpuinfo) {
            Ok((.., Some(recipe))) => Ok(vec![*recipe]),
            Ok(_) => Err(none("requests on this generation")),
            Err(model) => Err(none(&format!("requests on {model}"))),
        },
        Some("AuthenticAMD") => Ok(vec![UMC]),
        _ if field(cpuinfo, "CPU implementer").is_some() => Ok(vec![CMN_REQUESTS, DMC_620, DSU]),
        _ => Err(none("requests on this CPU")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intel_model(model: u32) -> String {
        format!("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\n")
    }

    #[test]
    fn a_model_is_in_one_generation() {
        let mut all: Vec<u32> =
            INTEL.iter().flat_map(|(models, ..)| models.iter().copied()).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn recipes_fit_the_cpu() {
        let unit = |cpu: &str| latency(cpu).map(|r| (r[0].unit, r[0].groups.len()));
        assert_eq!(unit(&intel_model(0x2a)), Ok(("uncore_arb", 1)));
        assert_eq!(unit(&intel_model(0x9e)), Ok(("uncore_arb", 1)));
        assert_eq!(unit(&intel_model(0x55)), Ok(("uncore_imc", 1)));
        assert_eq!(latency(&intel_model(0x8f)).unwrap()[0], RPQ_PCH);
        assert_eq!(unit(&intel_model(0xad)), Ok(("uncore_imc", 2)));
        let arm = "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(unit(arm), Ok(("arm_cmn", 1)));
        let amd = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\n";
        assert_eq!(requests(amd).unwrap()[0].unit, "amd_umc");
        assert_eq!(requests(&intel_model(0x7e)).unwrap()[0].unit, "uncore_arb");
        for (cpu, word) in [
            (intel_model(0x7e), "only requests"),
            (intel_model(0x4f), "only requests"),
            (intel_model(0xffff), "model 0xffff"),
            (amd.to_owned(), "AMD"),
            (String::new(), "this CPU"),
        ] {
            let error = latency(&cpu).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("--source probe"), "{error}");
        }
        assert!(requests("").is_err() && requests(&intel_model(0xffff)).is_err());
    }

    #[test]
    fn a_latency_has_both_parts_and_fits_four_counters() {
        for recipe in INTEL.iter().filter_map(|g| g.1).chain([CMN]) {
            for group in recipe.groups {
                assert!(
                    !group.occupancy.is_empty() && !group.requests.is_empty(),
                    "{}",
                    recipe.title
                );
                assert!(group.occupancy.len() + group.requests.len() <= 4, "{}", recipe.title);
            }
        }
        for recipe in INTEL.iter().filter_map(|g| g.2).chain([UMC, CMN_REQUESTS, DMC_620, DSU]) {
            assert!(
                recipe.groups.iter().all(|g| g.occupancy.is_empty() && g.requests.len() == 1),
                "{}",
                recipe.title
            );
        }
    }
}
