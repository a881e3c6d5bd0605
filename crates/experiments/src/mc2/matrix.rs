//! MC2 Fig. 12: Matrix against the ways it has, with Yuv2gray's frame buffer out of its bank and in
//! it.
//!
//! Set-up (section 5.2, Fig. 9): as Fig. 10, with Matrix (level C, core 1) measured and Yuv2gray
//! beside it on core 3, its frame buffer in core 3's bank (Managed) or in Matrix's (Unmanaged).
//! Cores 0, 2 and 3 keep 2 ways each; Matrix has 1 to 10. Yuv2gray converts each frame when the
//! camera has delivered it, so Matrix's jobs meet conversions for a part of their time.
//!
//! Assumed: 30 frames a second of 640x480, those of Fig. 10's largest inflation; Matrix works on 2
//! MiB, twice the cache. (With arrays that nearly fit, the few misses that are left follow each
//! other in a row that is open, and suffer the more when it is closed.)

use super::samples::{Samples, Times, percent, take};
use super::setup::{FIRST_C, add, board, ways};
use super::video::{Camera, SCENARIOS, Scenario, VIDEO, contenders, matrix, video};
use crate::run::{MS, points};
use crate::{
    Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Paper, Series, Table, row,
};
use solocore_sim::board::Place;
use solocore_sim::kernel::KernelConfig;
use solocore_sim::workload::Job;

pub const FIG12: Experiment = Experiment {
    id: "mc2-fig12",
    source: "MC2 Fig. 12",
    title: "Matrix's execution time against its ways, with another task's frame buffer in its bank",
    run,
};

/// Matrix, and Yuv2gray beside it.
type Both = [Times; 2];

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let counts: &[u32] = context.pick(&[1, 4, 10], &[1, 2, 4, 6, 8, 10]);
    let all: Vec<(u32, Scenario)> =
        counts.iter().flat_map(|&w| SCENARIOS.map(|(s, _)| (w, s))).collect();
    let times = points(context, &all, |&(ways, scenario)| measure(context, ways, scenario))?;
    let mut table = Table::new(&["ways", "scenario", "moet_us", "acet_us", "yuv2gray_moet_us"]);
    for (&(ways, scenario), [matrix, video]) in all.iter().zip(&times) {
        table.push(row![
            ways,
            SCENARIOS[scenario as usize].1,
            matrix.moet_us,
            matrix.acet_us,
            video.moet_us
        ]);
    }
    let mut outcome = Outcome::new(table);
    judge(&mut outcome, &times);
    draw(&mut outcome, counts, &times);
    outcome.differs(
        "The size of Matrix is assumed; so is the bank of level C that it shares with \
        the frame buffer.",
    );
    outcome.differs(
        "The camera's rate is not stated: 30 frames a second are assumed, each in blocks over nine \
            tenths of that time.",
    );
    outcome.differs(
        "With 4 ways a job of Matrix is shorter than with 1, and the same conversion covers more \
            of it. So the inflation of MOET can rise before it falls; that of ACET falls with \
            each step.",
    );
    Ok(outcome)
}

fn measure(context: &Context, count: u32, scenario: Scenario) -> Result<Both, ExperimentError> {
    let mut board = board(context)?;
    let spec = matrix(Some(Job::Passes(1)));
    let matrix = add(&mut board, "Matrix", 1, ways(6, count), &spec, &Place::banks(&[FIRST_C]))?;
    // Jobs enough to meet a conversion, which begins every 33 ms, in all ways.
    let mut samples = vec![Samples::jobs(matrix, 1, context.pick(8, 30))];
    let mut kernel = KernelConfig::default();
    if scenario != Scenario::Idle {
        contenders(&mut board, [ways(0, 2), ways(2, 2)])?;
        let own = scenario == Scenario::Managed || context.mutated(Mutation::OwnBuffer);
        let bank = if own { VIDEO.1 } else { FIRST_C };
        let program = (true, (640, 480));
        let task = video(&mut board, &mut kernel, program, bank, ways(4, 2), Camera::Usb)?;
        samples.push(Samples::jobs(task, 1, 2));
    }
    take(context, board, kernel, MS, &mut samples)?;
    let idle = Times { moet_us: 0.0, acet_us: 0.0 };
    Ok([samples[0].times(), samples.get(1).map_or(idle, Samples::times)])
}

fn judge(outcome: &mut Outcome, times: &[Both]) {
    let of = |scenario: Scenario, which: fn(&Both) -> f64| -> Vec<f64> {
        times.iter().skip(scenario as usize).step_by(SCENARIOS.len()).map(which).collect()
    };
    let inflation = |which| -> Vec<f64> {
        let pairs = of(Scenario::Unmanaged, which).into_iter().zip(of(Scenario::Managed, which));
        pairs.map(|(u, m)| u / m - 1.0).collect()
    };
    let (moet, acet) = (inflation(|t| t[0].moet_us), inflation(|t| t[0].acet_us));
    let video = inflation(|t| t[1].moet_us);
    let list = |values: &[f64]| values.iter().map(|&v| percent(v)).collect::<Vec<_>>().join(", ");
    let steps = SCENARIOS.iter().flat_map(|&(s, _)| {
        let times = of(s, |t| t[0].moet_us);
        times.windows(2).map(|w| w[0] / w[1]).collect::<Vec<_>>()
    });
    outcome.claim(
        "Matrix's time falls as its ways grow, in every scenario (the least step)",
        Paper::more(1.0, "section 5.2, Fig. 12"),
        steps.fold(f64::INFINITY, f64::min),
        Mutation::SharedCache,
        format!(
            "MOET under Managed: {:.0} us with 1 way, {:.0} us with 10",
            times[1][0].moet_us,
            times[times.len() - 2][0].moet_us
        ),
    );
    for (what, paper, ours) in [("MOET", 0.06, &moet), ("ACET", 0.03, &acet)] {
        outcome.claim(
            &format!("the frame buffer in its bank inflates Matrix's {what}, with 1 way"),
            Paper::number(paper, 0.0, "Observation 3"),
            ours[0],
            Mutation::OwnBuffer,
            format!("by {}; the paper {}", percent(ours[0]), percent(paper)),
        );
    }
    let whole = moet[0] - moet[moet.len() - 1];
    let falls = acet.windows(2).map(|w| w[0] - w[1]).fold(whole, f64::min);
    outcome.claim(
        "the inflation decreases as the ways grow (the least step of ACET; MOET from the fewest \
            to the most)",
        Paper::more(0.0, "section 5.2, Fig. 12"),
        falls,
        Mutation::SharedCache,
        format!("MOET {}; ACET {}", list(&moet), list(&acet)),
    );
    let most = |values: &[f64]| values.iter().copied().fold(f64::MIN, f64::max);
    outcome.untestable(
        "the increases are smaller than those of the video tasks",
        "section 5.2",
        &format!(
            "follows from the inflations here and in mc2-fig10; MOET of Matrix by at most {}, of \
                Yuv2gray in the same runs {}",
            percent(most(&moet)),
            percent(most(&video))
        ),
    );
}

fn draw(outcome: &mut Outcome, counts: &[u32], times: &[Both]) {
    for (name, which) in [("MOET", 0), ("ACET", 1)] {
        let value = |t: &Times| [t.moet_us, t.acet_us][which];
        let series = SCENARIOS.iter().map(|&(scenario, title)| {
            let values = times.iter().skip(scenario as usize).step_by(SCENARIOS.len());
            Series::new(
                title,
                counts.iter().zip(values).map(|(&w, t)| (f64::from(w), value(&t[0]))).collect(),
            )
        });
        let title = format!("{name} of Matrix");
        outcome.charts.push(Chart::lines(
            &title,
            "ways of the LLC (64 KiB each)",
            &format!("{name}, us"),
            series.collect(),
        ));
    }
}
