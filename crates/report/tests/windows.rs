//! The drawn time table: every slot, every arrow, prefetch hatched, hostile names, and tables too
//! large to draw.

#[path = "../examples/sample/inputs.rs"]
mod inputs;

use inputs::{HOSTILE, Sample, sample};
use solocore_model::Plan;
use solocore_model::plan::Scheme;
use solocore_model::plan::windows::{
    HardwareItem, Has, PlanMargin, PlanPartition, Round, WindowsPlan,
};
use solocore_model::windows::table::{Row, Stage, TableFile};
use solocore_report::{Inputs, html, table_html};

const MS: u64 = 1_000_000;

fn row(partition: &str, chain: Option<usize>, stage: Stage, resource: &str, offset_ms: u64) -> Row {
    let duration_ns = if chain.is_none() { 3 * MS } else { MS };
    let (partition, resource) = (partition.to_owned(), resource.to_owned());
    Row {
        partition,
        chain,
        stage,
        resource,
        offset_ns: offset_ms * MS,
        duration_ns,
        period_ns: 10 * MS,
    }
}

fn rows(name: &str) -> Vec<Row> {
    vec![
        row(name, Some(1), Stage::PhysicalInput, "device camera", 0),
        row(name, Some(1), Stage::DeviceInput, "io-core", 1),
        row(name, None, Stage::Processing, "core 0", 2),
        row(name, Some(1), Stage::DeviceOutput, "io-core", 5),
        row(name, Some(1), Stage::PhysicalOutput, "device display", 6),
    ]
}

#[test]
fn every_slot_and_arrow_is_drawn() {
    let page = table_html("a table", &TableFile { activities: rows("p") }, None);
    // Until 7 ms all activities have begun, and one hyperperiod of 10 ms follows: two instances of
    // each.
    assert_eq!(page.matches("data-stage=").count(), 10);
    assert_eq!(page.matches("marker-end=").count(), 8);
    for (start, end) in [(2, 5), (12, 15)] {
        let slot = format!(
            r#"data-stage="processing" data-resource="core 0" data-start-ns="{}" data-end-ns="{}""#,
            start * MS,
            end * MS
        );
        assert_eq!(page.matches(&slot).count(), 1, "{slot}");
    }
    let lanes: Vec<usize> = ["core 0", "io-core", "device camera", "device display"]
        .iter()
        .map(|lane| {
            page.find(&format!("aria-label=\"{lane}: ")).unwrap_or_else(|| panic!("no lane {lane}"))
        })
        .collect();
    assert!(lanes.is_sorted(), "{lanes:?}");
    // Their names stay in view beside the drawing, which scrolls.
    let (_, names) = page.split_once("<svg class=\"lane-names\"").expect("a column of names");
    let (names, _) = names.split_once("</svg>").expect("its end");
    for name in ["core 0", "I/O core", "camera", "display"] {
        assert!(names.contains(&format!("</title>{name}</text>")), "{name}");
    }
    assert!(page.split("url(").skip(1).all(|rest| rest.starts_with("#fill-")));
}

fn page(plan: &Plan, sample: &Sample) -> String {
    let managed = sample.results.last();
    html(&Inputs { managed, profiles: &sample.profiles, ..Inputs::of("t", plan) })
}

#[test]
fn a_plan_shows_prefetch_and_what_was_tried() {
    let sample = sample();
    let mut plan = sample.plan.clone();
    assert!(
        !page(&plan, &sample).contains("time-table"),
        "a plan without partitions has no such section"
    );
    let partition = PlanPartition {
        name: HOSTILE.to_owned(),
        core: Some(0),
        period_ns: 10 * MS,
        duration_ns: 3 * MS,
        stated: true,
        least_duration_ns: Some(2 * MS),
        locked_pages: 3,
        prefetch_accesses: 192,
        prefetch_ns: 40_000,
        switch_ns: 1000,
        schedulable: true,
    };
    let round = Round {
        slack_percent: 30,
        allocation: "worst fit".to_owned(),
        step: 4,
        found: false,
        outcome: "core 1 is full".to_owned(),
    };
    let item = HardwareItem {
        what: "locking".to_owned(),
        has: Has::Unknown,
        follows: "nothing".to_owned(),
    };
    plan.scheme = Scheme::Windows(Box::new(WindowsPlan {
        hardware: vec![item],
        rounds: vec![round],
        cores: 1,
        io_core: Some(1),
        margin: PlanMargin::default(),
        partitions: vec![partition],
        transfers: Vec::new(),
        table: rows(HOSTILE),
    }));
    let short = |plan: &mut Plan| {
        if let Scheme::Windows(windows) = &mut plan.scheme {
            windows.rounds.clear();
            windows.hardware.clear();
        }
    };
    let mut empty = plan.clone();
    short(&mut empty);
    let empty = self::page(&empty, &sample);
    assert!(!empty.contains("What was tried") && !empty.contains("What the board has"));
    let page = page(&plan, &sample);
    assert!(!page.contains(HOSTILE));
    assert_eq!(page.matches("data-prefetch-ns=\"40000\"").count(), 2);
    for text in ["core 1 is full", "worst fit", "locking: ", "unknown", "href=\"#time-table\""] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn what_is_too_much_is_cut() {
    let mut activities = rows("p");
    activities[0].period_ns = 9_999_991;
    activities[1].period_ns = 9_999_973;
    let page = table_html("long", &TableFile { activities }, None);
    assert!(page.contains("the rest is in the numbers"));
    assert!(
        (500..=605).contains(&page.matches("data-stage=").count()),
        "{}",
        page.matches("data-stage=").count()
    );
}
