//! Global time, which every thread may read.

use std::sync::atomic::AtomicU64;

/// Global time in ps: the begin of the window.
pub static NOW_PS: AtomicU64 = AtomicU64::new(0);
