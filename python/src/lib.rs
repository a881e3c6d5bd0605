//! The part of the Python package `solocore` that runs in Rust.
//!
//! Problem: Python must neither block nor crash because of work in Rust. Rule: each function takes
//! plain values and buffers, works without the interpreter's lock in a thread of its own, looks for
//! Ctrl-C meanwhile (`work`), and gives JSON or fills buffers. Types, tables and charts are
//! Python's (python/solocore). Columns come in as the memory of Arrow arrays, without a copy.

mod columns;
mod errors;
mod experiments;
mod sets;
mod systems;
mod work;

use pyo3::prelude::*;

#[pymodule]
fn _solocore(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("TESTS", sets::names())?;
    for function in [
        wrap_pyfunction!(sets::analyze, module)?,
        wrap_pyfunction!(sets::explain, module)?,
        wrap_pyfunction!(sets::derivation_text, module)?,
        wrap_pyfunction!(systems::plan, module)?,
        wrap_pyfunction!(systems::save_plan, module)?,
        wrap_pyfunction!(systems::simulate, module)?,
        wrap_pyfunction!(systems::schedule_io, module)?,
        wrap_pyfunction!(experiments::study, module)?,
        wrap_pyfunction!(experiments::experiments, module)?,
        wrap_pyfunction!(experiments::study_lines, module)?,
        wrap_pyfunction!(experiments::reproduce, module)?,
        wrap_pyfunction!(experiments::reproduce_files, module)?,
        wrap_pyfunction!(experiments::attack, module)?,
    ] {
        module.add_function(function)?;
    }
    module.add_class::<sets::Generator>()
}
