//! QEMU's plugin interface, version 1 (QEMU 4.2 to 8.2): the part that is used here. Declared from
//! the documentation of the interface; QEMU resolves the names when it loads the plugin.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Handle of this plugin.
pub type Id = u64;

/// Opaque: a translated block.
#[repr(C)]
pub struct Tb {
    _private: [u8; 0],
}

/// Opaque: an instruction of a block.
#[repr(C)]
pub struct Insn {
    _private: [u8; 0],
}

/// QEMU's information about itself at load time; fields beyond these are not read.
#[repr(C)]
pub struct Info {
    pub target_name: *const c_char,
    pub version_min: c_int,
    pub version_cur: c_int,
    pub system_emulation: bool,
}

pub const CB_NO_REGS: c_uint = 0;
/// Loads and stores. QEMU 7.2 confuses the two when they are requested separately.
pub const MEM_RW: c_uint = 3;

pub type MemCb = extern "C" fn(c_uint, u32, u64, *mut c_void);
pub type ExecCb = extern "C" fn(c_uint, *mut c_void);
pub type SyscallCb = extern "C" fn(Id, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub type SyscallRetCb = extern "C" fn(Id, c_uint, i64, i64);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_init_cb(id: Id, cb: extern "C" fn(Id, c_uint));
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, cb: extern "C" fn(Id, *mut Tb));
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        tb: *mut Tb,
        cb: ExecCb,
        flags: c_uint,
        user: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        cb: MemCb,
        flags: c_uint,
        rw: c_uint,
        user: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_syscall_cb(id: Id, cb: SyscallCb);
    pub fn qemu_plugin_register_vcpu_syscall_ret_cb(id: Id, cb: SyscallRetCb);
    pub fn qemu_plugin_register_atexit_cb(
        id: Id,
        cb: extern "C" fn(Id, *mut c_void),
        user: *mut c_void,
    );
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub fn qemu_plugin_insn_haddr(insn: *const Insn) -> *mut c_void;
    pub fn qemu_plugin_insn_data(insn: *const Insn) -> *const c_void;
    pub fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    pub fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub fn qemu_plugin_mem_is_store(info: u32) -> bool;
}
