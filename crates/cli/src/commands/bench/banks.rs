//! `solocore bench banks`: tests whether rows of one DRAM bank delay each other.
//!
//! Rule: pairs of lines that the map puts into one bank, and pairs of two banks, are read in turn
//! past the caches. A difference counts if a pair of one bank is slower than one of two in four
//! cases of five, and by three in a hundred.
//! Source: single-core-equivalence 2.3 (PALLOC: private banks).

use super::output::{Output, above, median, show};
use crate::fail::Failure;
use serde::Serialize;
use solocore_model::Bytes;
use solocore_space::gf2::values;
use solocore_space::map::Map;
use solocore_space::probe::Probe;
use solocore_space::solve::Timing;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Bank functions, as `solocore space map` writes them.
    #[arg(long, value_name = "FILE")]
    map: PathBuf,
    /// Memory whose lines are read.
    #[arg(long, value_name = "SIZE", default_value = "256 MiB")]
    memory: Bytes,
    /// Pairs of each kind.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    pairs: u32,
    /// Seed of the pairs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Output,
}

#[derive(Serialize)]
struct Report {
    format: &'static str,
    banks: u32,
    pairs: usize,
    same_bank_cycles: f64,
    different_bank_cycles: f64,
    /// Chance that a pair of one bank is slower than one of two.
    same_is_slower: f64,
    separated: bool,
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let map = Map::read(&args.map)?;
    if map.banks.is_empty() {
        let path = args.map.display();
        return Err(Failure::Input(format!(
            "{path}: there is no bank function; make a map with `solocore space map`"
        )));
    }
    let bytes = usize::try_from(args.memory.0).ok().filter(|b| (16 << 20..1 << 40).contains(b));
    let bytes = bytes.ok_or_else(|| {
        Failure::Input("--memory: too little or too much; give from 16 MiB to 1 TiB".into())
    })?;
    let mut probe = Probe::new(bytes, 8192, args.seed)?;
    let (mut same, mut different) = measure(&mut probe, &map, args.pairs as usize);
    if same.is_empty() {
        return Err(Failure::Machine(
            "no two lines lie in one bank of the map; give more --memory".into(),
        ));
    }
    let chance = above(&same, &different);
    let (same_ns, different_ns) = (median(&mut same), median(&mut different));
    let separated = chance >= 0.8 && same_ns > 1.03 * different_ns;
    let report = Report {
        format: "solocore-bench-banks/1",
        banks: 1 << map.banks.len(),
        pairs: same.len(),
        same_bank_cycles: same_ns,
        different_bank_cycles: different_ns,
        same_is_slower: chance,
        separated,
    };
    let row = |what: &str, cycles: f64| vec![what.to_owned(), format!("{cycles:.0}")];
    let rows = [
        vec!["pairs".to_owned(), "cycles, median".to_owned()],
        row("one bank", same_ns),
        row("two banks", different_ns),
    ];
    let verdict = if separated { "banks separate" } else { "no separation seen" };
    show(
        args.format,
        &report,
        &rows,
        &format!("{verdict}: one bank is slower in {:.1} % of cases\n", chance * 100.0),
    )
}

/// Times of pairs of one bank, and of two, taken in turn so that other work of the machine slows
/// both alike.
fn measure(probe: &mut Probe, map: &Map, pairs: usize) -> (Vec<f64>, Vec<f64>) {
    let addresses = probe.addresses().to_vec();
    let banks: Vec<u32> = addresses.iter().map(|&a| values(&map.banks, a)).collect();
    let (mut same, mut different) = (Vec::new(), Vec::new());
    let mut distance = 1;
    while same.len() < pairs && distance < addresses.len() / 2 {
        for a in 0..addresses.len() {
            let b = (a + distance) % addresses.len();
            if banks[a] == banks[b] && same.len() < pairs {
                same.push(probe.time(a, b));
                let other = (1..addresses.len())
                    .map(|i| (b + i) % addresses.len())
                    .find(|&o| banks[o] != banks[a]);
                if let Some(other) = other {
                    different.push(probe.time(a, other));
                }
            }
        }
        distance += 1;
    }
    (same, different)
}
