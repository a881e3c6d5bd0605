//! The address of an instruction's operand in memory, from its bytes and the registers.
//!
//! Rule: ModRM, SIB and displacement of 64-bit mode.
//! Source: Intel SDM volume 2, section 2.1.5, tables 2-2 and 2-3, and section 2.2.1.
//! Not covered: segments with a base, addresses of 32 bits.

/// Parts of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    base: Option<u8>,
    /// Register and log2 of its factor.
    index: Option<(u8, u8)>,
    displacement: i32,
    /// Whether it is relative to the instruction behind.
    relative: bool,
}

impl Operand {
    /// Reads the bytes that begin with ModRM; `None`: it names a register, or bytes are missing.
    pub fn of(bytes: &[u8], rex: u8) -> Option<Self> {
        let modrm = *bytes.first()?;
        let (mode, low) = (modrm >> 6, modrm & 7);
        let (extend_base, extend_index) = ((rex & 1) << 3, (rex >> 1 & 1) << 3);
        let (mut base, mut index, mut at) = (Some(low | extend_base), None, 1);
        let mut relative = false;
        let mut wide = mode == 2;
        match (mode, low) {
            (3, _) => return None,
            (_, 4) => {
                let sib = *bytes.get(1)?;
                at = 2;
                let register = sib >> 3 & 7 | extend_index;
                index = (register != 4).then_some((register, sib >> 6));
                base = Some(sib & 7 | extend_base);
                if mode == 0 && sib & 7 == 5 {
                    (base, wide) = (None, true);
                }
            }
            (0, 5) => (base, relative, wide) = (None, true, true),
            _ => {}
        }
        let displacement = if wide {
            i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?)
        } else if mode == 1 {
            i32::from(bytes.get(at)?.cast_signed())
        } else {
            0
        };
        Some(Self { base, index, displacement, relative })
    }

    /// The address; `next`: the address of the instruction behind.
    pub fn address(&self, next: u64, register: impl Fn(usize) -> u64) -> u64 {
        let base = self.base.map_or(0, |r| register(r.into()));
        let index = self.index.map_or(0, |(r, shift)| register(r.into()) << shift);
        let from = if self.relative { next } else { 0 };
        base.wrapping_add(index)
            .wrapping_add(from)
            .wrapping_add_signed(i64::from(self.displacement))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that an assembler makes of `clflush` of these operands.
    #[test]
    fn addresses_are_those_of_the_operands() {
        let register = |number: usize| 0x1000 * (number as u64 + 1);
        let cases: [(&[u8], u8, u64); 9] = [
            (&[0x38], 0, 0x1000),                                   // [rax]
            (&[0x3f], 0x41, 0x1_0000),                              // [r15]
            (&[0x7f, 0xf8], 0, 0x8000 - 8),                         // [rdi - 8]
            (&[0xb9, 0x00, 0x01, 0, 0], 0, 0x2100),                 // [rcx + 0x100]
            (&[0x3c, 0x24], 0, 0x5000),                             // [rsp]
            (&[0x7c, 0xc8, 0x10], 0, 0x1000 + 8 * 0x2000 + 0x10),   // [rax + rcx * 8 + 16]
            (&[0x3c, 0x45, 0x40, 0, 0, 0], 0, 2 * 0x1000 + 0x40),   // [rax * 2 + 0x40]
            (&[0x3d, 0xf0, 0xff, 0xff, 0xff], 0, 0x40_0000 - 0x10), // [rip - 16]
            (&[0x7c, 0x65, 0x00], 0x43, 0xe000 + 2 * 0xd000),       // [r13 + r12 * 2]
        ];
        for (bytes, rex, expect) in cases {
            let operand = Operand::of(bytes, rex).unwrap();
            assert_eq!(operand.address(0x40_0000, register), expect, "{bytes:x?}");
        }
        assert_eq!(Operand::of(&[0xf8], 0), None, "sfence");
        assert_eq!(Operand::of(&[0xb9, 0, 1], 0), None, "cut off");
    }
}
