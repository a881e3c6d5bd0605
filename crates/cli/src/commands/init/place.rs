//! Places of the files of `init`.
//!
//! Problem: an overwritten file is lost, and a program may run for long before the loss shows.
//! Rule: places are checked before any program runs, and again by the kernel when files are
//! written. The platform file lies beside the system file. Does not cover: a directory that takes
//! no file (`args/outputs.rs`); files that the next steps write.

use crate::args::init::InitArgs;
use crate::fail::Failure;
use solocore_model::files;
use std::path::{Path, PathBuf};

/// Places of the files.
pub struct Place {
    /// The system file.
    pub system: PathBuf,
}

impl Place {
    /// Refuses places where nothing may be written.
    pub fn of(args: &InitArgs) -> Result<Self, Failure> {
        let place = Self { system: args.output.clone() };
        let machine = place.machine();
        if args.platform.is_none() && place.system.file_name() == machine.file_name() {
            let name = place.system.display();
            return Err(Failure::Input(format!(
                "-o {name}: the platform file has this name; give the system file another name"
            )));
        }
        check(&place.system, args.force, "give another name with -o")?;
        if args.platform.is_none() {
            let how = format!("use it with --platform {}", machine.display());
            check(&machine, args.force, &how)?;
        }
        Ok(place)
    }

    /// A file beside the system file.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.system.with_file_name(name)
    }

    /// The platform file, where one is written.
    pub fn machine(&self) -> PathBuf {
        self.beside("machine.toml")
    }

    /// Writes both files or neither.
    pub fn write(&self, system: &str, machine: Option<&str>, force: bool) -> Result<(), Failure> {
        let path = self.machine();
        let machine = machine.map(|text| (path.as_path(), text.as_bytes()));
        let all: Vec<(&Path, &[u8])> =
            machine.into_iter().chain([(self.system.as_path(), system.as_bytes())]).collect();
        Ok(files::write_together(&all, force)?)
    }
}

/// Checks that a file may be written here. `how`: the alternative where there is one already.
fn check(path: &Path, force: bool, how: &str) -> Result<(), Failure> {
    let name = path.display();
    match std::fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(_) if !path.is_file() => {
            Err(Failure::Input(format!("{name}: it is not a regular file; name a file with -o")))
        }
        Ok(_) if force => Ok(()),
        Ok(_) => Err(Failure::Input(format!(
            "{name}: it exists already; {how}, or replace it with --force"
        ))),
    }
}
