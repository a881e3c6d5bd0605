//! Limits of the time that a plan may take.

/// Limits of a search for shares or for a time table.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// Ends the search early, with the best so far, or with a plan that says that it was ended.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Is told the part done of a placement without a search, 0 to 1.
    pub share: &'a dyn Fn(f64),
    /// Goes on until no neighbour is better, without a limit on the number of shares.
    pub endless: bool,
    /// Asks for the price of each choice of optimal shares, and ends that early: a plan has all of
    /// them or none.
    pub prices: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl std::fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patience").field("endless", &self.endless).finish_non_exhaustive()
    }
}
