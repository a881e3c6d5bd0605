//! The optimiser's model of the machine.

/// Cache, interrupts and the effects of traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Ways of the shared cache, at most [`MOST_WAYS`](super::ways::MOST_WAYS).
    pub ways: usize,
    /// Bytes of a way.
    pub way_bytes: u64,
    /// Least ways of level C and the OS.
    pub least_ways_of_c: usize,
    /// Ways per core assumed when tasks are placed.
    pub placement_ways: usize,
    /// Level-A PET over level-B PET, at least 1.
    pub level_a_over_b: f64,
    /// Microseconds between ticks.
    pub tick_period_us: f64,
    /// Microseconds of a tick.
    pub tick_us: f64,
    /// Bytes moved by DMA per interrupt.
    pub device_block_bytes: u64,
    /// Microseconds of a device's interrupt.
    pub device_us: f64,
    /// DMA rate at which its effect has reached 63 %, in 10^6 bytes per second.
    pub dma_saturation_mb_per_s: f64,
    /// Accesses to a shared bank at which their effect has reached 63 %, in cores' worth of time.
    pub sharing_saturation_cores: f64,
}

impl Machine {
    /// Interrupts on core 0: cost and least time between them, in microseconds, of the tick and of
    /// all devices together.
    pub(crate) fn interrupts(&self, dma: f64) -> [(f64, f64); 2] {
        let device = if dma > 0.0 {
            (self.device_us, self.device_block_bytes as f64 / dma)
        } else {
            (0.0, 1.0)
        };
        [(self.tick_us, self.tick_period_us), device]
    }
}
