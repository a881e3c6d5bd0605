//! Messages of a board to its caller while it works.
//!
//! Problem: a fetch takes minutes and a run hours, and a library must not print. Rule: the caller
//! passes a [`Watch`], which gets the messages and decides whether the work goes on.

/// Stream of the program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Out,
    /// Its standard error.
    Err,
}

/// Receiver of a board's messages.
pub trait Watch {
    /// A piece of work begins.
    fn stage(&mut self, what: &str);
    /// A share of the stage's work is done, 0 to 1.
    fn share(&mut self, done: f64);
    /// Note for the user, on one line.
    fn note(&mut self, text: &str);
    /// The present time of the guest's clock, ns, and the wall time since its program began, ns.
    fn speed(&mut self, simulated_ns: u64, wall_ns: u64);
    /// The program wrote something.
    fn output(&mut self, stream: Stream, bytes: &[u8]);
    /// The terminal is the guest's from here on.
    fn hand_over(&mut self);
    /// Whether the work should end early.
    fn stopped(&self) -> bool;
}
