//! What a program tells a reserve of frames that go back.
//!
//! Problem: the frames of a program that ends are the kernel's, and others would get them before
//! the reserve. Rule: the program's heir (crates/space/preload/heir.c) outlives it, and gives a
//! few pages back at a time. It says their number and the CPU, and waits; the reserve takes as many
//! pages on this CPU, which get the frames that were freed last. Its last pages are free when its
//! connection ends. crates/space/preload/space.h has the layout. Does not cover: what else is free;
//! the reserve looks for that from time to time.

/// Most pages of a message.
const MOST: u32 = 2048;
const KIND: u32 = 0x6b63_6162;
const BYTES: usize = 16;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Back {
    /// Pages that are free.
    pub pages: u64,
    /// The CPU that has them on its list.
    pub cpu: u32,
    /// They are free once the connection ends, and no answer is waited for.
    pub last: bool,
}

impl Back {
    /// The message of these bytes; `None`: it is another one.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let four = |at: usize| Some(u32::from_ne_bytes(message.get(at..at + 4)?.try_into().ok()?));
        if message.len() != BYTES || four(0)? != KIND {
            return None;
        }
        let pages = four(4).filter(|&pages| pages <= MOST)?;
        Some(Self { pages: pages.into(), cpu: four(8)?, last: four(12)? != 0 })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A message as the library in C makes it.
    pub fn message(pages: u32, cpu: u32, last: u32) -> Vec<u8> {
        [KIND, pages, cpu, last].iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn messages_are_told_from_others() {
        let back = Back { pages: 128, cpu: 3, last: false };
        assert_eq!(Back::decode(&message(128, 3, 0)), Some(back));
        assert_eq!(Back::decode(&message(0, 3, 1)), Some(Back { pages: 0, last: true, ..back }));
        assert_eq!(Back::decode(&message(MOST + 1, 3, 0)), None, "more than one message may have");
        assert_eq!(Back::decode(&message(128, 3, 0)[..15]), None);
        assert_eq!(Back::decode(&[0; BYTES]), None);
    }

    /// The C compiler's values.
    #[test]
    fn the_numbers_are_those_of_the_library() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/preload");
        let name = crate::buffers::NAME;
        let program = format!(
            "#include \"{folder}/space.h\"\n\
             _Static_assert(GIVE_BACK == {KIND}u && MOST_BACK == {MOST}, \"words\");\n\
             _Static_assert(sizeof(struct give_back) == {BYTES} && \
             __builtin_offsetof(struct give_back, last) == 12, \"layout\");\n\
             _Static_assert(sizeof RESERVE_NAME == {} + 1, \"name\");\n\
             _Static_assert(__builtin_strcmp(RESERVE_NAME, \"{name}\") == 0, \"name\");\n",
            name.len()
        );
        assert!(crate::buffers::tests::compiles(&program));
    }
}
