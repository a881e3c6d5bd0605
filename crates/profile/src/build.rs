//! From the plugin's counts to a profile.

use crate::elf::Program;
use crate::functions;
use crate::job::Job;
use solocore_cache::contract::{Raw, Region};
use solocore_model::profile::{
    BandwidthSeries, FORMAT, Origin, PageName, PageProfile, Profile, TraceRef, WorkingSet,
};

/// Puts the profile together.
pub fn profile(raw: Raw, job: &Job, program: &Program, exit_code: i32, trace: TraceRef) -> Profile {
    let functions = functions::of(&raw, &program.path);
    let mut pages: Vec<PageProfile> = raw
        .pages
        .iter()
        .enumerate()
        .map(|(frame, p)| PageProfile {
            name: PageName { region: region_name(&raw.regions, p.region), offset: p.offset },
            references: p.references,
            llc_reads: p.llc_reads,
            llc_writes: p.llc_writes,
            lines: p.lines,
            frame: u32::try_from(frame).unwrap_or(u32::MAX),
        })
        .collect();
    solocore_model::profile::by_heat(&mut pages);
    let lines: u64 = pages.iter().map(|p| u64::from(p.lines)).sum();
    let line = job.platform.llc.line.0;
    let touched = pages.iter().filter(|p| p.lines > 0).count() as u64;
    Profile {
        format: FORMAT.to_owned(),
        command: job.command.to_vec(),
        isa: program.isa,
        engine: "qemu".to_owned(),
        platform: job.platform.name.clone(),
        geometry: job.platform.geometry_on(job.core),
        exit_code,
        instructions: raw.counts.instructions,
        loads: raw.counts.loads,
        stores: raw.counts.stores,
        references: raw.counts.loads + raw.counts.stores,
        threads: raw.threads,
        children: raw.children,
        exec: raw.exec,
        private_cycles: raw.counts.private_cycles,
        working_set: WorkingSet { pages: touched, lines, bytes: lines * line },
        lockdown: lockdown_curve(&pages),
        by_ways: raw.counts.by_ways,
        functions,
        bandwidth: BandwidthSeries {
            interval_ns: raw.counts.interval_ns,
            bytes_per_s: raw
                .counts
                .transactions
                .iter()
                .map(|n| per_second(n * line, raw.counts.interval_ns))
                .collect(),
        },
        levels: raw.counts.levels,
        pages,
        trace: Some(trace),
        origin: Origin::default(),
    }
}

/// Residual DRAM accesses with the 0, 1, 2, ... hottest pages locked.
pub(crate) fn lockdown_curve(pages: &[PageProfile]) -> Vec<u64> {
    let mut left: u64 = pages.iter().map(PageProfile::llc_accesses).sum();
    let mut curve = vec![left];
    for page in pages.iter().take_while(|p| p.llc_accesses() > 0) {
        left -= page.llc_accesses();
        curve.push(left);
    }
    curve
}

fn region_name(regions: &[Region], index: u32) -> String {
    regions.get(index as usize).map_or_else(|| "unknown".to_owned(), |r| r.name.clone())
}

fn per_second(bytes: u64, interval_ns: u64) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(interval_ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}
