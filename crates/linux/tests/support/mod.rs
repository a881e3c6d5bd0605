//! Checks that these tests may regulate the machine. Each of them needs root, BPF, and no other
//! solocore at work.

use solocore_linux::{Instance, doctor, host::machine};

/// The machine, until it is dropped; `None`: it cannot be obtained, and the reason is printed.
pub fn take_machine() -> Option<Instance> {
    let taken = try_to_take();
    if let Err(reason) = &taken {
        println!("skipped: {reason}");
    }
    taken.ok()
}

fn try_to_take() -> Result<Instance, String> {
    machine::check_privileges().map_err(|e| e.to_string())?;
    let findings = doctor::examine(None, "", &[]).expect("no event is named");
    if let Some(bpf) =
        findings.iter().find(|f| f.what == "bpf" && f.found.contains("Operation not permitted"))
    {
        return Err(bpf.found.clone());
    }
    Instance::take().map_err(|_| "another solocore regulates this machine".to_owned())
}
