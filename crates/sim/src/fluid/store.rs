//! Programs that have been measured, kept for the life of the process.
//!
//! Problem: measuring a program takes a second, and a figure runs the same programs on dozens of
//! boards. Rule: a key holds everything that a measurement depends on. The first caller measures,
//! later callers wait, and all get the same program. As the key is complete, the order of the
//! callers does not matter.
//!
//! Not covered: files that change while the process runs. Nothing is forgotten: a program is some
//! kilobytes.

use super::program::{FluidError, FluidProgram};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A program, once it has been measured.
type Slot = Arc<Mutex<Option<FluidProgram>>>;

/// The program of this key, measured at the first call in the process.
///
/// # Errors
/// Errors of `measure`. They are not kept, so that an interrupted measurement begins again.
pub fn measured_once(
    key: String,
    measure: impl FnOnce() -> Result<FluidProgram, FluidError>,
) -> Result<FluidProgram, FluidError> {
    static KNOWN: OnceLock<Mutex<BTreeMap<String, Slot>>> = OnceLock::new();
    // A slot is written whole, so one that a panic has poisoned is as good as any.
    let slot = {
        let mut known =
            KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(key).or_default())
    };
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = &*slot {
        return Ok(program.clone());
    }
    let program = measure()?;
    *slot = Some(program.clone());
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn everybody_gets_what_was_measured_once() {
        let count = AtomicUsize::new(0);
        let ask = || {
            measured_once("store::tests: a".to_owned(), || {
                count.fetch_add(1, Relaxed);
                Ok(FluidProgram { name: "a".to_owned(), ..FluidProgram::default() })
            })
        };
        std::thread::scope(|s| {
            let threads: Vec<_> = (0..8).map(|_| s.spawn(ask)).collect();
            assert!(threads.into_iter().all(|t| t.join().unwrap().unwrap().name == "a"));
        });
        assert_eq!(count.load(Relaxed), 1);
    }

    #[test]
    fn a_failure_is_not_kept() {
        let key = || "store::tests: b".to_owned();
        assert_eq!(
            measured_once(key(), || Err(FluidError::Interrupted)),
            Err(FluidError::Interrupted)
        );
        assert_eq!(
            measured_once(key(), || Ok(FluidProgram::default())),
            Ok(FluidProgram::default())
        );
    }
}
