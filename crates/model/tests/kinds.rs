//! A file of another kind than the wanted one is refused as that.

use solocore_model::platform::PRESETS;
use solocore_model::{ModelError, Plan, Platform, System, WindowsInput};
use solocore_model::{plan, profile, results, run, verification};
use std::path::Path;

const SYSTEM: &str = "platform = \"p4080\"\n[[task]]\nname = \"a\"\n";
const SCENARIO: &str = "[simulation]\nplatform = \"p4080\"\n";
const INSTANCE: &str = "cores = 1\n[[partition]]\nname = \"a\"\n";

fn said<T>(read: impl Fn(&Path, &str) -> Result<T, ModelError>, text: &str) -> String {
    read(Path::new("file"), text).err().expect("it is of another kind").to_string()
}

#[test]
fn files_of_another_kind_are_called_so() {
    let json = |format: &str| format!("{{\"format\": \"{format}\"}}");
    let board = PRESETS[0].1;
    let as_system = |text: &str| said(System::parse, text);
    assert_eq!(
        said(Plan::parse, SYSTEM),
        "file: is not a plan, but a system file; make one of it: solocore plan file -o plan.json"
    );
    assert!(said(Plan::parse, board).starts_with("file: is not a plan, but a platform file; name"));
    assert!(
        said(Platform::parse, SYSTEM).contains("is not a platform file, but a system file; name")
    );
    assert!(
        said(WindowsInput::parse, SYSTEM)
            .ends_with("a system file; name an instance, or give this one to `solocore plan`")
    );
    assert!(as_system(board).contains("is not a system file, but a platform file; name"));
    assert!(
        as_system(SCENARIO)
            .ends_with("a scenario; name a system file, or give this one to `solocore sim`")
    );
    assert!(
        as_system(INSTANCE)
            .ends_with("instance; name a system file, or give this one to `solocore schedule-io`")
    );
    assert!(said(Plan::parse, INSTANCE).contains("is not a plan, but an instance; name a file"));
    assert!(
        said(WindowsInput::parse, &json(plan::FORMAT))
            .ends_with("but a plan; name an instance, or give this one to `solocore run`")
    );
    for (format, words) in [
        (plan::FORMAT, "a plan"),
        (profile::FORMAT, "a profile"),
        (run::FORMAT, "a result of `solocore run`"),
        (results::FORMAT, "a result of `solocore sim`"),
        (verification::FORMAT, "a result of `solocore verify`"),
    ] {
        let said = as_system(&json(format));
        assert!(
            said.starts_with(&format!("file: is not a system file, but {words}; name")),
            "{said}"
        );
    }
}

/// A board is a preset by its name, so the name of another file is looked at first.
#[test]
fn a_file_in_the_place_of_a_board_is_called_by_its_kind() {
    let dir = tempfile::tempdir().unwrap();
    let said = |name| Platform::find(name, dir.path()).expect_err("it is no board").to_string();
    std::fs::write(dir.path().join("plan.json"), format!("{{\"format\": \"{}\"}}", plan::FORMAT))
        .unwrap();
    assert!(said("plan.json").ends_with(
        "plan.json: is not a platform file, but a plan; name a platform file, or give this one \
                to `solocore run`"
    ));
    std::fs::write(dir.path().join("board"), PRESETS[0].1).unwrap();
    for name in ["board", "none"] {
        assert!(said(name).contains(&format!("no preset is called `{name}`")));
    }
}

#[test]
fn faults_of_the_wanted_kind_keep_their_words() {
    let nameless = "platform = \"p4080\"\n[[task]]\nperiod = \"1 ms\"\n";
    assert!(said(System::parse, nameless).contains("missing field `name`"));
    assert!(said(System::parse, &format!("{SYSTEM}perod = 1\n")).contains("`perod`"));
    assert!(said(System::parse, "name = \"a\n").starts_with("file:1:"));
    assert!(said(Plan::parse, "{}").contains("missing field"));
    assert!(said(WindowsInput::parse, INSTANCE).contains("missing field `period`"));
}

#[test]
fn a_text_that_is_no_json_is_called_so() {
    let no_json = "file: is not JSON; name a file that solocore has written";
    for text in ["# a comment\n", "name = \"a\"\n", "task a"] {
        assert_eq!(said(Plan::parse, text), no_json, "{text}");
    }
    for text in ["false", "[]"] {
        assert!(said(Plan::parse, text).contains("invalid type"), "{text}");
    }
    assert_eq!(said(Plan::parse, ""), "file: is empty; name a file that solocore has written");
    for text in ["{\"format\": x}", "{\"format\":"] {
        assert!(said(Plan::parse, text).starts_with("file:1:"), "{text}");
    }
}
