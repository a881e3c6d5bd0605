//! QEMU's functions for the plugin: the plugin interface, version 7
//! (`include/plugins/qemu-plugin.h`), and the symbols beyond it that the board needs, all found by
//! name when QEMU loads the plugin.
//!
//! Problem: no package of Debian has the header, and the interface gives no access to time. Rule:
//! every function is looked up, so a QEMU that lacks one is refused by name; the tests of the model
//! link without QEMU. [`Clocks`] describes the parts of QEMU's memory that are read.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// The interface that this plugin speaks.
pub const API: c_int = 7;

/// QEMU's name for the plugin.
pub type Id = u64;
/// A callback of a vCPU.
pub type VcpuCb = extern "C" fn(c_uint, *mut c_void);
/// A callback of a memory access.
pub type MemCb = extern "C" fn(c_uint, u32, u64, *mut c_void);
/// Work for a vCPU's thread.
pub type Work = extern "C" fn(*mut Cpu, usize);

/// `CPUState`.
#[repr(C)]
pub struct Cpu {
    _opaque: [u8; 0],
}

/// QEMU's information about itself.
#[repr(C)]
pub struct Info {
    /// Architecture of the guest.
    pub target: *const c_char,
    /// Oldest and newest interface.
    pub version: [c_int; 2],
    /// Whether it emulates a whole system.
    pub system: bool,
    /// Number of vCPUs at start, and the maximum.
    pub smp: [c_int; 2],
}

/// A member of a scoreboard's entry.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Member {
    /// The scoreboard.
    pub score: *mut c_void,
    /// Bytes from the entry's begin.
    pub offset: usize,
}

/// glib's `GByteArray`.
#[repr(C)]
pub struct Bytes {
    /// Contents.
    pub data: *mut u8,
    /// Length in bytes.
    pub len: c_uint,
}

/// glib's `GArray` of registers.
#[repr(C)]
pub struct Registers {
    /// Contents.
    pub data: *const Register,
    /// Number of elements.
    pub len: c_uint,
}

/// A register.
#[repr(C)]
pub struct Register {
    /// Handle to read and write it.
    pub handle: *mut c_void,
    /// Its name.
    pub name: *const c_char,
    feature: *const c_char,
    read_only: bool,
}

/// The value of an access.
#[repr(C)]
pub struct Value {
    kind: c_uint,
    /// Low and high half.
    pub data: [u64; 2],
}

/// `QEMU_PLUGIN_CB_NO_REGS` and so on.
pub const NO_REGS: c_int = 0;
/// A callback that reads registers.
pub const R_REGS: c_int = 1;
/// A callback that writes registers and the program counter.
pub const RW_REGS_PC: c_int = 3;
/// Reads and writes of memory.
pub const MEM_RW: c_int = 3;
/// Inline operations.
pub const ADD: c_int = 0;
/// As [`ADD`].
pub const STORE: c_int = 1;
/// Conditions.
pub const NOT_EQUAL: c_int = 3;
/// As [`NOT_EQUAL`].
pub const AT_LEAST: c_int = 7;
/// `QEMU_CLOCK_VIRTUAL`.
pub const VIRTUAL: c_int = 1;

macro_rules! symbols {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal : ($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// Functions of QEMU and glib.
        #[allow(missing_docs, reason = "the names are QEMU's")]
        pub struct Qemu { $($(#[$doc])* pub $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)* }

        impl Qemu {
            fn find() -> Result<Self, String> {
                Ok(Self { $($name: {
                    let address = symbol($symbol).ok_or_else(|| format!("this QEMU has no `{}`", $symbol))?;
                    // SAFETY: the symbol is the function that the declaration describes, in version
                    // 7 of the interface; `Clocks::check` checks those beyond it.
                    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $ret)?>(address) }
                },)* })
            }
        }
    };
}

symbols! {
    on_init = "qemu_plugin_register_vcpu_init_cb": (Id, VcpuCb, *mut c_void);
    on_idle = "qemu_plugin_register_vcpu_idle_cb": (Id, VcpuCb, *mut c_void);
    on_resume = "qemu_plugin_register_vcpu_resume_cb": (Id, VcpuCb, *mut c_void);
    on_translation = "qemu_plugin_register_vcpu_tb_trans_cb": (Id, extern "C" fn(*mut c_void, *mut c_void), *mut c_void);
    on_exit = "qemu_plugin_register_atexit_cb": (Id, extern "C" fn(*mut c_void), *mut c_void);
    on_block = "qemu_plugin_register_vcpu_tb_exec_cb": (*mut c_void, VcpuCb, c_int, *mut c_void);
    on_block_if = "qemu_plugin_register_vcpu_tb_exec_cond_cb": (*mut c_void, VcpuCb, c_int, c_int, Member, u64, *mut c_void);
    inline = "qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu": (*mut c_void, c_int, Member, u64);
    on_instruction = "qemu_plugin_register_vcpu_insn_exec_cb": (*mut c_void, VcpuCb, c_int, *mut c_void);
    on_memory = "qemu_plugin_register_vcpu_mem_cb": (*mut c_void, MemCb, c_int, c_int, *mut c_void);
    block_length = "qemu_plugin_tb_n_insns": (*mut c_void) -> usize;
    instruction = "qemu_plugin_tb_get_insn": (*mut c_void, usize) -> *mut c_void;
    instruction_vaddr = "qemu_plugin_insn_vaddr": (*mut c_void) -> u64;
    instruction_size = "qemu_plugin_insn_size": (*mut c_void) -> usize;
    instruction_data = "qemu_plugin_insn_data": (*mut c_void, *mut u8, usize) -> usize;
    hwaddr = "qemu_plugin_get_hwaddr": (u32, u64) -> *mut c_void;
    hwaddr_is_io = "qemu_plugin_hwaddr_is_io": (*mut c_void) -> bool;
    hwaddr_physical = "qemu_plugin_hwaddr_phys_addr": (*mut c_void) -> u64;
    is_store = "qemu_plugin_mem_is_store": (u32) -> bool;
    size_shift = "qemu_plugin_mem_size_shift": (u32) -> c_uint;
    value = "qemu_plugin_mem_get_value": (u32) -> Value;
    translate = "qemu_plugin_translate_vaddr": (u64, *mut u64) -> bool;
    scoreboard_new = "qemu_plugin_scoreboard_new": (usize) -> *mut c_void;
    scoreboard_find = "qemu_plugin_scoreboard_find": (*mut c_void, c_uint) -> *mut c_void;
    registers = "qemu_plugin_get_registers": () -> *mut Registers;
    read_register = "qemu_plugin_read_register": (*mut c_void, *mut Bytes) -> bool;
    write_register = "qemu_plugin_write_register": (*mut c_void, *mut Bytes) -> bool;
    read_physical = "qemu_plugin_read_memory_hwaddr": (u64, *mut Bytes, usize) -> c_int;
    write_physical = "qemu_plugin_write_memory_hwaddr": (u64, *mut Bytes) -> c_int;
    set_pc = "qemu_plugin_set_pc": (u64) -> !;
    bytes_new = "g_byte_array_new": () -> *mut Bytes;
    bytes_resize = "g_byte_array_set_size": (*mut Bytes, c_uint) -> *mut Bytes;
    async_run_on_cpu = "async_run_on_cpu": (*mut Cpu, Work, usize);
    cpu = "qemu_get_cpu": (c_int) -> *mut Cpu;
    bql_lock = "bql_lock_impl": (*const c_char, c_int);
    bql_unlock = "bql_unlock": ();
    bql_locked = "bql_locked": () -> bool;
    cond_init = "qemu_cond_init": (*mut c_void);
    cond_signal = "qemu_cond_signal": (*mut c_void);
    cond_wait_bql = "qemu_cond_wait_bql": (*mut c_void);
    cpu_is_idle = "cpu_thread_is_idle": (*mut Cpu) -> bool;
    cpu_pause = "cpu_pause": (*mut Cpu);
    cpu_resume = "cpu_resume": (*mut Cpu);
    is_running = "runstate_is_running": () -> bool;
    run_timers = "qemu_clock_run_timers": (c_int) -> bool;
    deadline_ns = "qemu_clock_deadline_ns_all": (c_int, c_int) -> i64;
    class_by_name = "module_object_class_by_name": (*const c_char) -> *mut c_void;
    handle_interrupt = "tcg_handle_interrupt": (*mut Cpu, c_int);
    virtual_clock = "cpus_get_virtual_clock": () -> i64;
    elapsed_ticks = "cpus_get_elapsed_ticks": () -> i64;
    is_multi_threaded = "qemu_tcg_mttcg_enabled": () -> bool;
    flush = "queue_tb_flush": (*mut Cpu);
}

fn symbol(name: &str) -> Option<*mut c_void> {
    let name = CString::new(name).ok()?;
    // SAFETY: looks up a name among the loaded symbols.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

static QEMU: OnceLock<Qemu> = OnceLock::new();

/// Finds QEMU's functions.
///
/// # Errors
/// The name of a missing function.
pub fn load() -> Result<&'static Qemu, String> {
    let found = Qemu::find()?;
    Ok(QEMU.get_or_init(|| found))
}

/// QEMU's functions; [`load`] has found them before any callback is registered.
#[inline(always)]
pub fn qemu() -> &'static Qemu {
    match QEMU.get() {
        Some(qemu) => qemu,
        None => unreachable!("no callback runs before `load`"),
    }
}

/// Holds QEMU's big lock.
pub struct BigLock {
    taken: bool,
}

impl BigLock {
    /// Takes the lock unless this thread has it.
    pub fn take() -> Self {
        // SAFETY: asks for, and then takes, this thread's lock.
        let had = unsafe { (qemu().bql_locked)() };
        if !had {
            // SAFETY: this thread does not hold it.
            unsafe { (qemu().bql_lock)(c"board-plugin".as_ptr(), 0) };
        }
        Self { taken: !had }
    }
}

impl Drop for BigLock {
    fn drop(&mut self) {
        if self.taken {
            // SAFETY: taken above.
            unsafe { (qemu().bql_unlock)() };
        }
    }
}

/// The clocks of the guest, taken over in the class `tcg-accel-ops`.
///
/// `cpus_get_virtual_clock` and `cpus_get_elapsed_ticks` call the functions of this class. The
/// offsets of the two are read from their code: the first `mov offset(%rax),%rax`. The field before
/// the first is that of `handle_interrupt`: it must have the known value.
pub struct Clocks {
    class: *mut u8,
    virtual_clock: usize,
    elapsed_ticks: usize,
    handle_interrupt: usize,
}

/// Functions that replace the guest's clocks.
#[derive(Clone, Copy)]
pub struct Replaced {
    /// Nanoseconds of the guest.
    pub virtual_clock: extern "C" fn() -> i64,
    /// Its time stamp counter.
    pub elapsed_ticks: extern "C" fn() -> i64,
    /// An interrupt for a vCPU.
    pub handle_interrupt: extern "C" fn(*mut Cpu, c_int),
}

/// Number of bytes of the class that are read.
const CLASS: usize = 512;

impl Clocks {
    /// Finds the class and checks its layout.
    ///
    /// # Errors
    /// The difference from the expected layout.
    pub fn find() -> Result<Self, String> {
        let q = qemu();
        // SAFETY: no arguments; the accelerator is set up when a vCPU starts.
        if !unsafe { (q.is_multi_threaded)() } {
            return Err("QEMU runs all vCPUs in one thread; start it with -accel tcg,thread=multi"
                .to_owned());
        }
        // SAFETY: a C string; the answer is null or a class that lives for ever.
        let class = unsafe { (q.class_by_name)(c"tcg-accel-ops".as_ptr()) };
        if class.is_null() {
            return Err("this QEMU has no class `tcg-accel-ops`".to_owned());
        }
        let class: *mut u8 = class.cast();
        let offset = |name: &str| {
            // SAFETY: the code of a function; 64 bytes after its begin are mapped, as the text goes
            // on for megabytes.
            let code = symbol(name)
                .map(|at| unsafe { std::slice::from_raw_parts(at.cast::<u8>().cast_const(), 64) });
            code.and_then(offset_in)
                .ok_or_else(|| format!("the code of `{name}` is not as expected"))
        };
        let (virtual_clock, elapsed_ticks) =
            (offset("cpus_get_virtual_clock")?, offset("cpus_get_elapsed_ticks")?);
        let word = |at: usize| {
            // SAFETY: within the class, which is larger than its last field used here.
            unsafe { class.add(at).cast::<usize>().read() }
        };
        #[allow(clippy::fn_to_numeric_cast, reason = "compared with a field that holds it")]
        let known = q.handle_interrupt as usize;
        let handle_interrupt = (0..virtual_clock / 8).map(|i| i * 8).find(|&at| word(at) == known);
        let Some(handle_interrupt) = handle_interrupt else {
            return Err("the class `tcg-accel-ops` does not hold `tcg_handle_interrupt`".to_owned());
        };
        if word(virtual_clock) != 0 || word(elapsed_ticks) != 0 {
            return Err("the class `tcg-accel-ops` has clocks already; start QEMU without -icount"
                .to_owned());
        }
        Ok(Self { class, virtual_clock, elapsed_ticks, handle_interrupt })
    }

    /// Takes the clocks over; then QEMU's own functions must give the values of `test`.
    ///
    /// # Errors
    /// They give other values.
    pub fn replace(&self, by: Replaced, test: impl Fn() -> (i64, i64)) -> Result<(), String> {
        let put = |at: usize, what: usize| {
            // SAFETY: fields of the class that hold functions of these types, looked at in `find`;
            // QEMU reads them again at each use.
            unsafe { self.class.add(at).cast::<usize>().write_volatile(what) }
        };
        #[allow(clippy::fn_to_numeric_cast, reason = "fields that hold functions")]
        {
            put(self.virtual_clock, by.virtual_clock as usize);
            put(self.elapsed_ticks, by.elapsed_ticks as usize);
            put(self.handle_interrupt, by.handle_interrupt as usize);
        }
        // SAFETY: no arguments.
        let got = unsafe { ((qemu().virtual_clock)(), (qemu().elapsed_ticks)()) };
        let want = test();
        if got == want {
            Ok(())
        } else {
            Err(format!("this QEMU's clocks cannot be taken over: {got:?}, not {want:?}"))
        }
    }
}

/// The offset of the first `mov offset(%rax),%rax`.
fn offset_in(code: &[u8]) -> Option<usize> {
    let at = code.windows(3).position(|w| w == [0x48, 0x8b, 0x80])?;
    let offset = u32::from_le_bytes(code.get(at + 3..at + 7)?.try_into().ok()?) as usize;
    (offset.is_multiple_of(8) && offset < CLASS).then_some(offset)
}

/// The general registers of x86 that the board reads and writes, by their number in instructions.
pub const GENERAL: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

/// A vCPU's registers.
pub struct Regs {
    general: [*mut c_void; 16],
    cr3: *mut c_void,
    rip: *mut c_void,
    bytes: *mut Bytes,
}

impl Regs {
    /// The registers of the vCPU of this thread.
    ///
    /// # Errors
    /// QEMU does not name a register; the error does.
    pub fn of_this_vcpu() -> Result<Self, String> {
        let q = qemu();
        // SAFETY: called in the vCPU's init callback, as the interface asks.
        let (list, bytes) = unsafe { ((q.registers)(), (q.bytes_new)()) };
        // SAFETY: an array of `len` elements that no code frees.
        let list = unsafe { std::slice::from_raw_parts((*list).data, (*list).len as usize) };
        let find = |name: &str| {
            // SAFETY: names are C strings that live for ever.
            let found = list
                .iter()
                .find(|r| unsafe { CStr::from_ptr(r.name) }.to_bytes() == name.as_bytes());
            found.map(|r| r.handle).ok_or_else(|| format!("this QEMU names no register `{name}`"))
        };
        let mut general = [std::ptr::null_mut(); 16];
        for (slot, name) in general.iter_mut().zip(GENERAL) {
            *slot = find(name)?;
        }
        Ok(Self { general, cr3: find("cr3")?, rip: find("rip")?, bytes })
    }

    fn read(&self, handle: *mut c_void) -> u64 {
        // SAFETY: the handle is QEMU's, the array this vCPU's own; callbacks that come here were
        // registered to read registers.
        unsafe {
            (qemu().bytes_resize)(self.bytes, 0);
            (qemu().read_register)(handle, self.bytes);
            self.word()
        }
    }

    /// The first bytes of the array as a number.
    fn word(&self) -> u64 {
        let mut word = [0u8; 8];
        // SAFETY: the array states this number of bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts((*self.bytes).data, (*self.bytes).len as usize) };
        let n = bytes.len().min(8);
        word[..n].copy_from_slice(&bytes[..n]);
        u64::from_le_bytes(word)
    }

    fn fill(&self, bytes: &[u8]) {
        // SAFETY: resized first.
        unsafe {
            (qemu().bytes_resize)(self.bytes, c_uint::try_from(bytes.len()).unwrap_or(0));
            std::slice::from_raw_parts_mut((*self.bytes).data, bytes.len()).copy_from_slice(bytes);
        }
    }

    /// A general register, by its number in instructions.
    pub fn get(&self, number: usize) -> u64 {
        self.read(self.general[number & 15])
    }

    /// Writes a general register.
    pub fn set(&self, number: usize, value: u64) {
        self.fill(&value.to_le_bytes());
        // SAFETY: as in `read`; callbacks that come here were registered to write registers.
        unsafe { (qemu().write_register)(self.general[number & 15], self.bytes) };
    }

    /// The page tables' root.
    pub fn cr3(&self) -> u64 {
        self.read(self.cr3)
    }

    /// The instruction pointer as the translated code last wrote it: of an instruction of the block
    /// that runs, at or before the present one.
    pub fn rip(&self) -> u64 {
        self.read(self.rip)
    }

    /// Reads a word of physical memory; 0 where there is none.
    pub fn physical(&self, at: u64, size: usize) -> u64 {
        // SAFETY: in the vCPU's thread; the array is its own.
        unsafe {
            (qemu().bytes_resize)(self.bytes, 0);
            if (qemu().read_physical)(at, self.bytes, size) != 0 {
                return 0;
            }
        }
        self.word()
    }

    /// Writes a 32-bit word of physical memory.
    pub fn write_physical(&self, at: u64, word: u32) {
        self.fill(&word.to_le_bytes());
        // SAFETY: as in `physical`.
        unsafe { (qemu().write_physical)(at, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_read_from_the_code() {
        let code = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x05, 1, 2, 3, 4, 0x48, 0x8b, 0x80, 0xc8, 0, 0, 0,
            0xff,
        ];
        assert_eq!(offset_in(&code), Some(0xc8));
        assert_eq!(offset_in(&code[..12]), None);
    }
}
