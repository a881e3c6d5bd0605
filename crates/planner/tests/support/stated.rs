//! Systems whose tasks state their demands.

use solocore_model::System;
use solocore_model::plan::Plan;
use solocore_planner::Demand;
use std::path::Path;

/// Best effort on these cores, as part of a system file.
pub fn best_effort(cores: [u32; 2]) -> String {
    let of = |core| {
        format!(
            "[[task]]\nname = \"d{core}\"\ncore = {core}\ncriticality = \"D\"\nwcet = \"1 \
                ms\"\nmisses = 10\n"
        )
    };
    cores.map(of).concat()
}

/// The checked plan of a system file.
pub fn made(text: &str) -> Result<Plan, String> {
    let system = System::parse(Path::new("system.toml"), text).map_err(|e| e.to_string())?;
    let demands: Vec<Demand> =
        system.tasks.iter().map(|t| Demand::stated(&t.demand).unwrap()).collect();
    let plan = solocore_planner::plan(&system, &demands).map_err(|e| e.to_string())?;
    plan.check().map(|()| plan)
}
