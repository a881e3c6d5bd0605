//! Compiles `client/c`, the one implementation of what clients do.

fn main() {
    for input in ["../../client/c", "build.rs"] {
        println!("cargo::rerun-if-changed={input}");
    }
    cc::Build::new()
        .file("../../client/c/solocore.c")
        .file("../../client/c/solocore_ipc.c")
        .std("gnu11")
        .warnings_into_errors(true)
        .compile("solocore_client");
}
