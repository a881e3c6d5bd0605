//! Compiles the programs of `bpf/` with clang; the crate embeds the objects, so that the command is
//! one file. It also generates the Rust types that these programs share with the crate
//! (`src/contract.rs`).

use bindgen::callbacks::{DeriveInfo, IntKind, ParseCallbacks};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Definition that tells libbpf's headers the architecture of the registers that a probe reads.
const REGISTERS: &str =
    if cfg!(target_arch = "aarch64") { "-D__TARGET_ARCH_arm64" } else { "-D__TARGET_ARCH_x86" };

fn main() {
    let bpf = Path::new("../../bpf");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for input in ["../../bpf", "../../policy/include", "../../client/c/solocore_page.h", "build.rs"]
    {
        println!("cargo::rerun-if-changed={input}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    contract(&out);
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    // The levels' and the VCPUs' schedulers hold the policy's state of each CPU in the kernel: 1024
    // tasks are enough.
    let smaller = &["-DSC_MAX_TASKS=1024u"][..];
    for (name, defines) in
        [("sched_ext", &[][..]), ("helper", &[]), ("levels", smaller), ("vcpu", smaller)]
            .into_iter()
            .chain([("functions", &[REGISTERS][..])])
    {
        let output = Command::new(&clang)
            .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-ffreestanding"])
            .args(defines)
            .arg(format!("-I{}", bpf.display()))
            .arg("-I../../policy/include")
            // Debian keeps <asm/types.h> there, and clang does not look for it when the target is
            // BPF.
            .arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH))
            // Type information names the source files; their folder is left out of it.
            .args(["-fdebug-prefix-map=../../=", "-fdebug-compilation-dir=/solocore"])
            .arg("-c")
            .arg(bpf.join(format!("{name}.bpf.c")))
            .arg("-o")
            .arg(out.join(format!("{name}.o")))
            .output();
        match output {
            Ok(o) if o.status.success() => {}
            Ok(o) => fail(&format!(
                "clang refuses bpf/{name}.bpf.c:\n{}",
                String::from_utf8_lossy(&o.stderr)
            )),
            Err(e) => fail(&format!("{} does not run: {e}", clang.display())),
        }
    }
}

/// Derives zerocopy's traits for every struct, which is plain data: any bytes are valid.
#[derive(Debug)]
struct Bytes;

impl ParseCallbacks for Bytes {
    fn add_derives(&self, _: &DeriveInfo<'_>) -> Vec<String> {
        ["FromBytes", "IntoBytes", "Immutable", "KnownLayout"]
            .map(|name| format!("zerocopy::{name}"))
            .to_vec()
    }

    /// bindgen keeps macros as signed numbers, where this one is -1.
    fn int_macro(&self, name: &str, _: i64) -> Option<IntKind> {
        (name == "SC_UNLIMITED").then_some(IntKind::U64)
    }
}

/// The structs and numbers of `bpf/*_intf.h`.
fn contract(out: &Path) {
    let headers = ["intf", "lock_intf", "sched_intf", "levels_intf", "vcpu_intf", "functions_intf"];
    let text: String = headers.iter().map(|name| format!("#include \"{name}.h\"\n")).collect();
    let made = bindgen::Builder::default()
        .header_contents("contract.h", &text)
        .clang_args(["-I../../bpf", "-I../../policy/include", "-ffreestanding", "-DSC_MAX_TASKS=1024u"])
        .allowlist_type(
            "run_.*|lock_settings|level_.*|levels_settings|vcpu_.*|trace_.*|sched_intruder|sc_(page|request|answer)",
        )
        .allowlist_var("SC_.*|RUNS?_.*|HISTORY_PERIODS|LEVEL_.*|VCPU_.*|TRACE_.*|INTRUDER_WHOSE")
        .parse_callbacks(Box::new(Bytes))
        .explicit_padding(true)
        .prepend_enum_name(false)
        .formatter(bindgen::Formatter::None)
        .generate();
    match made.map(|made| made.write_to_file(out.join("contract.rs"))) {
        Ok(Ok(())) => {}
        Ok(Err(e)) => fail(&format!("the Rust of bpf/*_intf.h cannot be written: {e}")),
        Err(e) => fail(&format!("bindgen refuses bpf/*_intf.h: {e}")),
    }
}

fn fail(what: &str) {
    for line in what.lines() {
        println!("cargo::error={line}");
    }
    println!(
        "cargo::error=the BPF programs need clang 14 or newer with libclang, and libbpf's headers: \
            apt-get install clang libclang1 libbpf-dev"
    );
    std::process::exit(1);
}
