//! The structures and functions of the C side, as bindgen reads them from the headers (`build.rs`).

#![allow(missing_docs, dead_code, non_camel_case_types, reason = "names and comments are C's")]
#![allow(clippy::all, clippy::undocumented_unsafe_blocks, reason = "nobody writes it")]

include!(concat!(env!("OUT_DIR"), "/raw.rs"));
