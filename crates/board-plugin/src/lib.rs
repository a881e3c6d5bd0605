//! A board inside QEMU: an unmodified guest finds caches, contended memory, time of its own,
//! performance counters and cache allocation.
//!
//! Problem: an emulator has no misses and its time is the host's, so it shows no effect that
//! matters for real-time systems. Rule: this plugin of QEMU's system emulation owns all quantities
//! that the guest can measure. Every reference goes through the caches and the DRAM of
//! `solocore-cache` and `solocore-dram`, by its physical address ([`machine`]). A vCPU's time is
//! that of its instructions and its waits ([`vcpu`], [`front`], [`replay`]); the guest's clocks
//! show it ([`schedule`]). The model's events count in the counters that the guest programs
//! ([`pmu`]), masks and bandwidths that it sets have an effect ([`allocation`]). The true counts
//! are written to a file ([`truth`]). docs/board-model.md has the model, its costs and its tests.
//!
//! Start: `-plugin libsolocore_board_plugin.so,config=PATH` ([`config`]); the guest speaks to it by
//! `cpuid` ([`guest`]). An unsuitable QEMU or file ends the process with code 3 and one line.
//! Licence: GPL-2.0-or-later, as it uses QEMU beyond the plugin interface ([`qemu`]).

mod allocation;
mod board;
mod config;
mod cpuid;
mod finish;
mod front;
mod guest;
mod machine;
mod operand;
mod pmu;
mod qemu;
mod replay;
mod schedule;
mod special;
#[cfg(test)]
mod tests;
mod time;
mod trace;
mod truth;
mod vcpu;
mod walk;
mod worker;

use crate::board::{MODEL, board};
use crate::finish::finish;
use crate::pmu::Pmu;
use crate::qemu::{BigLock, Clocks, Info, Regs, Replaced, qemu};
use crate::time::NOW_PS;
use crate::vcpu::Vcpu;
use crate::walk::Walker;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Version of the plugin interface; QEMU refuses a plugin without it.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = qemu::API;

/// Ends the process: one line, code 3.
fn refuse(why: &str) -> ! {
    eprintln!("solocore-board: {why}");
    // SAFETY: ends the process at once; QEMU's own exit would wait for threads that do not run yet.
    unsafe { libc::_exit(3) }
}

/// Called when QEMU loads the plugin.
///
/// # Safety
/// QEMU calls it with the arguments of its interface.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: qemu::Id,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU's description lives during this call.
    let info = unsafe { &*info };
    // SAFETY: as above; a C string.
    let target = unsafe { CStr::from_ptr(info.target) }.to_bytes();
    let arguments = (0..usize::try_from(argc).unwrap_or(0)).map(|i| {
        // SAFETY: `argc` C strings.
        unsafe { CStr::from_ptr(*argv.add(i)) }.to_string_lossy().into_owned()
    });
    let arguments: Vec<String> = arguments.collect();
    match install(id, info, target, &arguments) {
        Ok(()) => 0,
        Err(why) => refuse(&why),
    }
}

fn install(id: qemu::Id, info: &Info, target: &[u8], arguments: &[String]) -> Result<(), String> {
    if !info.system || target != b"x86_64" {
        return Err("the board needs qemu-system-x86_64".to_owned());
    }
    let [oldest, newest] = info.version;
    if !(oldest..=newest).contains(&qemu::API) {
        let api = qemu::API;
        return Err(format!(
            "this QEMU has plugin interface {oldest} to {newest}; the board needs {api} (QEMU 11.1)"
        ));
    }
    let path = arguments.iter().find_map(|a| a.strip_prefix("config="));
    let Some(path) = path else {
        return Err("give the plugin its configuration: config=PATH".to_owned());
    };
    let config = config::Config::read(&PathBuf::from(path))?;
    if usize::try_from(info.smp[0]).ok() != Some(config.cpus) || info.smp[0] != info.smp[1] {
        return Err(format!(
            "QEMU has {} vCPUs, {path} says {}; give -smp {}",
            info.smp[0], config.cpus, config.cpus
        ));
    }
    let q = qemu::load()?;
    let board = board::make(config)?;
    schedule::make(&board.config);
    // SAFETY: as the interface asks, during installation; the callbacks have the declared types.
    unsafe {
        (q.on_init)(id, on_vcpu, std::ptr::null_mut());
        (q.on_idle)(id, schedule::on_idle, std::ptr::null_mut());
        (q.on_resume)(id, schedule::on_resume, std::ptr::null_mut());
        (q.on_translation)(id, guest::on_translation, std::ptr::null_mut());
        (q.on_exit)(id, on_exit, std::ptr::null_mut());
    }
    if let Some(path) = board.config.progress.clone() {
        std::thread::spawn(move || progress(&path));
    }
    Ok(())
}

/// Called in the thread of a new vCPU. The first vCPU takes over the clocks, the last one starts
/// time.
extern "C" fn on_vcpu(index: c_uint, _: *mut c_void) {
    let at = index as usize;
    let b = board();
    let _lock = BigLock::take();
    let (vcpus, _) = b.vcpus_and_machine();
    let schedule = schedule::schedule();
    if schedule.started == 0 {
        schedule::prepare();
        let by = Replaced {
            virtual_clock: schedule::virtual_clock,
            elapsed_ticks: schedule::elapsed_ticks,
            handle_interrupt: schedule::handle_interrupt,
        };
        // Time stands still until all vCPUs are there: an odd time that no other clock shows.
        const ODD_NS: i64 = 7_919;
        NOW_PS.store(ODD_NS.cast_unsigned() * 1000, Relaxed);
        let test = || (ODD_NS, board::ticks(ODD_NS, b.common.frequency));
        if let Err(why) = Clocks::find().and_then(|c| c.replace(by, test)) {
            refuse(&why);
        }
        NOW_PS.store(0, Relaxed);
    }
    let regs = match Regs::of_this_vcpu() {
        Ok(regs) => regs,
        Err(why) => refuse(&why),
    };
    // SAFETY: QEMU numbers vCPUs from 0 without gaps.
    let cpu = unsafe { (qemu().cpu)(c_int::try_from(at).unwrap_or(0)) };
    let walker = b.config.page_walks.then(Walker::default);
    let Some(&own) = b.own.get(at) else { refuse("QEMU starts more vCPUs than its -smp says") };
    if vcpus.len() != at {
        refuse("QEMU starts its vCPUs in another order than by number");
    }
    vcpus.push(Vcpu::new(at, cpu, (b.common, own), regs, Pmu::new(b.config.pmu), walker));
    board::set_this_vcpu(at);
    schedule.started += 1;
    if schedule.started == b.config.cpus {
        for vcpu in vcpus.iter_mut() {
            vcpu.score = b.entry(vcpu.index);
        }
        board::set_live();
        schedule::begin();
        std::thread::spawn(schedule::clock_thread);
    }
}

extern "C" fn on_exit(_: *mut c_void) {
    finish(board());
}

/// Writes a line each second: guest's nanoseconds, wall nanoseconds, state of the model.
fn progress(path: &std::path::Path) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let Ok(mut file) = file else {
        eprintln!("solocore-board: {} cannot be written", path.display());
        return;
    };
    let begin = Instant::now();
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let model = if MODEL.load(Relaxed) { "on" } else { "off" };
        let line =
            format!("{} {} {model}\n", NOW_PS.load(Relaxed) / 1000, begin.elapsed().as_nanos());
        if file.write_all(line.as_bytes()).is_err() {
            return;
        }
    }
}
