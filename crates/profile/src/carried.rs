//! Plans that carry their profiles.
//!
//! Problem: a plan names profiles and traces in the cache of one user on one machine, and `sim` and
//! `report` need them. Rule: a plan that is written to a file carries both, compressed, under plain
//! names; a command that reads it unpacks them into a directory that it removes at its end. Plans
//! without them are read as before. Not covered: programs and their data, which `run --start` needs
//! here.

use crate::ProfileError;
use solocore_model::profile::Profile;
use solocore_model::{ModelError, Plan, files};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Longest unpacked part of a plan, bytes: no trace of the profiler is longer.
const LONGEST: u64 = 1 << 34;

/// Reads and checks a plan, and turns the profiles that it carries into files again: they exist as
/// long as the returned directory.
///
/// # Errors
/// The file cannot be read, is not a plan of this version, or carries a damaged part.
pub fn load(path: &Path) -> Result<(Plan, Option<TempDir>), ProfileError> {
    open(path, &files::read_text(path)?)
}

/// As [`load`], of the text of a plan; `path` names it in errors.
///
/// # Errors
/// As [`load`], except those of reading.
pub fn open(path: &Path, text: &str) -> Result<(Plan, Option<TempDir>), ProfileError> {
    let mut plan = Plan::parse(path, text)?;
    let dir = unpack(path, &mut plan)?;
    Ok((plan, dir))
}

/// Writes a plan with its profiles.
///
/// # Errors
/// A profile or its trace cannot be read, or the file cannot be written.
pub fn write(path: &Path, plan: &Plan) -> Result<(), ProfileError> {
    let plan = packed(plan)?;
    Ok(files::write_in_pieces(path, &|out| files::json_into(out, &*plan, !plan.is_brief()))?)
}

/// The contents of such a file.
///
/// # Errors
/// A profile or its trace cannot be read.
pub fn text_of(plan: &Plan) -> Result<String, ProfileError> {
    Ok(files::to_json(&*packed(plan)?))
}

/// The plan with all files that it refers to.
fn packed(plan: &Plan) -> Result<Cow<'_, Plan>, ProfileError> {
    if plan.tasks.iter().all(|task| task.profile.is_none()) {
        return Ok(Cow::Borrowed(plan));
    }
    let mut plan = plan.clone();
    let mut known: HashMap<PathBuf, PathBuf> = HashMap::new();
    for task in &mut plan.tasks {
        let Some(path) = task.profile.take() else { continue };
        if let Some(name) = known.get(&path) {
            task.profile = Some(name.clone());
            continue;
        }
        let name = format!("profile-{}.json", known.len());
        let mut profile: Profile = files::read_json(&path)?;
        if let Some(trace) = &mut profile.trace {
            let file = files::parent_dir(&path).join(&trace.file);
            let bytes = std::fs::read(&file)
                .map_err(|source| ModelError::Read { path: file.clone(), source })?;
            trace.file = PathBuf::from(format!("{name}.trace"));
            plan.carried.insert(format!("{name}.trace"), text(&bytes)?);
        }
        plan.carried.insert(name.clone(), text(files::to_json(&profile).as_bytes())?);
        let name = PathBuf::from(name);
        known.insert(path, name.clone());
        task.profile = Some(name);
    }
    Ok(Cow::Owned(plan))
}

/// Turns the profiles that a plan carries into files again, and names them in the plan. They exist
/// as long as the returned directory.
///
/// # Errors
/// A name or its text is damaged, or a file cannot be written.
pub fn unpack(path: &Path, plan: &mut Plan) -> Result<Option<TempDir>, ProfileError> {
    if plan.carried.is_empty() {
        return Ok(None);
    }
    let wrong = |name: &str, what: &str| {
        ProfileError::Input(format!(
            "{}: carried.\"{}\" {what}; make the plan again with `solocore plan -o`",
            path.display(),
            name.escape_debug()
        ))
    };
    let dir = tempfile::Builder::new()
        .prefix(".solocore-")
        .tempdir()
        .map_err(|source| ModelError::Write { path: std::env::temp_dir(), source })?;
    for (name, text) in std::mem::take(&mut plan.carried) {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        if !name.starts_with("profile-") || !name.chars().all(plain) {
            return Err(wrong(&name, "is not the name of a profile"));
        }
        let bytes = bytes(&text).ok_or_else(|| wrong(&name, "is damaged"))?;
        let file = dir.path().join(&name);
        std::fs::write(&file, bytes).map_err(|source| ModelError::Write { path: file, source })?;
    }
    for task in &mut plan.tasks {
        if let Some(name) = &task.profile
            && name.components().count() == 1
        {
            task.profile = Some(dir.path().join(name));
        }
    }
    Ok(Some(dir))
}

/// Bytes compressed, as letters.
fn text(bytes: &[u8]) -> Result<String, ProfileError> {
    let packed = zstd::encode_all(bytes, 0).map_err(|e| ProfileError::Machine(e.to_string()))?;
    Ok(base64::Engine::encode(&base64::prelude::BASE64_STANDARD, packed))
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let packed = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, text).ok()?;
    let mut out = Vec::new();
    zstd::Decoder::new(&packed[..]).ok()?.take(LONGEST).read_to_end(&mut out).ok()?;
    Some(out)
}
