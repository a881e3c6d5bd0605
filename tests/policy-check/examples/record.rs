//! Writes the events and answers of the vectors and of random sequences to files, one per
//! mechanism, which `policy/tests/mutate.py` replays through mutants:
//! `record DIRECTORY [EVENTS [SEED]]`.
//!
//! Only what host C and the reference model (or the vector) agree on is written; what they do not
//! is counted, and is `policy-check`'s to report. A file is a series of sequences: the number of
//! events (u64), then each event and its answer, 48 bytes each, all in this machine's byte order.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use solocore_policy_check::backend::host::Driver;
use solocore_policy_check::backend::{Backend, Local};
use solocore_policy_check::{Answer, Event, MECHANISMS, Mechanism, policy_directory, vectors};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// Events of a random sequence, about.
const LENGTH: usize = 200;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let directory = args.next();
    let numbers: Result<Vec<u64>, _> = args.map(|a| a.parse()).collect();
    let (Some(directory), Ok(numbers)) = (directory, numbers) else {
        eprintln!("usage: record DIRECTORY [EVENTS [SEED]]");
        return ExitCode::from(2);
    };
    let events = numbers.first().copied().unwrap_or(20_000);
    let seed = numbers.get(1).copied().unwrap_or(1);
    match run(Path::new(&directory), events, seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("record: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(directory: &Path, events: u64, seed: u64) -> Result<(), String> {
    fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    for mechanism in MECHANISMS {
        let Some(driver) = Driver::find(mechanism.name) else { continue };
        let host = Local::new("host C", move || driver.world());
        let mut recording = Recording::default();
        add_vectors(mechanism, &host, &mut recording)?;
        add_random(mechanism, &host, events, seed, &mut recording)?;
        let file = directory.join(format!("{}.bin", mechanism.name));
        fs::write(&file, &recording.bytes).map_err(|e| format!("{}: {e}", file.display()))?;
        println!(
            "{}: {} events; {} sequences left out",
            mechanism.name, recording.events, recording.left_out
        );
    }
    Ok(())
}

#[derive(Default)]
struct Recording {
    bytes: Vec<u8>,
    events: usize,
    left_out: usize,
}

impl Recording {
    /// Adds a sequence if host C answers as expected.
    fn add(&mut self, host: &Local, events: &[Event], expected: &[Answer]) {
        let mut answers = Vec::with_capacity(events.len());
        if host.replay(events, &mut answers).is_err() || answers != expected {
            self.left_out += 1;
            return;
        }
        self.events += events.len();
        self.bytes.extend((events.len() as u64).to_ne_bytes());
        for (event, answer) in events.iter().zip(&answers) {
            for word in [event.op, event.id] {
                self.bytes.extend(word.to_ne_bytes());
            }
            for word in [event.now, event.a, event.b, event.c, event.d].iter().chain(&answer.word) {
                self.bytes.extend(word.to_ne_bytes());
            }
        }
    }
}

fn add_vectors(
    mechanism: &Mechanism,
    host: &Local,
    recording: &mut Recording,
) -> Result<(), String> {
    let path = policy_directory().join(format!("vectors/{}.toml", mechanism.name));
    for sequence in vectors::load(&path, mechanism.operations).map_err(|e| e.to_string())? {
        recording.add(host, &sequence.events, &sequence.answers);
    }
    Ok(())
}

fn add_random(
    mechanism: &Mechanism,
    host: &Local,
    events: u64,
    seed: u64,
    recording: &mut Recording,
) -> Result<(), String> {
    let model = Local::new("model", mechanism.model);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::from_seed(RngAlgorithm::ChaCha, &bytes),
    );
    let strategy = (mechanism.events)(LENGTH);
    let mut done = 0;
    while done < events {
        let sequence = strategy
            .new_tree(&mut runner)
            .map_err(|e| format!("{}: {e}", mechanism.name))?
            .current();
        done += sequence.len().max(1) as u64;
        let mut answers = Vec::with_capacity(sequence.len());
        if model.replay(&sequence, &mut answers).is_err() {
            answers.clear();
        }
        recording.add(host, &sequence, &answers);
    }
    Ok(())
}
