//! A program of known instructions, whose data lie in one page.
//!
//! Rule: a round has ten instructions: two loads, two additions, a multiplication, a copy and a
//! mask among them. Each waits for the one before, also from round to round, except the store and
//! the last two. A compiled program whose data lie in the first level seldom waits more often. The
//! count is that of the text below, so that no counter is needed. Does not cover: other mixes; a
//! program of divisions or mispredicted branches takes more cycles an instruction.

/// Instructions of a round.
pub const ROUND: u64 = 10;
/// Can it run here?
pub const CAN_COMPUTE: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Data of the program.
#[repr(align(4096))]
pub struct Data([u64; 512]);

impl Data {
    /// Data that are all zero.
    pub fn new() -> Box<Self> {
        Box::new(Self([0; 512]))
    }

    /// Runs `rounds` rounds, at least one.
    pub fn run(&mut self, rounds: u64) {
        let at = std::ptr::from_mut(&mut self.0).addr();
        self.0[0] = at as u64;
        let rounds = rounds.max(1);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the program reads and writes words 0, 8 and 16 of the data alone, which live
        // and are this object's.
        unsafe {
            std::arch::asm!(
                "2:",
                "mov {p}, [{p}]",
                "mov {a}, [{p} + 64]",
                "add {a}, {n}",
                "imul {c}, {a}",
                "mov [{d} + 128], {c}",
                "mov {b}, {c}",
                "and {b}, 0",
                "add {p}, {b}",
                "dec {n}",
                "jnz 2b",
                p = inout(reg) at => _,
                d = in(reg) at,
                a = out(reg) _,
                b = out(reg) _,
                c = inout(reg) 3_u64 => _,
                n = inout(reg) rounds => _,
                options(nostack)
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!(
                "2:",
                "ldr {p}, [{p}]",
                "ldr {a}, [{p}, #64]",
                "add {a}, {a}, {n}",
                "mul {c}, {c}, {a}",
                "str {c}, [{d}, #128]",
                "mov {b}, {c}",
                "and {b}, {b}, xzr",
                "add {p}, {p}, {b}",
                "subs {n}, {n}, #1",
                "b.ne 2b",
                p = inout(reg) at => _,
                d = in(reg) at,
                a = out(reg) _,
                b = out(reg) _,
                c = inout(reg) 3_u64 => _,
                n = inout(reg) rounds => _,
                options(nostack)
            );
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = rounds;
    }

    /// The word that each round stores.
    #[cfg(test)]
    fn product(&self) -> u64 {
        self.0[16]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program's text in Rust: all rounds are really made.
    #[test]
    fn all_rounds_are_made() {
        for rounds in [1, 2, 1000] {
            let mut data = Data::new();
            data.run(rounds);
            let expected = (1..=rounds).rev().fold(3_u64, |c, n| c.wrapping_mul(n));
            assert_eq!(data.product(), if CAN_COMPUTE { expected } else { 0 });
        }
    }
}
