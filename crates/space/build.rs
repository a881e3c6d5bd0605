//! Compiles `preload`, which the command carries: a program that is started in its colours gets it
//! from there.

use std::path::PathBuf;
use std::process::Command;

const SOURCES: [&str; 27] = [
    "start.c",
    "hold.c",
    "hooks.c",
    "environment.c",
    "messages.c",
    "sysv.c",
    "mapped.c",
    "queue.c",
    "queue_file.c",
    "listed.c",
    "pipe_calls.c",
    "pipe_send.c",
    "socket_send.c",
    "streams.c",
    "pipe_ring.c",
    "handler.c",
    "privileges.c",
    "heir.c",
    "adopt.c",
    "direct.c",
    "shared.c",
    "place.c",
    "pool.c",
    "locked.c",
    "memory.c",
    "areas.c",
    "packets.c",
];

fn main() {
    let dir = PathBuf::from("preload");
    println!("cargo::rerun-if-changed=preload");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let library = out.join("libsolocore-colours.so");
    let machine = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if !["x86_64", "aarch64"].contains(&machine.as_str()) {
        // `exec --colors` reports then that it is impossible.
        std::fs::write(&library, []).expect("OUT_DIR can be written to");
        return;
    }
    // A static command carries it, too, and it is a shared library all the same.
    let compiler = cc::Build::new().opt_level(2).get_compiler().to_command();
    let mut command = Command::new(compiler.get_program());
    for (name, value) in compiler.get_envs() {
        value.map(|value| command.env(name, value));
    }
    command.args(compiler.get_args().filter(|flag| *flag != "-static"));
    command.args([
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fPIC",
        "-fvisibility=hidden",
        "-fno-builtin",
    ]);
    command.args(["-fno-stack-protector", "-fno-tree-loop-distribute-patterns", "-g0", "-shared"]);
    command.args(["-Wl,-z,now,-z,relro,-z,initfirst", "-o"]).arg(&library);
    command.args(SOURCES.map(|source| dir.join(source)));
    let status = command.status().expect("the C compiler runs");
    assert!(status.success(), "crates/space/preload does not compile");
}
