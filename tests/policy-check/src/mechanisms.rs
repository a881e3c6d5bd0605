// The list of mechanisms: `build.rs` and `lib.rs` each define `mechanisms!` and include this file.
// The place in the list is the number by which `src/c/host.c` knows a mechanism.
mechanisms! {
    heap,
    ready_set,
    units,
    time_table,
    memguard,
    bwlock,
    dynamic_budget,
    sporadic_server,
    vcpu,
    throttle,
    admission,
    balance,
    levels,
}
