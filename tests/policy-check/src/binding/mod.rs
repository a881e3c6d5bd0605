//! The mechanisms behind the Rust binding of `policy/rust`.

pub mod admission;
pub mod balance;
pub mod bwlock;
pub mod dynamic_budget;
pub mod heap;
pub mod levels;
pub mod memguard;
pub mod ready_set;
pub mod sporadic_server;
pub mod throttle;
pub mod time_table;
pub mod units;
pub mod vcpu;
