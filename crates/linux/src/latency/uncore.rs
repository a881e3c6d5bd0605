//! Latency and requests from counters outside the cores.
//!
//! Problem: a chip has several memory controllers, several chips have several of each, and one CPU
//! of each chip may read them.
//! Rule: a recipe ([`super::events`]) is opened on every unit of its name and every CPU of the
//! unit's mask; a reading adds all of them up. Events of a group count in the same stretches of
//! time. If there are more groups than counters, the kernel shares the counters. Each group's
//! counts are then scaled by its enabled time over its running time, as `perf stat` does.
//! Source: maracas, section IV; perf_event_open(2), PERF_FORMAT_GROUP.
//! Does not cover: a load that follows the kernel's rotation of groups (a tick). Only without such
//! a load is the average over groups one over the whole period.

use super::events::{self, Group, Recipe};
use super::pmu::Pmu;
use super::source::{LatencySource, Reading, Unit};
use crate::error::LinuxError;
use crate::sys::{self, PERF_READ_GROUP, PerfAttr, Whom};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Enabled time, running time and counts of a group, since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub enabled: u64,
    pub running: u64,
    pub values: Vec<u64>,
}

/// A group of events that counts.
pub(crate) trait Counter: Send {
    fn read(&mut self) -> io::Result<Count>;
}

/// Opens a group on a CPU: the kernel's function, or a substitute of a test.
pub(crate) type Open<'a> = &'a dyn Fn(&[PerfAttr], u32) -> io::Result<Box<dyn Counter>>;

/// A group that the kernel counts. The first is the leader.
struct Kernel(Vec<OwnedFd>);

impl Counter for Kernel {
    fn read(&mut self) -> io::Result<Count> {
        let leader = self.0.first().ok_or(io::ErrorKind::NotFound)?;
        let (enabled, running, values) = sys::perf_read_group(leader, self.0.len())?;
        Ok(Count { enabled, running, values })
    }
}

fn open_in_kernel(attributes: &[PerfAttr], cpu: u32) -> io::Result<Box<dyn Counter>> {
    let mut group: Vec<OwnedFd> = Vec::new();
    for attr in attributes {
        let attr = PerfAttr { read_format: PERF_READ_GROUP, ..*attr };
        group.push(sys::perf_open_beside(&attr, Whom::Cpu(cpu), group.first())?);
    }
    Ok(Box::new(Kernel(group)))
}

struct Opened {
    counter: Box<dyn Counter>,
    /// The first `occupancy` values are occupancy; the others are requests.
    occupancy: usize,
    last: Count,
    place: String,
}

/// Counters outside the cores.
pub struct Uncore {
    groups: Vec<Opened>,
    recipe: Recipe,
    units: usize,
}

impl Uncore {
    /// The latency, on the CPU that `cpuinfo` describes; `sysfs` is [`super::pmu::SYSFS`].
    ///
    /// # Errors
    /// This machine has no such counters, or they may not be opened.
    pub fn latency(sysfs: &Path, cpuinfo: &str) -> Result<Self, LinuxError> {
        Self::first(&events::latency(cpuinfo)?, sysfs, &open_in_kernel)
    }

    /// The number of requests to memory, by the same rules.
    ///
    /// # Errors
    /// As [`Self::latency`].
    pub fn requests(sysfs: &Path, cpuinfo: &str) -> Result<Self, LinuxError> {
        Self::first(&events::requests(cpuinfo)?, sysfs, &open_in_kernel)
    }

    /// Opens the first recipe with units on this machine.
    pub(crate) fn first(
        recipes: &[Recipe],
        sysfs: &Path,
        open: Open<'_>,
    ) -> Result<Self, LinuxError> {
        for &recipe in recipes {
            let units = Pmu::all(sysfs, recipe.unit)?;
            if !units.is_empty() {
                return Self::open(recipe, &units, open);
            }
        }
        let names: Vec<&str> = recipes.iter().map(|r| r.unit).collect();
        Err(LinuxError::Machine(format!(
            "the kernel shows no counters {} (a virtual machine, or a driver that is not loaded); \
                use --source probe",
            names.join(", ")
        )))
    }

    fn open(recipe: Recipe, units: &[Pmu], open: Open<'_>) -> Result<Self, LinuxError> {
        let mut groups = Vec::new();
        for unit in units {
            for group in recipe.groups {
                let attributes = attributes(unit, group)?;
                for &cpu in &unit.cpus {
                    let place = format!("{} on CPU {cpu}", unit.name);
                    let mut counter =
                        open(&attributes, cpu).map_err(|e| cannot_open(&place, &e))?;
                    let last = checked(counter.read(), attributes.len(), &place)?;
                    groups.push(Opened { counter, occupancy: group.occupancy.len(), last, place });
                }
            }
        }
        Ok(Self { groups, recipe, units: units.len() })
    }
}

/// Attributes of the events of a group, occupancy first.
fn attributes(unit: &Pmu, group: &Group) -> Result<Vec<PerfAttr>, LinuxError> {
    group.occupancy.iter().chain(group.requests).map(|event| unit.encode(event)).collect()
}

fn cannot_open(place: &str, error: &io::Error) -> LinuxError {
    let remedy = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "CAP_PERFMON is missing: run as root, or use --source probe"
        }
        Some(libc::EBUSY | libc::EINVAL) => {
            "the counters may be in use: stop programs that use them (perf, pcm), or use --source \
                probe"
        }
        _ => "use --source probe",
    };
    LinuxError::Machine(format!("{place} cannot be opened: {error}; {remedy}"))
}

fn checked(count: io::Result<Count>, events: usize, place: &str) -> Result<Count, LinuxError> {
    let fail = |what: String| LinuxError::Machine(format!("{place}: {what}; use --source probe"));
    let count = count.map_err(|e| fail(format!("cannot be read: {e}")))?;
    if count.values.len() != events {
        return Err(fail(format!("told {} values in place of {events}", count.values.len())));
    }
    Ok(count)
}

impl Opened {
    /// Occupancy and requests since the last call, scaled to the whole time.
    fn since(&mut self) -> Result<(u64, u64), LinuxError> {
        let now = checked(self.counter.read(), self.last.values.len(), &self.place)?;
        let enabled = now.enabled.saturating_sub(self.last.enabled);
        let running = now.running.saturating_sub(self.last.running);
        if enabled > 0 && running == 0 {
            // The counts are not stored: later counts are scaled by the whole time.
            return Err(LinuxError::Machine(format!(
                "{} did not count for a whole period, because other programs use its counters; \
                stop them, or use --source probe",
                self.place
            )));
        }
        let scaled = |now: u64, last: u64| {
            let counted = u128::from(now.saturating_sub(last));
            let whole = counted * u128::from(enabled.max(1)) / u128::from(running.max(1));
            u64::try_from(whole).unwrap_or(u64::MAX)
        };
        let mut sums = [0u64; 2];
        for (i, (&value, &last)) in now.values.iter().zip(&self.last.values).enumerate() {
            let sum = &mut sums[usize::from(i >= self.occupancy)];
            *sum = sum.saturating_add(scaled(value, last));
        }
        self.last = now;
        Ok((sums[0], sums[1]))
    }
}

impl LatencySource for Uncore {
    fn read(&mut self) -> Result<Reading, LinuxError> {
        let mut reading = Reading {
            dma_included: self.recipe.counts_dma || self.unit() == Unit::Clocks,
            ..Reading::default()
        };
        for group in &mut self.groups {
            let (occupancy, requests) = group.since()?;
            reading.occupancy = reading.occupancy.saturating_add(occupancy);
            reading.requests = reading.requests.saturating_add(requests);
        }
        Ok(reading)
    }

    fn unit(&self) -> Unit {
        if self.recipe.groups.iter().any(|g| !g.occupancy.is_empty()) {
            Unit::Clocks
        } else {
            Unit::Requests
        }
    }

    fn about(&self) -> String {
        format!("{} of {} unit(s) {}", self.recipe.title, self.units, self.recipe.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pmu::tests::make;
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Type, CPU and words of each event of a group.
    type Group = (u32, u32, Vec<[u64; 3]>);

    /// The events of each group, and its next counts.
    #[derive(Clone, Default)]
    struct Machine {
        opened: Arc<Mutex<Vec<Group>>>,
        tells: Arc<Mutex<Vec<Count>>>,
    }

    struct Fake(Machine, usize);

    impl Counter for Fake {
        fn read(&mut self) -> io::Result<Count> {
            self.0
                .tells
                .lock()
                .unwrap()
                .get(self.1)
                .cloned()
                .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        }
    }

    impl Machine {
        fn open(&self, attributes: &[PerfAttr], cpu: u32) -> io::Result<Box<dyn Counter>> {
            let mut opened = self.opened.lock().unwrap();
            let words = attributes.iter().map(|a| [a.config, a.config1, a.config2]).collect();
            opened.push((attributes[0].kind, cpu, words));
            self.tells
                .lock()
                .unwrap()
                .push(Count { values: vec![0; attributes.len()], ..Count::default() });
            Ok(Box::new(Fake(self.clone(), opened.len() - 1)))
        }

        fn tell(&self, group: usize, enabled: u64, running: u64, values: &[u64]) {
            self.tells.lock().unwrap()[group] = Count { enabled, running, values: values.to_vec() };
        }

        fn uncore(&self, recipes: &[Recipe], root: &Path) -> Result<Uncore, LinuxError> {
            Uncore::first(recipes, root, &|attributes, cpu| self.open(attributes, cpu))
        }
    }

    const CLIENT: &[(&str, &str)] = &[
        ("event", "config:0-7"),
        ("umask", "config:8-15"),
        ("edge", "config:18"),
        ("inv", "config:23"),
        ("cmask", "config:24-28"),
    ];

    fn intel(model: u32) -> String {
        format!("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\n")
    }

    #[test]
    fn a_client_has_the_papers_events() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "uncore_arb", 14, "0", CLIENT, &[]);
        let machine = Machine::default();
        let mut uncore =
            machine.uncore(&events::latency(&intel(0x2a)).unwrap(), dir.path()).unwrap();
        assert_eq!(*machine.opened.lock().unwrap(), [(14, 0, vec![[0x180, 0, 0], [0x181, 0, 0]])]);
        // The paper's Figure 3: 10 waiting cycles, 3 requests.
        machine.tell(0, 100, 100, &[10, 3]);
        let reading = uncore.read().unwrap();
        assert_eq!((reading.occupancy, reading.requests, reading.dma_included), (10, 3, true));
        assert_eq!(reading.latency(), Some(10.0 / 3.0));
        assert_eq!(
            (uncore.read().unwrap().requests, uncore.unit()),
            (0, Unit::Clocks),
            "nothing new"
        );
        machine.tell(0, 200, 200, &[11, 4]);
        assert_eq!(uncore.read().unwrap().latency(), Some(1.0), "since the last time");
        assert!(uncore.about().contains("UNC_ARB_TRK_OCCUPANCY.ALL"), "{}", uncore.about());
    }

    #[test]
    fn a_server_adds_up_its_channels_and_chips() {
        let dir = tempfile::tempdir().unwrap();
        for (i, name) in ["uncore_imc_0", "uncore_imc_1"].iter().enumerate() {
            make(dir.path(), name, 40 + i as u32, "0,56", CLIENT, &[]);
        }
        make(dir.path(), "uncore_imc_free_running_0", 99, "0", CLIENT, &[]);
        let machine = Machine::default();
        let mut uncore =
            machine.uncore(&events::latency(&intel(0x8f)).unwrap(), dir.path()).unwrap();
        let opened = machine.opened.lock().unwrap().clone();
        let places: Vec<(u32, u32)> = opened.iter().map(|o| (o.0, o.1)).collect();
        assert_eq!(places, [(40, 0), (40, 56), (41, 0), (41, 56)]);
        assert_eq!(opened[0].2, [[0x80, 0, 0], [0x81, 0, 0], [0x110, 0, 0], [0x210, 0, 0]]);
        for group in 0..4 {
            machine.tell(group, 10, 10, &[100, 200, 2, 1]);
        }
        let reading = uncore.read().unwrap();
        assert_eq!((reading.occupancy, reading.requests), (1200, 12));
    }

    #[test]
    fn groups_that_shared_the_counters_are_scaled() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "uncore_imc_0", 40, "0", CLIENT, &[]);
        let machine = Machine::default();
        let mut uncore =
            machine.uncore(&events::latency(&intel(0xad)).unwrap(), dir.path()).unwrap();
        assert_eq!(machine.opened.lock().unwrap().len(), 2);
        machine.tell(0, 1000, 250, &[100, 100, 10, 10]);
        machine.tell(1, 1000, 750, &[300, 300, 30, 30]);
        let reading = uncore.read().unwrap();
        assert_eq!((reading.occupancy, reading.requests), (4 * 200 + 800, 4 * 20 + 80));
        // A group that did not count at all is not a zero.
        machine.tell(0, 2000, 250, &[100, 100, 10, 10]);
        machine.tell(1, 2000, 1750, &[300, 300, 30, 30]);
        let error = uncore.read().unwrap_err().to_string();
        assert!(error.contains("uncore_imc_0 on CPU 0") && error.contains("; "), "{error}");
    }

    #[test]
    fn counts_near_the_end_of_a_word_saturate() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "uncore_arb", 14, "0", CLIENT, &[]);
        let machine = Machine::default();
        let mut uncore =
            machine.uncore(&events::latency(&intel(0x9e)).unwrap(), dir.path()).unwrap();
        machine.tell(0, u64::MAX, 1, &[u64::MAX, 1]);
        assert_eq!(uncore.read().unwrap().occupancy, u64::MAX);
        // A counter that ran backwards (a fault of the driver) counts as zero.
        machine.tell(0, u64::MAX, 2, &[5, 0]);
        assert_eq!(uncore.read().unwrap().requests, 0);
    }

    #[test]
    fn a_mesh_and_requests_only() {
        let dir = tempfile::tempdir().unwrap();
        let arm = "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        let mesh =
            [("type", "config:0-15"), ("eventid", "config:16-26"), ("occupid", "config:27-30")];
        make(dir.path(), "arm_cmn_0", 8, "3", &mesh, &[]);
        let machine = Machine::default();
        let _ = machine.uncore(&events::latency(arm).unwrap(), dir.path()).unwrap();
        assert_eq!(
            *machine.opened.lock().unwrap(),
            [(8, 3, vec![[0xf_0005, 0, 0], [0x5_0005, 0, 0]])]
        );

        let dir = tempfile::tempdir().unwrap();
        let dmc = [("event", "config2:3-8"), ("clkdiv2", "config2:9")];
        make(dir.path(), "arm_dmc620_10008c000", 9, "", &dmc, &[]);
        make(dir.path(), "arm_dsu_0", 10, "4", &[("event", "config:0-31")], &[]);
        let machine = Machine::default();
        let uncore = machine.uncore(&events::requests(arm).unwrap(), dir.path()).unwrap();
        assert_eq!(*machine.opened.lock().unwrap(), [(9, 0, vec![[0, 0, 0x12 << 3 | 1 << 9]])]);
        assert_eq!(uncore.unit(), Unit::Requests);
        let error =
            machine.uncore(&events::latency(arm).unwrap(), dir.path()).err().unwrap().to_string();
        assert!(error.contains("arm_cmn"), "{error}");

        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "arm_dsu_0", 10, "4", &[("event", "config:0-31")], &[]);
        let machine = Machine::default();
        let mut uncore = machine.uncore(&events::requests(arm).unwrap(), dir.path()).unwrap();
        machine.tell(0, 9, 9, &[7]);
        machine.tell(1, 9, 9, &[5]);
        let reading = uncore.read().unwrap();
        assert_eq!((reading.occupancy, reading.requests, reading.dma_included), (0, 12, false));
        assert_eq!(reading.latency(), None);
    }

    #[test]
    fn what_cannot_be_opened_says_why() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "uncore_arb", 14, "0", CLIENT, &[]);
        let recipes = events::latency(&intel(0x5e)).unwrap();
        let with = |code| {
            let open = move |_: &[PerfAttr], _: u32| Err(io::Error::from_raw_os_error(code));
            Uncore::first(&recipes, dir.path(), &open).err().unwrap().to_string()
        };
        assert!(with(libc::EACCES).contains("CAP_PERFMON"));
        assert!(with(libc::EBUSY).contains("in use"));
        assert!(with(libc::ENODEV).contains("uncore_arb on CPU 0"));
        make(dir.path(), "uncore_arb", 14, "0", &[], &[]);
        std::fs::remove_file(dir.path().join("uncore_arb/format/umask")).unwrap();
        let machine = Machine::default();
        assert!(
            machine
                .uncore(&recipes, dir.path())
                .err()
                .unwrap()
                .to_string()
                .contains("no field `umask`")
        );
    }
}
