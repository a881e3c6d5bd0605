//! `solocore bench pool`: the cost of a page of a coloured pool.

use super::output::{Cost, Output, show};
use crate::fail::Failure;
use serde::Serialize;
use solocore_model::Bytes;
use solocore_space::backing::Pool;
use solocore_space::lists::Lists;
use solocore_space::map::{Choice, Map};
use solocore_space::objects::Objects;
use std::hint::black_box;
use std::process::ExitCode;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Memory of the pool.
    #[arg(long, value_name = "SIZE", default_value = "64 MiB")]
    memory: Bytes,
    /// Pairs of get and put in a run; mmap and munmap are called a twentieth of this number of
    /// times.
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    requests: u32,
    /// Runs; the median counts. Short ones are seldom interrupted.
    #[arg(long, value_name = "N", default_value_t = 301, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Output,
}

#[derive(Serialize)]
struct Report {
    format: &'static str,
    /// Whether the frames are those of this machine, not made-up ones.
    real_frames: bool,
    memory_bytes: u64,
    rows: Vec<Cost>,
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let bytes = usize::try_from(args.memory.0).ok().filter(|b| (8 << 20..1 << 40).contains(b));
    let bytes = bytes.ok_or_else(|| {
        Failure::Input(
            "--memory: the pool is too small or too large; give from 8 MiB to 1 TiB".into(),
        )
    })?;
    let choices = thirds();
    // Where frames are hidden, or there is less memory, the same lists have made-up frames.
    let pool = Pool::new(bytes, true, &choices).ok();
    let real_frames = pool.is_some();
    if !real_frames {
        eprintln!(
            "solocore: note: frames are hidden or memory is short, so frame numbers are invented; \
            run it as root for real frames"
        );
    }
    let mut rows = Vec::new();
    let mut measure = |what: &'static str, count: u32, work: &mut dyn FnMut(u32)| {
        rows.push(Cost::of(what, (args.runs, count), work));
    };
    if let Some(mut pool) = pool {
        measure("page with its address: get and put", args.requests, &mut |n| {
            for _ in 0..n {
                if let Ok(page) = pool.get(0) {
                    black_box(page.address);
                    let _ = pool.put(page);
                }
            }
        });
    }
    let frames: Vec<u64> = (0..(bytes / 4096) as u64).collect();
    let mut lists =
        Lists::new(choices.len(), &frames, |frame| choices.iter().position(|c| c.allows(frame)));
    measure("page: get and put", args.requests, &mut |n| {
        for _ in 0..n {
            if let Ok(block) = lists.get(0, 0) {
                let _ = lists.put(black_box(block));
            }
        }
    });
    measure("page: a thousand got, then put, per pair", args.requests, &mut |n| {
        let mut got = Vec::with_capacity(1000);
        for _ in 0..n / 1000 {
            got.extend((0..1000).map_while(|_| lists.get(2, 0).ok()));
            got.drain(..).for_each(|block| drop(lists.put(block)));
        }
    });
    measure("block of 8 pages: get and put", args.requests, &mut |n| {
        for _ in 0..n {
            if let Ok(block) = lists.get(0, 3) {
                let _ = lists.put(black_box(block));
            }
        }
    });
    let mut objects = Objects::default();
    let kept = objects.get(&mut lists, 1, 64).ok();
    measure("object of 64 bytes: get and put", args.requests, &mut |n| {
        for _ in 0..n {
            if let Ok(object) = objects.get(&mut lists, 1, 64) {
                let _ = objects.put(&mut lists, black_box(object));
            }
        }
    });
    black_box(kept);
    measure("mmap, a write and munmap of a page", args.requests / 20, &mut |n| {
        (0..n).for_each(|_| plain_page())
    });
    let table: Vec<Vec<String>> =
        std::iter::once(["what", "ns, median", "ns, least"].map(str::to_owned).to_vec())
            .chain(rows.iter().map(|r| {
                vec![r.what.to_owned(), format!("{:.1}", r.ns), format!("{:.1}", r.least_ns)]
            }))
            .collect();
    let report =
        Report { format: "solocore-bench-pool/1", real_frames, memory_bytes: args.memory.0, rows };
    show(args.format, &report, &table, "")
}

/// Three lists: two cores with eight colours each, and level C with sixteen.
fn thirds() -> Vec<Choice> {
    let map = Map {
        colours: (12..17).map(|bit| 1 << bit).collect(),
        banks: Vec::new(),
        slices: Vec::new(),
    };
    [0..8, 8..16, 16..32u32]
        .into_iter()
        .filter_map(|colours| Choice::new(&map, Some(&colours.collect::<Vec<_>>()), None).ok())
        .collect()
}

/// Cost of a page without a pool.
fn plain_page() {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh page, which is written to, read by no other code, and unmapped.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), 4096, rights, flags, -1, 0);
        if page != libc::MAP_FAILED {
            page.cast::<u8>().write_volatile(1);
            libc::munmap(page, 4096);
        }
    }
}
