//! Releases that an event causes: the end of a job, a mark of a program, a transfer.

use super::config::{KernelError, Release, TaskSpec, Trigger};
use crate::hardware::DeviceId;

/// Tasks that each event releases: (cause, task).
#[derive(Default)]
pub struct Triggers {
    pub job_end: Vec<(usize, usize)>,
    pub mark: Vec<((usize, u32), usize)>,
    pub transferred: Vec<(DeviceId, usize)>,
}

impl Triggers {
    /// The releases that tasks state.
    ///
    /// # Errors
    /// A task is released by one that does not exist.
    pub fn of(tasks: &[TaskSpec]) -> Result<Self, KernelError> {
        let mut all = Self::default();
        for (t, spec) in tasks.iter().enumerate() {
            let Release::Triggered { by, .. } = spec.release else { continue };
            match by {
                Trigger::JobEnd(source) | Trigger::Mark(source, _) if source >= tasks.len() => {
                    let what = format!(
                        "is released by task {source}, but there are {} tasks; correct it",
                        tasks.len()
                    );
                    return Err(KernelError::task(spec, what));
                }
                Trigger::JobEnd(source) => all.job_end.push((source, t)),
                Trigger::Mark(source, mark) => all.mark.push(((source, mark), t)),
                Trigger::Transferred(device) => all.transferred.push((device, t)),
            }
        }
        Ok(all)
    }
}
