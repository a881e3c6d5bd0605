//! The map of the memory: the bits of a physical address that choose a colour or a DRAM bank.
//!
//! Problem: to separate programs by cache sets and banks, one must know the hardware's use of
//! address bits. Rule: a colour is the set-index bits of the shared cache above the page offset; a
//! bank is given by XOR functions of address bits. `map.txt` has one bank function a line, as the
//! numbers of its bits; text behind # is a comment. DRAMA++ writes this form, and PALLOC's users
//! read it. Lines `# colour: 12` add the functions of the colours, and lines `# slice: 6 10 12` those of
//! the slices: every colour of a sliced cache has lines in every slice. Those tools ignore both.
//! Source: PALLOC (single-core-equivalence, 2.3), DRAMA (Pessl et al. 2016), Maurice et al. (RAID
//! 2015). Does not cover: hashes that are not parities.

use crate::error::SpaceError;
use crate::gf2::{Basis, parity, values};
use solocore_model::files;
use std::path::Path;

/// Bits of an address within its page.
pub const PAGE_BITS: u32 = 12;
/// Bytes of a page.
pub const PAGE: u64 = 1 << PAGE_BITS;
/// Most functions of colours, slices and banks together (`MAX_FUNCTIONS` of crates/space/preload).
pub const MAX_FUNCTIONS: usize = 16;
const COLOUR: &str = "colour:";
const SLICE: &str = "slice:";

/// XOR functions of physical address bits, as masks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    /// Bit i of a page's colour.
    pub colours: Vec<u64>,
    /// Bit i of an address's bank, as in the file; may use bits within a page.
    pub banks: Vec<u64>,
    /// Bit i of the slice of an address, as in the file; empty: one slice, or not known.
    pub slices: Vec<u64>,
}

impl Map {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or a line is wrong; the message has the line and the fault.
    pub fn read(path: &Path) -> Result<Self, SpaceError> {
        let text = files::read_text(path).map_err(|e| SpaceError::Input(e.to_string()))?;
        Self::parse(&text).map_err(|e| SpaceError::Input(format!("{}: {e}", path.display())))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// The number of a line, its fault, and the remedy.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut map = Self::default();
        for (line, at) in text.lines().zip(1..) {
            let (code, comment) = line.split_once('#').unwrap_or((line, ""));
            let error = |e: String| format!("line {at}: {e}");
            let named = |what| comment.trim().strip_prefix(what).filter(|_| code.trim().is_empty());
            if let Some(bits) = named(SLICE) {
                let mask = function(bits).map_err(error)?;
                independent(&map.slices, mask).map_err(error)?;
                map.slices.push(mask);
            } else if let Some(bits) = named(COLOUR) {
                let mask = function(bits).map_err(error)?;
                if mask == 0 || mask.trailing_zeros() < PAGE_BITS {
                    return Err(error(format!(
                        "a colour is the same all over a page, and bits 0 to {} lie within one; \
                            leave them out",
                        PAGE_BITS - 1
                    )));
                }
                independent(&map.colours, mask).map_err(error)?;
                map.colours.push(mask);
            } else if !code.trim().is_empty() {
                let mask = function(code).map_err(error)?;
                independent(&map.banks, mask).map_err(error)?;
                map.banks.push(mask);
            }
        }
        let functions = map.colours.len() + map.banks.len();
        if functions > MAX_FUNCTIONS {
            return Err(format!(
                "there are {functions} functions, and {MAX_FUNCTIONS} is the most; remove some"
            ));
        }
        Ok(map)
    }

    /// The text of a file; [`Map::parse`] reads it back. `notes` become comments before everything
    /// else.
    pub fn print(&self, notes: &[String]) -> String {
        let mut out = String::new();
        for note in notes {
            out += &format!("# {note}\n");
        }
        for &mask in &self.colours {
            out += &format!("# {COLOUR} {}\n", bits_of(mask));
        }
        for &mask in &self.slices {
            out += &format!("# {SLICE} {}\n", bits_of(mask));
        }
        for &mask in &self.banks {
            out += &format!("{}\n", bits_of(mask));
        }
        out
    }

    /// The same with finer colours: bits behind those of the colour tell pages of one colour apart
    /// whose lines lie in different slices.
    pub fn with_slices(&self) -> Self {
        let mut of_pages = Basis::of(self.colours.iter().copied());
        let parts = self.slices.iter().map(|mask| mask & !(PAGE - 1));
        let finer: Vec<u64> = parts.filter(|&part| of_pages.insert(part)).collect();
        let colours = [self.colours.as_slice(), finer.as_slice()].concat();
        Self { colours, ..self.clone() }
    }

    /// Number of colours.
    pub fn colour_count(&self) -> u32 {
        1 << self.colours.len()
    }

    /// The functions of banks that are constant over a page: those of the file that use no bit
    /// within it, and such combinations of the others. The remaining functions spread each page
    /// over several banks.
    pub fn page_banks(&self) -> Vec<u64> {
        let within = PAGE - 1;
        let mut usable: Vec<u64> =
            self.banks.iter().copied().filter(|mask| mask & within == 0).collect();
        let mut split: Vec<u64> =
            self.banks.iter().copied().filter(|mask| mask & within != 0).collect();
        for bit in 0..PAGE_BITS {
            if let Some(at) = split.iter().position(|mask| mask >> bit & 1 == 1) {
                let pivot = split.swap_remove(at);
                for mask in split.iter_mut().filter(|mask| **mask >> bit & 1 == 1) {
                    *mask ^= pivot;
                }
            }
        }
        usable.extend(split);
        usable
    }

    /// Number of banks, or groups of banks, that a page can lie in.
    pub fn bank_count(&self) -> u32 {
        1 << self.page_banks().len()
    }

    /// The colour of an address.
    pub fn colour(&self, address: u64) -> u32 {
        values(&self.colours, address)
    }
}

/// Frames that a program may have: bit i of a frame's class is the value of function i.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Functions of address bits.
    pub masks: Vec<u64>,
    /// By class: may it be used?
    pub allowed: Vec<bool>,
}

impl Choice {
    /// Frames of these colours and these banks; `None`: of any.
    ///
    /// # Errors
    /// One of them does not exist, or no frame has both.
    pub fn new(
        map: &Map,
        colours: Option<&[u32]>,
        banks: Option<&[u32]>,
    ) -> Result<Self, SpaceError> {
        let page_banks = map.page_banks();
        in_range("--colors", "colour", colours, map.colour_count())?;
        in_range("--banks", "bank", banks, 1 << page_banks.len())?;
        let colour_masks = if colours.is_some() { map.colours.as_slice() } else { &[] };
        let bank_masks = if banks.is_some() { page_banks.as_slice() } else { &[] };
        let masks = [colour_masks, bank_masks].concat();
        if masks.len() > MAX_FUNCTIONS {
            return Err(SpaceError::Input(format!(
                "{} functions of colours, slices and banks choose frames, and {MAX_FUNCTIONS} is the \
                    most; leave --banks out, or those of the slices",
                masks.len()
            )));
        }
        let allowed: Vec<bool> = (0..1u32 << masks.len())
            .map(|class| {
                let colour = class & ((1 << colour_masks.len()) - 1);
                let bank = class >> colour_masks.len();
                colours.is_none_or(|c| c.contains(&colour))
                    && banks.is_none_or(|b| b.contains(&bank))
            })
            .collect();
        let choice = Self { masks, allowed };
        if choice.share() == 0.0 {
            return Err(SpaceError::Input(
                "no frame has one of these colours and one of these banks, as the bits of both \
                    overlap; choose others, or leave --banks out"
                    .into(),
            ));
        }
        Ok(choice)
    }

    /// May this frame be used?
    pub fn allows(&self, frame: u64) -> bool {
        self.allowed[values(&self.masks, frame << PAGE_BITS) as usize]
    }

    /// Classes that exist: values that the functions, which may overlap, can take together.
    fn reachable(&self) -> Vec<usize> {
        // Values as vectors: one column per address bit.
        let columns = (0..64).map(|bit| {
            self.masks
                .iter()
                .enumerate()
                .fold(0u64, |column, (i, mask)| column | (mask >> bit & 1) << i)
        });
        let image = Basis::of(columns);
        (0..self.allowed.len()).filter(|&class| image.reduce(class as u64) == 0).collect()
    }

    /// The share of all frames that it allows, if they are spread evenly.
    pub fn share(&self) -> f64 {
        let all = self.reachable();
        all.iter().filter(|&&class| self.allowed[class]).count() as f64 / all.len() as f64
    }
}

fn in_range(
    option: &str,
    what: &str,
    chosen: Option<&[u32]>,
    count: u32,
) -> Result<(), SpaceError> {
    let Some(chosen) = chosen else { return Ok(()) };
    if let Some(wrong) = chosen.iter().find(|&&n| n >= count) {
        return Err(SpaceError::Input(if count == 1 {
            format!(
                "{option}: the map has no functions of {what}s, so there is no {what} {wrong}; \
                    give --map with a file that has"
            )
        } else {
            format!("{option}: there is no {what} {wrong}; the map has {count}, 0 to {}", count - 1)
        }));
    }
    if chosen.is_empty() {
        return Err(SpaceError::Input(format!(
            "{option}: the list is empty; name at least one {what}"
        )));
    }
    Ok(())
}

/// Numbers in a list like `0-3,6`, in order, each once.
///
/// # Errors
/// The text that is not a number or range, and the form of a list.
pub fn parse_list(text: &str) -> Result<Vec<u32>, String> {
    const MOST: u32 = 1 << MAX_FUNCTIONS;
    let mut numbers = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |t: &str| t.trim().parse::<u32>().ok().filter(|&n| n < MOST);
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => numbers.extend(first..=last),
            _ => {
                return Err(format!(
                    "`{part}` is not a number or range below {MOST}; a list looks like 0-3,6"
                ));
            }
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

fn function(text: &str) -> Result<u64, String> {
    let mut mask = 0u64;
    for word in text.split_whitespace() {
        let bit = word.parse::<u32>().ok().filter(|&b| b < 64);
        let bit = bit.ok_or_else(|| {
            format!("`{word}` is not a number of an address bit; write numbers from 0 to 63")
        })?;
        if mask >> bit & 1 == 1 {
            return Err(format!("bit {bit} is there twice, which cancels it; remove both or one"));
        }
        mask |= 1 << bit;
    }
    if mask == 0 {
        return Err("there is no bit; write the numbers of the bits, or remove the line".into());
    }
    Ok(mask)
}

fn independent(known: &[u64], mask: u64) -> Result<(), String> {
    if Basis::of(known.iter().copied()).reduce(mask) == 0 {
        return Err(format!(
            "{} is the XOR of functions before it, and tells nothing; remove the line",
            bits_of(mask)
        ));
    }
    Ok(())
}

/// The bits of a function, as in a line of the file.
pub fn bits_of(mask: u64) -> String {
    let bits: Vec<String> =
        (0..64).filter(|&bit| parity(mask, 1 << bit)).map(|bit| bit.to_string()).collect();
    bits.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_others_write() {
        let map = Map::parse("# found on board 7\n13 17\n\n14 18   # bank group\n6\n15 19\n")
            .expect("valid");
        assert_eq!(map.banks, [1 << 13 | 1 << 17, 1 << 14 | 1 << 18, 1 << 6, 1 << 15 | 1 << 19]);
        assert_eq!(map.colours, [] as [u64; 0]);
        // Bit 6 lies within a page.
        assert_eq!(map.page_banks(), [1 << 13 | 1 << 17, 1 << 14 | 1 << 18, 1 << 15 | 1 << 19]);
        assert_eq!(map.bank_count(), 8);
    }

    #[test]
    fn slices_make_colours_finer() {
        let text = "# colour: 12\n# slice: 6 12 17\n# slice: 7 12\n13\n";
        let map = Map::parse(text).expect("valid");
        assert_eq!(map.print(&[]), text);
        // Of a colour, the second function is the same in all pages.
        assert_eq!(map.with_slices().colours, [1 << 12, 1 << 12 | 1 << 17]);
        let plain = Map::parse("# colour: 12\n13\n").expect("valid");
        assert_eq!(plain.with_slices(), plain);
        let many: String = (12..20).map(|bit| format!("# slice: {}\n{bit}\n", bit + 10)).collect();
        let many = Map::parse(&format!("# colour: 12\n{many}")).expect("valid").with_slices();
        let why = Choice::new(&many, Some(&[0]), Some(&[0])).expect_err("17 functions");
        assert!(why.to_string().contains("16 is the most"), "{why}");
    }

    #[test]
    fn names_the_line_and_the_mistake() {
        for (text, words) in [
            ("13 17\n13 x\n", "line 2: `x` is not a number"),
            ("64\n", "line 1: `64` is not a number of an address bit"),
            ("13 13\n", "line 1: bit 13 is there twice"),
            ("13 17\n17\n13\n", "line 3: 13 is the XOR of functions before it"),
            ("# colour: 11\n", "line 1: a colour is the same all over a page"),
            ("# colour:\n", "line 1: there is no bit"),
            ("# colour: 12\n#colour: 12", "line 2: 12 is the XOR"),
            ("# slice: 6 17\n# slice: 6 17", "line 2: 6 17 is the XOR"),
        ] {
            let error = Map::parse(text).expect_err(text);
            assert!(error.starts_with(words), "{error}");
            assert!(error.contains(';') || error.contains(','), "{error}");
        }
        let many: String = (12..29).map(|bit| format!("{bit}\n")).collect();
        assert!(Map::parse(&many).expect_err("17 functions").contains("16 is the most"));
    }

    #[test]
    fn combinations_without_low_bits_are_usable() {
        // Both use bit 8; their XOR does not.
        let map = Map::parse("8 14\n8 15\n16\n").expect("valid");
        assert_eq!(map.page_banks(), [1 << 16, 1 << 14 | 1 << 15]);
    }

    #[test]
    fn refuses_what_does_not_exist() {
        let map = Map {
            colours: (12..17).map(|b| 1 << b).collect(),
            banks: vec![1 << 14, 1 << 20],
            slices: Vec::new(),
        };
        let error = |c: &[u32], b: Option<&[u32]>| {
            Choice::new(&map, Some(c), b).expect_err("refused").to_string()
        };
        assert!(error(&[3, 32], None).contains("there is no colour 32; the map has 32, 0 to 31"));
        assert!(error(&[0], Some(&[4])).contains("there is no bank 4; the map has 4"));
        assert!(error(&[], None).contains("empty"));
        // Colour 0 has bit 14 clear, bank 1 has it set.
        assert!(error(&[0], Some(&[1])).contains("overlap"));
        let none = Map { colours: vec![1 << 12], banks: vec![], slices: Vec::new() };
        let error = Choice::new(&none, None, Some(&[1])).expect_err("no banks").to_string();
        assert!(error.contains("no functions of banks"), "{error}");
    }

    #[test]
    fn shares_count_what_there_is() {
        let map = Map {
            colours: (12..17).map(|b| 1 << b).collect(),
            banks: vec![1 << 14, 1 << 20],
            slices: Vec::new(),
        };
        let share =
            |c: Option<&[u32]>, b: Option<&[u32]>| Choice::new(&map, c, b).expect("valid").share();
        assert_eq!(share(Some(&[0, 1, 2, 3, 4, 5, 6, 7]), None), 0.25);
        assert_eq!(share(None, Some(&[0])), 0.25);
        // Half of these colours have bit 14 clear, and half of those bit 20.
        assert_eq!(share(Some(&[0, 1, 2, 3, 4, 5, 6, 7]), Some(&[0])), 1.0 / 16.0);
        assert_eq!(share(None, None), 1.0);
    }

    #[test]
    fn lists() {
        assert_eq!(parse_list("0-3,6"), Ok(vec![0, 1, 2, 3, 6]));
        assert_eq!(parse_list("6, 2,2"), Ok(vec![2, 6]));
        for wrong in ["", "3-1", "a", "1,,2", "-1", "70000", "0-4294967295"] {
            assert!(parse_list(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(banks in prop::collection::vec(1u64.., 0..10), colours in prop::collection::vec(12u32..40, 0..6)) {
            let mut map = Map::default();
            for bank in banks {
                if independent(&map.banks, bank).is_ok() {
                    map.banks.push(bank);
                }
            }
            for colour in colours {
                if independent(&map.colours, 1 << colour).is_ok() {
                    map.colours.push(1 << colour);
                }
            }
            let text = map.print(&["made by hand, 100 % sure".into(), "7 8 9".into()]);
            prop_assert_eq!(Map::parse(&text), Ok(map));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[ 0-9a#:colur\n-]{0,80}") {
            let _ = Map::parse(&text);
            let _ = parse_list(&text);
        }

        #[test]
        fn a_choice_allows_its_colours_only(frame in any::<u32>(), colours in prop::collection::vec(0u32..32, 1..8)) {
            let map = Map { colours: (12..17).map(|b| 1 << b).collect(), banks: vec![], slices: Vec::new() };
            let choice = Choice::new(&map, Some(&colours), None).expect("valid");
            prop_assert_eq!(choice.allows(frame.into()), colours.contains(&(frame % 32)));
        }
    }
}
