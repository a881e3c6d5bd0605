//! Messages between the preloaded library and solocore (crates/space/preload/space.h has the same
//! definitions).

use crate::map::{Choice, MAX_FUNCTIONS};

const MAGIC: u32 = 0x3165_7061;
/// Bytes of a packet.
pub const PACKET: usize = 256;
const TEXT: usize = 216;

/// Kinds of packets.
pub mod kind {
    /// A process is coloured from here on; waits for [`GO`].
    pub const HELLO: u32 = 1;
    /// A process is about to end; waits for [`GO`].
    pub const EXIT: u32 = 2;
    /// Go on. After [`NEED`], `pages` is the number of frames that a reserve has freed for it;
    /// after [`HELLO`], the number of locked pages behind the configuration.
    pub const GO: u32 = 3;
    /// The configuration has changed; `request` numbers the change.
    pub const RECOLOUR: u32 = 4;
    /// The answer to each [`RECOLOUR`] up to `request`; waits for [`GO`].
    pub const RECOLOURED: u32 = 5;
    /// A process ends, as it would have to go on in wrong colours.
    pub const FAILED: u32 = 6;
    /// A program is started that cannot be coloured.
    pub const UNCOLOURED: u32 = 7;
    /// A process is about to look for this number of pages, on the CPU in `stuck`; waits for
    /// [`GO`].
    pub const NEED: u32 = 8;
    /// A text about a process, which is told once.
    pub const NOTE: u32 = 9;
    /// A process has made the anonymous mapping of the number `request` (0: of none), from
    /// `move_ns` to `all_ns`, which has locked pages, or lies where locked pages were.
    pub const MAPPED: u32 = 10;
    /// The pages that a process began with are in its frames.
    pub const PLACED: u32 = 11;
    /// From `solocore recolor`: the text is colours and banks.
    pub const ASK: u32 = 16;
    /// To `solocore recolor`: one process has moved.
    pub const MOVED: u32 = 17;
    /// To `solocore recolor`: all processes have moved.
    pub const DONE: u32 = 18;
    /// To `solocore recolor`: refused; the text has the reason, after a 2 (input) or 3 (machine).
    pub const REFUSED: u32 = 19;
}

/// One packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// See [`kind`].
    pub kind: u32,
    /// Pages that were moved; at an end, those that the kernel had moved and that were moved back.
    pub pages: u32,
    /// Pages that could not be moved.
    pub stuck: u64,
    /// Time of taking out, copying and putting back, in nanoseconds.
    pub move_ns: u64,
    /// The same time with the search for the new pages, in nanoseconds; at an end, the number of
    /// locked pages that were put into frames of their colours.
    pub all_ns: u64,
    /// Number of a request to move to other colours, from 1; of a question for frames, from 2^32,
    /// which its answer repeats.
    pub request: u64,
    /// Cut at 215 bytes.
    pub text: String,
}

impl Packet {
    /// A packet with a text.
    pub fn new(kind: u32, text: &str) -> Self {
        Self { kind, text: text.to_owned(), ..Self::default() }
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; PACKET] {
        let mut bytes = [0; PACKET];
        bytes[0..4].copy_from_slice(&self.kind.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.pages.to_ne_bytes());
        let numbers = [self.stuck, self.move_ns, self.all_ns, self.request];
        for (at, value) in (8..).step_by(8).zip(numbers) {
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let n = self.text.len().min(TEXT - 1);
        bytes[40..40 + n].copy_from_slice(&self.text.as_bytes()[..n]);
        bytes
    }

    /// The packet of these bytes; `None` if their number is wrong.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; PACKET] = bytes.try_into().ok()?;
        let four = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let eight =
            |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let text = bytes[40..].split(|&b| b == 0).next().unwrap_or_default();
        Some(Self {
            kind: four(0),
            pages: four(4),
            stuck: eight(8),
            move_ns: eight(16),
            all_ns: eight(24),
            request: eight(32),
            text: String::from_utf8_lossy(text).into_owned(),
        })
    }
}

/// Bytes of a configuration.
pub const CONFIG: usize = 8 + MAX_FUNCTIONS * 8 + 48 + (1 << MAX_FUNCTIONS) / 8;
/// Most locked pages of a process (`MOST_LOCKED` of crates/space/preload).
pub const MOST_LOCKED: usize = 2048;

/// A locked page of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locked {
    /// Its address; of a numbered mapping, its offset in bytes.
    pub at: u64,
    /// Number of the anonymous mapping, from 1; 0: it has an address.
    pub mapping: u32,
    /// The colour of its frame.
    pub colour: u32,
}

/// Adds to a configuration of the frames of ordinary pages that locked pages get other colours:
/// `mask` are the bits of a class that are its colour, `rest` is a colour of ordinary pages.
pub fn lock(config: &mut [u8], mask: u64, rest: u64) {
    const AT: usize = 8 + MAX_FUNCTIONS * 8 + 32;
    for (at, word) in [(AT, mask), (AT + 8, rest)] {
        if let Some(bytes) = config.get_mut(at..at + 8) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
    }
}

/// The bytes of locked pages, which follow a configuration in its file.
pub fn locked(pages: &[Locked]) -> Vec<u8> {
    let bytes = |page: &Locked| {
        let (mapping, colour) = (page.mapping.to_ne_bytes(), page.colour.to_ne_bytes());
        page.at.to_ne_bytes().into_iter().chain(mapping).chain(colour)
    };
    pages.iter().take(MOST_LOCKED).flat_map(bytes).collect()
}

/// The choice of a configuration's bytes; `None` if they are not a configuration.
pub fn choice_of(config: &[u8]) -> Option<Choice> {
    // Magic and functions, masks, and six words.
    const CLASSES: usize = 8 + MAX_FUNCTIONS * 8 + 48;
    let four = |at: usize| config.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let functions = usize::try_from(four(4)?).ok().filter(|&n| n <= MAX_FUNCTIONS)?;
    if four(0)? != MAGIC || config.len() != CLASSES + (1 << MAX_FUNCTIONS) / 8 {
        return None;
    }
    let mask = |i: usize| config[8 + i * 8..16 + i * 8].try_into().map(u64::from_ne_bytes);
    let masks = (0..functions).map(mask).collect::<Result<_, _>>().ok()?;
    let allowed = |class: usize| config[CLASSES + class / 8] >> (class % 8) & 1 == 1;
    Some(Choice { masks, allowed: (0..1 << functions).map(allowed).collect() })
}

/// The bytes of the configuration file. `lends`: a reserve has frames for the program.
pub fn config(choice: &Choice, prefill_pages: u64, reserve: u64, lends: bool) -> Vec<u8> {
    let functions = choice.masks.len().min(MAX_FUNCTIONS);
    let mut bytes = Vec::with_capacity(CONFIG);
    bytes.extend(MAGIC.to_ne_bytes());
    bytes.extend(u32::try_from(functions).unwrap_or(0).to_ne_bytes());
    for i in 0..MAX_FUNCTIONS {
        bytes.extend(choice.masks.get(i).copied().unwrap_or(0).to_ne_bytes());
    }
    // By the share of the memory, so that the library examines enough pages and not too many.
    let classes = ((1u64 << functions) as f64 * choice.share()).round().max(1.0);
    bytes.extend((classes as u64).to_ne_bytes());
    bytes.extend(prefill_pages.to_ne_bytes());
    bytes.extend(reserve.to_ne_bytes());
    bytes.extend(u64::from(lends).to_ne_bytes());
    // No page is locked.
    bytes.extend([0; 16]);
    let mut allowed = [0u8; (1 << MAX_FUNCTIONS) / 8];
    for (class, _) in choice.allowed.iter().enumerate().filter(|(_, allowed)| **allowed) {
        allowed[class / 8] |= 1 << (class % 8);
    }
    bytes.extend(allowed);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Map;

    #[test]
    fn packets_come_back() {
        let packet = Packet {
            kind: 5,
            pages: 7,
            stuck: 8,
            move_ns: 9,
            all_ns: u64::MAX,
            request: 10,
            text: "x".repeat(100),
        };
        assert_eq!(Packet::decode(&packet.encode()), Some(packet));
        let long = Packet::new(1, &"y".repeat(1000));
        assert_eq!(Packet::decode(&long.encode()).map(|p| p.text.len()), Some(215));
        assert_eq!(Packet::decode(&[0; 255]), None);
    }

    #[test]
    fn the_configuration_has_its_layout() {
        let map = Map { colours: vec![1 << 12, 1 << 13], banks: vec![], slices: Vec::new() };
        let bytes = config(&Choice::new(&map, Some(&[1, 2]), None).expect("valid"), 5, 6, true);
        assert_eq!(bytes.len(), CONFIG);
        assert_eq!(bytes[8..16], 4096u64.to_ne_bytes());
        assert_eq!(bytes[136..144], 2u64.to_ne_bytes());
        assert_eq!(bytes[160..168], 1u64.to_ne_bytes());
        assert_eq!((&bytes[168..184], bytes[184]), (&[0; 16][..], 0b0110));
        let mut locking = bytes.clone();
        lock(&mut locking, 3, 1);
        assert_eq!(locking[168..176], 3u64.to_ne_bytes());
        assert_eq!(locking[176..184], 1u64.to_ne_bytes());
        assert_eq!((&locking[..168], &locking[184..]), (&bytes[..168], &bytes[184..]));
        let page = Locked { at: 0x7000, mapping: 2, colour: 9 };
        let pages = locked(&[page; 3000]);
        assert_eq!(pages.len(), 16 * MOST_LOCKED);
        assert_eq!(pages[..8], 0x7000u64.to_ne_bytes());
        assert_eq!(
            (pages[8..12].to_vec(), pages[12..16].to_vec()),
            (2u32.to_ne_bytes().to_vec(), 9u32.to_ne_bytes().to_vec())
        );
    }
}
