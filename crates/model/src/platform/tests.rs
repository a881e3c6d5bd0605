//! Checks of presets and of broken boards.

use super::*;

#[test]
fn every_preset_loads() {
    for (name, _) in PRESETS {
        let platform = Platform::find(name, Path::new(".")).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(platform.name, *name);
    }
}

#[test]
fn p4080_has_the_papers_figures() {
    let p = Platform::find("p4080", Path::new(".")).unwrap();
    assert_eq!((p.cores, p.total_banks(), p.colours()), (8, 32, 16));
    assert_eq!(p.latency_of_paper(), Time::from_ps(49_600));
    // SCE section 4 prints 1.2 GB/s: GiB/s, see the preset.
    let mut paper = p.clone();
    paper.dram.latency_max = p.latency_of_paper();
    assert_eq!(paper.guaranteed_bandwidth().0, 1_290_322_580);
}

#[test]
fn impossible_boards_are_refused() {
    let (_, text) = PRESETS[0];
    for (from, to, expect) in [
        ("\"90.8 ns\"", "\"20 ns\"", "latency_max"),
        ("t_ras = \"36 ns\"", "t_ras = \"13 ns\"", "t_ras = 13 ns is below dram.t_rcd"),
        ("cores = 8", "cores = 0", "cores"),
        ("cores = 8", "cores = 8\ncolour = 3", "unknown field"),
        ("cores = 8", "cores = -8", "invalid value"),
        ("\"1.5 GHz\"", "1500000000", "with its unit"),
    ] {
        assert!(text.contains(from), "the preset no longer has {from}");
        let error = Platform::parse(Path::new("x.toml"), &text.replacen(from, to, 1))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expect), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
