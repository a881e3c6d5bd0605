//! Writes a report of hand-made inputs:
//! `cargo run -p solocore-report --example sample -- OUT.html`. With `bare` after the name it is
//! made from the plan alone.

mod inputs;

use solocore_report::{Inputs, html};

fn main() -> std::io::Result<()> {
    let out = std::env::args_os().nth(1).unwrap_or_else(|| "sample.html".into());
    let bare = std::env::args_os().nth(2).is_some_and(|word| word == "bare");
    let sample = inputs::sample();
    let [solo, unmanaged, managed] =
        sample.results.each_ref().map(|result| (!bare).then_some(result));
    let page = html(&Inputs {
        solo,
        unmanaged,
        managed,
        profiles: if bare { &[] } else { &sample.profiles },
        ..Inputs::of("Vision tasks on a P4080", &sample.plan)
    });
    std::fs::write(out, page)
}
