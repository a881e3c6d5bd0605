//! Reasons for which there is no plan.

/// The system asks for shares that are impossible.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub(crate) String);
