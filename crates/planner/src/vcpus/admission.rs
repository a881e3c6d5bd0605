//! The core of each VCPU, and the admission test.
//!
//! Problem: a VCPU is admitted where every VCPU of the core still has its capacity in each period.
//! Rule: the admission test and the placement of [`super`], the same as on Linux.
//! Does not cover: tasks inside the VCPUs.

use solocore_analysis::task_set::SporadicTask;
use solocore_analysis::uniprocessor::plain;
use solocore_model::vcpus::Vcpus;

/// A server with its capacity: a VCPU by number, or the best-effort VCPU of its core.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// `None`: best effort, which comes first among equal periods.
    pub vcpu: Option<usize>,
    pub capacity_ns: u64,
    pub period_ns: u64,
}

/// The claims of a core, highest rate first, and the time by which each has its capacity.
pub struct Admission {
    pub claims: Vec<Claim>,
    pub responses: Vec<Option<u64>>,
}

impl Admission {
    pub fn of(mut claims: Vec<Claim>, overhead_ns: u64) -> Self {
        claims.sort_by_key(|c| (c.period_ns, c.vcpu));
        let tasks: Vec<SporadicTask> = claims
            .iter()
            .map(|c| SporadicTask {
                wcet: c.capacity_ns.saturating_add(overhead_ns),
                period: c.period_ns,
                deadline: c.period_ns,
            })
            .collect();
        Self { responses: plain::response_times(&tasks), claims }
    }

    pub fn fits(&self) -> bool {
        self.claims.iter().zip(&self.responses).all(|(c, r)| r.is_some_and(|r| r <= c.period_ns))
    }

    pub fn response(&self, vcpu: Option<usize>) -> Option<u64> {
        self.claims.iter().position(|c| c.vcpu == vcpu).and_then(|at| self.responses[at])
    }

    /// Sum of the claims, each with its overhead.
    pub fn load(&self, overhead_ns: u64) -> f64 {
        self.claims.iter().map(|c| (c.capacity_ns + overhead_ns) as f64 / c.period_ns as f64).sum()
    }
}

/// The VCPUs and their cores.
pub struct Placed<'a> {
    pub vcpus: &'a Vcpus,
    pub overhead_ns: u64,
    /// By VCPU.
    pub core: Vec<Option<u32>>,
}

impl Placed<'_> {
    fn claim(&self, vcpu: usize) -> Claim {
        let v = &self.vcpus.vcpus[vcpu];
        Claim { vcpu: Some(vcpu), capacity_ns: v.capacity_ns, period_ns: v.period_ns }
    }

    /// The VCPUs of a core, and optionally one more.
    pub fn admission(&self, core: u32, more: Option<usize>) -> Admission {
        let best = self.vcpus.settings.best_effort;
        let best = Claim {
            vcpu: None,
            capacity_ns: best.capacity.ns_ceil(),
            period_ns: best.period.ns_ceil(),
        };
        let there = (0..self.core.len()).filter(|&v| self.core[v] == Some(core) && Some(v) != more);
        let claims = there.chain(more).map(|v| self.claim(v)).chain([best]).collect();
        Admission::of(claims, self.overhead_ns)
    }

    fn colours_fit(&self, core: u32, more: usize) -> bool {
        let Some(have) = &self.vcpus.settings.core_colours else { return true };
        let there = (0..self.core.len()).filter(|&v| self.core[v] == Some(core)).chain([more]);
        there.map(|v| self.vcpus.vcpus[v].colours).fold(0, u64::saturating_add) <= have.of(core)
    }

    /// Worst fit, heaviest first; where no core admits a VCPU, the core with the least utilisation.
    pub fn place(&mut self, cores: u32) {
        let load = |v: usize| {
            self.vcpus.vcpus[v].capacity_ns as f64 / self.vcpus.vcpus[v].period_ns as f64
        };
        let mut open: Vec<usize> =
            (0..self.core.len()).filter(|&v| self.core[v].is_none()).collect();
        open.sort_by(|&a, &b| load(b).total_cmp(&load(a)).then(a.cmp(&b)));
        for vcpu in open {
            let mut order: Vec<(f64, u32)> =
                (0..cores).map(|c| (self.admission(c, None).load(self.overhead_ns), c)).collect();
            order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let fits = |&&(_, c): &&(f64, u32)| {
                self.colours_fit(c, vcpu) && self.admission(c, Some(vcpu)).fits()
            };
            let core = order.iter().find(fits).or(order.first()).map_or(0, |o| o.1);
            self.core[vcpu] = Some(core);
        }
    }
}
