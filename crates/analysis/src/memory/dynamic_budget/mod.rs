//! Response times and safe budgets under dynamic budgeting.
//!
//! # Problem
//! Hard real-time tasks run on some cores under fixed priorities, soft ones on the others. Each job
//! of hard task `i` lets all soft cores together make `B_i` accesses while it is in force; a job
//! that finishes early lifts the limit for the rest of its time. Do the hard tasks meet their
//! deadlines, and how large may the budgets be?
//!
//! # Rule
//! Flodin, Lampka, Yi, "Dynamic Budgeting for Settling DRAM Contention of Co-running Hard and Soft
//! Real-time Tasks", sections III and IV. With `L` the longest delay that one access of another
//! core causes, `hi` the tasks of higher priority on the same core and `cr` the hard tasks of the
//! other cores:
//!
//! * `F(cr, t) = sum over k in cr of (ceil(t/P_k) + 1) * H_k * L`
//! * `E_i = C_i + B_i*L + F(cr_i, R_i)`, the time for which the budget is in force (the paper's
//!   `e_i - s_i`)
//! * `R_i = E_i + sum over j in hi_i of ceil(R_i/P_j) * E_j`, the least solution, at most `D_i`
//!
//! # Where the paper is corrected
//! 1. Eq. (1) as printed has `R_j/P_j` in the bracket; it must be `ceil(R_i/P_j)`. `F` is printed
//!    without the direction of its rounding; a job carried in at the start of the window makes it
//!    `ceil(t/P) + 1`.
//! 2. Eq. (1) charges `A_j = C_j + B_j*L` for a job of higher priority. That is right with one hard
//!    core. With several, the budget is in force for `E_j = A_j + F(cr_j, R_j)`: a job that
//!    finishes early lifts the limit until then, although none of the accesses that `F` stands for
//!    were made. They can still come, and then delay task `i` as well. `F` counts once in eq. (1)
//!    and is suffered twice. [`response_paper`] is eq. (1) with correction 1 alone;
//!    `tests/memory_dynamic_budget.rs` has a schedule that exceeds it. The default charges `E_j`.
//! 3. An access of a soft core that is under way when a budget comes into force is in no budget.
//!    With `s` soft cores that each wait for one access at a time, each start of a job and each
//!    return to a preempted one can bring `s` of them: `E_i` grows by `s * L * (1 + sum over j in
//!    hi_i of ceil(R_i/P_j))`. [`Memory::switch_accesses`] is `s`; 0 is the paper. Without that, a
//!    budget can expire shortly before its job ends, and the soft cores are not limited from then
//!    on. In the test, most tasks then exceed their bound, and by more than the accesses that were
//!    not counted.
//! 4. After a preemption a job refills its private caches, while its own budget is in force.
//!    Charging that to the job that preempted, as response-time analysis may, is wrong here: the
//!    rest of `E_j` can pass with the soft cores unlimited, and the refill then still runs when
//!    `E_i` goes on. `E_i` grows by [`HardTask::reload_ps`] with each such return.
//!
//! # Why it holds
//! The budgets in force on one hard core are themselves a fixed-priority schedule: job `i`
//! "executes" exactly while its budget is the core's head and unexpired, for `E_i` at most. Each
//! instant in which a real job runs lies in the force of its own budget or of that of a job of
//! higher priority. So the real job is never behind the virtual one as long as `E_i` covers its
//! execution and all delay while its own budget is in force: `C_i`, at most `B_i` soft accesses,
//! and at most `F(cr_i, R_i)` by other hard cores. So response times of the virtual schedule bound
//! the real ones, and for it the recurrence is the classical one (Joseph and Pandya), with
//! `D_i <= P_i`.
//! `F` holds if the tasks of the other cores end within their periods: all responses hold together,
//! or none is given.
//!
//! # Monotone
//! The right-hand sides grow with each `B` and each `R`, so least solutions do; more budget never
//! makes a task set schedulable. The searches below need only this. Budgets of one core do not
//! enter the responses on another, so the cores are independent of each other.
//!
//! # Not covered
//! A load of a lower-priority task of the same core under way at a release (add the blocking to
//! `wcet_ps`), interrupt and message overheads (likewise), release jitter, `D > P`.

mod explained;
mod largest;
mod responses;

pub use explained::{explain, explain_largest};
pub use largest::{
    Objective, bandwidth_limit, largest_budget, largest_budgets, largest_budgets_of,
};
pub use responses::{
    BudgetError, HardTask, Memory, TaskBound, analyse, cross_interference, response_paper, shares,
};
