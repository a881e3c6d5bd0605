//! What an examination of the machine says of one thing.

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// What was looked at, by a name that stays.
    pub what: String,
    /// Is it as it should be?
    pub good: bool,
    /// What was found, and how to get what is missing.
    pub found: String,
}
