//! Compiles the programs of `bpf/` with clang; the crate embeds the objects, so that the command is one file.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let bpf = Path::new("../../bpf");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for input in ["../../bpf", "../../policy/include", "build.rs"] {
        println!("cargo::rerun-if-changed={input}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    // The levels' and the VCPUs' schedulers hold the policy's state of each CPU in the kernel: 1024 tasks are enough.
    let smaller = &["-DSC_MAX_TASKS=1024u"][..];
    for (name, defines) in [("sched_ext", &[][..]), ("helper", &[]), ("levels", smaller), ("vcpu", smaller)] {
        let output = Command::new(&clang)
            .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-ffreestanding"])
            .args(defines)
            .arg(format!("-I{}", bpf.display()))
            .arg("-I../../policy/include")
            // Debian keeps <asm/types.h> there, and clang does not look for it when the target is BPF.
            .arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH))
            // Type information names the source files; where they lie is nobody's business.
            .arg("-fdebug-prefix-map=../../=")
            .arg("-c")
            .arg(bpf.join(format!("{name}.bpf.c")))
            .arg("-o")
            .arg(out.join(format!("{name}.o")))
            .output();
        match output {
            Ok(o) if o.status.success() => {}
            Ok(o) => fail(&format!("clang refuses bpf/{name}.bpf.c:\n{}", String::from_utf8_lossy(&o.stderr))),
            Err(e) => fail(&format!("{} does not run: {e}", clang.display())),
        }
    }
}

fn fail(what: &str) {
    for line in what.lines() {
        println!("cargo::error={line}");
    }
    println!(
        "cargo::error=the BPF programs need clang 14 or newer and libbpf's headers: apt-get install clang libbpf-dev"
    );
    std::process::exit(1);
}
