//! A running guest: QEMU with its files, followed until it ends.
//!
//! Rule: QEMU runs in a process group of its own, so that the terminal's Ctrl-C reaches solocore
//! alone, and is killed by the kernel if solocore is killed. All files of a run lie in a directory
//! of its own, which is removed when the run ends.

use crate::channel::{Channel, Kind, SIZE, Way};
use crate::error::BoardError;
use crate::guest::Event;
use crate::input;
use crate::kernel::Kernel;
use crate::plugin;
use crate::qemu::Qemu;
use crate::receive::Files;
use crate::watch::{Stream, Watch};
use crate::{Counters, Job, job};
use rustix::process::{Pid, Signal};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Interval between two reads of the guest's messages.
const LOOK: Duration = Duration::from_millis(5);
/// Interval between two reports of its speed.
const TELL: Duration = Duration::from_millis(500);
/// Time that QEMU may take to end after the last message.
const PATIENCE: Duration = Duration::from_secs(20);
/// Options of the kernel: the clock is trusted and the timer not checked, because a stall of the
/// host looks like a broken one; addresses are the same in every run.
const KERNEL_OPTIONS: &str = "console=ttyS0 quiet panic=-1 nokaslr norandmaps mitigations=off \
    tsc=reliable no_timer_check cryptomgr.notests";
/// Initialisations that take the emulator seconds and that no guest needs: keys of modules,
/// self-tests of random numbers and hashes.
const SKIPPED: &str =
    "load_system_certificate_list,jent_mod_init,sha1_mod_init,bpf_tcp_ca_kfunc_init";

/// Result of a guest.
#[derive(Debug, Default)]
pub struct Followed {
    /// The program's exit code.
    pub code: Option<u8>,
    /// Simulated time of the program.
    pub simulated_ns: u64,
    /// Wall time from QEMU's start to the program's.
    pub boot: Duration,
    /// Wall time of the program.
    pub wall: Duration,
}

/// A running guest.
#[derive(Debug)]
pub struct Machine {
    child: Child,
    channel: Channel,
    directory: PathBuf,
    /// The error that ended the shell's input, if there was one.
    input: Arc<input::Failed>,
}

/// The arguments of the machine that both kinds of run share.
fn describe(command: &mut Command, job: &Job, kernel: &Kernel, directory: &Path) {
    let quoted = |path: &Path| path.to_string_lossy().replace(',', ",,");
    let processor = if job.counters == Counters::Intel { "Skylake-Server" } else { "EPYC" };
    command
        .args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu"])
        .arg(format!("{processor},-x2apic,-hypervisor"));
    // The same day and the same random numbers in every run.
    command.args(["-rtc", "base=2026-01-01,clock=vm", "-seed"]).arg(job.seed.to_string());
    command.arg("-smp").arg(job.cpus.to_string()).arg("-m").arg(format!("{}M", job.memory.0 >> 20));
    command.args(["-nic", "none", "-vga", "none", "-display", "none", "-no-reboot"]);
    command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(directory.join("initramfs"));
    // Linux leaves allocation and monitoring of such a processor alone, because of its errata.
    let forced = match job.counters == Counters::Intel && job.allocation {
        true => " rdt=l3cat,l3cdp,mba,cmt,mbmtotal,mbmlocal",
        false => "",
    };
    command.arg("-append").arg(format!("{KERNEL_OPTIONS} initcall_blacklist={SKIPPED}{forced}"));
    let memory = format!(
        "memory-backend-file,id=channel,share=on,size={SIZE},mem-path={}",
        quoted(&directory.join("channel"))
    );
    command.arg("-object").arg(memory).args(["-device", "ivshmem-plain,memdev=channel"]);
    if job.on_terminal() {
        // Ctrl-C is the guest's; Ctrl-A x ends it however stuck it is.
        command.args(["-chardev", "stdio,id=console,signal=off,mux=on"]);
    } else {
        command
            .arg("-chardev")
            .arg(format!("file,id=console,path={}", quoted(&directory.join("console"))));
    }
    command.args(["-serial", "chardev:console", "-monitor", "none"]);
}

impl Machine {
    /// Starts QEMU; `directory` holds the guest's files.
    pub fn start(
        job: &Job,
        qemu: &Qemu,
        kernel: &Kernel,
        directory: &Path,
    ) -> Result<Self, BoardError> {
        let shared = directory.join("channel");
        let fail = |e: std::io::Error| BoardError::file(&shared, "map", &e);
        let file =
            File::options().read(true).write(true).create_new(true).open(&shared).map_err(fail)?;
        file.set_len(SIZE as u64).map_err(fail)?;
        let channel = Channel::map(&file, Way::ToHost).map_err(fail)?;
        let mut command = qemu.command();
        describe(&mut command, job, kernel, directory);
        if let Some(plugin) = plugin::find()? {
            let config = plugin::Config::new(job, directory);
            let path = directory.join("plugin.json");
            solocore_model::files::write_json(&path, &config)?;
            let quoted = |path: &Path| path.to_string_lossy().replace(',', ",,");
            command.arg("-plugin").arg(format!("{},config={}", quoted(&plugin), quoted(&path)));
        }
        let errors = directory.join("errors");
        let log = File::create(&errors).map_err(|e| BoardError::file(&errors, "write", &e))?;
        if job.on_terminal() {
            command.stdin(Stdio::inherit()).stdout(Stdio::inherit());
        } else {
            command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        }
        command.stderr(log);
        // SAFETY: between fork and exec only one system call is made.
        unsafe {
            command.pre_exec(|| {
                let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
                Ok(())
            });
        }
        let child = command.spawn().map_err(|e| {
            BoardError::Machine(format!(
                "QEMU does not start: {e}; remove it from the cache, so that it is fetched again"
            ))
        })?;
        let input = Arc::default();
        let machine = Self { child, channel, directory: directory.to_owned(), input };
        if job.command.is_empty() && !job.on_terminal() {
            let mut to = Channel::map(&file, Way::ToGuest).map_err(fail)?;
            let failed = Arc::clone(&machine.input);
            // It ends with this process where the guest ends before the input.
            std::thread::spawn(move || input::read(std::io::stdin(), &mut to, &failed));
        }
        Ok(machine)
    }

    /// Reads the guest's messages until it ends.
    pub fn follow(&mut self, job: &Job, watch: &mut dyn Watch) -> Result<Followed, BoardError> {
        let begin = Instant::now();
        let mut state = State::new(job);
        let mut told = begin;
        loop {
            let ended =
                self.child.try_wait().map_err(|e| BoardError::Machine(format!("QEMU: {e}")))?;
            // Once more after its end, for its last messages.
            self.drain(&mut state, begin, watch)?;
            if let Some(status) = ended {
                return self.verdict(state, status.to_string());
            }
            if watch.stopped() {
                return Err(BoardError::Interrupted);
            }
            if let Some(limit) = job.time_limit
                && begin.elapsed() >= limit
            {
                return Err(BoardError::Machine(format!(
                    "the run took longer than --time-limit ({} s) and was ended; give it more time",
                    limit.as_secs()
                )));
            }
            if state.done.is_some_and(|d| d.elapsed() >= PATIENCE) {
                return self.verdict(state, "the guest did not turn its power off".to_owned());
            }
            if told.elapsed() >= TELL {
                told = Instant::now();
                self.tell_speed(&state, watch);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn drain(
        &mut self,
        state: &mut State,
        begin: Instant,
        watch: &mut dyn Watch,
    ) -> Result<(), BoardError> {
        let damaged = |e: std::io::Error| BoardError::Machine(format!("{e}; run it again"));
        while let Some((kind, bytes)) = self.channel.receive().map_err(damaged)? {
            match kind {
                Kind::Out => watch.output(Stream::Out, &bytes),
                Kind::Err => watch.output(Stream::Err, &bytes),
                Kind::Data => state.files.data(&bytes)?,
                Kind::Event => {
                    let event = serde_json::from_slice(&bytes).map_err(|e| damaged(e.into()))?;
                    state.event(event, begin, watch)?;
                }
            }
        }
        Ok(())
    }

    /// Reports the plugin's last line: simulated ns, wall ns, model.
    fn tell_speed(&self, state: &State, watch: &mut dyn Watch) {
        let text = std::fs::read_to_string(self.directory.join("progress")).unwrap_or_default();
        let Some(line) = text.lines().last() else { return };
        if state.shell {
            return;
        }
        let mut numbers = line.split_whitespace().map_while(|w| w.parse::<u64>().ok());
        if let (Some(simulated), Some(wall), Some(_)) =
            (numbers.next(), numbers.next(), state.started)
        {
            watch.speed(simulated, wall);
        }
    }

    /// Whether the shell was sent all of its input. A shell that ended earlier did not need it.
    fn check_input(&self) -> Result<(), BoardError> {
        match self.input.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(e) => Err(BoardError::Machine(format!(
                "the input cannot be read: {e}; the shell got only the part before the error"
            ))),
            None => Ok(()),
        }
    }

    fn verdict(&mut self, state: State, status: String) -> Result<Followed, BoardError> {
        if let Some(what) = state.failed {
            return Err(BoardError::Machine(what));
        }
        if state.done.is_some() {
            return self.check_input().map(|()| state.followed);
        }
        let console = read_lossy(&self.directory.join("console"));
        if let Some(line) = console.lines().find(|l| l.contains("Kernel panic")) {
            let what = line.split_once("Kernel panic").map_or(line, |(_, w)| w);
            let what = what.trim_start_matches(" - ").trim_start_matches("not syncing: ").trim();
            return Err(BoardError::Machine(format!(
                "the guest's kernel panicked: {what}; `board run --console FILE` keeps its \
                    messages"
            )));
        }
        let errors = read_lossy(&self.directory.join("errors"));
        let said = complaint(&errors)
            .or_else(|| console.lines().last())
            .unwrap_or("it said nothing")
            .trim();
        Err(BoardError::Machine(format!(
            "the guest ended before its program did ({status}): {said}; `board run --console FILE` \
                keeps its messages"
        )))
    }
}

/// The last error of QEMU or its plugin: the text of a panic, else the last line, without the long
/// path of the loader.
fn complaint(errors: &str) -> Option<&str> {
    let mut lines = errors.lines().filter(|l| !l.contains("warning: TCG doesn't support"));
    let panic = lines.clone().skip_while(|l| !l.contains("panicked at")).nth(1);
    let line = panic.or_else(|| lines.next_back())?;
    Some(line.split_once("qemu-system-x86_64: ").map_or(line, |(_, said)| said))
}

/// The kernel's messages, and then QEMU's.
pub fn messages(directory: &Path) -> String {
    let errors = read_lossy(&directory.join("errors"));
    let errors: String = errors
        .lines()
        .filter(|l| !l.contains("warning: TCG doesn't support"))
        .map(|l| format!("QEMU: {l}\n"))
        .collect();
    read_lossy(&directory.join("console")) + &errors
}

impl Drop for Machine {
    fn drop(&mut self) {
        for (signal, patience) in [(Signal::TERM, 3000), (Signal::KILL, 3000)] {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            // The child was not reaped yet, so the number is still its own.
            let _ = rustix::process::kill_process(Pid::from_child(&self.child), signal);
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(patience) {
                if matches!(self.child.try_wait(), Ok(Some(_))) {
                    return;
                }
                std::thread::sleep(LOOK);
            }
        }
    }
}

fn read_lossy(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

/// State of the guest so far.
struct State {
    followed: Followed,
    started: Option<(Instant, u64)>,
    done: Option<Instant>,
    failed: Option<String>,
    files: Files,
    shell: bool,
}

impl State {
    fn new(job: &job::Job) -> Self {
        Self {
            followed: Followed::default(),
            started: None,
            done: None,
            failed: None,
            files: Files::new(job.out.clone()),
            shell: job.on_terminal(),
        }
    }

    fn event(
        &mut self,
        event: Event,
        begin: Instant,
        watch: &mut dyn Watch,
    ) -> Result<(), BoardError> {
        match event {
            Event::Started { ns } => {
                self.followed.boot = begin.elapsed();
                self.started = Some((Instant::now(), ns));
                if self.shell {
                    watch.hand_over();
                    return Ok(());
                }
                watch.stage(&format!(
                    "booted in {:.1} s; the program runs",
                    begin.elapsed().as_secs_f64()
                ));
            }
            Event::Ended { code, ns } => {
                self.followed.code = Some(code);
                if let Some((wall, start)) = self.started {
                    self.followed.wall = wall.elapsed();
                    self.followed.simulated_ns = ns.saturating_sub(start);
                }
            }
            Event::File { path, mode, size } => self.files.begin(&path, mode, size)?,
            Event::Failed { what } => self.failed = Some(what),
            Event::Done => self.done = Some(Instant::now()),
        }
        Ok(())
    }
}
