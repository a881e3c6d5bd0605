//! The files that a plan was made from.
//!
//! Problem: a plan outlives its system file, and nothing told whether that file is still the same.
//! Rule: a plan names each file that its user named, as the user did, with the SHA-256 of the text
//! that was read. Does not cover: presets of boards, which the command contains; programs, which
//! tasks name with their libraries (`program_files`); profiles that the command makes and keeps,
//! which a plan carries in its file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Part of a file in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputRole {
    /// The system file.
    System,
    /// The platform file that the system file names.
    Platform,
    /// A profile that a task names.
    Profile,
}

impl InputRole {
    /// Its name for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::System => "system file",
            Self::Platform => "platform file",
            Self::Profile => "profile",
        }
    }
}

/// The SHA-256 of bytes, in hexadecimal digits.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file that a plan was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanInput {
    /// Part of the file in the plan.
    pub role: InputRole,
    /// Its name as the user wrote it: of the system file on the command line, of others in it.
    pub file: String,
    /// SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
}

impl PlanInput {
    /// A file with this text.
    #[must_use]
    pub fn of(role: InputRole, file: impl Into<String>, text: &str) -> Self {
        Self { role, file: file.into(), sha256: sha256(text.as_bytes()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1.
    #[test]
    fn the_digest_is_that_of_the_standard() {
        let input = PlanInput::of(InputRole::System, "s.toml", "abc");
        assert_eq!(
            input.sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
