//! QEMU user-mode plugin: every instruction and memory reference of the guest goes through the
//! cache model of `solocore-cache`; at exit the counts are written for `solocore-profile` to read.
//!
//! Rule: a first-level hit is handled by the thread alone (a compare and an add). Everything else
//! takes one lock. The guest's system calls tell which memory region an address belongs to.
//! Not covered: memory that the kernel writes for the guest (`read` into a buffer), and page-table
//! walks.

mod frames;
mod qemu;
mod recorder;
mod regions;
mod results;
mod syscalls;

use frames::FrameTable;
use qemu::{CB_NO_REGS, Id, Info, Insn, MEM_RW, Tb};
use recorder::Recorder;
use rustc_hash::FxHashMap;
use solocore_cache::contract::Config;
use solocore_cache::{Geometry, Private, Shared};
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock};
use syscalls::Call;

/// QEMU refuses a plugin that does not say which interface it was made for.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

const MAX_THREADS: usize = 4096;
static THREADS: [AtomicPtr<Thread>; MAX_THREADS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_THREADS];
static GLOBAL: OnceLock<Gate> = OnceLock::new();
/// Set before the second thread starts: from then on the gate is locked.
static MANY: AtomicBool = AtomicBool::new(false);
/// Cleared in forked children: their memory is a copy and their counts would be lies.
static ACTIVE: AtomicBool = AtomicBool::new(true);

/// The shared state. While the program has one thread, the lock (a third of the cost of a miss) is
/// left alone.
struct Gate {
    lock: Mutex<()>,
    global: UnsafeCell<Global>,
}

// SAFETY: the cell is reached only through `global`, by the only thread or with the lock held.
unsafe impl Sync for Gate {}

/// Access to the shared state.
struct Guard {
    global: &'static mut Global,
    _lock: Option<MutexGuard<'static, ()>>,
}

impl std::ops::Deref for Guard {
    type Target = Global;

    fn deref(&self) -> &Global {
        self.global
    }
}

impl std::ops::DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut Global {
        self.global
    }
}

#[repr(C)]
struct Thread {
    line_shift: u32,
    /// Bit of the access information that marks a store; 0: ask QEMU.
    store_bit: u32,
    last_fetch: u64,
    private: Private,
    unmaps_seen: usize,
    pending: Option<Pending>,
}

/// A system call that was entered and has not returned.
struct Pending {
    call: Call,
    args: [u64; 6],
    file: Option<PathBuf>,
}

/// A translated block: its lines, and the instruction to blame for fetch misses.
struct Block {
    first_line: u64,
    last_line: u64,
    instructions: u64,
    code: *const Code,
}

/// An instruction.
struct Code {
    region: u32,
    offset: u64,
    accesses: AtomicU64,
    misses: AtomicU64,
}

struct Global {
    config: Config,
    geometry: Geometry,
    table: Option<[i64; 10]>,
    shared: Shared,
    frames: FrameTable,
    recorder: Recorder,
    code: FxHashMap<(u32, u64), &'static Code>,
    guest_base: Option<u64>,
    unmaps: Vec<(u64, u64)>,
    threads: u32,
    children: u32,
}

fn global() -> Option<Guard> {
    if !ACTIVE.load(Relaxed) {
        return None;
    }
    let gate = GLOBAL.get()?;
    let lock = if MANY.load(Relaxed) { Some(gate.lock.lock().ok()?) } else { None };
    // SAFETY: with one thread nobody else runs a callback, and no callback calls another while it
    // holds a guard; with several the lock is held. `on_thread` sets MANY in the thread that
    // creates the second one, before that one starts.
    let global = unsafe { &mut *gate.global.get() };
    Some(Guard { global, _lock: lock })
}

#[inline(always)]
fn thread(vcpu: c_uint) -> Option<&'static mut Thread> {
    let slot = THREADS.get(vcpu as usize)?;
    // SAFETY: the pointer is null or a leaked box; QEMU runs the callbacks of one vCPU in one
    // thread, and `finish` runs when QEMU has stopped all of them, so the reference is unique.
    unsafe { slot.load(Relaxed).as_mut() }
}

/// A reference that is not a plain hit at the front of its set.
#[inline(never)]
fn slow(thread: &mut Thread, vline: u64, write: bool, fetch: bool, code: *const Code) {
    let cache = if fetch { &mut thread.private.l1i } else { &mut thread.private.l1d };
    let Some(what) = cache.reference_deep(vline, write) else { return };
    let Some(mut guard) = global() else { return };
    let g = &mut *guard;
    if thread.unmaps_seen < g.unmaps.len() {
        g.drop_unmapped(thread);
    }
    let recorder = &mut g.recorder;
    let event =
        g.shared.resolve(&mut thread.private, &mut g.frames, vline, what, fetch, &mut |access| {
            recorder.push(access)
        });
    if let Some(event) = event
        // SAFETY: null, or a leaked `Code` from `code_of`, which lives for ever.
        && let Some(code) = unsafe { code.as_ref() }
    {
        // Only ever changed here, with the gate held.
        code.accesses.store(code.accesses.load(Relaxed) + 1, Relaxed);
        code.misses.store(code.misses.load(Relaxed) + u64::from(event.miss), Relaxed);
    }
}

extern "C" fn on_access(vcpu: c_uint, info: u32, vaddr: u64, user: *mut c_void) {
    let Some(t) = thread(vcpu) else { return };
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
        slow(t, line, write, false, user.cast());
    }
    let size = 1u64 << t.line_shift;
    if (vaddr & (size - 1)) + 8 > size {
        crosses_line(t, info, vaddr, write, user.cast());
    }
}

/// Near the end of a line: the access may go on in the next. (Accesses above 8 bytes reach the
/// plugin in halves.)
#[inline(never)]
fn crosses_line(t: &mut Thread, info: u32, vaddr: u64, write: bool, code: *const Code) {
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

/// Finds the bit of the access information that marks stores, so that the hot path need not call
/// QEMU for it; 0 if it is not one bit.
fn find_store_bit() -> u32 {
    // SAFETY: a pure function of its argument.
    let is_store = |info| unsafe { qemu::qemu_plugin_mem_is_store(info) };
    let mut bits = (0..32).map(|b| 1u32 << b).filter(|&bit| is_store(bit));
    match (is_store(0), bits.next(), bits.next()) {
        (false, Some(bit), None) => bit,
        _ => 0,
    }
}

extern "C" fn on_block(vcpu: c_uint, user: *mut c_void) {
    let Some(t) = thread(vcpu) else { return };
    // SAFETY: `user` is the leaked `Block` that `on_translate` registered with this callback.
    let block = unsafe { &*user.cast::<Block>() };
    t.private.instructions += block.instructions;
    // Fetching on in the line at hand is not a new access.
    if block.first_line == t.last_fetch && block.last_line == t.last_fetch {
        return;
    }
    t.last_fetch = block.last_line;
    let mut line = block.first_line;
    loop {
        if !t.private.l1i.front_hit(line, false) {
            slow(t, line, false, true, block.code);
        }
        if line >= block.last_line {
            break;
        }
        line += 1;
    }
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
        }
    }
    let mut first_code: *const Code = std::ptr::null();
    for insn in instructions {
        // SAFETY: as above.
        let code = g.code_of(unsafe { qemu::qemu_plugin_insn_vaddr(insn) });
        if first_code.is_null() {
            first_code = code;
        }
        let user = std::ptr::from_ref(code).cast_mut().cast();
        // SAFETY: as above; the callbacks match the declared types and `user` lives for ever.
        unsafe {
            qemu::qemu_plugin_register_vcpu_mem_cb(insn, on_access, CB_NO_REGS, MEM_RW, user);
        }
    }
    let shift = g.geometry.line_shift;
    // SAFETY: as above.
    let instructions = unsafe { qemu::qemu_plugin_tb_n_insns(tb) } as u64;
    let block = Box::new(Block {
        first_line: start >> shift,
        last_line: (end - 1) >> shift,
        instructions,
        code: first_code,
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
    if slot.load(Relaxed).is_null() {
        let thread = Thread {
            line_shift: g.geometry.line_shift,
            store_bit: find_store_bit(),
            last_fetch: u64::MAX,
            private: Private::new(&g.geometry),
            unmaps_seen: g.unmaps.len(),
            pending: None,
        };
        slot.store(Box::into_raw(Box::new(thread)), Relaxed);
    }
}

extern "C" fn on_syscall(
    _: Id,
    vcpu: c_uint,
    number: i64,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    f: u64,
    _: u64,
    _: u64,
) {
    let Some(t) = thread(vcpu) else { return };
    let Some(mut guard) = global() else { return };
    let g = &mut *guard;
    let Some(call) = g.table.as_ref().and_then(|table| syscalls::identify(table, number)) else {
        return;
    };
    let args = [a, b, c, d, e, f];
    let mut file = None;
    match call {
        // MAP_ANONYMOUS is 0x20 on every target in the table.
        Call::Mmap(_) if d & 0x20 == 0 => {
            #[allow(clippy::cast_possible_truncation, reason = "descriptors are 32-bit")]
            let fd = (e as u32).cast_signed();
            file = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok();
        }
        Call::Execve | Call::Execveat => {
            let path = if call == Call::Execve { a } else { b };
            let name = g.guest_base.and_then(|base| read_string(base.wrapping_add(path)));
            g.finish(t, Some(name.unwrap_or_else(|| "another program".to_owned())));
        }
        _ => {}
    }
    t.pending = Some(Pending { call, args, file });
}

extern "C" fn on_syscall_return(_: Id, vcpu: c_uint, _number: i64, ret: i64) {
    let Some(t) = thread(vcpu) else { return };
    let Some(pending) = t.pending.take() else { return };
    let Some(mut guard) = global() else { return };
    let g = &mut *guard;
    let [a, b, c, d, _, f] = pending.args;
    if (-4095..0).contains(&ret) {
        return;
    }
    let ret = ret.cast_unsigned();
    match pending.call {
        Call::Mmap(unit) => {
            g.retire(t, ret, b);
            let writable = c & 2 != 0;
            let anonymous = d & 0x20 != 0;
            let file = pending.file.filter(|_| !anonymous).map(|path| (path, f.wrapping_mul(unit)));
            g.frames.regions.map(ret, b.next_multiple_of(4096), writable, file);
        }
        Call::Munmap => {
            g.retire(t, a, b);
            g.frames.regions.unmap(a, a.saturating_add(b.next_multiple_of(4096)));
        }
        Call::Mremap => {
            g.retire(t, a, b);
            g.frames.regions.unmap(a, a.saturating_add(b.next_multiple_of(4096)));
            g.frames.regions.map(ret, c.next_multiple_of(4096), true, None);
        }
        Call::Brk => g.frames.regions.set_break(ret),
        Call::Fork if ret > 0 => g.children += 1,
        // CLONE_VM without CLONE_VFORK makes a thread; QEMU treats every vfork as a fork.
        Call::Clone if ret > 0 && (a & 0x100 == 0 || a & 0x4000 != 0) => g.children += 1,
        _ => {}
    }
}

extern "C" fn on_exit(_: Id, _: *mut c_void) {
    let Some(mut g) = global() else { return };
    let Some(t) = thread(0) else { return };
    g.finish(t, None);
}

extern "C" fn in_forked_child() {
    ACTIVE.store(false, Relaxed);
}

/// Reads a NUL-terminated string of this process without trusting the address.
fn read_string(address: u64) -> Option<String> {
    let mut bytes = Vec::new();
    while bytes.len() < 4096 {
        let at = address + bytes.len() as u64;
        let mut chunk = [0u8; 256];
        let want = 256 - (at % 256) as usize;
        let local = libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: want };
        let remote = libc::iovec { iov_base: at as *mut c_void, iov_len: want };
        // SAFETY: `local` is a valid buffer of `want` bytes; a bad remote address is an error
        // return.
        let got = unsafe {
            libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
        };
        let got = usize::try_from(got).ok().filter(|&n| n > 0)?;
        if let Some(end) = chunk[..got].iter().position(|&b| b == 0) {
            bytes.extend_from_slice(&chunk[..end]);
            break;
        }
        bytes.extend_from_slice(&chunk[..got]);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// QEMU calls this when it has loaded the plugin. `argv` holds `config=PATH`.
///
/// # Safety
/// `info` and `argv` must be as QEMU's plugin interface says.
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
    // SAFETY: the callbacks match the declared types; `in_forked_child` only stores a flag.
    unsafe {
        libc::pthread_atfork(None, None, Some(in_forked_child));
        qemu::qemu_plugin_register_vcpu_init_cb(id, on_thread);
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
        qemu::qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
        qemu::qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_return);
        qemu::qemu_plugin_register_atexit_cb(id, on_exit, std::ptr::null_mut());
    }
    0
}

fn set_up(target: &str, args: &[String]) -> Result<(), String> {
    let path =
        args.iter().find_map(|a| a.strip_prefix("config=")).ok_or("no config=PATH was given")?;
    let config: Config =
        solocore_model::files::read_json(path.as_ref()).map_err(|e| e.to_string())?;
    let geometry = Geometry::of(&config.platform);
    let global = Global {
        recorder: Recorder::new(config.trace.clone(), config.trace_limit),
        table: syscalls::numbers(target),
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
