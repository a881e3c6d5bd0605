//! All keys that a file lacks are named at once.

use solocore_model::{Platform, System};
use std::path::Path;

fn said(text: &str) -> String {
    System::parse(Path::new("system.toml"), text).unwrap_err().to_string()
}

#[test]
fn all_that_is_missing_is_named_at_once() {
    let text = "[[task]]\nname = \"a\"\n[[partition]]\nname = \"p\"\n[[partition]]\ncore = 1\n";
    let error = said(text);
    for key in ["`platform`", "`partition[1].period`", "`partition[2].name`"] {
        assert!(error.contains(key), "{error}");
    }
    assert!(error.contains("missing fields") && !error.contains("task["), "{error}");
    // A single missing key is reported as before, with its place.
    let one = said("platform = \"p4080\"\n[[task]]\nperiod = \"1 ms\"\n");
    assert!(one.contains("missing field `name`; add it"), "{one}");
}

#[test]
fn a_platform_file_of_nothing_lists_its_keys() {
    let text = "name = \"x\"\n[llc]\nsize = \"1 MiB\"\n[dram]\nchannels = 1\n";
    let error = Platform::parse(Path::new("x.toml"), text).unwrap_err().to_string();
    for key in ["`cores`", "`llc.ways`", "`dram.banks`", "`l1d`"] {
        assert!(error.contains(key), "{error}");
    }
    assert!(!error.contains("`name`") && !error.contains("`llc.size`"), "{error}");
}
