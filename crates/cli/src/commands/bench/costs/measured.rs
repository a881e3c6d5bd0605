//! Costs as they were measured.

use serde::Serialize;
use solocore_buffers::median::Median;

/// A cost that was measured.
#[derive(Debug, Serialize)]
pub struct Entry {
    pub name: &'static str,
    /// Share of the time, cores, or bytes per second, as in `[levels.costs]`.
    pub median: f64,
    /// The median of all such samples lies between these, with 95 % confidence.
    pub low: f64,
    pub high: f64,
    /// The least and the largest sample.
    pub least: f64,
    pub most: f64,
    pub repetitions: usize,
    #[serde(skip)]
    pub is_bandwidth: bool,
}

/// A cost that was not, and why.
#[derive(Debug, Serialize)]
pub struct Left {
    pub name: &'static str,
    pub why: String,
}

/// All costs.
#[derive(Debug, Default, Serialize)]
pub struct Costs {
    pub costs: Vec<Entry>,
    pub left: Vec<Left>,
    pub notes: Vec<String>,
}

impl Costs {
    /// Samples of a share, or of a number of cores.
    pub fn shares(&mut self, name: &'static str, samples: Vec<f64>) {
        self.add(name, samples, false);
    }

    /// Samples of a bandwidth, bytes per second.
    pub fn bandwidth(&mut self, name: &'static str, samples: Vec<f64>) {
        self.add(name, samples, true);
    }

    /// A cost that cannot be measured here.
    pub fn leave(&mut self, name: &'static str, why: &str) {
        self.left.push(Left { name, why: why.to_owned() });
    }

    fn add(&mut self, name: &'static str, mut samples: Vec<f64>, is_bandwidth: bool) {
        samples.retain(|sample| sample.is_finite());
        let least = samples.iter().copied().reduce(f64::min);
        let most = samples.iter().copied().reduce(f64::max);
        let (Some(found), Some((least, most))) = (Median::of(samples), least.zip(most)) else {
            return self.leave(name, "the clock is too coarse for it");
        };
        self.costs.push(Entry {
            name,
            median: found.value,
            low: found.low,
            high: found.high,
            least,
            most,
            repetitions: found.samples,
            is_bandwidth,
        });
    }
}

/// Result of the command.
#[derive(Serialize)]
pub struct Outcome {
    pub format: &'static str,
    pub cpu: u32,
    pub other_cpus: Vec<u32>,
    pub repetitions: u32,
    pub message_bytes: u32,
    /// Memory that the job reads.
    pub memory_bytes: u64,
    #[serde(flatten)]
    pub costs: Costs,
}
