//! Compiles the policies as the freestanding C they are.

fn main() {
    println!("cargo::rerun-if-changed=../include");
    cc::Build::new()
        .file("src/shim.c")
        .include("../include")
        .std("c99")
        .flag("-ffreestanding")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .opt_level(2)
        .compile("solocore_policy");
    println!("cargo::rerun-if-changed=src/shim.c");
}
