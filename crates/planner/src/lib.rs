//! From a system and its profiles to a plan with a proof.
//!
//! Problem: choose cores, shares of the shared cache, locked pages and budgets so that every
//! analysed task meets its deadline, for any behaviour of the other cores. Rule (SCE section 3.1):
//! the cache, the banks and the guaranteed bandwidth are shared out evenly (or as stated). Each
//! core locks the pages that save it most. Unplaced tasks go to the least loaded core (worst fit,
//! heaviest first); response times per core decide. Each scheme has a module: `budgets`,
//! [`windows`] (IMA partitions, with their solver), [`levels`] (MC2, with its optimiser) and
//! `vcpus`.

mod assumptions;
mod budgets;
mod core_plan;
mod demand;
mod error;
mod explain;
pub mod levels;
mod lock;
mod margin;
pub mod memory;
mod planning;
mod promises;
mod repair;
mod resources;
mod vcpus;
mod waterfall;
mod whole;
pub mod windows;
mod work;
mod writes;

pub use demand::Demand;
pub use error::PlanError;
pub use planning::{Patience, plan, plan_until};
pub use repair::{Advice, repair};
