//! Feeds the memory trace of Valgrind's lackey to the cache model of the profiler, for comparison:
//!
//! `valgrind --tool=lackey --trace-mem=yes --log-fd=9 PROGRAM 9>&1 >/dev/null | lackey [PLATFORM]`
//!
//! Prints instructions, loads, stores and the levels as JSON, in the units of a profile: accesses
//! above 8 bytes count once per 8 bytes, as QEMU hands them to the plugin. Not covered: system
//! calls, so an unmapped page keeps its frame; regions, code attribution and the trace, so this
//! does less work than the plugin.

use solocore_cache::{Frames, Geometry, Private, Shared};
use solocore_model::Platform;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;

#[derive(Default)]
struct FirstTouch(HashMap<u64, u32>);

impl Frames for FirstTouch {
    fn frame(&mut self, vpage: u64) -> u32 {
        let next = u32::try_from(self.0.len()).expect("fewer than 2^32 pages");
        *self.0.entry(vpage).or_insert(next)
    }
}

struct Model {
    line_shift: u32,
    last_fetch: u64,
    private: Private,
    shared: Shared,
    frames: FirstTouch,
}

impl Model {
    fn new(geometry: &Geometry) -> Self {
        Self {
            line_shift: geometry.line_shift,
            last_fetch: u64::MAX,
            private: Private::new(geometry),
            shared: Shared::new(geometry),
            frames: FirstTouch::default(),
        }
    }

    fn reference(&mut self, line: u64, write: bool, fetch: bool) {
        let cache = if fetch { &mut self.private.l1i } else { &mut self.private.l1d };
        if !cache.front_hit(line, write)
            && let Some(slow) = cache.reference(line, write)
        {
            self.shared.resolve(
                &mut self.private,
                &mut self.frames,
                line,
                slow,
                fetch,
                &mut |_| (),
            );
        }
    }

    /// Counts a fetch. Fetching on in the present line is not a new access.
    fn fetch(&mut self, address: u64, size: u64) {
        self.private.instructions += 1;
        for line in address >> self.line_shift..=(address + size - 1) >> self.line_shift {
            if line != self.last_fetch {
                self.reference(line, false, true);
                self.last_fetch = line;
            }
        }
    }

    fn data(&mut self, address: u64, size: u64, write: bool) {
        for at in (0..size).step_by(8) {
            let (first, last) = (address + at, address + size.min(at + 8) - 1);
            self.private.stores += u64::from(write);
            self.reference(first >> self.line_shift, write, false);
            if first >> self.line_shift != last >> self.line_shift {
                self.private.splits += 1;
                self.reference(last >> self.line_shift, write, false);
            }
        }
    }

    /// One line of the trace: `I  ADDRESS,SIZE` or ` L`, ` S`, ` M`. False for any other line.
    fn line(&mut self, text: &[u8]) -> bool {
        let (kind, rest) = match text {
            [b'I', b' ', b' ', rest @ ..] => (b'I', rest),
            [b' ', kind @ (b'L' | b'S' | b'M'), b' ', rest @ ..] => (*kind, rest),
            _ => return false,
        };
        let Some((address, size)) = numbers(rest) else { return false };
        match kind {
            b'I' => self.fetch(address, size),
            b'L' => self.data(address, size, false),
            b'S' => self.data(address, size, true),
            _ => {
                self.data(address, size, false);
                self.data(address, size, true);
            }
        }
        true
    }
}

/// `HEX,DECIMAL`
fn numbers(text: &[u8]) -> Option<(u64, u64)> {
    let comma = text.iter().position(|&b| b == b',')?;
    let number = |digits: &[u8], radix: u32| {
        digits.iter().try_fold(0u64, |sum, &b| {
            Some(sum * u64::from(radix) + u64::from(char::from(b).to_digit(radix)?))
        })
    };
    let size = number(text[comma + 1..].trim_ascii_end(), 10).filter(|&size| size > 0)?;
    Some((number(&text[..comma], 16)?, size))
}

fn run() -> Result<(), String> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "p4080".to_owned());
    let platform = Platform::find(&name, Path::new(".")).map_err(|e| e.to_string())?;
    let mut model = Model::new(&Geometry::of(&platform));
    let mut input = BufReader::with_capacity(1 << 16, std::io::stdin().lock());
    let (mut text, mut other) = (Vec::new(), 0u64);
    while input.read_until(b'\n', &mut text).map_err(|e| format!("stdin: {e}"))? > 0 {
        other += u64::from(!model.line(&text));
        text.clear();
    }
    if model.private.instructions == 0 {
        return Err(format!(
            "no instruction among {other} lines on stdin; pipe in `valgrind --tool=lackey \
                --trace-mem=yes --log-fd=9 PROGRAM 9>&1 >/dev/null`"
        ));
    }
    let Model { mut private, mut shared, mut frames, .. } = model;
    shared.drain(&mut private, &mut frames, |_| true, true, &mut |_| ());
    let summary = shared.finish([&private]);
    let out = serde_json::json!({
        "instructions": summary.instructions,
        "loads": summary.loads,
        "stores": summary.stores,
        "references": summary.loads + summary.stores,
        "levels": summary.levels,
        "lines_ignored": other,
    });
    println!("{out}");
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lackey: {error}");
            ExitCode::FAILURE
        }
    }
}
