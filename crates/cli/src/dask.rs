//! Campaigns on a Dask cluster: `--dask ADDRESS`.
//!
//! Problem: a study takes hours on one machine, and the cluster speaks Python. Rule: the command
//! starts `python3 -m solocore.from_command`, which sends points to the workers and prints each
//! answer as it comes in. Answers are the texts that the command itself would have written; it
//! writes them to the files of its own unfinished work, and so continues from them as from an
//! interrupted run. The child is in a process group of its own: Ctrl-C reaches it once, from here.
//!
//! Not covered: starting a scheduler or workers.

use crate::fail::Failure;
use crate::progress::{Progress, stopped};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The interpreter, and the module that it runs.
const PYTHON: &str = "python3";
const MODULE: &str = "solocore.from_command";
/// Interval between two checks for signals.
const LOOK: Duration = Duration::from_millis(100);
/// Time that the child has to withdraw its work from the cluster.
const GRACE: Duration = Duration::from_secs(5);
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Texts of an answer by name.
pub type Answer = BTreeMap<String, String>;

/// A line of the child.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Line {
    version: Option<String>,
    point: Option<usize>,
    answer: Answer,
    done: bool,
    error: Option<String>,
    kind: String,
}

/// Makes the workers of the scheduler at `address` compute `function` at every point. `keep` gets
/// the number of a point and its answer, as they come in.
///
/// # Errors
/// No package, no scheduler, workers of another version, a refused point, or an error of `keep`;
/// [`Failure::Interrupted`]. Earlier answers are kept.
pub fn campaign(
    address: &str,
    function: &str,
    points: &[serde_json::Value],
    keep: &mut dyn FnMut(usize, &Answer) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if points.is_empty() {
        return Ok(());
    }
    let asked = json!({"address": address, "function": function, "points": points});
    let mut child = start()?;
    let lines = reader(&mut child, &asked.to_string());
    let complaint = child.stderr.take().map(|stderr| std::thread::spawn(move || last_line(stderr)));
    let progress = Progress::new(&format!("{} points on {address}", points.len()));
    let followed = follow(&lines, points.len(), &progress, keep);
    drop(progress);
    let status = match &followed {
        Ok(()) => child.wait().ok(),
        Err(_) => end(&mut child),
    };
    match followed {
        Err(Ended::Early) => {
            let said = complaint.and_then(|thread| thread.join().ok()).unwrap_or_default();
            Err(early(&said, status))
        }
        Err(Ended::Because(failure)) => Err(failure),
        Ok(()) => Ok(()),
    }
}

/// Reason for an early end of a campaign.
enum Ended {
    /// The child's output ended early.
    Early,
    Because(Failure),
}

fn start() -> Result<Child, Failure> {
    let child = Command::new(PYTHON)
        .args(["-m", MODULE])
        // Modules of the current directory are not taken for Python's.
        .env("PYTHONSAFEPATH", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    child.map_err(|e| Failure::Machine(format!("--dask: cannot start {PYTHON}: {e}; {INSTALL}")))
}

/// Remedy for a missing package.
const INSTALL: &str = "install the Python package where python3 finds it: pip install \
    './python[campaign]'";

/// Sends the request to the child, and passes its lines on as they come.
fn reader(child: &mut Child, asked: &str) -> Receiver<String> {
    let (send, receive) = channel();
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let asked = asked.to_owned();
    std::thread::spawn(move || {
        // A child that ends early says why on its other pipe.
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(asked.as_bytes());
        }
        let lines = stdout.into_iter().flat_map(|out| BufReader::new(out).lines());
        for line in lines.map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}

fn last_line(mut stderr: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = stderr.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

fn follow(
    lines: &Receiver<String>,
    points: usize,
    progress: &Progress,
    keep: &mut dyn FnMut(usize, &Answer) -> Result<(), Failure>,
) -> Result<(), Ended> {
    let mut kept = 0usize;
    loop {
        if stopped() {
            return Err(Ended::Because(Failure::Interrupted));
        }
        let line = match lines.recv_timeout(LOOK) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Err(Ended::Early),
        };
        // Other output of a program is not an answer.
        let Ok(line) = serde_json::from_str::<Line>(&line) else { continue };
        if let Some(error) = line.error {
            let failure = if line.kind == "input" { Failure::Input } else { Failure::Machine };
            return Err(Ended::Because(failure(format!("--dask: {error}"))));
        }
        if let Some(version) = line.version {
            same_version("python3", &version).map_err(Ended::Because)?;
        }
        if let Some(point) = line.point.filter(|point| *point < points) {
            let version = line.answer.get("version").map_or("unknown", String::as_str);
            same_version("a worker", version)
                .and_then(|()| keep(point, &line.answer))
                .map_err(Ended::Because)?;
            kept += 1;
            progress.share(kept as f64 / points as f64);
        }
        if line.done && kept == points {
            return Ok(());
        }
    }
}

fn same_version(whose: &str, version: &str) -> Result<(), Failure> {
    if version == VERSION {
        return Ok(());
    }
    Err(Failure::Machine(format!(
        "--dask: {whose} has solocore {version}, and this is {VERSION}; install the same version \
            on all"
    )))
}

/// Asks the child to end, and kills it if it does not.
fn end(child: &mut Child) -> Option<ExitStatus> {
    let begun = Instant::now();
    if let Ok(pid) = i32::try_from(child.id()) {
        // SAFETY: sends a signal to a child that has not been waited for, so that the number is its
        // own.
        unsafe { libc::kill(pid, libc::SIGINT) };
    }
    while begun.elapsed() < GRACE {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(LOOK);
    }
    let _ = child.kill();
    child.wait().ok()
}

fn early(said: &str, status: Option<ExitStatus>) -> Failure {
    let how = status.map_or_else(|| "it is gone".to_owned(), |status| status.to_string());
    if said.contains("No module named") {
        return Failure::Machine(format!("--dask: {said}; {INSTALL}"));
    }
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    Failure::Machine(format!("--dask: {PYTHON} -m {MODULE} ended early ({how}){said}"))
}

/// One text of an answer.
///
/// # Errors
/// The worker gave no text of that name.
pub fn text<'a>(answer: &'a Answer, name: &str) -> Result<&'a str, Failure> {
    answer.get(name).map(String::as_str).ok_or_else(|| {
        Failure::Machine(format!(
            "--dask: a worker's answer has no `{name}`; install solocore again"
        ))
    })
}
