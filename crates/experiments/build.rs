//! Hashes the sources that decide outcomes: the identity of this build in its records.

#[path = "src/sources.rs"]
mod sources;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = sources::Sources::of(&root, env!("CARGO_PKG_NAME"))?;
    for path in &sources.paths {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo::rustc-env=SOLOCORE_SOURCES={}", sources.hash()?);
    Ok(())
}
