//! Memory contention: the cost of other cores' accesses, under each way of limiting them.
//!
//! * [`bandwidth_lock`]: the execution time of a job whose functions hold the bandwidth lock.
//! * [`dynamic_budget`]: budgets of soft real-time cores per job of a hard task; the largest safe
//!   ones.
//! * [`latency`]: the longest time of one request in a DRAM controller, with and without bank
//!   partitioning.
//! * [`latency_explained`]: the derivations of these times, in words and numbers.
//!
//! Every function is pure; `None` or an error stands where there is no bound, never a small number.

pub mod bandwidth_lock;
pub(crate) mod costs;
pub mod dynamic_budget;
pub mod latency;
pub mod latency_explained;
mod timing;
