//! The difference between the interval machine and the request-level one, as the table of
//! docs/intervals.md. `cargo run --release -p solocore-sim --example fluid_error [PLATFORM]`

use solocore_model::Platform;
use solocore_sim::fluid::board::{calibrate_on, error};
use solocore_sim::fluid::calibrate::Calibration;
use solocore_sim::fluid::error::permille;
use solocore_sim::fluid::{FluidConfig, FluidError, FluidProgram};
use solocore_sim::machine::MachineConfig;
use solocore_sim::program::{Program, Space};
use solocore_sim::workload::{BuildContext, WorkloadSpec};
use std::path::Path;

const MS: u64 = 1_000_000_000;
const WARM_PS: u64 = 12 * MS;
const HORIZON_PS: u64 = 4 * MS;

/// Name and description.
const PROGRAMS: &[(&str, &str)] = &[
    ("latency", "kind = \"latency\""),
    ("read", "kind = \"bandwidth\""),
    ("write", "kind = \"bandwidth\"\naccess = \"write\""),
    ("m_jump", "kind = \"m_jump\""),
    ("m_jump/200", "kind = \"m_jump\"\ndelay = \"200 cycles\""),
    ("mwalk", "kind = \"mwalk\""),
    ("hog", "kind = \"hog\""),
    ("m_jump, one", "kind = \"m_jump\"\ndependent = true"),
    ("m_jump/200, one", "kind = \"m_jump\"\ndependent = true\ndelay = \"200 cycles\""),
];

/// Programs that run side by side, by index.
const SETS: &[&[usize]] = &[
    &[0],
    &[1],
    &[2],
    &[3],
    &[4],
    &[5],
    &[6],
    &[0, 0, 0, 0],
    &[1, 1],
    &[1, 1, 1, 1],
    &[2, 2],
    &[2, 2, 2, 2],
    &[3, 3],
    &[3, 3, 3],
    &[3, 3, 3, 3],
    &[4, 4, 4, 4],
    &[0, 1],
    &[0, 2],
    &[0, 3],
    &[0, 1, 1, 1],
    &[0, 2, 2, 2],
    &[0, 3, 3, 3],
    &[4, 4, 4, 3],
    &[1, 2],
    &[0, 1, 2, 3],
    &[5, 6],
    &[5, 6, 6, 6],
    &[5, 3],
    &[7],
    &[8],
    &[7, 7],
    &[7, 7, 7],
    &[8, 8, 7],
    &[8, 8, 8, 8],
];

struct Board {
    platform: Platform,
    machine: MachineConfig,
}

fn text(e: impl std::fmt::Display) -> FluidError {
    FluidError::Calibration(e.to_string())
}

impl Board {
    /// A program whose pages are spread over all banks and colours; each core has pages of its own.
    fn make(&self, which: usize, core: u64) -> Result<(Box<dyn Program>, Space), FluidError> {
        let spec: WorkloadSpec = toml::from_str(PROGRAMS[which].1).map_err(text)?;
        let context = BuildContext::new(&self.platform, core + 1, Path::new("."));
        let workload = spec.build(&context).map_err(text)?;
        let frames = self.machine.layout().map_err(text)?.frames();
        // An odd factor: no two pages get one frame of a power of two.
        let frame = |page: u64| ((core << 14) + page).wrapping_mul(0x9e37_79b9_7f4a_7c15) % frames;
        let frames = (0..u64::from(workload.program.pages())).map(frame).collect();
        Ok((
            workload.program,
            Space {
                frames,
                kinds: vec![],
                ways: u64::MAX >> (64 - self.machine.llc.ways),
                ..Space::default()
            },
        ))
    }
}

fn main() -> Result<(), FluidError> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "core-i5-2500k".to_owned());
    let platform = Platform::find(&name, Path::new(".")).map_err(text)?;
    let machine = MachineConfig::of(&platform, 1).map_err(text)?;
    let board = Board { platform, machine };
    let config = FluidConfig::of(&board.machine)?;
    let options =
        Calibration { warm_ps: WARM_PS, horizon_ps: HORIZON_PS, ..Calibration::of(&board.machine) };
    let mut known: Vec<FluidProgram> = Vec::new();
    for (i, (name, _)) in PROGRAMS.iter().enumerate() {
        known.push(calibrate_on(&board.machine, name, &options, &|| true, &|| board.make(i, 0))?);
    }
    println!(
        "| programs | error of the throughput of each, % | mean latency, ns: requests / intervals \
            (error, %) |"
    );
    println!("|---|---|---|");
    for set in SETS {
        let makers: Vec<_> = set.iter().enumerate().map(|(core, &p)| (p, core as u64)).collect();
        let makers: Vec<_> = makers
            .iter()
            .map(|&(p, core)| {
                (p, {
                    let board = &board;
                    move || board.make(p, core)
                })
            })
            .collect();
        let programs: Vec<_> = makers
            .iter()
            .map(|(p, make)| {
                (
                    known[*p].clone(),
                    make as &dyn Fn() -> Result<(Box<dyn Program>, Space), FluidError>,
                )
            })
            .collect();
        let report = error(&board.machine, &config, &programs, WARM_PS, HORIZON_PS)?;
        let names: Vec<&str> = set.iter().map(|&p| PROGRAMS[p].0).collect();
        let errors: Vec<String> =
            report.programs.iter().map(|r| format!("{:+.1}", r.permille() as f64 / 10.0)).collect();
        let (a, b) = (report.exact_latency_ps, report.fluid_latency_ps);
        println!(
            "| {} | {} | {:.1} / {:.1} ({:+.1}) |",
            names.join(", "),
            errors.join(", "),
            a as f64 / 1000.0,
            b as f64 / 1000.0,
            permille(a, b) as f64 / 10.0
        );
    }
    Ok(())
}
