//! Compiles the policies as the freestanding C they are, and makes the Rust of their structures and
//! functions.

use bindgen::FieldVisibilityKind as Visibility;
use bindgen::callbacks::{DeriveInfo, FieldInfo, ParseCallbacks};
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=../include");
    cc::Build::new()
        .file("src/shim.c")
        .include("../include")
        .std("c99")
        .flag("-ffreestanding")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .opt_level(2)
        .compile("solocore_policy");
    println!("cargo::rerun-if-changed=src/shim.c");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    bindgen::Builder::default()
        .header("src/shim.c")
        .clang_args(["-I../include", "-ffreestanding", "-std=c99", "-fparse-all-comments"])
        .allowlist_file(".*/include/solocore/.*")
        .default_visibility(Visibility::PublicCrate)
        .derive_copy(false)
        .derive_default(true)
        .parse_callbacks(Box::new(Structures))
        .formatter(bindgen::Formatter::None)
        .generate()
        .expect(
            "bindgen reads the policies' headers; it needs libclang (apt-get install libclang1)",
        )
        .write_to_file(out.join("raw.rs"))
        .expect("the Rust of the policies' headers is written");
}

/// The state of a policy is not copied by accident; it hands out an ordinary value.
#[derive(Debug)]
struct Structures;

const VALUES: [&str; 2] = ["sc_replenishment", "sc_level_task"];

impl ParseCallbacks for Structures {
    fn add_derives(&self, info: &DeriveInfo<'_>) -> Vec<String> {
        let more = if VALUES.contains(&info.name) { &["Copy", "PartialEq", "Eq"][..] } else { &[] };
        ["Clone"].iter().chain(more).map(|&name| name.to_owned()).collect()
    }

    fn field_visibility(&self, info: FieldInfo<'_>) -> Option<Visibility> {
        (info.type_name == VALUES[0]).then_some(Visibility::Public)
    }
}
