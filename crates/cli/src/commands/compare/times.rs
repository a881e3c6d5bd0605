//! Runs of a program, and their times.

use crate::fail::Failure;
use crate::progress::{asked, stopped};
use solocore_linux::daemon::wait_for;
use std::ffi::OsString;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Start of a run: by `solocore exec`, alike in all cases.
pub struct Start<'a> {
    pub core: u32,
    pub command: &'a [OsString],
}

impl Start<'_> {
    /// Makes one run; returns its time in nanoseconds.
    ///
    /// # Errors
    /// The program does not start, or ends with another code than 0; the message has its last
    /// output.
    pub fn once(&self) -> Result<u64, Failure> {
        if stopped() {
            return Err(Failure::Interrupted);
        }
        let mut command = Command::new("/proc/self/exe");
        command.args(["exec", "--core", &self.core.to_string()]);
        command.arg("--").args(self.command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let begin = Instant::now();
        let spawned = command.spawn();
        let mut child = spawned.map_err(|e| {
            Failure::Machine(format!("solocore does not start: {e}; is /proc there?"))
        })?;
        let errors = child.stderr.take();
        // Read meanwhile: a program that says much must not wait for us.
        let reader = std::thread::spawn(move || {
            let mut said = Vec::new();
            errors.map(|mut e| e.read_to_end(&mut said));
            said
        });
        let code = wait_for(child, asked)?;
        let took = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let said = reader.join().unwrap_or_default();
        if code == 0 {
            return Ok(took);
        }
        if stopped() {
            return Err(Failure::Interrupted);
        }
        let said = String::from_utf8_lossy(&said);
        let last =
            said.lines().last().unwrap_or("it said nothing").trim_start_matches("solocore: ");
        let program = self.command.first().map(|p| p.to_string_lossy().into_owned());
        Err(Failure::Input(format!(
            "{} ended with exit code {code}; runs that fail are not compared ({last})",
            program.unwrap_or_default()
        )))
    }
}
