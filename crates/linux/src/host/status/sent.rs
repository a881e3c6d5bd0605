//! Another plan, as a client sent it: its name in the first line, and the plan.
//!
//! Problem: a plan may have 16 MiB, and the daemon has other work at each moment. Rule: the thread
//! that answers the clients parses it, and the daemon gets the plan, or the reason why it is none.
//! Does not cover: whether the run can go over to the plan.

use crate::error::LinuxError;
use solocore_model::Plan;
use std::path::Path;

/// See the module.
#[derive(Debug)]
pub(crate) struct Sent {
    /// File of the plan, as the client named it.
    pub name: String,
    pub plan: Plan,
}

impl Sent {
    /// Parses a client's text.
    ///
    /// # Errors
    /// The text is not a plan with its name.
    pub fn parse(text: &[u8]) -> Result<Self, LinuxError> {
        let text = std::str::from_utf8(text).ok().and_then(|text| text.split_once('\n'));
        let Some((name, plan)) = text else {
            return Err(LinuxError::Input(
                "the text that came is not a plan with its name; use solocore run --replace"
                    .to_owned(),
            ));
        };
        let plan =
            Plan::parse(Path::new(name), plan).map_err(|e| LinuxError::Input(e.to_string()))?;
        Ok(Self { name: name.to_owned(), plan })
    }
}
