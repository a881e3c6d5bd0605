//! QEMU user-mode plugin: every instruction and memory reference of the guest goes through the
//! cache model of `solocore-cache`; at exit the counts are written for `solocore-profile` to read.
//!
//! Rule: a first-level hit is handled by the thread alone (a compare and an add). Everything else
//! takes one lock. The guest's system calls tell which memory region an address belongs to, and
//! which files it looks at. A forked child, and a program that replaces the first, go on in a part
//! of their own (`processes`). Not covered: memory that the kernel writes for the guest (`read`
//! into a buffer), and page-table walks.

mod calls;
mod chains;
mod clock;
mod code;
mod files;
mod frames;
mod guest;
mod part;
mod processes;
mod program;
mod qemu;
mod recorder;
mod results;
mod state;
mod syscalls;

use code::{Block, Code};
use files::{Files, How};
use frames::FrameTable;
use guest::Target;
use part::Part;
use qemu::{CB_NO_REGS, Id, Info, Insn, MEM_RW, Tb};
use recorder::Recorder;
use rustc_hash::FxHashMap;
use solocore_cache::contract::{Config, PROGRESS_INSTRUCTIONS, PartFile};
use solocore_cache::trace::Kind;
use solocore_cache::{Ends, Geometry, Shared};
use state::{GLOBAL, Gate, Global, MANY, THREADS, Thread, global, thread};
use std::cell::UnsafeCell;
use std::collections::HashSet;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

/// Version of the plugin interface; QEMU refuses a plugin without it.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

/// A reference that is not a plain hit at the front of its set.
#[inline(never)]
fn slow(thread: &mut Thread, vline: u64, write: bool, fetch: bool, code: &'static Code) {
    let cache = if fetch { &mut thread.private.l1i } else { &mut thread.private.l1d };
    let Some(what) = cache.reference_deep(vline, write) else { return };
    let Some(mut guard) = global() else { return };
    let g = &mut *guard;
    if thread.unmaps_seen < g.unmaps.len() {
        g.drop_unmapped(thread);
    }
    let (recorder, mut written) = (&mut g.recorder, 0);
    let event =
        g.shared.resolve(&mut thread.private, &mut g.frames, vline, what, fetch, &mut |access| {
            written += u64::from(access.kind == Kind::Write);
            recorder.push(access)
        });
    // With the gate held, so that another thread can read the counts at the end.
    thread.chains.wrote(written);
    if let Some(event) = event {
        thread.chains.read(code, event.miss);
    }
}

extern "C" fn on_access(vcpu: c_uint, info: u32, vaddr: u64, user: *mut c_void) {
    let Some(t) = thread(vcpu) else { return };
    // SAFETY: `user` is a leaked `Code` from `code_of`, which is never freed.
    let code: &'static Code = unsafe { &*user.cast() };
    let write = if t.store_bit != 0 {
        info & t.store_bit != 0
    } else {
        // SAFETY: a pure function of `info`, which QEMU passed to this callback.
        unsafe { qemu::qemu_plugin_mem_is_store(info) }
    };
    if write {
        t.private.stores += 1;
    }
    let line = vaddr >> t.line_shift;
    if !t.private.l1d.front_hit(line, write) {
        slow(t, line, write, false, code);
    }
    let size = 1u64 << t.line_shift;
    if (vaddr & (size - 1)) + 8 > size {
        crosses_line(t, info, vaddr, write, code);
    }
}

/// Handles an access near the end of a line, which may continue in the next. (Accesses above 8
/// bytes reach the plugin in halves.)
#[inline(never)]
fn crosses_line(t: &mut Thread, info: u32, vaddr: u64, write: bool, code: &'static Code) {
    // SAFETY: a pure function of `info`, which QEMU passed to the callback.
    let size = 1u64 << unsafe { qemu::qemu_plugin_mem_size_shift(info) };
    let line = vaddr >> t.line_shift;
    if (vaddr + size - 1) >> t.line_shift != line {
        t.private.splits += 1;
        if !t.private.l1d.front_hit(line + 1, write) {
            slow(t, line + 1, write, false, code);
        }
    }
}

extern "C" fn on_block(vcpu: c_uint, user: *mut c_void) {
    let Some(t) = thread(vcpu) else { return };
    // SAFETY: `user` is the leaked `Block` that `on_translate` registered with this callback.
    let block: &'static Block = unsafe { &*user.cast() };
    t.chains.begin(block, &t.private, &t.geometry);
    t.private.instructions += block.instructions;
    if t.private.instructions >= t.next_report {
        report(t);
    }
    // Fetching on in the line at hand is not a new access.
    if block.first_line == t.last_fetch && block.last_line == t.last_fetch {
        return;
    }
    t.last_fetch = block.last_line;
    let mut line = block.first_line;
    loop {
        if !t.private.l1i.front_hit(line, false) {
            slow(t, line, false, true, block.first);
        }
        if line >= block.last_line {
            break;
        }
        line += 1;
    }
}

/// Writes the progress of the process.
#[cold]
fn report(t: &mut Thread) {
    t.next_report = t.private.instructions + PROGRESS_INSTRUCTIONS;
    if let Some(mut g) = global() {
        g.report(PROGRESS_INSTRUCTIONS);
    }
}

/// The files in the text of `/proc/self/maps`.
fn mapped(maps: &str) -> HashSet<PathBuf> {
    maps.lines().filter_map(|line| Some(PathBuf::from(&line[line.find('/')?..]))).collect()
}

extern "C" fn on_translate(_: Id, tb: *mut Tb) {
    let Some(mut guard) = global() else { return };
    let g = &mut *guard;
    // SAFETY: `tb` and its instructions are valid during this callback (QEMU plugin interface).
    let instructions: Vec<*mut Insn> = unsafe {
        (0..qemu::qemu_plugin_tb_n_insns(tb))
            .map(|i| qemu::qemu_plugin_tb_get_insn(tb, i))
            .collect()
    };
    let (Some(&first), Some(&last)) = (instructions.first(), instructions.last()) else { return };
    // SAFETY: as above.
    let (start, end, host) = unsafe {
        let end = qemu::qemu_plugin_insn_vaddr(last) + qemu::qemu_plugin_insn_size(last) as u64;
        (
            qemu::qemu_plugin_insn_vaddr(first),
            end.max(1),
            qemu::qemu_plugin_insn_haddr(first) as u64,
        )
    };
    if g.guest_base.is_none() && host != 0 {
        let base = host.wrapping_sub(start);
        g.guest_base = Some(base);
        if let Ok(maps) = std::fs::read_to_string("/proc/self/maps") {
            g.frames.regions.load_maps(&maps, base, if base == 0 { 1 << 48 } else { 1 << 32 });
            for path in mapped(&maps).difference(&g.emulators_own) {
                g.files.look(path, How::Content);
            }
        }
    }
    let mut ends: Option<(&'static Code, &'static Code)> = None;
    for insn in instructions {
        // SAFETY: as above.
        let code = g.code_of(unsafe { qemu::qemu_plugin_insn_vaddr(insn) });
        ends = Some((ends.map_or(code, |(first, _)| first), code));
        let user = std::ptr::from_ref(code).cast_mut().cast();
        // SAFETY: as above; the callbacks match the declared types and `user` lives for ever.
        unsafe {
            qemu::qemu_plugin_register_vcpu_mem_cb(insn, on_access, CB_NO_REGS, MEM_RW, user);
        }
    }
    let Some((first_code, last_code)) = ends else { return };
    let shift = g.geometry.line_shift;
    // SAFETY: as above; the bytes of an instruction are valid during this callback.
    let (instructions, bytes) = unsafe {
        let (data, size) = (qemu::qemu_plugin_insn_data(last), qemu::qemu_plugin_insn_size(last));
        let bytes = std::slice::from_raw_parts(data.cast::<u8>(), size);
        (qemu::qemu_plugin_tb_n_insns(tb) as u64, bytes)
    };
    let block = Box::new(Block {
        start,
        next: end,
        first_line: start >> shift,
        last_line: (end - 1) >> shift,
        instructions,
        ends: g.target.map_or(Ends::Otherwise, |target| Ends::of(target.isa(), bytes)),
        first: first_code,
        last: last_code,
    });
    // SAFETY: as above; the block is leaked because QEMU may run it until the program ends.
    unsafe {
        qemu::qemu_plugin_register_vcpu_tb_exec_cb(
            tb,
            on_block,
            CB_NO_REGS,
            Box::into_raw(block).cast(),
        )
    };
}

extern "C" fn on_thread(_: Id, vcpu: c_uint) {
    let Some(mut g) = global() else { return };
    if g.threads >= 1 {
        MANY.store(true, Relaxed);
    }
    g.threads += 1;
    let Some(slot) = THREADS.get(vcpu as usize) else { return };
    if let Some(t) = thread(vcpu) {
        t.chains.next_thread(&t.private, &t.geometry);
    } else {
        slot.store(Box::into_raw(Box::new(Thread::new(&g))), Relaxed);
    }
}

extern "C" fn on_exit(_: Id, _: *mut c_void) {
    let Some(mut g) = global() else { return };
    // In a forked child the first thread need not be number 0.
    let some = THREADS.iter().map(|slot| slot.load(Relaxed)).find(|at| !at.is_null());
    // SAFETY: a leaked box; QEMU has stopped every vCPU.
    let Some(t) = some.and_then(|at| unsafe { at.as_mut() }) else { return };
    g.finish(t, None);
}

/// Called when QEMU has loaded the plugin. `argv` holds `config=PATH`.
///
/// # Safety
/// `info` and `argv` must be valid by QEMU's plugin interface.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: the caller's promise: `argc` strings, and an info block with a target name.
    let (target, args) = unsafe {
        let args: Vec<String> = (0..usize::try_from(argc).unwrap_or(0))
            .map(|i| CStr::from_ptr(*argv.add(i)).to_string_lossy().into_owned())
            .collect();
        (CStr::from_ptr((*info).target_name).to_string_lossy().into_owned(), args)
    };
    match set_up(&target, &args) {
        Ok(()) => {}
        Err(error) => {
            eprintln!("solocore: profiler plugin: {error}");
            return 1;
        }
    }
    // SAFETY: the callbacks match the declared types; those around a fork only lock, unlock and
    // store a flag.
    unsafe {
        libc::pthread_atfork(
            Some(processes::before_fork),
            Some(processes::in_parent),
            Some(processes::in_child),
        );
        qemu::qemu_plugin_register_vcpu_init_cb(id, on_thread);
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
        qemu::qemu_plugin_register_vcpu_syscall_cb(id, calls::on_syscall);
        qemu::qemu_plugin_register_vcpu_syscall_ret_cb(id, calls::on_syscall_return);
        qemu::qemu_plugin_register_atexit_cb(id, on_exit, std::ptr::null_mut());
    }
    0
}

fn set_up(target: &str, args: &[String]) -> Result<(), String> {
    let path =
        args.iter().find_map(|a| a.strip_prefix("config=")).ok_or("no config=PATH was given")?;
    let config: Config =
        solocore_model::files::read_json(path.as_ref()).map_err(|e| e.to_string())?;
    let from = args.iter().find_map(|a| a.strip_prefix("from=")).and_then(|n| n.parse().ok());
    let part = Part::start(&config, from, false).map_err(|e| e.to_string())?;
    let geometry = Geometry::of(&config.platform);
    let global = Global {
        recorder: Recorder::new(config.file(PartFile::Trace, part.number), config.trace_limit),
        target: Target::of(target),
        part,
        files: Files::default(),
        emulators_own: mapped(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default()),
        shared: Shared::new(&geometry),
        frames: FrameTable::new(geometry.page_shift),
        code: FxHashMap::default(),
        guest_base: None,
        unmaps: Vec::new(),
        threads: 0,
        children: 0,
        geometry,
        config,
    };
    let gate = Gate { lock: Mutex::new(()), global: UnsafeCell::new(global) };
    GLOBAL.set(gate).map_err(|_| "loaded twice".to_owned())
}
