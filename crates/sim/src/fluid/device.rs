//! Devices of the interval machine, as they are stated.

/// A DMA engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FluidDevice {
    /// Its name, for messages.
    pub name: String,
    /// Time of a line at the least, ps: wait states included.
    pub line_ps: u64,
    /// Lines under way at a time.
    pub outstanding: u32,
    /// Traffic of its own, without orders.
    pub stream: Option<FluidStream>,
}

/// Traffic that a device makes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FluidStream {
    /// Direction: into memory, or out of it.
    pub into_memory: bool,
    /// Begin of the traffic, ps.
    pub start_ps: u64,
    /// End of the traffic, ps.
    pub stop_ps: u64,
}
