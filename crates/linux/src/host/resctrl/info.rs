//! Shares that the hardware can enforce, from `info/`.

use super::tree::{Tree, root};
use crate::error::LinuxError;

/// The shared cache's ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cache {
    pub mask: u64,
    pub least_bits: u32,
    /// Ways that other devices use as well, as a mask.
    pub shared: u64,
    /// Whether a mask may have gaps.
    pub sparse: bool,
}

/// Throttling of bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Throttling {
    pub least: u64,
    pub step: u64,
    /// Whether values are MiB/s, not percent.
    pub in_mib: bool,
}

/// Abilities of the hardware.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    pub cache: Option<Cache>,
    /// Names of the lines of a schemata that hold a mask of the cache: one, or two where code and
    /// data are apart (CDP).
    pub lines: Vec<&'static str>,
    pub throttling: Option<Throttling>,
    /// Maximum number of groups beside the first.
    pub groups: u64,
    /// Numbers of the caches and memory controllers.
    pub cache_domains: Vec<u64>,
    pub memory_domains: Vec<u64>,
    /// Counters of a group: `llc_occupancy`, `mbm_total_bytes`, `mbm_local_bytes`.
    pub monitors: Vec<String>,
}

/// Values of a resource in a schemata: of `L3:0=fffff;1=fffff`, the text behind the colon.
pub(super) fn values<'a>(schemata: &'a str, resource: &str) -> Option<&'a str> {
    schemata.lines().find_map(|l| l.trim().strip_prefix(resource)?.strip_prefix(':'))
}

/// The numbers before the equals signs.
fn domains(schemata: &str, resource: &str) -> Vec<u64> {
    let parts = values(schemata, resource).into_iter().flat_map(|l| l.split(';'));
    parts.filter_map(|d| d.split_once('=')?.0.trim().parse().ok()).collect()
}

impl Info {
    /// Reads `info/`.
    pub fn read(tree: &dyn Tree, mounts: &str) -> Result<Self, LinuxError> {
        let text = |path: &str| tree.read(path).ok().map(|t| t.trim().to_owned());
        let place = root();
        let schemata = text("schemata").ok_or_else(|| {
            LinuxError::Machine(format!(
                "resctrl is not mounted at {0}; mount it (mount -t resctrl resctrl {0}), if the \
                    CPU has it (`solocore doctor`)",
                place.display()
            ))
        })?;
        let decimal = |path: &str| text(path).and_then(|t| t.parse::<u64>().ok());
        let hex = |path: &str| text(path).and_then(|t| u64::from_str_radix(&t, 16).ok());
        let apart = text("info/L3CODE/cbm_mask").is_some();
        let lines = if apart { vec!["L3CODE", "L3DATA"] } else { vec!["L3"] };
        let of = |file: &str| format!("info/{}/{file}", lines[0]);
        let cache = hex(&of("cbm_mask")).filter(|&m| m != 0).map(|mask| Cache {
            mask,
            least_bits: decimal(&of("min_cbm_bits"))
                .and_then(|b| u32::try_from(b).ok())
                .unwrap_or(1),
            shared: hex(&of("shareable_bits")).unwrap_or(0),
            sparse: decimal(&of("sparse_masks")) == Some(1),
        });
        let by_option = mounts.lines().any(|l| l.contains(" resctrl ") && l.contains("mba_MBps"));
        let in_mib = by_option || tree.read("mba_MBps_event").is_ok();
        let throttling = decimal("info/MB/min_bandwidth").map(|least| Throttling {
            least,
            step: decimal("info/MB/bandwidth_gran").unwrap_or(10).max(1),
            in_mib,
        });
        let groups = [
            cache.map(|_| of("num_closids")),
            throttling.map(|_| "info/MB/num_closids".to_owned()),
        ];
        let groups = groups
            .into_iter()
            .flatten()
            .filter_map(|f| decimal(&f))
            .min()
            .unwrap_or(1)
            .saturating_sub(1);
        if cache.is_none() && throttling.is_none() {
            return Err(LinuxError::Machine(
                "resctrl offers neither ways of the shared cache (L3) nor bandwidth (MB); leave \
                    --resctrl out"
                    .to_owned(),
            ));
        }
        let monitors = text("info/L3_MON/mon_features").unwrap_or_default();
        Ok(Self {
            throttling,
            groups,
            cache_domains: domains(&schemata, lines[0]),
            memory_domains: domains(&schemata, "MB"),
            monitors: monitors
                .lines()
                .filter(|l| !l.ends_with("_config"))
                .map(str::to_owned)
                .collect(),
            lines: if cache.is_some() { lines } else { Vec::new() },
            cache,
        })
    }

    /// A description for people.
    pub fn text(&self) -> String {
        let ways = self.cache.map_or("none".to_owned(), |c| c.mask.count_ones().to_string());
        let apart = if self.lines.len() > 1 { ", code and data apart" } else { "" };
        let bandwidth = self.throttling.map_or("none".to_owned(), |t| {
            if t.in_mib { "in MiB/s".to_owned() } else { format!("in steps of {} %", t.step) }
        });
        let monitors =
            if self.monitors.is_empty() { "nothing".to_owned() } else { self.monitors.join(", ") };
        format!(
            "ways of the shared cache: {ways}{apart}; bandwidth: {bandwidth}; {} groups; counted: \
                {monitors}: `solocore run --resctrl`",
            self.groups
        )
    }
}
