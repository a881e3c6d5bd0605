//! Checks of the keys by which cores exceed their budgets: `reclaim` and `sharing`.

use super::regulation::{Model, Policy, Regulation};

/// The key that lets cores exceed their budgets, if one is set.
fn key(regulation: &Regulation) -> Option<&'static str> {
    let shares = (!regulation.sharing.is_none()).then_some("sharing");
    if regulation.reclaim { Some("reclaim") } else { shares }
}

/// Checks that there are budgets, and bounds that cover the key.
pub(super) fn check_spare(regulation: &Regulation) -> Result<(), String> {
    let Some(key) = key(regulation) else { return Ok(()) };
    if regulation.policy != Policy::Memguard {
        return Err(format!(
            "[regulation] {key} is for budgets of policy = \"memguard\"; set that, or remove it"
        ));
    }
    if regulation.model() == Model::Sce {
        return Err(format!(
            "[regulation] {key} needs model = \"sound\", because eq. (1) cannot include it; remove \
                model and carry_in, or {key}"
        ));
    }
    Ok(())
}

/// Checks that a task can use unused budgets; `best_effort`: there is a task of level D.
pub(super) fn check_spare_used(regulation: &Regulation, best_effort: bool) -> Result<(), String> {
    match key(regulation) {
        Some(key) if !best_effort && !regulation.other_programs => Err(format!(
            "[regulation] {key} is for best effort, and the system has none; add a task of level \
                D, set other_programs = true, or remove it"
        )),
        _ => Ok(()),
    }
}
