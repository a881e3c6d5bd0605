//! Waiting requests: reads in the command queues of their banks, behind them the transaction queue,
//! and the write queue. Fixed arrays; no memory is allocated for a request.

/// Requests a bank's command queue holds.
pub(crate) const BANK_QUEUE: usize = 8;
/// Reads that wait for room in a command queue.
pub(crate) const TRANSACTIONS: usize = 32;
/// Writes that wait.
pub(crate) const WRITES: usize = 64;

/// A request under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    /// The caller's name for it.
    pub tag: u64,
    pub arrived: u64,
    /// Order of arrival.
    pub sequence: u64,
    /// Line address.
    pub line: u64,
    pub row: u32,
    pub core: u16,
    pub bank: u8,
}

/// The reads in front of a bank, oldest first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BankQueue {
    rows: [u32; BANK_QUEUE],
    slots: [u16; BANK_QUEUE],
    length: u8,
    /// Reads for this bank in the transaction queue.
    pub waiting: u8,
}

impl BankQueue {
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.length)
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() == BANK_QUEUE
    }

    #[inline]
    pub fn push(&mut self, row: u32, slot: u16) {
        let at = self.len() & (BANK_QUEUE - 1);
        self.rows[at] = row;
        self.slots[at] = slot;
        self.length += 1;
    }

    /// Position of the oldest read of a row.
    #[inline]
    pub fn oldest_of(&self, row: u32) -> Option<usize> {
        let mut found = 0u32;
        for (i, &r) in self.rows.iter().enumerate() {
            found |= u32::from(r == row) << i;
        }
        found &= (1 << self.length) - 1;
        (found != 0).then(|| found.trailing_zeros() as usize)
    }

    #[inline]
    pub fn row(&self, at: usize) -> u32 {
        self.rows[at & (BANK_QUEUE - 1)]
    }

    #[inline]
    pub fn slot(&self, at: usize) -> u16 {
        self.slots[at & (BANK_QUEUE - 1)]
    }

    pub fn slots(&self) -> &[u16] {
        &self.slots[..self.len()]
    }

    #[inline]
    pub fn remove(&mut self, at: usize) -> u16 {
        let slot = self.slot(at);
        for i in at..BANK_QUEUE - 1 {
            self.rows[i] = self.rows[i + 1];
            self.slots[i] = self.slots[i + 1];
        }
        self.length -= 1;
        slot
    }
}

/// Reads of the command queues and the transaction queue.
#[derive(Clone, Debug)]
pub(crate) struct ReadPool {
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// Slots of the transaction queue, oldest first.
    waiting: [u16; TRANSACTIONS],
    waiting_length: usize,
}

impl ReadPool {
    pub fn new(banks: usize) -> Self {
        let size = u16::try_from(TRANSACTIONS + banks * BANK_QUEUE).expect("at most 64 banks");
        Self {
            slots: vec![Slot::default(); size.into()],
            free: (0..size).rev().collect(),
            waiting: [0; TRANSACTIONS],
            waiting_length: 0,
        }
    }

    #[inline]
    pub fn get(&self, slot: u16) -> &Slot {
        &self.slots[usize::from(slot)]
    }

    /// Is the transaction queue full?
    #[inline]
    pub fn is_full(&self) -> bool {
        self.waiting_length == TRANSACTIONS
    }

    #[inline]
    pub fn add(&mut self, request: Slot) -> u16 {
        let slot = self.free.pop().expect("a slot for every place in the queues");
        self.slots[usize::from(slot)] = request;
        slot
    }

    #[inline]
    pub fn release(&mut self, slot: u16) -> Slot {
        self.free.push(slot);
        self.slots[usize::from(slot)]
    }

    pub fn wait(&mut self, slot: u16) {
        self.waiting[self.waiting_length] = slot;
        self.waiting_length += 1;
    }

    /// The oldest waiting read of a bank, which leaves the transaction queue.
    pub fn next_of(&mut self, bank: u8) -> Option<u16> {
        let waiting = &self.waiting[..self.waiting_length];
        let at = waiting.iter().position(|&s| self.slots[usize::from(s)].bank == bank)?;
        let slot = self.waiting[at];
        self.waiting.copy_within(at + 1..self.waiting_length, at);
        self.waiting_length -= 1;
        Some(slot)
    }

    /// Is a read of this line in the transaction queue?
    pub fn waits_for(&self, line: u64) -> bool {
        self.waiting[..self.waiting_length].iter().any(|&s| self.slots[usize::from(s)].line == line)
    }
}

/// The write queue; a set bit of `used` is a write.
#[derive(Clone, Debug)]
pub(crate) struct WriteQueue {
    slots: [Slot; WRITES],
    used: u64,
    length: u32,
}

impl WriteQueue {
    pub fn new() -> Self {
        Self { slots: [Slot::default(); WRITES], used: 0, length: 0 }
    }

    #[inline]
    pub fn len(&self) -> u32 {
        self.length
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.used == u64::MAX
    }

    /// Is one of the writes in `of` to this line?
    #[inline]
    pub fn holds(&self, mut of: u64, line: u64) -> bool {
        while of != 0 {
            if self.get(of.trailing_zeros()).line == line {
                return true;
            }
            of &= of - 1;
        }
        false
    }

    /// Adds a write and returns its place.
    #[inline]
    pub fn add(&mut self, request: Slot) -> u32 {
        let at = (!self.used).trailing_zeros();
        self.used |= 1 << at;
        self.length += 1;
        self.slots[at as usize] = request;
        at
    }

    #[inline]
    pub fn get(&self, at: u32) -> &Slot {
        &self.slots[at as usize & (WRITES - 1)]
    }

    #[inline]
    pub fn remove(&mut self, at: u32) -> Slot {
        self.used &= !(1 << at);
        self.length -= 1;
        *self.get(at)
    }

    /// Among the writes in `of`: the oldest of a row, and the oldest of all.
    #[inline]
    pub fn oldest(&self, mut of: u64, row: u32) -> (Option<u32>, Option<u32>) {
        let (mut hit, mut any) = (None, None);
        let (mut hit_sequence, mut any_sequence) = (u64::MAX, u64::MAX);
        while of != 0 {
            let at = of.trailing_zeros();
            of &= of - 1;
            let write = self.get(at);
            if write.sequence < any_sequence {
                (any, any_sequence) = (Some(at), write.sequence);
            }
            if write.row == row && write.sequence < hit_sequence {
                (hit, hit_sequence) = (Some(at), write.sequence);
            }
        }
        (hit, any)
    }
}
