use super::*;
use crate::Scale;
use crate::run::platform;

#[test]
fn an_access_takes_the_papers_longest_service() {
    let context = Context { scale: Scale::Quick, seed: 1, progress: &|_| true, mutation: None };
    let platform = platform("p4080").expect("a preset");
    let ways = Ways::measured(&context, &platform).expect("it is measured");
    let paper = platform.latency_of_paper().ps();
    assert!(ways.miss_ps.abs_diff(paper) * 50 < paper, "{} ps against {paper}", ways.miss_ps);
    assert!(ways.hit_ps < ways.miss_ps / 2, "{} ps", ways.hit_ps);
}

#[test]
fn misses_are_those_of_the_papers_equation() {
    let platform = platform("p4080").expect("a preset");
    // (335.9 ms - 108.1 ms) / (8 * 49.6 ns).
    assert_eq!(TRACKING.misses(&platform), 574_092);
    assert_eq!(TRACKING.name, "tracking");
}
