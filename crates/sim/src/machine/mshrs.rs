//! Miss registers: the lines under way, and the accesses that wait for them.

/// Miss registers.
#[derive(Clone, Debug)]
pub(super) struct Mshrs {
    pub busy: u64,
    /// Registers that a posted load waits for, as a bit mask.
    pub loads: u64,
    all: u64,
    keys: [u64; 64],
    /// Computation of the core when the load was issued.
    pub issued: [u64; 64],
    /// Busy registers by the lowest bits of their key: this shows without a search that nearly all
    /// lines are in none.
    by_key: [u8; 256],
}

impl Mshrs {
    pub fn new(count: u32) -> Self {
        Self {
            busy: 0,
            loads: 0,
            all: u64::MAX >> (64 - count),
            keys: [0; 64],
            issued: [0; 64],
            by_key: [0; 256],
        }
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.busy == self.all
    }

    /// Could a register have this line?
    #[inline(always)]
    pub fn may_have(&self, key: u64) -> bool {
        self.by_key[usize::from(key.to_le_bytes()[0])] != 0
    }

    #[inline]
    pub fn find(&self, key: u64) -> Option<u8> {
        if self.may_have(key) { self.search(key) } else { None }
    }

    #[inline(never)]
    fn search(&self, key: u64) -> Option<u8> {
        let mut rest = self.busy;
        while rest != 0 {
            let at = rest.trailing_zeros();
            if self.keys[at as usize & 63] == key {
                return Some(at.to_le_bytes()[0]);
            }
            rest &= rest - 1;
        }
        None
    }

    /// Takes a register; the caller makes sure that one is free.
    #[inline]
    pub fn take(&mut self, key: u64) -> u8 {
        let at = (!self.busy).trailing_zeros() & 63;
        self.busy |= 1 << at;
        self.keys[at as usize] = key;
        self.by_key[usize::from(key.to_le_bytes()[0])] += 1;
        at.to_le_bytes()[0]
    }

    /// Frees a register; true if a posted load waited for it.
    #[inline]
    pub fn free(&mut self, register: u8) -> bool {
        let (at, bit) = (usize::from(register) & 63, 1u64 << (register & 63));
        let waited = self.loads & bit != 0;
        self.busy &= !bit;
        self.loads &= !bit;
        self.by_key[usize::from(self.keys[at].to_le_bytes()[0])] -= 1;
        waited
    }
}
