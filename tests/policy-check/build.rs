//! Compiles the drivers of `policy/tests/drive` for the host, as the freestanding C they are.

use std::fmt::Write;
use std::path::Path;

macro_rules! mechanisms {
    ($($name:ident),+ $(,)?) => {
        const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}
include!("src/mechanisms.rs");

fn main() {
    let tests = Path::new("../../policy/tests");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    for input in
        ["../../policy/include", "../../policy/tests", "src/c", "src/mechanisms.rs", "build.rs"]
    {
        println!("cargo::rerun-if-changed={input}");
    }
    std::fs::write(Path::new(&out).join("drivers.h"), drivers(tests)).expect("OUT_DIR is writable");
    cc::Build::new()
        .file("src/c/host.c")
        .include("../../policy/include")
        .include(tests)
        .include(&out)
        .std("c99")
        .flag("-ffreestanding")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        // What is measured by `policy-check --bench` is what a kernel would be built with.
        .opt_level(2)
        .compile("solocore_policy_check");
}

/// Includes the drivers that there are, and lists them as X(number, name).
fn drivers(tests: &Path) -> String {
    let mut includes = String::from("/* Made by build.rs. */\n");
    let mut list = String::from("#define SC_HOST_MECHANISMS(X)");
    for (index, name) in NAMES.iter().enumerate() {
        if tests.join(format!("drive/{name}.h")).exists() {
            let _ = writeln!(includes, "#include \"drive/{name}.h\"");
            let _ = write!(list, " X({index}, {name})");
        } else {
            println!("cargo::warning=policy/tests/drive/{name}.h is missing: {name} is not tested");
        }
    }
    includes + &list + "\n"
}
