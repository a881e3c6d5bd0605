//! Time of the processor, for limits and figures that a busy machine does not change.

/// Time for which the processor has run this program, in seconds; infinite if the kernel does not
/// tell.
pub fn seconds_run() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|n| n.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::INFINITY) / 1e9
}
