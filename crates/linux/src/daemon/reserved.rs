//! The frames of a plan's tasks, held by a `solocore reserve` beside the run, as a part.
//!
//! Problem: programs in their colours share these with the kernel and with all other programs,
//! which take any frame. Rule: a `solocore reserve` of the plan is started before all other parts,
//! and they wait until it holds its frames. The reserve ends with the run, or with this process,
//! and then all frames go back. It is a process of its own, on the CPUs without analysed tasks: so
//! the run answers meanwhile, and the kernel can end the reserve alone for want of memory. The run
//! tells the user and goes on, because no promise rests on the reserve. Source: MC2, section 3.2,
//! its lists of free memory. Does not cover: what boot has placed in these frames, which
//! docs/reserve.md counts; free pages on the lists of analysed CPUs.

use super::part::{Next, Part, Round};
use crate::error::LinuxError;
use crate::host::machine::ask_to_end;
use rustix::process::{Pid, Signal};
use rustix::thread::CpuSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The first words of its reports.
const HOLDING: &str = "holding ";
/// Longest wait for its end: it gives back gigabytes.
const LAST: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(50);
/// Longest wait for a further one of its last words.
const WORDS: Duration = Duration::from_secs(1);

/// The part that holds the frames of the plan's tasks.
pub struct Reserved {
    command: Vec<String>,
    map: String,
    /// CPUs that it may use; empty: all.
    cpus: Vec<u32>,
    stopped: fn() -> bool,
    running: Option<Running>,
    /// Its latest report.
    holds: String,
}

struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Reserved {
    /// The part. `command` begins with the program; it reads this map from its standard input, and
    /// keeps to these CPUs (none: to no CPU). `stopped`: has the user asked for the end?
    #[must_use]
    pub fn new(command: Vec<String>, map: String, cpus: Vec<u32>, stopped: fn() -> bool) -> Self {
        Self { command, map, cpus, stopped, running: None, holds: String::new() }
    }

    fn launch(&self) -> std::io::Result<Running> {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C is for the run, which ends the reserve after its tasks. So is word to systemd.
        command.process_group(0).env_remove("NOTIFY_SOCKET");
        let mut cpus = CpuSet::new();
        self.cpus.iter().for_each(|&cpu| cpus.set(cpu as usize));
        let (bound, parent) = (!self.cpus.is_empty(), rustix::process::getpid());
        // SAFETY: these calls may be made between fork and exec.
        unsafe {
            command.pre_exec(move || {
                rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
                if bound {
                    rustix::thread::sched_setaffinity(None::<Pid>, &cpus)?;
                }
                // The parent may have ended before it could send a signal.
                let there = rustix::process::getppid() == Some(parent);
                there.then_some(()).ok_or_else(|| std::io::ErrorKind::BrokenPipe.into())
            });
        }
        let mut child = command.spawn()?;
        if let Some(mut input) = child.stdin.take() {
            // If it has ended already, its last words say why.
            let _ = input.write_all(self.map.as_bytes());
        }
        let (sender, lines) = channel();
        if let Some(said) = child.stderr.take() {
            // Ends with the reserve.
            std::thread::spawn(move || {
                let lines = BufReader::new(said).split(b'\n').map_while(Result::ok);
                let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
                lines.for_each(|line| drop(sender.send(line)));
            });
        }
        Ok(Running { child, lines })
    }

    /// Waits for its first report, or until the user asks for the end.
    fn fill(&mut self) -> Result<(), LinuxError> {
        let refused = |why: String| Err(LinuxError::Machine(format!("--reserve: {why}")));
        let mut last = "it ended without a word".to_owned();
        loop {
            let Some(running) = &self.running else { return refused(last) };
            match running.lines.recv_timeout(LOOK) {
                Ok(line) if line.starts_with(HOLDING) => {
                    self.holds = line;
                    return Ok(());
                }
                Ok(line) => last = line.trim_start_matches("solocore: ").to_owned(),
                Err(RecvTimeoutError::Timeout) if (self.stopped)() => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return refused(last),
            }
        }
    }
}

impl Part for Reserved {
    fn start(&mut self) -> Result<(), LinuxError> {
        let running = self
            .launch()
            .map_err(|e| LinuxError::Machine(format!("--reserve: it cannot be started: {e}")))?;
        self.running = Some(running);
        let filled = self.fill();
        if filled.is_err() {
            self.end();
        }
        filled
    }

    fn look(&mut self, round: &mut Round) -> Result<Next, LinuxError> {
        let Some(running) = &mut self.running else { return Ok(Next::GoOn) };
        let ended = running.child.try_wait().ok().flatten();
        // Its last words may still be on their way.
        let patience = if ended.is_some() { WORDS } else { Duration::ZERO };
        while let Ok(line) = running.lines.recv_timeout(patience) {
            if line.starts_with(HOLDING) {
                self.holds = line;
            } else {
                round.messages.push(format!("reserve: {}", line.trim_start_matches("solocore: ")));
            }
        }
        if let Some(status) = ended {
            round.messages.push(format!(
                "the reserve has ended ({status}): the kernel and other programs may use frames of \
                    the plan's tasks from now on"
            ));
            self.running = None;
        }
        Ok(Next::GoOn)
    }

    fn about(&self) -> Option<String> {
        self.running.as_ref().map(|_| format!("reserve: {}", self.holds))
    }

    fn end(&mut self) {
        let Some(Running { mut child, .. }) = self.running.take() else { return };
        let begun = Instant::now();
        ask_to_end(child.id(), Signal::INT.as_raw());
        while begun.elapsed() < LAST {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(script: &str, stopped: fn() -> bool) -> Reserved {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        Reserved::new(command, "a map\n".to_owned(), vec![0], stopped)
    }

    /// Breaks when the run does not wait for the report, the map is not passed on, or the reserve
    /// goes on after the end.
    #[test]
    fn it_waits_for_the_first_report_and_ends_with_the_run() {
        let script = "read map; echo solocore: note >&2; echo \"holding $map\" >&2; exec sleep 100";
        let mut part = part(script, || false);
        part.start().expect("it reports");
        assert_eq!(part.about().as_deref(), Some("reserve: holding a map"));
        let child = part.running.as_ref().expect("it runs").child.id();
        let there = || std::path::Path::new(&format!("/proc/{child}")).exists();
        assert!(there());
        part.end();
        assert!(!there() && part.about().is_none());
    }

    #[test]
    fn its_last_words_are_the_reason_why_it_cannot_start() {
        let refusal = |script, stopped| {
            let mut part = part(script, stopped);
            let error = part.start().expect_err("it ends").to_string();
            assert!(part.running.is_none());
            error
        };
        let error = refusal("echo solocore: memory: too little >&2; exit 3", || false);
        assert_eq!(error, "--reserve: memory: too little");
        assert!(refusal("exit 3", || false).contains("without a word"));
        // The run then ends by itself.
        let mut part = part("exec sleep 100", || true);
        part.start().expect("it does not wait");
        part.end();
    }

    #[test]
    fn a_reserve_that_ends_alone_is_said_once() {
        let mut part = part("echo holding all >&2; read map; echo gone >&2", || false);
        part.start().expect("it reports");
        let mut said = Vec::new();
        let mut look = |part: &mut Reserved| {
            let mut round = Round::default();
            assert_eq!(part.look(&mut round).expect("the run goes on"), Next::GoOn);
            said.extend(round.messages);
        };
        while part.running.is_some() {
            look(&mut part);
        }
        look(&mut part);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0] == "reserve: gone" && said[1].contains("has ended"), "{said:?}");
    }
}
