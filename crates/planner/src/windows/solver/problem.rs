//! An instance as the solvers see it: activities with periods and durations in whole ticks, and the
//! resources that they share.
//!
//! The tick is the greatest common divisor of all times. It loses no solution: all rules bound
//! differences of offsets by multiples of the tick, so rounding every offset of a valid table down
//! to whole ticks leaves it valid.

pub use solocore_model::windows::table::Stage;
use solocore_model::windows::{Chain, Transfer, WindowsInput};

/// The resource that an activity occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its partition's core.
    Core,
    /// The I/O core.
    Io,
    /// A device, by index.
    Device(usize),
}

/// One strictly periodic activity.
#[derive(Clone, Copy, Debug)]
pub struct Activity {
    /// Index of its partition.
    pub part: usize,
    /// Index of its chain within the partition; none for processing.
    pub chain: Option<usize>,
    /// Stage of the chain.
    pub stage: Stage,
    /// Index of its period among [`Problem::periods`].
    pub class: usize,
    /// Period in ticks.
    pub period: i64,
    /// Duration in ticks, margin included.
    pub dur: i64,
    /// The resource that it occupies.
    pub place: Place,
}

/// A chain's activities, by index.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Physical input and device input.
    pub input: Option<[usize; 2]>,
    /// Device output and physical output.
    pub output: Option<[usize; 2]>,
    /// Most ticks from the start of the first to the end of the last.
    pub age: i64,
}

/// A partition's activities.
#[derive(Clone, Debug)]
pub struct Part {
    /// Period in ticks.
    pub period: i64,
    /// Index of its processing; its chains' activities follow.
    pub proc: usize,
    /// One past its last activity.
    pub end: usize,
    /// Core, where it is given.
    pub core: Option<usize>,
    /// Chains.
    pub links: Vec<Link>,
}

/// The compiled instance.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Nanoseconds in a tick.
    pub tick_ns: u64,
    /// Cores for processing.
    pub cores: usize,
    /// Devices.
    pub devices: usize,
    /// Partitions in file order.
    pub parts: Vec<Part>,
    /// Activities, partition by partition.
    pub acts: Vec<Activity>,
    /// Distinct periods in ticks, ascending.
    pub periods: Vec<i64>,
    /// Name of each partition, for messages.
    names: Vec<String>,
    /// Name of each device, for messages.
    device_names: Vec<String>,
}

/// Offsets that obey all rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// Core of each partition.
    pub core: Vec<usize>,
    /// Start of each activity in ticks.
    pub offset: Vec<i64>,
}

/// Greatest common divisor.
pub fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Problem {
    /// Compiles an instance.
    pub fn new(instance: &WindowsInput) -> Self {
        let mut problem = Self {
            tick_ns: 1,
            cores: instance.cores as usize,
            devices: instance.devices.len(),
            parts: Vec::new(),
            acts: Vec::new(),
            periods: Vec::new(),
            names: instance.partitions.iter().map(|p| p.name.clone()).collect(),
            device_names: instance.devices.iter().map(|d| d.name.clone()).collect(),
        };
        for p in &instance.partitions {
            let (part, proc, period) =
                (problem.parts.len(), problem.acts.len(), signed(p.period_ns));
            let dur = signed(p.duration_ns + instance.margin.processing_ns);
            let act = Activity {
                part,
                chain: None,
                stage: Stage::Processing,
                class: 0,
                period,
                dur,
                place: Place::Core,
            };
            problem.acts.push(act);
            let links =
                (0..).zip(&p.chains).map(|(k, c)| problem.link(instance, act, k, c)).collect();
            let core = p.core.map(|c| c as usize);
            problem.parts.push(Part { period, proc, end: problem.acts.len(), core, links });
        }
        problem.scale();
        problem
    }

    fn link(&mut self, instance: &WindowsInput, proc: Activity, chain: usize, c: &Chain) -> Link {
        let mut half = |t: Transfer, stages: [Stage; 2]| {
            let dur = |s: Stage| match s {
                Stage::PhysicalInput | Stage::PhysicalOutput => {
                    (signed(t.physical_ns + instance.margin.physical_ns), Place::Device(t.device))
                }
                _ => (signed(t.transfer_ns + instance.margin.device_ns), Place::Io),
            };
            stages.map(|stage| {
                let (dur, place) = dur(stage);
                self.acts.push(Activity { chain: Some(chain), stage, dur, place, ..proc });
                self.acts.len() - 1
            })
        };
        let input = c.input.map(|t| half(t, [Stage::PhysicalInput, Stage::DeviceInput]));
        let output = c.output.map(|t| half(t, [Stage::DeviceOutput, Stage::PhysicalOutput]));
        Link { input, output, age: signed(c.age_ns) }
    }

    /// Divides everything by the tick, and sorts periods into classes.
    fn scale(&mut self) {
        let times = self.acts.iter().flat_map(|a| [a.period, a.dur]);
        let ages = self.parts.iter().flat_map(|p| p.links.iter().map(|l| l.age));
        let tick = times.chain(ages).fold(0, gcd).max(1);
        self.tick_ns = tick.unsigned_abs();
        for p in &mut self.parts {
            p.period /= tick;
            p.links.iter_mut().for_each(|l| l.age /= tick);
        }
        let mut periods: Vec<i64> = self.parts.iter().map(|p| p.period).collect();
        periods.sort_unstable();
        periods.dedup();
        for a in &mut self.acts {
            a.period /= tick;
            a.dur /= tick;
            a.class = periods.partition_point(|p| *p < a.period);
        }
        self.periods = periods;
    }

    /// Resources: cores, then the I/O core, then devices.
    pub fn resources(&self) -> usize {
        self.cores + 1 + self.devices
    }

    /// The resource of an activity whose partition is on `core`.
    pub fn resource(&self, act: usize, core: usize) -> usize {
        match self.acts[act].place {
            Place::Core => core,
            Place::Io => self.cores,
            Place::Device(d) => self.cores + 1 + d,
        }
    }

    /// The resource where it is known beforehand.
    pub fn known_resource(&self, act: usize) -> Option<usize> {
        match (self.acts[act].place, self.parts[self.acts[act].part].core) {
            (Place::Core, None) => None,
            (_, core) => Some(self.resource(act, core.unwrap_or(0))),
        }
    }

    /// Name of a resource, for messages.
    pub fn resource_name(&self, resource: usize) -> String {
        match resource.checked_sub(self.cores) {
            None => format!("core {resource}"),
            Some(0) => "the I/O core".to_owned(),
            Some(d) => format!("device `{}`", self.device_names[d - 1]),
        }
    }

    /// Name of an activity, for messages.
    pub fn name(&self, act: usize) -> String {
        let a = &self.acts[act];
        let part = &self.names[a.part];
        match a.chain {
            None => format!("`{part}`"),
            Some(k) if self.parts[a.part].links.len() == 1 => {
                let _ = k;
                format!("{} of `{part}`", a.stage.name())
            }
            Some(k) => format!("{} of `{part}` (chain {})", a.stage.name(), k + 1),
        }
    }

    /// Name of a partition, for messages.
    pub fn part_name(&self, part: usize) -> &str {
        &self.names[part]
    }

    /// A time in ticks as text.
    pub fn time(&self, ticks: i64) -> String {
        solocore_model::windows::time(ticks.unsigned_abs() * self.tick_ns).to_string()
    }

    /// Does a solution obey all rules? Pair by pair, by the closed form.
    pub fn holds(&self, s: &Solution) -> bool {
        let mut on: Vec<Vec<usize>> = vec![Vec::new(); self.resources()];
        for (i, a) in self.acts.iter().enumerate() {
            on[self.resource(i, s.core[a.part])].push(i);
        }
        let apart = |i: usize, j: usize| {
            let (a, b) = (&self.acts[i], &self.acts[j]);
            let g = gcd(a.period, b.period);
            let d = (s.offset[j] - s.offset[i]).rem_euclid(g);
            a.dur <= d && d <= g - b.dur
        };
        let cores =
            self.parts.iter().zip(&s.core).all(|(p, c)| p.core.is_none_or(|fixed| fixed == *c));
        cores
            && on.iter().all(|acts| {
                acts.iter().enumerate().all(|(n, &i)| acts[..n].iter().all(|&j| apart(i, j)))
            })
            && self.parts.iter().all(|p| p.links.iter().all(|l| self.link_holds(p, l, s)))
    }

    fn link_holds(&self, part: &Part, link: &Link, s: &Solution) -> bool {
        let path = link.activities(part.proc);
        let ordered =
            path.windows(2).all(|w| s.offset[w[0]] + self.acts[w[0]].dur <= s.offset[w[1]]);
        let (first, last) = (path[0], path[path.len() - 1]);
        ordered && s.offset[last] + self.acts[last].dur - s.offset[first] <= link.age
    }
}

impl Link {
    /// Its activities in the order of precedence.
    pub fn activities(&self, proc: usize) -> Vec<usize> {
        let input = self.input.into_iter().flatten();
        input.chain([proc]).chain(self.output.into_iter().flatten()).collect()
    }
}

/// Times are at most some days of nanoseconds, checked when read.
fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
