//! Memory contention: what other cores' accesses can cost, under each way of holding them back.
//!
//! * [`dynamic_budget`]: budgets of soft real-time cores per job of a hard task; the largest safe ones.
//! * [`best_effort`]: cores throttled at so many accesses a period, beside a core that is not regulated.
//! * [`bwlock`]: memory-performance critical sections under the bandwidth lock, and those it throttles.
//! * [`reclaim`]: which bounds survive MemGuard's prediction, donation and sharing.
//! * [`latency`]: how long one request can take in a DRAM controller, with and without bank partitioning.
//!
//! Every function is pure; `None` or an error stands where there is no bound, never a small number.

pub mod best_effort;
pub mod bwlock;
pub mod dynamic_budget;
pub mod latency;
pub mod reclaim;
