//! Debian's signature of a release.
//!
//! Rule: where this machine has Debian's keys and a program that checks signatures (gpgv or sqv), a
//! release without a good signature is refused. Without them, the user is told that only checksums
//! were compared.

use crate::error::BoardError;
use crate::watch::Watch;
use solocore_model::files;
use std::path::Path;
use std::process::{Command, Stdio};

/// Paths of the keys from Debian's packages.
const KEYS: &[&str] = &[
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
];

/// Checks the signature of a release, and gives the text that it covers.
pub fn check(release: &Path, suite: &str, watch: &mut dyn Watch) -> Result<String, BoardError> {
    let Some(keys) = KEYS.iter().map(Path::new).find(|k| k.is_file()) else {
        watch.note(&format!(
            "the signature of {suite} was not checked: Debian's keys are not installed (package \
            debian-archive-keyring)"
        ));
        return Ok(files::read_text(release)?);
    };
    let signed = release.with_extension("signed");
    for program in ["gpgv", "sqv"] {
        let mut command = Command::new(program);
        command.arg("--keyring").arg(keys).arg("--output").arg(&signed);
        if program == "sqv" {
            command.arg("--cleartext");
        }
        let status = command
            .arg(release)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => return Ok(files::read_text(&signed)?),
            Ok(_) => {
                return Err(BoardError::Machine(format!(
                    "the archive's {suite} has no good signature by Debian; name another mirror in \
                        SOLOCORE_DEBIAN"
                )));
            }
            Err(_) => {}
        }
    }
    watch.note(&format!(
        "the signature of {suite} was not checked: neither gpgv nor sqv is installed (package gpgv)"
    ));
    Ok(files::read_text(release)?)
}
