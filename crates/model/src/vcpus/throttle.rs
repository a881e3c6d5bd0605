//! `throttle` of `[maracas]`: background time while the memory is contended, and the VCPU of the
//! thread that decides on it (maracas, section IV).

use crate::units::{Bandwidth, Time, positive_time, positive_time_option};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `monitor`: the VCPU of the thread that reads the memory's counters and decides on background
/// time (maracas, section IV: a memory monitoring thread on a VCPU of its own).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Monitor {
    /// C: time on its core in each period.
    #[serde(deserialize_with = "positive_time")]
    pub capacity: Time,
    /// T: period of the capacity. A reading may come this much after the memory's period.
    #[serde(deserialize_with = "positive_time")]
    pub period: Time,
    /// Core, from 0. If it is left out, the planner places the VCPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
}

impl Default for Monitor {
    /// A twentieth of a core: readings of counters, and the batches of the probe in place of them.
    fn default() -> Self {
        Self { capacity: Time::from_ns(1_000_000), period: Time::from_ns(20_000_000), core: None }
    }
}

/// `throttle`: background time is taken from some cores while the memory is contended (maracas,
/// Algorithm 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Throttle {
    /// Latency rule: mean latency of a read from which the memory counts as contended.
    #[serde(
        default,
        deserialize_with = "positive_time_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub max_latency: Option<Time>,
    /// Rate rule: traffic of the whole system from which the memory counts as contended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rate: Option<Bandwidth>,
    /// Throttling is reduced when requests have fallen to this many thousandths.
    #[serde(default)]
    pub idle_per_mille: u32,
    /// Time between two readings of the memory.
    #[serde(default = "two_seconds", deserialize_with = "positive_time")]
    pub period: Time,
    /// Time after which a core asks again whether it may go on.
    #[serde(default = "one_millisecond", deserialize_with = "positive_time")]
    pub check: Time,
    /// VCPU of the thread that reads and decides; left out: 1 ms in 20 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<Monitor>,
}

fn two_seconds() -> Time {
    Time::from_ns(2_000_000_000)
}

fn one_millisecond() -> Time {
    Time::from_ns(1_000_000)
}
