//! Size, ways and line of a cache, in the form of a platform file.
//!
//! Problem: sysfs gives size, ways, sets and line; three of them give the fourth. Any may be
//! missing, and they may contradict each other. A platform file takes a number of sets that is a
//! power of two; the caches of many servers have another. Rule: a missing number follows from the
//! others. Of two contradictory sizes the smaller is taken, and sets are rounded down: a smaller
//! cache never makes a bound too small. Does not cover: caches that are fully associative (more
//! than 64 ways).

use crate::cache::Cache;
use crate::known::{Known, Note, Source};
use solocore_model::Bytes;

/// A cache of a platform file.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Bytes.
    pub size: Known<u64>,
    /// Associativity.
    pub ways: Known<u64>,
    /// Sets.
    pub sets: u64,
    /// Sets before they were rounded.
    pub all_sets: u64,
}

/// Why a cache has no shape: the part of the key that has no source or is impossible.
pub type Lack = (&'static str, String);

/// The shape of a cache, with lines of `line` bytes.
pub fn of(cache: &Cache, key: &str, line: u64, notes: &mut Vec<Note>) -> Result<Shape, Lack> {
    let value = |known: &Option<Known<u64>>| known.as_ref().map(|k| k.value);
    let sets = value(&cache.sets);
    let ways = ways(cache, line).ok_or_else(|| nothing("ways", "nor sets and size"))?;
    let product = ways.value.checked_mul(line).filter(|&way| way > 0);
    let way = product.ok_or_else(|| ("ways", format!("{} ways are impossible", ways.value)))?;
    let told = cache.size.clone().or_else(|| {
        let size = sets?.checked_mul(way)?;
        Some(ways.with(size).remark("ways * sets * line"))
    });
    let mut size = told.ok_or_else(|| nothing("size", "nor sets"))?;
    if let Some(product) = sets.and_then(|sets| sets.checked_mul(way))
        && product != size.value
    {
        notes.push(Note::new(
            &format!("{key}.size"),
            format!(
                "{} says {}, but ways * sets * line is {}; the smaller is taken",
                size.from,
                Bytes(size.value),
                Bytes(product)
            ),
        ));
        size.value = size.value.min(product);
    }
    let all_sets = size.value / way;
    let sets = 1 << all_sets.checked_ilog2().ok_or_else(|| small(&size, way))?;
    round(key, &mut size, sets * way, notes);
    Ok(Shape { size, ways, sets, all_sets })
}

/// Ways are read, or follow from size, sets and line; a table comes last.
fn ways(cache: &Cache, line: u64) -> Option<Known<u64>> {
    let read = cache.ways.as_ref().filter(|ways| ways.source == Source::Read);
    read.cloned().or_else(|| quotient(cache, line)).or_else(|| cache.ways.clone())
}

fn quotient(cache: &Cache, line: u64) -> Option<Known<u64>> {
    let (size, sets) = (cache.size.as_ref()?, cache.sets.as_ref()?);
    let ways = size.value.checked_div(sets.value.checked_mul(line)?).filter(|&ways| ways > 0)?;
    Some(sets.with(ways).remark("size / sets / line"))
}

fn nothing(what: &'static str, else_from: &str) -> Lack {
    (what, format!("no file states its {what}, {else_from}"))
}

fn small(size: &Known<u64>, way: u64) -> Lack {
    (
        "size",
        format!(
            "{} says {}, less than a line in each of its ways ({way} B)",
            size.from,
            Bytes(size.value)
        ),
    )
}

fn round(key: &str, size: &mut Known<u64>, rounded: u64, notes: &mut Vec<Note>) {
    if size.value == rounded {
        return;
    }
    let found = Bytes(size.value);
    notes.push(Note::new(
        &format!("{key}.size"),
        format!(
            "{found} are not a power-of-two number of sets, which a platform file needs; {} of it are \
                described",
            Bytes(rounded)
        ),
    ));
    *size = size.with(rounded).remark(&format!("{found}, rounded down to a power of two of sets"));
}
