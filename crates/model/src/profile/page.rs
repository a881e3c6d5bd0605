//! The name of a page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page by the memory region it lies in, so that the name holds under ASLR.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct PageName {
    /// File name of a mapped file, `heap`, `stack`, `NAME:bss`, or `mmap#N` in order of creation.
    pub region: String,
    /// Page number within the region (of `stack`: from its top downwards).
    pub offset: u64,
}
