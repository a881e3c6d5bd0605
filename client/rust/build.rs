//! Compiles `client/c`, the only implementation of a client.

fn main() {
    for input in ["../c", "build.rs"] {
        println!("cargo::rerun-if-changed={input}");
    }
    cc::Build::new()
        .file("../c/solocore.c")
        .file("../c/solocore_ipc.c")
        .file("../c/solocore_buffer.c")
        .std("gnu11")
        .warnings_into_errors(true)
        .compile("solocore_client");
}
