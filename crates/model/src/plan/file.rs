//! A plan as its file has it: the part of the scheme under `sce`, `mc2`, or `maracas` and `vcpus`.
//!
//! Problem: plan files name the parts after the papers, and a file that somebody edits can have two of them. Rule: the names stay; a plan
//! with the parts of two schemes is refused, as is one with VCPUs and no word on how they are scheduled.

use super::core::{PlanCore, PlanRegulation};
use super::levels::LevelsPlan;
use super::task::PlanTask;
use super::vcpus::{PlanVcpu, VcpuScheduling, VcpusPlan};
use super::windows::WindowsPlan;
use super::{Certificate, Plan, Scheme};
use crate::platform::Platform;
use crate::system::Model;
use serde::{Deserialize, Serialize};

/// See the module; the fields are those of [`Plan`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanFile {
    format: String,
    schedulable: bool,
    /// Plans of before have the papers' model.
    #[serde(default = "papers_model")]
    model: Model,
    tasks: Vec<PlanTask>,
    cores: Vec<PlanCore>,
    reasons: Vec<String>,
    assumptions: Vec<String>,
    regulation: PlanRegulation,
    platform: Platform,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<Certificate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sce: Option<Box<WindowsPlan>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mc2: Option<Box<LevelsPlan>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    maracas: Option<VcpuScheduling>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    vcpus: Vec<PlanVcpu>,
}

fn papers_model() -> Model {
    Model::Sce
}

impl TryFrom<PlanFile> for Plan {
    type Error = String;

    fn try_from(file: PlanFile) -> Result<Self, String> {
        let scheme = match (file.sce, file.mc2, file.maracas) {
            (None, None, None) if file.vcpus.is_empty() => Scheme::Budgets,
            (Some(windows), None, None) if file.vcpus.is_empty() => Scheme::Windows(windows),
            (None, Some(levels), None) if file.vcpus.is_empty() => Scheme::Levels(levels),
            (None, None, Some(scheduling)) => Scheme::Vcpus(Box::new(VcpusPlan { scheduling, vcpus: file.vcpus })),
            (None, None, None) => {
                return Err(
                    "it has vcpus, but no maracas, which says how they are scheduled; make the plan anew".to_owned()
                );
            }
            _ => return Err("it has two of sce, mc2 and maracas with vcpus; one decides who runs when".to_owned()),
        };
        Ok(Self {
            format: file.format,
            schedulable: file.schedulable,
            model: file.model,
            tasks: file.tasks,
            cores: file.cores,
            reasons: file.reasons,
            assumptions: file.assumptions,
            regulation: file.regulation,
            platform: file.platform,
            certificate: file.certificate,
            scheme,
        })
    }
}

impl From<Plan> for PlanFile {
    fn from(plan: Plan) -> Self {
        let mut file = Self {
            format: plan.format,
            schedulable: plan.schedulable,
            model: plan.model,
            tasks: plan.tasks,
            cores: plan.cores,
            reasons: plan.reasons,
            assumptions: plan.assumptions,
            regulation: plan.regulation,
            platform: plan.platform,
            certificate: plan.certificate,
            sce: None,
            mc2: None,
            maracas: None,
            vcpus: Vec::new(),
        };
        match plan.scheme {
            Scheme::Budgets => {}
            Scheme::Windows(windows) => file.sce = Some(windows),
            Scheme::Levels(levels) => file.mc2 = Some(levels),
            Scheme::Vcpus(vcpus) => {
                file.maracas = Some(vcpus.scheduling);
                file.vcpus = vcpus.vcpus;
            }
        }
        file
    }
}
