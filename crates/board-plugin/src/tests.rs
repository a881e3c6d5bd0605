//! Tests of the model without QEMU.

use solocore_model::Platform;
use std::path::Path;

/// A board of 1 GHz with the caches of a desktop.
pub fn platform() -> Platform {
    let mut p = Platform::find("xeon-w3530", Path::new(".")).unwrap();
    p.frequency.0 = 1_000_000_000;
    p
}
