//! Tables from documents, for parts that name themselves.

pub mod cores;
pub mod memories;
