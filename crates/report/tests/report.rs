//! The whole page: its required parts, and the forbidden ones.

#[path = "../examples/sample/inputs.rs"]
mod inputs;

use inputs::{HOSTILE, Sample, sample};
use serde_json::Value;
use solocore_model::platform::CoreType;
use solocore_model::results::Activity;
use solocore_model::units::Frequency;
use solocore_report::{Inputs, html};

fn full(sample: &Sample) -> String {
    let [solo, unmanaged, managed] = &sample.results;
    html(&Inputs {
        solo: Some(solo),
        unmanaged: Some(unmanaged),
        managed: Some(managed),
        profiles: &sample.profiles,
        ..Inputs::of("Sample & test", &sample.plan)
    })
}

fn bare(sample: &Sample) -> String {
    html(&Inputs::of("Bare", &sample.plan))
}

fn embedded(page: &str, id: &str) -> Value {
    let start = format!("<script type=\"application/json\" id=\"{id}\">");
    let (_, rest) = page.split_once(&start).expect("embedded JSON");
    serde_json::from_str(rest.split_once("</script>").expect("its end").0).expect("valid JSON")
}

#[test]
fn nothing_of_the_inputs_becomes_markup() {
    let mut sample = sample();
    sample.plan.reasons.push("</script><img src=x onerror=alert(2)> <!--".to_owned());
    sample.plan.platform.title = "\" onload=\"alert(3)".to_owned();
    let page = full(&sample);
    assert!(!page.contains(HOSTILE));
    assert!(!page.contains("<img"));
    assert!(!page.contains("<!--"));
    let (visible, _) = page.split_once("<script").expect("data");
    assert!(!visible.contains("\" onload"));
    assert_eq!(page.matches("<script").count(), 3, "two blocks of data, and what zooms");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert_eq!(embedded(&page, "solocore-data")["plan"]["tasks"][3]["name"], HOSTILE);
}

#[test]
fn nothing_is_fetched() {
    let page = full(&sample());
    for word in ["http:", "https:", "@import", "src=", "xmlns", "@font-face"] {
        assert!(!page.contains(word), "{word}");
    }
    assert_eq!(page.matches("<link").count(), 1);
    assert!(page.contains(r#"<link rel="icon" href="data:,">"#));
    assert!(page.split("url(").skip(1).all(|rest| rest.starts_with("#fill-")));
}

#[test]
fn clocks_of_several_types_are_named() {
    let mut sample = sample();
    let platform = &mut sample.plan.platform;
    let frequency = Frequency(2 * platform.frequency.0);
    let clocks = format!(" at {} to {frequency},", platform.frequency);
    platform.core_types = vec![CoreType::of_clock("big", vec![0], frequency)];
    assert!(bare(&sample).contains(&clocks));
}

#[test]
fn the_data_is_embedded_as_it_was() {
    let sample = sample();
    let page = full(&sample);
    let data = embedded(&page, "solocore-data");
    assert_eq!(data["plan"], serde_json::to_value(&sample.plan).unwrap());
    for (key, result) in ["solo", "unmanaged", "managed"].into_iter().zip(&sample.results) {
        assert_eq!(data[key], serde_json::to_value(result).unwrap());
    }
    let curves = embedded(&page, "solocore-curves");
    assert_eq!(curves["tracking"], serde_json::to_value(&sample.profiles[0].1.lockdown).unwrap());
}

#[test]
fn the_numbers_are_there() {
    let sample = sample();
    let page = full(&sample);
    for (series, result) in ["solo", "unmanaged", "managed"].into_iter().zip(&sample.results) {
        for task in result.tasks.iter().filter(|t| t.name != HOSTILE) {
            let bar = format!(
                r#"data-task="{}" data-series="{series}" data-value-ns="{}""#,
                task.name, task.moet_ns
            );
            assert_eq!(page.matches(&bar).count(), 1, "{bar}");
        }
    }
    assert_eq!(page.matches(r#"data-series="bound""#).count(), 5);
    // The bound on the response is another number, and has bars and lines of its own.
    for task in sample.plan.tasks.iter().filter(|t| t.name != HOSTILE) {
        let Some(wcrt_ns) = task.wcrt_ns else { continue };
        for what in ["data-series", "data-limit"] {
            let mark =
                format!(r#"data-task="{}" {what}="wcrt" data-value-ns="{wcrt_ns}""#, task.name);
            assert_eq!(page.matches(&mark).count(), 1, "{mark}");
        }
    }
    assert!(page.contains(">bound C</text>") && page.contains(">WCRT</text>"));
    assert!(page.contains(r#"data-pages="217" data-misses="212199" data-marker="plan""#));
    assert!(page.contains(r#"data-pages="0" data-misses="694093""#));
    for text in [
        "62.3\u{a0}ms",
        "161\u{a0}MB/s",
        "64.3\u{a0}%",
        "2\u{202f}520",
        "interpolate_subpixel",
        "heap",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

/// Each bar begins at the end of the one above it, the last one ends at the bound, and a bar that
/// lowers the sum is striped.
#[test]
fn the_gap_is_drawn_from_the_time_alone_to_the_bound() {
    let mut sample = sample();
    let page = full(&sample);
    let mut striped = 0;
    for task in sample.plan.tasks.iter().filter(|t| t.name != HOSTILE) {
        let mut sum = 0;
        for term in &task.waterfall {
            let name = term.term.word();
            if term.ns == 0 {
                let mark = format!(r#"data-task="{}" data-term="{name}""#, task.name);
                assert!(!page.contains(&mark), "{mark}: a bar of no length");
                continue;
            }
            let data = format!(
                r#"data-task="{}" data-term="{name}" data-from-ns="{sum}" data-term-ns="{}""#,
                task.name, term.ns
            );
            let (before, _) = page.split_once(&data).unwrap_or_else(|| panic!("{data}"));
            striped += usize::from(
                before.rsplit_once("<rect").is_some_and(|(_, rect)| rect.contains("fill-bound")),
            );
            sum += term.ns;
        }
        assert_eq!(u64::try_from(sum).ok(), task.wcrt_ns.or(Some(0)), "{}", task.name);
    }
    let named = sample.plan.tasks.iter().filter(|t| t.name != HOSTILE);
    assert_eq!(striped, named.flat_map(|t| &t.waterfall).filter(|t| t.ns < 0).count());
    assert!(striped > 0 && page.contains("−5\u{a0}µs"));
    let without = "no bound on the response; the terms end at C_sce, ";
    assert!(!page.contains(without));
    let task = sample.plan.tasks.iter_mut().find(|t| !t.waterfall.is_empty()).expect("terms");
    task.wcrt_ns = None;
    assert_eq!(full(&sample).matches(without).count(), 1);
    for task in &mut sample.plan.tasks {
        task.waterfall.clear();
    }
    assert!(!full(&sample).contains("id=\"gap\""), "no terms, no section");
}

#[test]
fn the_verdict_comes_first() {
    let page = full(&sample());
    let verdict = "All 4 analysed tasks meet their deadlines under the plan on Freescale QorIQ \
        P4080; unmanaged, \
                   1 of them misses its deadline and they slow down by up to 7.9 times.";
    let places: Vec<usize> = [
        verdict,
        "id=\"times\"",
        "id=\"curves\"",
        "id=\"timeline\"",
        "id=\"plan\"",
        "id=\"profiles\"",
        "id=\"assumptions\"",
    ]
    .iter()
    .map(|text| page.find(text).unwrap_or_else(|| panic!("{text}")))
    .collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn failure_and_contradiction_are_said() {
    let mut sample = sample();
    sample.plan.schedulable = false;
    sample.plan.tasks[0].schedulable = false;
    sample.plan.tasks[0].wcrt_ns = None;
    sample.results[2].tasks[1].moet_ns = 801_000_001;
    sample.results[2].tasks[2].misses_deadline = 3;
    let page = full(&sample);
    assert!(page.contains("1 of 4 analysed tasks may miss its deadline under the plan"));
    assert!(page.contains("✗ no bound") && page.contains("unbounded"));
    assert!(page.contains(
        "disparity: measured execution time 801\u{a0}ms (801\u{202f}000\u{202f}001 ns) is \
                above its bound"
    ));
    assert!(page.contains("imu-filter: 3 of 40 jobs missed the deadline in the managed run"));
    let mut beyond = self::sample();
    beyond.results[2].tasks[1].moet_ns = 801_000_001;
    let page = full(&beyond);
    assert!(page.contains("P4080, but measurements contradict the plan; unmanaged, 1 of them"));
    assert!(page.contains("class=\"verdict bad\"") && !page.contains("class=\"verdict good\""));
    for text in ["Nothing for disparity: a measurement contradicts the plan.", "! contradicted"] {
        assert_eq!(page.matches(text).count(), 1, "{text}");
    }
    assert!(page.contains("<strong>1</strong> contradicted"));
    assert!(!page.contains("data-tightest=\"disparity\""), "it guarantees nothing");
    let page = full(&self::sample());
    assert!(!page.contains("contradict") && page.contains("class=\"verdict good\""));
}

#[test]
fn absent_inputs_leave_a_sentence() {
    let page = bare(&sample());
    for text in [
        "Not measured: solo times",
        "solocore sim --unmanaged",
        "All 4 analysed tasks meet their deadlines under the plan on Freescale QorIQ P4080.",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains(r#"data-series="solo""#) && !page.contains("(unmanaged)"));
    for column in ["Solo", "Unmanaged", "Even", "Managed"] {
        assert!(!page.contains(&format!(">{column}</th>")), "a column of dashes: {column}");
    }
    for section in ["profiles", "curves", "timeline"] {
        let (id, href) = (format!("id=\"{section}\""), format!("href=\"#{section}\""));
        assert!(!page.contains(&id) && !page.contains(&href), "{section}");
    }
    assert_eq!(embedded(&page, "solocore-data")["solo"], Value::Null);
}

#[test]
fn empty_timeline_draws_none() {
    let mut sample = sample();
    sample.results[2].timeline.clear();
    let page = full(&sample);
    assert!(page.contains(r#"data-mode="unmanaged""#) && !page.contains(r#"data-mode="managed""#));
    assert!(!page.contains(r#"data-activity="throttled""#));
    assert!(page.contains(r#"data-miss-ns="10000000""#), "the late job of imu-filter");
    sample.results[1].timeline.clear();
    assert!(!full(&sample).contains("id=\"timeline\""));
}

#[test]
fn zero_values_are_drawn_as_nothing() {
    let mut sample = sample();
    for task in &mut sample.plan.tasks {
        (task.c_sce_ns, task.deadline_ns, task.wcrt_ns) = (0, None, Some(0));
    }
    for result in &mut sample.results {
        for task in &mut result.tasks {
            (task.moet_ns, task.jobs, task.max_response_ns) = (0, 0, 0);
        }
        for segment in &mut result.timeline {
            (segment.start_ns, segment.end_ns) = (0, 0);
        }
    }
    for (_, profile) in &mut sample.profiles {
        profile.lockdown = vec![0];
        profile.bandwidth.bytes_per_s = vec![0, 0];
    }
    sample.plan.cores[0].utilization = f64::NAN;
    let page = full(&sample);
    assert!(!page.contains("NaN%") && !page.contains("inf%"));
    assert!(page.contains(r#"width="0.0000%""#));
    sample.profiles[0].1.lockdown.clear();
    sample.plan.tasks.clear();
    assert!(!full(&sample).contains("id=\"times\""));
}

/// A response far beyond the execution times does not press their bars flat.
#[test]
fn a_response_beyond_the_scale_is_named_at_the_edge() {
    let mut sample = sample();
    sample.plan.tasks[2].wcrt_ns = Some(900_000_000);
    let page = full(&sample);
    let (before, after) = page
        .split_once(r#"data-task="imu-filter" data-series="wcrt" data-value-ns="900000000""#)
        .expect("its number");
    assert!(before.rsplit_once('<').is_some_and(|(_, mark)| mark.starts_with("text ")));
    assert!(after.starts_with(">900\u{a0}ms →<"));
    assert!(page.contains(
        r#"width="100.0000%" height="18" fill="url(#fill-unmanaged)" data-task="imu-filter""#
    ));
}

#[test]
fn long_schedules_are_cut_and_say_so() {
    let mut sample = sample();
    let mut segment = sample.results[2].timeline[0].clone();
    sample.results[2].timeline.clear();
    for start in 0..21_000 {
        (segment.start_ns, segment.end_ns) = (start * 10, start * 10 + 5);
        segment.activity =
            if start.is_multiple_of(2) { Activity::Run } else { Activity::Throttled };
        segment.task = 77;
        sample.results[2].timeline.push(segment.clone());
    }
    let page = full(&sample);
    assert!(page.contains("1\u{202f}000 further parts not drawn"));
    assert!(page.contains("task #77") && page.contains(r#"data-dropped="1000""#));
    // Ten thousand stops are drawn as shares of a span, too.
    assert!(page.contains(r#"data-stops="10000""#) && page.contains("data-share-core="));
    assert!(page.contains("zoom in for single stops"));
}

/// For any number of jobs, those that missed their deadlines are drawn.
#[test]
fn late_jobs_are_drawn_first() {
    let mut sample = sample();
    let mut job = sample.results[2].jobs[1].clone();
    sample.results[2].jobs.clear();
    for n in 0..2000 {
        (job.release_ns, job.deadline_ns, job.late) = (n * 10, n * 10 + 10, n >= 1990);
        sample.results[2].jobs.push(job.clone());
    }
    let page = full(&sample);
    assert!(
        page.contains("10 deadlines missed in it; releases and deadlines of 1\u{202f}500 jobs")
    );
    assert!((1990..2000).all(|n| page.contains(&format!("data-miss-ns=\"{}\"", n * 10 + 10))));
}

/// The policy of the page lets this script run and no other.
#[test]
fn the_policy_names_the_script_by_its_hash() {
    use base64::Engine as _;
    use sha2::Digest as _;
    let page = full(&sample());
    let (_, rest) = page.split_once("<script>").expect("a script");
    let (script, _) = rest.split_once("</script>").expect("its end");
    assert!(script.len() < 8192, "a few kB: {}", script.len());
    let hash = sha2::Sha256::digest(script);
    let hash = base64::engine::general_purpose::STANDARD.encode(hash);
    assert!(page.contains(&format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}';"
    )));
}

#[test]
fn the_verdict_says_what_is_guaranteed_and_what_it_costs() {
    let sample = sample();
    let page = full(&sample);
    for text in [
        r#"data-tightest="disparity" data-wcrt-ns="881100000" data-deadline="1000000000""#,
        r#"data-cost="jobs" data-managed="40" data-unmanaged="40""#,
        "core 5 for 1.5\u{a0}%",
        r#"data-cost="locked" data-pages="325""#,
        "Bounds are at most 3.1 times the time alone",
        "<strong>4</strong> meet<",
        "Under the plan, the longest job is at most",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("What would help"));
    let plan = bare(&sample);
    assert!(!plan.contains("data-cost=\"jobs\"") && !plan.contains("data-cost=\"stopped\""));
}

#[test]
fn even_shares_stand_beside_optimal_ones() {
    use solocore_model::SimResult;
    use solocore_model::results::Mode;
    let sample = sample();
    let [_, unmanaged, managed] = &sample.results;
    let even = SimResult { mode: Mode::Even, ..managed.clone() };
    let page = html(&Inputs {
        unmanaged: Some(unmanaged),
        managed: Some(managed),
        even: Some(&even),
        ..Inputs::of("Even shares", &sample.plan)
    });
    let without = full(&sample);
    for mark in [">Even</th>", r#"data-series="even""#, r#" data-even="40""#, ">Even run</dt>"] {
        assert!(page.contains(mark) && !without.contains(mark), "{mark}");
    }
    assert_eq!(embedded(&page, "solocore-data")["even"]["mode"], "even");
}

#[test]
fn advice_stands_beside_a_failure() {
    use solocore_model::plan::advice::Repair;
    use solocore_model::provenance::{InputRole, PlanInput};
    let mut sample = sample();
    sample.plan.schedulable = false;
    sample.plan.tasks[0].schedulable = false;
    let page = full(&sample);
    assert!(page.contains("found no single change") && page.contains("Nothing for tracking"));
    sample.plan.repair.push(Repair {
        change: "task.tracking.period".to_owned(),
        value: "120 ms".to_owned(),
        verified: true,
        step: Some("0.1 ms".to_owned()),
        meaning: "tracking runs less often".to_owned(),
    });
    sample.plan.reasons.push("tracking: response 130 ms against 120 ms".to_owned());
    sample.plan.reasons.push("verdict: not schedulable: tracking; lengthen its period".to_owned());
    let page = full(&sample);
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    assert!(place("may miss its deadline") < place("data-because=\"tracking\""));
    assert!(place("data-because=\"tracking\"") < place("data-repair=\"task.tracking.period\""));
    assert!(place("data-because=\"verdict\"") < place("data-repair="));
    assert!(page.contains("solocore plan system.toml --what-if 'task.tracking.period=120 ms'"));
    let made = PlanInput::of(InputRole::System, "car.toml", "abc");
    let mut named = sample.plan.clone();
    named.inputs.push(made.clone());
    let named = html(&Inputs::of("named", &named));
    assert!(named.contains("solocore plan car.toml --what-if") && named.contains(&made.sha256));
    assert!(place("data-repair=") < place("Tasks and their times"));
    assert!(!full(&self::sample()).contains("data-because"), "a plan that holds needs no excuse");
}

/// Open promises of a run or of a verification stand before all others, which are folded.
#[test]
fn open_promises_come_first() {
    use solocore_model::plan::{Answer, Promise, Subject};
    use solocore_model::verification::Verification;
    let mut sample = sample();
    let of = |resource: &str| {
        Promise::new(Subject::Place, resource, vec!["tracking".to_owned()], "runs".to_owned())
    };
    sample.plan.promises = vec![of("task a"), of("task b")];
    let place = |page: &str, text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    let plain = bare(&sample);
    assert!(plain.contains("place (2).") && plain.contains("All: 2 promises"));
    let open = Answer::open(&sample.plan.promises[1], true, "no right");
    let mut run = run_of(&sample.plan);
    run.promises = vec![Answer::kept(&sample.plan.promises[0], "run", true, "bound"), open.clone()];
    let page = html(&Inputs { run: Some(&run), ..Inputs::of("run", &sample.plan) });
    assert!(page.contains("In the run, nobody kept 1 of 2"));
    assert!(place(&page, "data-promise=\"place:task-b\"") < place(&page, "Kept: 1 promise"));
    assert!(place(&page, "Kept: 1 promise") < place(&page, "data-promise=\"place:task-a\""));
    let verification = Verification { open: vec![open], ..Verification::default() };
    let page =
        html(&Inputs { verification: Some(&verification), ..Inputs::of("verified", &sample.plan) });
    assert!(page.contains("While the plan was verified, nobody kept 1 of 2"));
    assert!(place(&page, "data-promise=\"place:task-b\"") < place(&page, "The others: 1 promise"));
}

/// A promise that broke while the plan was verified is a reason not to count on the bounds.
#[test]
fn a_verification_with_a_broken_promise_contradicts_the_plan() {
    use solocore_model::plan::{Promise, Subject};
    use solocore_model::verification::Verification;
    let mut sample = sample();
    let promise = Promise::new(Subject::Place, "task a", Vec::new(), "runs".to_owned());
    let broken = vec![promise.id.clone()];
    sample.plan.promises = vec![promise];
    let v = Verification { broken, ..Verification::default() };
    let page = html(&Inputs { verification: Some(&v), ..Inputs::of("verified", &sample.plan) });
    assert!(page.contains("but measurements contradict the plan"));
    assert!(page.contains("promise place of task a, runs: kept as the run began, and not later"));
}

/// More accesses for fewer jobs are not a gain, and the page says what a job costs.
#[test]
fn more_traffic_for_fewer_jobs_is_said() {
    let mut sample = sample();
    let words = "times as many accesses";
    assert!(!full(&sample).contains(words));
    let best: Vec<String> =
        sample.plan.tasks.iter().filter(|t| t.best_effort()).map(|t| t.name.clone()).collect();
    for (run, jobs, accesses) in [(1, 100, 1000), (2, 50, 5000)] {
        for task in sample.results[run].tasks.iter_mut().filter(|t| best.contains(&t.name)) {
            (task.jobs, task.accesses) = (jobs, accesses);
        }
    }
    assert!(full(&sample).contains("Each of its jobs makes 10 times as many accesses."));
}

/// A sum of C_sce above the period is a fault only where a deadline may be missed.
#[test]
fn a_high_utilisation_is_marked_only_beside_a_task_that_may_miss() {
    let mut sample = sample();
    let core = sample.plan.tasks[0].core;
    for of in sample.plan.cores.iter_mut().filter(|c| c.id == core) {
        of.utilization = 1.234;
    }
    let marked = "<td class=\"num bad\">123.4\u{a0}%";
    let page = bare(&sample);
    assert!(page.contains("123.4\u{a0}%") && !page.contains(marked));
    sample.plan.tasks[0].schedulable = false;
    assert!(bare(&sample).contains(marked));
}

/// The line of a bound on the scale begins below the labels of those beyond it.
#[test]
fn no_line_crosses_a_label_at_the_edge() {
    let mut sample = sample();
    sample.plan.tasks[0].deadline_ns = Some(1 << 60);
    let page = full(&sample);
    let (_, rest) = page.split_once("figcaption id=\"distribution-0\"").expect("its chart");
    let (chart, _) = rest.split_once("</figure>").expect("its end");
    let beyond = chart.rfind("→</text>").expect("a deadline beyond the scale");
    assert!(beyond < chart.find("data-limit=\"bound\"").expect("a bound"));
}

/// Without a regulator, nothing is said of its stops.
#[test]
fn a_plan_without_regulation_has_no_cost_of_regulation() {
    let mut sample = sample();
    for core in &mut sample.results[2].cores {
        core.throttled_ns = 0;
    }
    assert!(full(&sample).contains("The regulator throttled no core"));
    sample.plan.regulation.policy = solocore_model::system::Policy::None;
    assert!(!full(&sample).contains("The regulator throttled"));
    for core in &mut sample.plan.cores {
        core.locked_pages = 0;
    }
    let managed = Some(&sample.results[2]);
    let page = html(&Inputs { managed, ..Inputs::of("no costs", &sample.plan) });
    assert!(page.contains("Not measured: simulate each task alone"), "the list is not empty");
}

#[test]
fn a_page_says_how_it_came_about() {
    use solocore_model::results::Mode;
    use solocore_report::Provenance;
    let sample = sample();
    let mut provenance = Provenance {
        date: "2026-11-23T20:00:00Z".to_owned(),
        host: "a <b>".to_owned(),
        inputs: Vec::new(),
    };
    provenance.add("plan.json", b"abc");
    let traces = [(Mode::Managed, "managed.pftrace".to_owned())];
    let page = html(&Inputs {
        provenance: Some(&provenance),
        managed: Some(&sample.results[2]),
        traces: &traces,
        ..Inputs::of("P", &sample.plan)
    });
    for text in [
        // Of "abc", in FIPS 180-2, appendix B.1.
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "2026-11-23T20:00:00Z",
        "a &lt;b&gt;",
        "4\u{a0}s simulated, seed 1",
        r#"href="managed.pftrace""#,
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!full(&sample).contains(".pftrace"));
}

/// The widths of a row of the flame graph are the misses of all functions.
#[test]
fn functions_make_a_flame_graph() {
    let sample = sample();
    let page = full(&sample);
    let functions = &sample.profiles[0].1.functions;
    let all: u64 = functions.iter().map(|f| f.llc_misses).sum();
    for (kind, name) in [("program", "tracking"), ("function", "main")] {
        let block = format!(r#"data-kind="{kind}" data-name="{name}" data-misses="{all}""#);
        assert_eq!(page.matches(&block).count(), 1, "{block}");
    }
    assert_eq!(page.matches(r#"data-kind="function""#).count(), functions.len());
    assert!(page.contains("function:gradient") && page.contains("call took 4\u{a0}ms alone"));
}

#[test]
fn reasons_are_a_table() {
    let page = full(&sample());
    assert!(
        page.contains(r#"<tr data-reason="ways">"#)
            && page.contains(r#"<tr data-reason="core 0">"#)
    );
}

/// A run on a real machine with all kinds of faults.
fn run_of(plan: &solocore_model::Plan) -> solocore_model::run::RunResult {
    use solocore_model::run::{
        FORMAT, RunCore, RunJob, RunRegulation, RunResult, RunSpan, RunTask,
    };
    let span = |most, throttled_ns| RunSpan { periods: 10, accesses: 5 * most, most, throttled_ns };
    let core = |cpu, budget| RunCore {
        cpu,
        budget,
        sample: 2,
        periods: 20,
        max_accesses_per_period: 25,
        periods_over_budget: u64::from(cpu == 1) * 3,
        series: vec![span(20, 0), span(25, 4_000_000)],
        ..RunCore::default()
    };
    let late = plan.tasks.iter().position(|t| t.wcrt_ns.is_some()).unwrap();
    let task = |(at, t): (usize, &solocore_model::plan::PlanTask)| RunTask {
        name: t.name.clone(),
        core: t.core,
        how: "started".to_owned(),
        jobs: 1,
        max_response_ns: if at == late { t.wcrt_ns.unwrap() + 1 } else { 1 },
        latest: vec![RunJob { release_ns: 1, start_ns: 2, end_ns: 3 }],
        ..RunTask::default()
    };
    RunResult {
        format: FORMAT.to_owned(),
        regulation: Some(RunRegulation {
            engine: "helper".to_owned(),
            event: "page-faults".to_owned(),
            stands_in: true,
            period_ns: 1_000_000,
            span_ns: 10_000_000,
            cores: vec![core(0, u64::MAX), core(1, 20)],
            ..RunRegulation::default()
        }),
        duration_ns: 20_000_000,
        ended: "duration <b>".to_owned(),
        tasks: plan.tasks.iter().enumerate().map(task).collect(),
        broken: vec!["others:core-1".to_owned()],
        ..RunResult::default()
    }
}

#[test]
fn a_real_run_is_drawn_and_compared() {
    let sample = sample();
    let run = run_of(&sample.plan);
    let inputs = |run| Inputs { run, ..Inputs::of("Run", &sample.plan) };
    let page = html(&inputs(Some(&run)));
    for wanted in [
        "href=\"#machine\"",
        "stands in for accesses to memory",
        "CPU 1: 3 of 20",
        "promise others:core-1: kept as the run began",
        "above its bound",
        "data-most=\"25\"",
        "data-throttled-ns=\"4000000\"",
        "data-budget=\"20\"",
        "data-release-ns=\"1\"",
        "duration &lt;b&gt;",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    let (head, machine) = page.split_once("id=\"machine\"").unwrap();
    let said = "a response took";
    assert!(head.contains(said) && machine.contains(said), "the head says it as well");
    assert_eq!(page.matches("data-budget=").count(), 1, "no line where there is no limit");
    assert!(page.contains(">budget 20</text>"));
    let mut far = run_of(&sample.plan);
    far.regulation.as_mut().unwrap().cores[1].budget = 101;
    let far = html(&inputs(Some(&far)));
    assert!(far.contains(">budget 101, beyond the scale ↑</text>") && far.contains(">25</text>"));
    assert!(!page.contains("CPU 0: 0 of"), "nothing is wrong there");
    assert!(!html(&inputs(None)).contains("#machine"));
}

/// The longest response may be from an earlier plan, so the bound of the run's file counts.
#[test]
fn a_run_names_the_plan_that_it_went_over_to() {
    use solocore_model::run::{RunHandover, RunResult};
    let sample = sample();
    let mut run = run_of(&sample.plan);
    let plan = "night.json".to_owned();
    run.handovers = vec![RunHandover { plan, ended_ns: 5_000_000, ..RunHandover::default() }];
    let page =
        |run: &RunResult| html(&Inputs { run: Some(run), ..Inputs::of("Run", &sample.plan) });
    let text = page(&run);
    assert!(text.contains("plan night.json in force since 0.005 s"), "{text}");
    assert!(!text.contains("a response took"));
    for task in &mut run.tasks {
        task.bound_ns = Some(task.max_response_ns.saturating_sub(1).max(1));
    }
    assert!(page(&run).contains("a response took"));
    // Under an earlier plan, jobs could miss their deadlines.
    for task in &mut run.tasks {
        (task.misses_deadline, task.bound_ns) = (1, Some(u64::MAX));
    }
    assert!(!page(&run).contains("missed the deadline"));
    run.handovers.clear();
    assert!(page(&run).contains("missed the deadline"));
}

/// Runs under schedulers of solocore bring sections of their own.
#[test]
fn runs_of_levels_and_of_vcpus_are_drawn() {
    use solocore_model::run::{RunLevelTask, RunLevels, RunResult, RunScheme, RunVcpu, RunVcpus};
    let sample = sample();
    let late = sample.plan.tasks.iter().find(|t| t.wcrt_ns.is_some()).unwrap();
    let task = RunLevelTask {
        name: late.name.clone(),
        level: "A".to_owned(),
        jobs: 3,
        completed: 3,
        max_response_ns: late.wcrt_ns.unwrap() + 1,
        ..RunLevelTask::default()
    };
    let levels = RunLevels { tasks: vec![task], ..RunLevels::default() };
    let run = RunResult {
        regulation: None,
        scheme: RunScheme::Levels,
        levels: Some(levels),
        ..run_of(&sample.plan)
    };
    let vcpus = RunVcpus {
        background: "keep".to_owned(),
        vcpus: vec![RunVcpu { name: "video <1>".to_owned(), moves: 7, ..RunVcpu::default() }],
        ..RunVcpus::default()
    };
    let page_of =
        |run: &RunResult| html(&Inputs { run: Some(run), ..Inputs::of("Run", &sample.plan) });
    let page = page_of(&run);
    for wanted in ["Scheduled for", "by levels", "data-level-task=", "above its bound"] {
        assert!(page.contains(wanted), "{wanted}");
    }
    let page =
        page_of(&RunResult { levels: None, vcpus: Some(vcpus), scheme: RunScheme::Vcpus, ..run });
    for wanted in ["background time: keep", "data-vcpu=\"video &lt;1&gt;\""] {
        assert!(page.contains(wanted), "{wanted}");
    }
    // The written text is read again.
    let text = serde_json::to_string(&run_of(&sample.plan)).unwrap();
    assert_eq!(serde_json::from_str::<RunResult>(&text).unwrap(), run_of(&sample.plan));
}
