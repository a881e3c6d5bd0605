//! The identity of the build whose experiments run: a hash of the sources that decide outcomes.
//!
//! Problem: a stored outcome of an older build looks like one of today's, though the simulator may
//! have changed in between. Rule: each [`crate::Record`] holds [`THIS`]. It is the hash of the
//! sources ([`crate::sources`]) that `build.rs` works out. So the command and a program with the
//! library agree, and a build with changes of other sources keeps its identity.

/// The identity of this build, 16 hexadecimal digits.
pub const THIS: &str = env!("SOLOCORE_SOURCES");

#[cfg(test)]
#[path = "build_identity_tests.rs"]
mod tests;
