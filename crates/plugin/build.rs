//! With the feature `carry`: takes the plugins that the command is to carry from a directory.

use std::path::PathBuf;

const NAMES: [&str; 2] = ["libsolocore_qemu.so", "libsolocore_board_plugin.so"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SOLOCORE_PLUGINS");
    if std::env::var_os("CARGO_FEATURE_CARRY").is_none() {
        return;
    }
    let Some(from) = std::env::var_os("SOLOCORE_PLUGINS").map(PathBuf::from) else {
        fail("SOLOCORE_PLUGINS is not set");
    };
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for name in NAMES {
        let file = from.join(name);
        println!("cargo::rerun-if-changed={}", file.display());
        match std::fs::read(&file) {
            Ok(bytes) if bytes.starts_with(b"\x7fELF") => {
                std::fs::write(out.join(name), bytes).expect("OUT_DIR can be written to");
            }
            Ok(_) => fail(&format!("{} is not a shared library", file.display())),
            Err(e) => fail(&format!("{} cannot be read: {e}", file.display())),
        }
    }
}

fn fail(what: &str) -> ! {
    println!(
        "cargo::error=feature `carry`: {what}; SOLOCORE_PLUGINS names the directory of {} (an \
            absolute path); `make carried` does all of it",
        NAMES.join(" and ")
    );
    std::process::exit(1);
}
