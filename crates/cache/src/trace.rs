//! The file of shared-cache accesses that a profile run records and the simulator replays.
//!
//! Layout: the magic `solotrc1`, then blocks of `compressed length, raw length` (little-endian u32)
//! and zstd data with a checksum; a block of length zero ends the file and is followed by the
//! number of records (u64). A record is two LEB128 numbers: cycles since the last record with the
//! kind in the two lowest bits, and the zigzag difference of the line from the last line of the
//! same kind.

use std::io::{Read, Write};

const MAGIC: &[u8; 8] = b"solotrc1";
const BLOCK: usize = 1 << 20;

/// Purpose of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data read.
    Read,
    /// Instruction fetch.
    Fetch,
    /// A dirty line written back.
    Write,
}

/// One access to the shared cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Core cycles of execution before it, with every earlier shared-cache access free.
    pub at_cycles: u64,
    /// `frame * lines per page + line in page`.
    pub line: u64,
    /// Purpose.
    pub kind: Kind,
}

/// Reasons for which a trace could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("cannot read: {0}; make it again with `solocore profile`, or plan with --fresh")]
    Io(#[from] std::io::Error),
    /// Not a trace file.
    #[error("not a solocore trace; make it again with `solocore profile`, or plan with --fresh")]
    NotATrace,
    /// The file is damaged or incomplete.
    #[error(
        "the trace is {0} after {1} records; make it again with `solocore profile`, or plan with \
            --fresh"
    )]
    Damaged(&'static str, u64),
}

/// Encodes accesses into blocks.
#[derive(Debug, Default)]
pub struct Encoder {
    raw: Vec<u8>,
    last_cycles: u64,
    last_line: [u64; 3],
    records: u64,
}

fn put(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn get(raw: &[u8], at: &mut usize) -> Option<u128> {
    let mut value = 0u128;
    for shift in (0..).step_by(7) {
        let byte = *raw.get(*at)?;
        *at += 1;
        if shift > 70 {
            return None;
        }
        value |= u128::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Some(value)
}

impl Encoder {
    /// Adds an access; a full block is handed to `out`.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn push(&mut self, a: Access, out: &mut impl Write) -> std::io::Result<()> {
        if self.records == 0 {
            out.write_all(MAGIC)?;
        }
        let delta = a.at_cycles - self.last_cycles;
        put(&mut self.raw, u128::from(delta) << 2 | a.kind as u128);
        let last = &mut self.last_line[a.kind as usize];
        let step = a.line.wrapping_sub(*last).cast_signed();
        put(&mut self.raw, u128::from((step << 1 ^ step >> 63).cast_unsigned()));
        (*last, self.last_cycles) = (a.line, a.at_cycles);
        self.records += 1;
        if self.raw.len() >= BLOCK { self.block(out) } else { Ok(()) }
    }

    /// Writes the remaining accesses and the end mark; returns the number of records.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn finish(&mut self, out: &mut impl Write) -> std::io::Result<u64> {
        if self.records == 0 {
            out.write_all(MAGIC)?;
        }
        self.block(out)?;
        out.write_all(&[0; 8])?;
        out.write_all(&self.records.to_le_bytes())?;
        Ok(self.records)
    }

    /// Records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    fn block(&mut self, out: &mut impl Write) -> std::io::Result<()> {
        if self.raw.is_empty() {
            return Ok(());
        }
        let mut zstd = zstd::bulk::Compressor::new(1)?;
        zstd.include_checksum(true)?;
        let packed = zstd.compress(&self.raw)?;
        let length = |n: usize| u32::try_from(n).expect("a block is about 1 MiB").to_le_bytes();
        let mut bytes = Vec::with_capacity(packed.len() + 8);
        bytes.extend_from_slice(&length(packed.len()));
        bytes.extend_from_slice(&length(self.raw.len()));
        bytes.extend_from_slice(&packed);
        self.raw.clear();
        out.write_all(&bytes)
    }
}

/// Reads a whole trace, calling `each` for every access.
///
/// # Errors
/// [`TraceError`]; accesses before the damage have been passed to `each` by then.
pub fn read(mut input: impl Read, mut each: impl FnMut(Access)) -> Result<u64, TraceError> {
    let mut magic = [0; 8];
    input.read_exact(&mut magic).map_err(|_| TraceError::NotATrace)?;
    if &magic != MAGIC {
        return Err(TraceError::NotATrace);
    }
    let (mut records, mut cycles, mut last) = (0u64, 0u64, [0u64; 3]);
    loop {
        let mut head = [0; 8];
        let cut = |_| TraceError::Damaged("cut short", records);
        input.read_exact(&mut head).map_err(cut)?;
        let (packed, raw) = head.split_at(4);
        let size = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize;
        let (packed, raw) = (size(packed), size(raw));
        if packed == 0 {
            let mut total = [0; 8];
            input.read_exact(&mut total).map_err(cut)?;
            let whole = u64::from_le_bytes(total) == records;
            return if whole {
                Ok(records)
            } else {
                Err(TraceError::Damaged("incomplete", records))
            };
        }
        if packed > 4 * BLOCK || raw > 2 * BLOCK {
            return Err(TraceError::Damaged("corrupt", records));
        }
        let mut bytes = vec![0; packed];
        input.read_exact(&mut bytes).map_err(cut)?;
        let block = zstd::bulk::decompress(&bytes, raw)
            .map_err(|_| TraceError::Damaged("corrupt", records))?;
        if block.len() != raw {
            return Err(TraceError::Damaged("corrupt", records));
        }
        let mut at = 0;
        while at < block.len() {
            let corrupt = TraceError::Damaged("corrupt", records);
            let (Some(head), Some(step)) = (get(&block, &mut at), get(&block, &mut at)) else {
                return Err(corrupt);
            };
            let kind = match head & 3 {
                0 => Kind::Read,
                1 => Kind::Fetch,
                2 => Kind::Write,
                _ => return Err(corrupt),
            };
            cycles += (head >> 2) as u64;
            let step = step as u64;
            let line = &mut last[kind as usize];
            *line = line.wrapping_add((step >> 1) ^ (step & 1).wrapping_neg());
            each(Access { at_cycles: cycles, line: *line, kind });
            records += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: u64) -> Vec<Access> {
        let kinds = [Kind::Read, Kind::Write, Kind::Fetch];
        (0..n)
            .map(|i| Access {
                at_cycles: i * i,
                line: ((i * 7919) % 100_003) << (i % 20),
                kind: kinds[(i % 3) as usize],
            })
            .collect()
    }

    fn encode(accesses: &[Access]) -> Vec<u8> {
        let (mut out, mut encoder) = (Vec::new(), Encoder::default());
        accesses.iter().for_each(|&a| encoder.push(a, &mut out).unwrap());
        assert_eq!(encoder.finish(&mut out).unwrap(), accesses.len() as u64);
        out
    }

    #[test]
    fn round_trip() {
        for n in [0, 1, 5, 400_000] {
            let accesses = sample(n);
            let mut back = Vec::new();
            assert_eq!(read(&encode(&accesses)[..], |a| back.push(a)).unwrap(), n);
            assert_eq!(back, accesses);
        }
    }

    #[test]
    fn damage_is_noticed_everywhere() {
        let bytes = encode(&sample(2000));
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut], |_| ()).is_err(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            // zstd has header bits without a meaning: a flip there may pass if the data are whole.
            let mut back = Vec::new();
            let outcome = read(&bad[..], |a| back.push(a));
            assert!(outcome.is_err() || back == sample(2000), "bit flipped at {at}");
        }
    }
}
