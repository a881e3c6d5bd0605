//! Traces as text: one operation a line, `cycles,kind,address`.
//!
//! Problem: traces come from many tools, and a truncated trace silently replays as a shorter
//! program. Rule: comma-separated text, which a line of awk can write, with a last line that gives
//! the number of the others.
//!
//! ```text
//! cycles,kind,address
//! 12,load,0x7f001040
//! 3,wait,0x7f002000
//! 900,compute
//! 1,store,0x10000
//! 0,job
//! end,5
//! ```
//!
//! `cycles` is the computation since the line before, the access's own included. Kinds: `load` (the
//! core goes on), `wait` (a load whose data the next operation needs), `store`, `line` (a store of
//! a whole line, not read first) and `fetch`. The kinds `compute` and `job` (end of a job) have no
//! address. First letters suffice (`l` is `load`). Addresses are bytes, decimal or `0x`; each
//! counts for its line, and pages are numbered in order of first touch. Empty lines, lines that
//! begin with `#`, and a heading are skipped. `end` counts operations. Plain, gzip or zstd.
//!
//! Not covered: locks and other signals; accesses that cross a line.

use super::recording::{MAX_OPS, Recording, ends_job};
use super::{BuildContext, WorkloadError, spread};
use crate::program::{Op, OpKind};
use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use std::io::{BufRead, Read};
use std::path::Path;

/// Longest line, in bytes.
const MAX_LINE: usize = 4096;

const KINDS: [(&str, OpKind); 6] = [
    ("load", OpKind::Load),
    ("wait", OpKind::LoadWait),
    ("store", OpKind::Store),
    ("fetch", OpKind::Fetch),
    ("line", OpKind::StoreLine),
    ("prefetch", OpKind::Prefetch),
];

/// Most cycles of one line: about 12 minutes at 1.5 GHz.
const MAX_CYCLES: u64 = Op::MAX_COMPUTE;

struct Reader<'a> {
    ctx: &'a BuildContext,
    pages: FxHashMap<u64, u32>,
    recording: Recording,
    /// Operations so far, as `end` counts them.
    count: u64,
    ended: bool,
}

/// Reads a text trace.
pub(super) fn read(
    path: &Path,
    mut input: impl BufRead,
    ctx: &BuildContext,
) -> Result<Recording, WorkloadError> {
    let mut reader = Reader {
        ctx,
        pages: FxHashMap::default(),
        recording: Recording::default(),
        count: 0,
        ended: false,
    };
    let (mut line, mut number) = (Vec::new(), 0u64);
    loop {
        number += 1;
        let refuse =
            |message: String| WorkloadError::trace(path, Some(format!("line {number}")), message);
        line.clear();
        let length = (&mut input)
            .take(MAX_LINE as u64)
            .read_until(b'\n', &mut line)
            .map_err(|e| refuse(format!("cannot read: {e}; the file is damaged or cut short")))?;
        if length == 0 {
            break;
        }
        if line.last() != Some(&b'\n') {
            let what = if length == MAX_LINE {
                "is too long"
            } else {
                "has no end; the file is cut short"
            };
            return Err(refuse(what.to_owned()));
        }
        let text = std::str::from_utf8(&line).map_err(|_| refuse("is not text".to_owned()))?;
        reader.line(text.trim()).map_err(refuse)?;
    }
    if !reader.ended {
        let message =
            format!("has no last line `end,{}`; it is cut short, or add that line", reader.count);
        return Err(WorkloadError::trace(path, None, message));
    }
    reader.finish().map_err(|message| WorkloadError::trace(path, None, message))
}

impl Reader<'_> {
    fn line(&mut self, text: &str) -> Result<(), String> {
        if text.is_empty()
            || text.starts_with('#')
            || (self.count == 0 && text == "cycles,kind,address")
        {
            return Ok(());
        }
        if self.ended {
            return Err("comes after the `end` line; remove one of them".to_owned());
        }
        let mut fields = text.split(',').map(str::trim);
        let (first, second, third) = (fields.next().unwrap_or(""), fields.next(), fields.next());
        if fields.next().is_some() {
            return Err(format!("`{text}` has more than the three fields cycles,kind,address"));
        }
        let Some(second) = second else {
            return Err(format!("`{text}` is not cycles,kind,address"));
        };
        if first == "end" {
            self.ended = true;
            let said = number(second)?;
            return match third {
                None if said == self.count => Ok(()),
                _ => Err(format!(
                    "`{text}`, but {} operations came before; the file is incomplete",
                    self.count
                )),
            };
        }
        let cycles = number(first)?;
        if cycles > MAX_CYCLES {
            return Err(format!("{cycles} cycles are more than the {MAX_CYCLES} of one operation"));
        }
        self.operation(cycles, second, third)?;
        self.count += 1;
        Ok(())
    }

    fn operation(&mut self, cycles: u64, kind: &str, address: Option<&str>) -> Result<(), String> {
        if self.recording.ops.len() + 2 > MAX_OPS {
            return Err(format!("is beyond {MAX_OPS} operations; use a shorter trace"));
        }
        let is = |name: &str| kind == name || (kind.len() == 1 && name.starts_with(kind));
        let ops = &mut self.recording.ops;
        if is("compute") || is("job") {
            if address.is_some() {
                return Err(format!("`{kind}` has no address; remove it"));
            }
            spread::compute(cycles, ops);
            if is("job") {
                if self.recording.jobs.last().copied().unwrap_or(0) == ops.len() {
                    return Err("ends a job in which nothing happened; remove it".to_owned());
                }
                self.recording.jobs.push(ops.len());
            }
            return Ok(());
        }
        let Some((_, access)) = KINDS.iter().find(|(name, _)| is(name)) else {
            return Err(format!(
                "unknown kind `{kind}`; it is load, wait, store, fetch, line, compute or job"
            ));
        };
        let address = number(address.ok_or_else(|| format!("`{kind}` needs an address"))?)?;
        let new = u32::try_from(self.pages.len()).unwrap_or(u32::MAX);
        let page = *self.pages.entry(address / self.ctx.page_bytes).or_insert(new);
        let lines = u64::from(self.ctx.lines_per_page);
        let line = u64::from(page) * lines + address % self.ctx.page_bytes / self.ctx.line_bytes;
        if line >= self.ctx.max_lines() {
            return Err("touches more pages than a program can have".to_owned());
        }
        spread::access(*access, cycles, line, ops);
        Ok(())
    }

    fn finish(mut self) -> Result<Recording, String> {
        let length = self.recording.ops.len();
        if length == 0 {
            return Err("has no operations".to_owned());
        }
        if self.recording.jobs.last() != Some(&length) {
            self.recording.jobs.push(length);
        }
        self.recording.pages = u32::try_from(self.pages.len()).unwrap_or(u32::MAX).max(1);
        Ok(self.recording)
    }
}

fn number(text: &str) -> Result<u64, String> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    u64::from_str_radix(digits, radix)
        .ok()
        .filter(|_| plain)
        .ok_or_else(|| format!("`{text}` is not a whole number below 2^64"))
}

/// Writes operations as a text trace. Signals other than the end of a job are left out.
///
/// `line_bytes` turns virtual lines into addresses.
#[must_use]
pub fn to_text(ops: &[Op], line_bytes: u64) -> String {
    let mut text = "cycles,kind,address\n".to_owned();
    let mut count = 0u64;
    for &op in ops {
        // Writing to a string cannot fail.
        let _ = match op.kind() {
            OpKind::Compute => writeln!(text, "{},compute", op.cycles()),
            OpKind::Signal if ends_job(op) => writeln!(text, "0,job"),
            OpKind::Signal => continue,
            kind => {
                let name = KINDS.iter().find(|(_, k)| *k == kind).map_or("load", |(name, _)| name);
                writeln!(
                    text,
                    "{},{name},{:#x}",
                    op.cycles(),
                    u128::from(op.line()) * u128::from(line_bytes)
                )
            }
        };
        count += 1;
    }
    let _ = writeln!(text, "end,{count}");
    text
}
