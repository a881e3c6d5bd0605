//! The scheme of a plan in its file: under `sce`, `mc2`, or `maracas` and `vcpus`.
//!
//! Problem: plan files name the parts after the papers, and an edited file can have two of them.
//! Rule: the names stay. A plan with the parts of two schemes is refused, and so is one with VCPUs
//! but without the rules of their scheduling.

use super::Scheme;
use super::levels::LevelsPlan;
use super::vcpus::{PlanVcpu, VcpuScheduling, VcpusPlan};
use super::windows::WindowsPlan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The keys of a plan's file that depend on the scheme.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
pub(super) struct SchemeFile {
    /// Partitions with their windows and the time table. `null` or absent: the plan is not one of
    /// windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sce: Option<Box<WindowsPlan>>,
    /// Criticality levels with their ways, banks, buffers and slots. Absent: the plan is not one of
    /// levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mc2: Option<Box<LevelsPlan>>,
    /// Rules of the VCPUs' scheduling. Absent: the plan is not one of VCPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    maracas: Option<VcpuScheduling>,
    /// VCPUs, without the best-effort ones. Empty or absent: the plan is not one of VCPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    vcpus: Vec<PlanVcpu>,
}

impl TryFrom<SchemeFile> for Scheme {
    type Error = String;

    fn try_from(file: SchemeFile) -> Result<Self, String> {
        match (file.sce, file.mc2, file.maracas) {
            (None, None, None) if file.vcpus.is_empty() => Ok(Self::Budgets),
            (Some(windows), None, None) if file.vcpus.is_empty() => Ok(Self::Windows(windows)),
            (None, Some(levels), None) if file.vcpus.is_empty() => Ok(Self::Levels(levels)),
            (None, None, Some(scheduling)) => {
                Ok(Self::Vcpus(Box::new(VcpusPlan { scheduling, vcpus: file.vcpus })))
            }
            (None, None, None) => {
                Err("it has vcpus, but not maracas, the parameters of their scheduling; make the \
                plan again"
                    .to_owned())
            }
            _ => Err("it has two of sce, mc2 and maracas with vcpus; only one can decide which \
                task runs when"
                .to_owned()),
        }
    }
}

impl From<Scheme> for SchemeFile {
    fn from(scheme: Scheme) -> Self {
        let none = Self::default();
        match scheme {
            Scheme::Budgets => none,
            Scheme::Windows(windows) => Self { sce: Some(windows), ..none },
            Scheme::Levels(levels) => Self { mc2: Some(levels), ..none },
            Scheme::Vcpus(vcpus) => {
                Self { maracas: Some(vcpus.scheduling), vcpus: vcpus.vcpus, ..none }
            }
        }
    }
}
