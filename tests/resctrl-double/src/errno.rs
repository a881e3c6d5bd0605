//! Error numbers, as the kernel has them.

/// An error number of the kernel, as `libc` names it.
pub type Errno = i32;
