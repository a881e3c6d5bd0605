//! From a system and its profiles to a plan with a proof.
//!
//! Problem: choose cores, shares of the shared cache, locked pages and budgets so that every
//! analysed task meets its deadline, for any behaviour of the other cores. Rule: each core has its
//! own part of the cache, the banks and the bandwidth, and locks the pages that save it most;
//! response times per core decide. Parts are chosen together with the tasks' cores (`share =
//! "optimal"`, the default of budgets), are even (SCE section 3.1), or are stated. With the last
//! two, tasks without a core go to the least loaded one (worst fit, heaviest first). Each scheme
//! has a module: `budgets`, [`windows`] (IMA partitions, with their solver), [`levels`] (MC2, with
//! its optimiser) and `vcpus`. `policies` chooses the policy of budgets where the file leaves it
//! open. Does not cover: the choice of a scheme.

mod alike;
mod assumptions;
mod budgets;
mod core_plan;
mod demand;
mod error;
mod explain;
pub mod levels;
mod lock;
mod lockable;
mod margin;
pub mod memory;
mod patience;
mod planning;
mod policies;
mod promises;
mod repair;
mod resources;
mod vcpus;
mod waterfall;
mod whole;
pub mod windows;
mod work;
mod writes;

pub use budgets::{Allotment, Column, Demanded, Judge, Rest};
pub use demand::Demand;
pub use error::PlanError;
pub use patience::Patience;
pub use planning::{judge, plan, plan_until};
pub use repair::{Advice, repair};
