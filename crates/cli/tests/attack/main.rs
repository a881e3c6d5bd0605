//! Attacks on plans: random systems on the simulated board, of each way to plan one. One program,
//! so that it is linked once.

mod adversary;
mod anywhere;
mod bounds;
mod found;
mod levels;
mod longest;
mod recorded;
mod spare;
mod stand_ins;
mod vcpus;
mod windows;
