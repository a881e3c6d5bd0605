//! What several tests of plans need.

use solocore_model::Platform;
use solocore_model::profile::{BandwidthSeries, FORMAT, Origin, Profile, WorkingSet};

/// A program that only computes, for this number of cycles a job.
pub fn computing(cycles: u64, p: &Platform) -> Profile {
    Profile {
        format: FORMAT.to_owned(),
        command: vec!["a".to_owned()],
        isa: p.isa,
        engine: "qemu".to_owned(),
        platform: p.name.clone(),
        geometry: p.geometry(),
        exit_code: 0,
        instructions: 1,
        loads: 1,
        stores: 1,
        references: 2,
        threads: 1,
        children: 0,
        exec: None,
        levels: Vec::new(),
        private_cycles: cycles,
        working_set: WorkingSet { pages: 0, lines: 0, bytes: 0 },
        lockdown: vec![0],
        by_ways: vec![0],
        pages: Vec::new(),
        functions: Vec::new(),
        bandwidth: BandwidthSeries::default(),
        trace: None,
        origin: Origin::default(),
    }
}
