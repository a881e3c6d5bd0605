//! The C of `policy/` in the kernel: compiled by clang, checked by the BPF verifier, translated by
//! the JIT, and called through `BPF_PROG_RUN` (`policy/tests/bpf/drive.bpf.c`). Programs are
//! compiled when the tests run, not when this crate is built, so that one run can try several
//! compilers and a build needs none of them.

use super::Backend;
use crate::{Answer, Event};
use libbpf_rs::{
    MapCore, MapFlags, Object, ObjectBuilder, PrintLevel, Program, ProgramInput, libbpf_sys,
    set_print,
};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// A compiler for BPF.
#[derive(Clone, Debug)]
pub struct Clang {
    command: PathBuf,
    name: String,
}

impl Clang {
    /// The compiler of this name or path; the error says what is wrong with it.
    pub fn find(command: &Path) -> Result<Self, String> {
        let output = Command::new(command)
            .arg("--version")
            .output()
            .map_err(|e| format!("{} does not run: {e}", command.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version =
            text.split("clang version ").nth(1).and_then(|rest| rest.split_whitespace().next());
        match version {
            Some(version) if output.status.success() => {
                Ok(Self { command: command.to_owned(), name: format!("clang {version}") })
            }
            _ => Err(format!("{} is not a clang", command.display())),
        }
    }

    /// The compilers that this machine has: `$CLANG`, or else `clang`; and `clang-19`, which knows
    /// newer tricks than the clang 14 of Debian 12. The error says how to get one.
    pub fn installed() -> Result<Vec<Self>, String> {
        let first = std::env::var_os("CLANG").map_or_else(|| PathBuf::from("clang"), PathBuf::from);
        let mut found: Vec<Self> = Vec::new();
        for command in [first.as_path(), Path::new("clang-19")] {
            if let Ok(clang) = Self::find(command)
                && found.iter().all(|f| f.name != clang.name)
            {
                found.push(clang);
            }
        }
        if found.is_empty() {
            return Err(format!("{} (apt-get install clang)", Self::find(&first).unwrap_err()));
        }
        Ok(found)
    }

    /// "clang 14.0.6".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Compiles the test program of a mechanism; returns the object file's bytes, so that no object
    /// is left behind.
    fn compile(&self, policy: &Path, mechanism: &str) -> Result<Vec<u8>, String> {
        let output = Command::new(&self.command)
            .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-ffreestanding"])
            .arg("-I")
            .arg(policy.join("include"))
            // Debian keeps <asm/types.h> there, and clang does not look for it when the target is
            // BPF.
            .arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH))
            .arg(format!("-DSC_MECHANISM={mechanism}"))
            .arg("-c")
            .arg(policy.join("tests/bpf/drive.bpf.c"))
            .args(["-o", "-"])
            .output()
            .map_err(|e| format!("{} does not run: {e}", self.command.display()))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let hint =
            if text.contains("bpf/bpf_helpers.h") { " (apt-get install libbpf-dev)" } else { "" };
        Err(format!("{} refuses drive.bpf.c for {mechanism}{hint}:\n{text}", self.name))
    }
}

/// Can this process load and run BPF programs? The error says why not.
pub fn available() -> Result<(), String> {
    // r0 = 0; exit
    let program = [
        libbpf_sys::bpf_insn { code: 0xb7, ..Default::default() },
        libbpf_sys::bpf_insn { code: 0x95, ..Default::default() },
    ];
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as u64,
        // Programs of type SYSCALL must be sleepable.
        prog_flags: libbpf_sys::BPF_F_SLEEPABLE,
        ..Default::default()
    };
    // SAFETY: the instructions, the options and the strings live through the call.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_SYSCALL,
            c"probe".as_ptr(),
            c"GPL".as_ptr(),
            program.as_ptr(),
            program.len() as u64,
            &raw mut options,
        )
    };
    if fd < 0 {
        let error = std::io::Error::from_raw_os_error(-fd);
        return Err(format!(
            "the kernel refuses bpf(): {error} (root, or CAP_BPF and CAP_PERFMON, is needed)"
        ));
    }
    // SAFETY: the call above returned this descriptor, and nothing else has it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

/// A mechanism's test program, loaded.
pub struct BpfProgram {
    name: String,
    object: Object,
    verified_insns: u32,
}

impl BpfProgram {
    /// Compiles and loads; an error holds the end of what the compiler or the verifier said.
    pub fn load(clang: &Clang, policy: &Path, mechanism: &str) -> Result<Self, String> {
        let object = load_object(&clang.compile(policy, mechanism)?).map_err(|e| {
            format!("the verifier refuses {mechanism} as compiled by {}: {e}", clang.name)
        })?;
        let program = object.progs().next().ok_or("drive.bpf.c holds no program")?;
        let verified_insns = verified_insns(&program);
        Ok(Self { name: format!("BPF ({})", clang.name), object, verified_insns })
    }

    /// Instructions that the verifier walked through, 0 if the kernel does not tell.
    pub fn verified_insns(&self) -> u32 {
        self.verified_insns
    }
}

/// What the verifier walked through; 0 before Linux 5.16, which does not tell.
fn verified_insns(program: &Program) -> u32 {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = u32::try_from(size_of_val(&info)).unwrap_or(0);
    // SAFETY: the kernel writes at most `length` bytes, which are those of `info`.
    let result = unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(
            program.as_fd().as_raw_fd(),
            &raw mut info,
            &raw mut length,
        )
    };
    if result == 0 { info.verified_insns } else { 0 }
}

/// What libbpf said during a load: its messages go to one function for the whole process.
static LOG: Mutex<String> = Mutex::new(String::new());

fn log(_: PrintLevel, message: String) {
    LOG.lock().unwrap_or_else(|e| e.into_inner()).push_str(&message);
}

fn load_object(bytes: &[u8]) -> Result<Object, String> {
    /// One load at a time, so that each has its own log.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    set_print(Some((PrintLevel::Info, log)));
    LOG.lock().unwrap_or_else(|e| e.into_inner()).clear();
    let result = ObjectBuilder::default().open_memory(bytes).and_then(|open| open.load());
    let said = std::mem::take(&mut *LOG.lock().unwrap_or_else(|e| e.into_inner()));
    result.map_err(|e| format!("{e}\n{}", last_lines(&said, 25)))
}

/// The verifier's log ends with the complaint; lines that start with ';' quote the source.
fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with(';')).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

impl Backend for BpfProgram {
    fn name(&self) -> &str {
        &self.name
    }

    fn replay(&self, events: &[Event], answers: &mut Vec<Answer>) -> Result<(), String> {
        let world = self
            .object
            .maps()
            .find(|m| m.name() == "world")
            .ok_or("drive.bpf.c holds no map `world`")?;
        let zeros = vec![0; world.value_size() as usize];
        world
            .update(&0u32.to_ne_bytes(), &zeros, MapFlags::ANY)
            .map_err(|e| format!("the world stays old: {e}"))?;
        let program = self.object.progs_mut().next().ok_or("drive.bpf.c holds no program")?;
        for event in events {
            let mut call = encode(event);
            let input = ProgramInput { context_in: Some(&mut call), ..Default::default() };
            let output = program.test_run(input).map_err(|e| format!("BPF_PROG_RUN fails: {e}"))?;
            if output.return_value != 0 {
                return Err(format!("the program returns {}", output.return_value));
            }
            answers.push(decode(&call));
        }
        Ok(())
    }
}

/// Bytes of an event, and of an answer.
const BYTES: usize = 48;

/// The program's context: the event, and room for the answer that shows if it was not written.
fn encode(event: &Event) -> [u8; 2 * BYTES] {
    let mut call = [0xa5; 2 * BYTES];
    call[..4].copy_from_slice(&event.op.to_ne_bytes());
    call[4..8].copy_from_slice(&event.id.to_ne_bytes());
    for (word, value) in
        call[8..BYTES].chunks_exact_mut(8).zip([event.now, event.a, event.b, event.c, event.d])
    {
        word.copy_from_slice(&value.to_ne_bytes());
    }
    call
}

fn decode(call: &[u8; 2 * BYTES]) -> Answer {
    let mut answer = Answer::default();
    for (value, word) in answer.word.iter_mut().zip(call[BYTES..].chunks_exact(8)) {
        *value = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_is_named() {
        let error = Clang::find(Path::new("/nonexistent/clang")).unwrap_err();
        assert!(error.contains("/nonexistent/clang does not run"), "{error}");
        let error = Clang::find(Path::new("true")).unwrap_err();
        assert!(error.contains("is not a clang"), "{error}");
    }

    #[test]
    fn the_context_is_an_event_and_an_answer() {
        let event = Event { op: 1, id: 2, now: 3, a: 4, b: 5, c: 6, d: 7 };
        let call = encode(&event);
        let words: Vec<u64> =
            call.chunks_exact(8).map(|w| u64::from_ne_bytes(w.try_into().unwrap())).collect();
        assert_eq!(call[..8], [1u32.to_ne_bytes(), 2u32.to_ne_bytes()].concat());
        assert_eq!(words[1..6], [3, 4, 5, 6, 7]);
        assert_eq!(decode(&call).word, [0xa5a5_a5a5_a5a5_a5a5; 6]);
    }

    #[test]
    fn only_the_end_of_a_log_is_told() {
        assert_eq!(last_lines("a\n; source\nb\nc", 2), "b\nc");
        assert_eq!(last_lines("", 2), "");
    }
}
