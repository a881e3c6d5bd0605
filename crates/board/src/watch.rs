//! What whoever started a board sees while it works.
//!
//! Problem: a fetch takes minutes and a run hours, and a library must not print. Rule: the caller
//! hands in a [`Watch`], which is told what goes on and is asked whether to go on.

/// Where the program wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Out,
    /// Its standard error.
    Err,
}

/// Sees what a board does.
pub trait Watch {
    /// A piece of work begins.
    fn stage(&mut self, what: &str);
    /// A share of the stage's work is done, 0 to 1.
    fn share(&mut self, done: f64);
    /// Something that the user should know, in one line.
    fn note(&mut self, text: &str);
    /// The guest's clock shows this, so long after its program began by the wall's.
    fn speed(&mut self, simulated_ns: u64, wall_ns: u64);
    /// The program wrote something.
    fn output(&mut self, stream: Stream, bytes: &[u8]);
    /// The terminal is the guest's from here on.
    fn hand_over(&mut self);
    /// Should the work end early?
    fn stopped(&self) -> bool;
}
