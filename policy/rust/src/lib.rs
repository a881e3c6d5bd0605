//! The run-time decisions of `policy/`, callable from Rust: the only foreign-function interface to
//! them. The simulator runs these very functions; the BPF programs of `bpf/` include the same
//! headers.

pub mod admission;
pub mod balance;
pub mod bwlock;
pub mod dynamic_budget;
pub mod heap;
pub mod levels;
pub mod memguard;
mod raw;
pub mod ready_set;
pub mod sporadic_server;
pub mod throttle;
pub mod time_table;
pub mod units;
pub mod vcpu;

/// Maximum number of tasks, VCPUs, jobs or table entries in a structure (`SC_MAX_TASKS`).
pub const MAX_TASKS: usize = raw::SC_MAX_TASKS as usize;
/// Maximum number of cores in a structure (`SC_MAX_CPUS`).
pub const MAX_CPUS: usize = raw::SC_MAX_CPUS as usize;
/// No task, no core.
pub(crate) const NONE: u32 = raw::SC_NONE;
/// No limit, never.
pub const UNLIMITED: u64 = u64::MAX;

/// A value of all zero bytes, made on the heap: some are megabytes large.
///
/// # Safety
/// All zero bytes are a valid `T`.
pub(crate) unsafe fn zeroed<T>() -> Box<T> {
    let layout = std::alloc::Layout::new::<T>();
    assert_ne!(layout.size(), 0);
    // SAFETY: the size is not 0; the memory is `T`'s layout, zeroed, and the box frees it as such.
    unsafe {
        let memory = std::alloc::alloc_zeroed(layout).cast::<T>();
        if memory.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        Box::from_raw(memory)
    }
}
