//! Made-up recorded programs: files that `solocore profile` would have written of these accesses.

use solocore_cache::trace::{Access, Encoder, Kind};
use solocore_model::Platform;
use solocore_model::profile::{
    BandwidthSeries, FORMAT, Origin, PageName, PageProfile, Profile, TraceRef, WorkingSet,
};
use std::path::{Path, PathBuf};

/// Writes profile and trace of a program that makes these accesses to its first `pages` pages and
/// computes for `rest` cycles more. Misses by ways are left out.
pub fn write(
    accesses: &[Access],
    pages: u32,
    rest: u64,
    platform: &Platform,
    dir: &Path,
    name: &str,
) -> (PathBuf, Profile) {
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    accesses.iter().for_each(|a| encoder.push(*a, &mut out).unwrap());
    let records = encoder.finish(&mut out).unwrap();
    let path = dir.join(format!("{name}.json"));
    let trace = solocore_profile::trace_path(&path);
    std::fs::write(&trace, &out).unwrap();
    let cycles = accesses.last().map_or(0, |a| a.at_cycles);
    let lines = u64::from(platform.lines_per_page());
    let rows = rows(accesses, pages, platform);
    let mut lockdown = vec![rows.iter().map(PageProfile::llc_accesses).sum::<u64>()];
    for row in &rows {
        lockdown.push(lockdown.last().unwrap() - row.llc_accesses());
    }
    let profile = Profile {
        format: FORMAT.to_owned(),
        command: vec![name.to_owned()],
        isa: platform.isa,
        engine: "made up".to_owned(),
        platform: platform.name.clone(),
        geometry: platform.geometry(),
        exit_code: 0,
        instructions: cycles,
        loads: 0,
        stores: 0,
        references: 0,
        threads: 1,
        children: 0,
        exec: None,
        levels: Vec::new(),
        private_cycles: cycles + rest,
        working_set: WorkingSet {
            pages: u64::from(pages),
            lines: u64::from(pages) * lines,
            bytes: 0,
        },
        lockdown,
        by_ways: Vec::new(),
        pages: rows,
        functions: Vec::new(),
        bandwidth: BandwidthSeries::default(),
        trace: Some(TraceRef {
            file: trace.file_name().map(PathBuf::from).unwrap(),
            records,
            cycles,
            truncated: false,
        }),
        origin: Origin::default(),
    };
    solocore_model::files::write_json(&path, &profile).unwrap();
    (path, profile)
}

/// Accesses by page, the hottest first.
fn rows(accesses: &[Access], pages: u32, platform: &Platform) -> Vec<PageProfile> {
    let lines = u64::from(platform.lines_per_page());
    let row = |frame: u32| {
        let count = |kind: Kind| {
            accesses.iter().filter(|a| a.line / lines == u64::from(frame) && a.kind == kind).count()
                as u64
        };
        let (llc_reads, llc_writes) = (count(Kind::Read), count(Kind::Write));
        PageProfile {
            name: PageName { region: "heap".to_owned(), offset: u64::from(frame) },
            references: llc_reads + llc_writes,
            llc_reads,
            llc_writes,
            lines: platform.lines_per_page(),
            frame,
        }
    };
    let mut rows: Vec<PageProfile> = (0..pages).map(row).collect();
    rows.sort_by_key(|p| std::cmp::Reverse(p.llc_accesses()));
    rows
}
