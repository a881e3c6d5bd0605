//! Why there is no plan.

/// The shares a system asks for cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub(crate) String);
