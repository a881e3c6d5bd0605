//! What the imitated CPU can do.

/// Throttling of bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Least value.
    pub least: u32,
    /// Values are rounded up to multiples of this.
    pub step: u32,
    /// Classes.
    pub closids: u32,
    /// Mounted with `mba_MBps`: values are MiB/s, and any is taken.
    pub in_mib: bool,
}

/// A CPU, and how resctrl is mounted on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Online CPUs, from 0 on.
    pub cpus: u32,
    /// Numbers of the last-level caches; CPUs are spread evenly over them.
    pub caches: Vec<u32>,
    /// Bits of a mask; 0: ways cannot be shared out.
    pub ways: u32,
    /// Size of each cache.
    pub cache_bytes: u64,
    /// Least bits of a mask.
    pub least_bits: u32,
    /// Bits that other devices use as well.
    pub shareable: u32,
    /// May a mask have gaps (AMD, Arm, newer Intel)?
    pub sparse: bool,
    /// Mounted with `cdp`: code and data have masks of their own.
    pub cdp: bool,
    /// Classes of the cache, without CDP.
    pub closids: u32,
    /// Throttling; none: it has none.
    pub bandwidth: Option<Bandwidth>,
    /// Numbers for monitoring; 0: it cannot.
    pub rmids: u32,
    /// What is monitored.
    pub events: Vec<&'static str>,
    /// May caches be pseudo-locked (three Intel models)?
    pub pseudo_lock: bool,
}

impl Hardware {
    /// A server of one cache: 11 ways of which devices use two, throttling in steps of 10 %,
    /// monitoring.
    #[must_use]
    pub fn intel() -> Self {
        Self {
            cpus: 4,
            caches: vec![0],
            ways: 11,
            cache_bytes: 11 << 20,
            least_bits: 1,
            shareable: 0x600,
            sparse: false,
            cdp: false,
            closids: 16,
            bandwidth: Some(Bandwidth { least: 10, step: 10, closids: 8, in_mib: false }),
            rmids: 144,
            events: vec!["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"],
            pseudo_lock: false,
        }
    }

    /// Broadwell-X: at least two bits were Haswell's; here one, no throttling, pseudo-locking.
    #[must_use]
    pub fn broadwell() -> Self {
        Self {
            ways: 20,
            cache_bytes: 20 << 20,
            shareable: 0xc0000,
            bandwidth: None,
            pseudo_lock: true,
            ..Self::intel()
        }
    }

    /// Arm with MPAM: masks may have gaps, all bits may be used by devices, and there are no local
    /// counts.
    #[must_use]
    pub fn arm() -> Self {
        Self {
            ways: 16,
            cache_bytes: 16 << 20,
            shareable: 0xffff,
            sparse: true,
            closids: 32,
            bandwidth: Some(Bandwidth { least: 1, step: 1, closids: 32, in_mib: false }),
            rmids: 64,
            events: vec!["llc_occupancy", "mbm_total_bytes"],
            ..Self::intel()
        }
    }

    /// The whole mask.
    #[must_use]
    pub fn all_ways(&self) -> u32 {
        u32::MAX.checked_shr(32 - self.ways.min(32)).unwrap_or(0)
    }

    /// Classes of each line of a schemata.
    pub(crate) fn closids_of(&self, name: &str) -> u32 {
        match name {
            "MB" => self.bandwidth.map_or(0, |b| b.closids),
            _ if self.cdp => self.closids / 2,
            _ => self.closids,
        }
    }

    /// Names of the cache's lines: one, or those of code and data.
    pub(crate) fn cache_lines(&self) -> &'static [&'static str] {
        match (self.ways, self.cdp) {
            (0, _) => &[],
            (_, false) => &["L3"],
            (_, true) => &["L3CODE", "L3DATA"],
        }
    }

    /// Classes that there are in all.
    pub(crate) fn closids_in_all(&self) -> u32 {
        let lines = self.cache_lines().iter().copied().chain(self.bandwidth.map(|_| "MB"));
        lines.map(|name| self.closids_of(name)).min().unwrap_or(0)
    }
}
