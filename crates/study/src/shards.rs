//! The shards of one study, joined.

use crate::StudyError;
use crate::journal::{Manifest, Points, fault, points};
use crate::study::finished;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Joins the shards of one study.
///
/// # Errors
/// When they are not shards of one study, one is missing, given twice or not finished.
pub fn merge(dirs: &[PathBuf]) -> Result<(Manifest, Points), StudyError> {
    let Some(first) = dirs.first() else {
        return Err(StudyError::Input("no shards to merge; name their directories".to_owned()));
    };
    let manifest = Manifest::read(first)?;
    let Some([_, count]) = manifest.shard else {
        return Err(fault(first, "is not a shard but a whole study; there is nothing to merge"));
    };
    let mut have: BTreeMap<u32, &PathBuf> = BTreeMap::new();
    let mut all = Points::new();
    for dir in dirs {
        let own = Manifest::read(dir)?;
        if let Some(what) = manifest.difference(&own, false) {
            return Err(fault(
                dir,
                &format!(
                    "differs from {} in {what}; merge shards of one study only",
                    first.display()
                ),
            ));
        }
        let Some([k, n]) = own.shard.filter(|[_, n]| *n == count) else {
            return Err(fault(
                dir,
                &format!("is not a shard of {count}, as {} is", first.display()),
            ));
        };
        if let Some(other) = have.insert(k, dir) {
            return Err(fault(
                dir,
                &format!("is shard {k}/{n}, and so is {}; give each once", other.display()),
            ));
        }
        let points = points(dir, &own)?;
        let left =
            own.own_scenarios()?.into_iter().find(|s| !finished(&points, *s, &own.utilizations));
        if let Some(scenario) = left {
            return Err(fault(
                dir,
                &format!("is not finished (scenario {scenario}); go on with it first (--resume)"),
            ));
        }
        all.extend(points);
    }
    let missing: Vec<String> =
        (1..=count).filter(|k| !have.contains_key(k)).map(|k| format!("{k}/{count}")).collect();
    if !missing.is_empty() {
        return Err(fault(
            first,
            &format!("shards {} are missing; name their directories too", missing.join(", ")),
        ));
    }
    Ok((Manifest { shard: None, ..manifest }, all))
}
