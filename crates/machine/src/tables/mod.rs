//! What documents say of parts that name themselves.

pub mod cores;
pub mod memories;
