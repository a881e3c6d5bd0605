//! Small.
