//! From points to areas, observations and tables.
//!
//! The schedulable-utilization area (SUA) of a scheme is the area under its curve, by trapezoids
//! from utilization 0, where every system is schedulable, to the scenario's end (the paper, section
//! 6.2). Over several scenarios, it is their sum.

use crate::StudyError;
use crate::journal::{Manifest, Points};
use crate::sampling::interval;
use crate::scenario::Scenario;
use crate::study::curve;
use serde::Serialize;
use solocore_planner::levels::optimiser::Scheme;

/// Areas of one scenario, by scheme.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioAreas {
    /// The scenario.
    pub scenario: Scenario,
    /// By scheme, in the order of the manifest.
    pub areas: Vec<f64>,
}

/// An observation of the paper beside this study's result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Observation {
    /// Number, 7 to 11; 0 for one that the paper does not have.
    pub number: u32,
    /// The claim.
    pub claim: String,
    /// Does it hold here? `None` if the study lacks a scheme or scenario for it.
    pub holds: Option<bool>,
    /// Figures, in percent.
    pub figures: Vec<Figure>,
}

/// Gain of one area over another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// `O|C over C|C`, with the scenarios counted if they are not all.
    pub what: String,
    /// Percent in the paper.
    pub paper: Option<f64>,
    /// Percent here; none without the schemes or scenarios.
    pub here: Option<f64>,
}

/// The areas of each scenario of a study.
///
/// # Errors
/// When the manifest names a scheme or scenario that does not exist.
pub fn areas(manifest: &Manifest, points: &Points) -> Result<Vec<ScenarioAreas>, StudyError> {
    let of = |scenario| {
        let mut areas = vec![0.0; manifest.schemes.len()];
        for (at, area) in areas.iter_mut().enumerate() {
            let (mut from, mut height) = (0.0, 1.0);
            for (milli, point) in curve(points, scenario, &manifest.utilizations) {
                let (to, share) = (
                    f64::from(milli) / 1000.0,
                    f64::from(point.schedulable[at]) / f64::from(point.systems),
                );
                *area += (to - from) * f64::midpoint(height, share);
                (from, height) = (to, share);
            }
        }
        ScenarioAreas { scenario, areas }
    };
    Ok(manifest.own_scenarios()?.into_iter().map(of).collect())
}

/// Areas by scheme over the scenarios that `counts` picks.
pub fn total(
    areas: &[ScenarioAreas],
    schemes: usize,
    counts: impl Fn(Scenario) -> bool,
) -> Vec<f64> {
    let mut sums = vec![0.0; schemes];
    for one in areas.iter().filter(|one| counts(one.scenario)) {
        for (sum, area) in sums.iter_mut().zip(&one.areas) {
            *sum += area;
        }
    }
    sums
}

/// Observations 7 to 11, and the gain of O|opt.
#[must_use]
pub fn observations(manifest: &Manifest, areas: &[ScenarioAreas]) -> Vec<Observation> {
    let n = manifest.schemes.len();
    let [all, large, high] = [
        total(areas, n, |_| true),
        total(areas, n, Scenario::large_messages),
        total(areas, n, Scenario::high_bandwidth),
    ];
    let gain = |sums: &[f64], over: &str, than: &str| {
        let at = |name: &str| manifest.schemes.iter().position(|s| s == name).map(|i| sums[i]);
        let (over, than) = (at(over)?, at(than)?);
        (than > 0.0).then(|| 100.0 * (over / than - 1.0))
    };
    let figure = |over: &str, than: &str, paper| Figure {
        what: format!("{over} over {than}"),
        paper,
        here: gain(&all, over, than),
    };
    let among = |what: &str, sums: &[f64], over: &str, than: &str, paper| Figure {
        what: format!("{over} over {than}, {what}"),
        paper: Some(paper),
        here: gain(sums, over, than),
    };
    let positive = |figures: &[Figure]| verdict(figures, |values| values.iter().all(|v| *v > 0.0));
    let rising =
        |figures: &[Figure]| verdict(figures, |values| values[0] > 0.0 && values[1] >= values[0]);
    let seven = vec![figure("C|C", "R|R", Some(5.0))];
    let eight =
        vec![figure("O|C", "C|C", Some(11.0)), among("large messages", &large, "O|C", "C|C", 13.0)];
    let nine = vec![
        figure(C_ALL, "C|C", Some(3.0)),
        among("high I/O bandwidth", &high, C_ALL, "C|C", 4.0),
    ];
    let ten = vec![
        figure(C_ALL, "C|C+A/B-LP", Some(3.0)),
        figure(C_ALL, "C|C+A/B-SP", Some(3.0)),
        figure(O_ALL, "O|C+A/B-LP", Some(3.0)),
        figure(O_ALL, "O|C+A/B-SP", Some(2.0)),
    ];
    let mut eleven = vec![figure(O_ALL, "C|C", Some(14.0)), figure(O_ALL, "R|R", Some(20.0))];
    let others =
        Scheme::paper().map(Scheme::name).filter(|name| ![O_ALL, "C|C", "R|R"].contains(name));
    eleven.extend(others.map(|name| figure(O_ALL, name, None)));
    let mut out = vec![
        observation(7, "coarse partitioning is beneficial", positive(&seven), seven),
        observation(
            8,
            "message-buffer optimisations beat coarse partitioning, more so for large messages",
            rising(&eight),
            eight,
        ),
        observation(
            9,
            "CPU-sourced I/O interference matters more than DMA-sourced",
            rising(&nine),
            nine,
        ),
        observation(
            10,
            "no scheme with I/O buffers in level-C banks beats all in A/B banks",
            verdict(&ten, |v| v.iter().all(|v| *v >= 0.0)),
            ten,
        ),
        observation(
            11,
            "I/O and message management together beat all others",
            positive(&eleven),
            eleven,
        ),
    ];
    if manifest.schemes.iter().any(|s| s == "O|opt") {
        let opt = vec![figure("O|opt", O_ALL, None)];
        let holds = verdict(&opt, |values| values[0] >= 0.0);
        out.push(observation(
            0,
            "placing each I/O buffer by itself is never worse than a rule for all",
            holds,
            opt,
        ));
    }
    out
}

const C_ALL: &str = "C|C+A/B-All";
const O_ALL: &str = "O|C+A/B-All";

fn observation(number: u32, claim: &str, holds: Option<bool>, figures: Vec<Figure>) -> Observation {
    Observation { number, claim: claim.to_owned(), holds, figures }
}

fn verdict(figures: &[Figure], holds: impl Fn(&[f64]) -> bool) -> Option<bool> {
    let values: Option<Vec<f64>> = figures.iter().map(|f| f.here).collect();
    values.map(|v| holds(&v))
}

/// A utilization without needless digits: thousandths to at most three.
#[must_use]
pub fn utilization(milli: u32) -> String {
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

/// `points.csv`: scenario, scheme, utilization, systems, schedulable, `ci_low`, `ci_high`.
///
/// # Errors
/// When the manifest names a scheme or scenario that does not exist.
pub fn points_csv(manifest: &Manifest, points: &Points) -> Result<Vec<u8>, StudyError> {
    let header =
        ["scenario", "scheme", "utilization", "systems", "schedulable", "ci_low", "ci_high"];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for scenario in manifest.own_scenarios()? {
        for (at, scheme) in manifest.schemes.iter().enumerate() {
            lines.extend(curve(points, scenario, &manifest.utilizations).map(|(milli, point)| {
                let (low, high) = interval(point.schedulable[at], point.systems);
                vec![
                    scenario.to_string(),
                    scheme.clone(),
                    utilization(milli),
                    point.systems.to_string(),
                    point.schedulable[at].to_string(),
                    format!("{low:.6}"),
                    format!("{high:.6}"),
                ]
            }));
        }
    }
    to_csv(&lines)
}

/// `sua.csv`: scheme, sua.
///
/// # Errors
/// None: writing a table of text does not fail.
pub fn sua_csv(manifest: &Manifest, areas: &[ScenarioAreas]) -> Result<Vec<u8>, StudyError> {
    let mut rows = vec![vec!["scheme".to_owned(), "sua".to_owned()]];
    let sums = total(areas, manifest.schemes.len(), |_| true);
    rows.extend(
        manifest
            .schemes
            .iter()
            .zip(sums)
            .map(|(scheme, sum)| vec![scheme.clone(), format!("{sum:.6}")]),
    );
    to_csv(&rows)
}

/// `sua_by_scenario.csv`: scenario, scheme, sua.
///
/// # Errors
/// None: writing a table of text does not fail.
pub fn scenario_sua_csv(
    manifest: &Manifest,
    areas: &[ScenarioAreas],
) -> Result<Vec<u8>, StudyError> {
    let mut rows = vec![["scenario", "scheme", "sua"].map(str::to_owned).to_vec()];
    for one in areas {
        let of = |(scheme, area): (&String, &f64)| {
            vec![one.scenario.to_string(), scheme.clone(), format!("{area:.6}")]
        };
        rows.extend(manifest.schemes.iter().zip(&one.areas).map(of));
    }
    to_csv(&rows)
}

/// `observations.csv`: observation, holds, figure, paper, here.
///
/// # Errors
/// None: writing a table of text does not fail.
pub fn observations_csv(observations: &[Observation]) -> Result<Vec<u8>, StudyError> {
    let mut rows = vec![
        ["observation", "holds", "figure", "paper_percent", "percent"].map(str::to_owned).to_vec(),
    ];
    for o in observations {
        let holds = o.holds.map_or_else(String::new, |h| h.to_string());
        for f in &o.figures {
            let number = |x: Option<f64>| x.map_or_else(String::new, |x| format!("{x:.4}"));
            let name = if o.number == 0 { "O|opt".to_owned() } else { o.number.to_string() };
            rows.push(vec![name, holds.clone(), f.what.clone(), number(f.paper), number(f.here)]);
        }
    }
    to_csv(&rows)
}

/// Rows of equal length as CSV.
pub(crate) fn to_csv(rows: &[Vec<String>]) -> Result<Vec<u8>, StudyError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).map_err(|e| StudyError::Input(e.to_string()))?;
    }
    writer.into_inner().map_err(|e| StudyError::Input(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Point;

    #[test]
    fn areas_are_trapezoids_from_one() {
        let scenario = Scenario::from_index(0).unwrap();
        let schemes: Vec<Scheme> = Scheme::paper().take(2).collect();
        let manifest = Manifest::new(
            String::new(),
            1,
            &schemes,
            &[scenario],
            vec![1000, 2000, 3000, 4000, 5000],
            None,
        );
        let mut points = Points::new();
        for (milli, counts) in
            [(1000, [40, 20]), (2000, [20, 0]), (3000, [0, 0]), (4000, [0, 0]), (5000, [9, 9])]
        {
            points.insert(
                (scenario, milli),
                Point { systems: 40, undecided: 0, schedulable: counts.to_vec() },
            );
        }
        let found = areas(&manifest, &points).unwrap();
        assert_eq!(found[0].areas, [1.0 + 0.75 + 0.25, 0.75 + 0.25]);
        let csv = String::from_utf8(points_csv(&manifest, &points).unwrap()).unwrap();
        // The part beyond two points without any schedulable system is left out.
        assert_eq!(csv.lines().count(), 1 + 2 * 4);
        assert!(csv.contains("\"C-Light,Short,Light,Quick,Small,Low,Few\",R|R,1.0,40,40,"));
        assert_eq!(observations(&manifest, &found)[0].holds, Some(false));
        assert_eq!(observations(&manifest, &found)[1].holds, None);
    }

    #[test]
    fn utilizations_in_words() {
        assert_eq!([200, 1000, 2650, 8000].map(utilization), ["0.2", "1.0", "2.65", "8.0"]);
    }
}
