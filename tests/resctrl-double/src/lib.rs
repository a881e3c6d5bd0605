//! An imitation of the kernel's resctrl, for tests on machines whose hardware has none.
//!
//! Problem: resctrl exists only where the CPU has it, and a test that writes to plain files proves
//! nothing: the kernel refuses much.
//! Rule: [`Double`] holds groups and answers reads, writes, mkdir and rmdir as the kernel does:
//! same files, same error numbers, same texts in `info/last_cmd_status`, same order of checks, and
//! a write of a schemata that is refused changes nothing. `resctrl-double` mounts it (FUSE), so
//! that an unmodified program meets it as a file system.
//! Source: Linux, Documentation/filesystems/resctrl.rst, and the behaviour of fs/resctrl (6.16 to
//! 6.19): what is an interface is repeated here, no code is. For Arm,
//! Documentation/arch/arm64/mpam.rst.
//! Does not cover: L2 resources, SMBA, configurable events, moving of monitoring groups, task lists
//! of the default group, and the hardware: nothing is allocated or throttled.

mod errno;
mod files;
mod group;
mod groups;
mod hardware;
mod masks;
mod schemata;

pub use errno::Errno;
pub use group::Mode;
pub use groups::{Double, Kind, Seen};
pub use hardware::{Bandwidth, Hardware};
