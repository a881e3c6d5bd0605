//! A board by the name that a file or an option gives it.
//!
//! Rule: the name of a preset, or else the path of a platform file, which has a `/` or ends with
//! `.toml`. The error of another name says the kind of the file that has it, if there is one.

use super::{PRESETS, Platform};
use crate::error::ModelError;
use crate::files;
use crate::kind::Kind;
use std::path::{Path, PathBuf};

impl Platform {
    /// Finds a preset by name, or reads a platform file (a name with `/` or `.toml` is a path,
    /// relative to `base`).
    ///
    /// # Errors
    /// When there is no such preset or file, or its values are impossible.
    pub fn find(name: &str, base: &Path) -> Result<Self, ModelError> {
        Self::find_with_text(name, base).map(|(platform, _)| platform)
    }

    /// The same with the text of the file; `None` for a preset.
    ///
    /// # Errors
    /// As [`Platform::find`].
    pub fn find_with_text(name: &str, base: &Path) -> Result<(Self, Option<String>), ModelError> {
        if let Some((_, text)) = PRESETS.iter().find(|(preset, _)| *preset == name) {
            let path = PathBuf::from(format!("platforms/{name}.toml"));
            return Ok((Self::parse(&path, text)?, None));
        }
        if name.contains('/') || name.ends_with(".toml") {
            let path = base.join(name);
            let text = files::read_text(&path)?;
            return Ok((Self::parse(&path, &text)?, Some(text)));
        }
        let names: Vec<&str> = PRESETS.iter().map(|(preset, _)| *preset).collect();
        let unknown = ModelError::Invalid {
            path: PathBuf::from("platform"),
            line: None,
            message: format!(
                "no preset is called `{name}`; choose one of {}, or give the path of a platform \
                    file",
                names.join(", ")
            ),
        };
        let path = base.join(name);
        let text = if path.is_file() { files::read_text(&path).ok() } else { None };
        Err(match text {
            Some(text) => Kind::Platform.explains(&path, &text, unknown),
            None => unknown,
        })
    }
}
