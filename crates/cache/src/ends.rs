//! The way in which a block of instructions ends: with a call, with a return, or otherwise.
//!
//! Problem: the emulator's plugin sees the instructions of a program, and not its stack. Rule: the
//! encoding of the last instruction says it. Branches to the next instruction, which ask for an
//! address, are not told from calls. Not covered: 32-bit Arm, where the encoding depends on a mode
//! that the plugin does not see.

use solocore_model::platform::Isa;

/// The way in which a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// With a call, by address or by register.
    Call,
    /// With a return, also a conditional one.
    Return,
    /// With a jump, or in the middle of straight code.
    Otherwise,
}

impl Ends {
    /// The end of a block with this last instruction, as its bytes lie in memory.
    #[must_use]
    pub fn of(isa: Isa, instruction: &[u8]) -> Self {
        let word = <[u8; 4]>::try_from(instruction).ok();
        let half = <[u8; 2]>::try_from(instruction).ok();
        let found = match isa {
            Isa::X86_64 => x86(instruction, true),
            Isa::I386 => x86(instruction, false),
            Isa::Aarch64 => word.and_then(|w| aarch64(u32::from_le_bytes(w))),
            Isa::Riscv64 => match half {
                Some(half) => riscv_short(u16::from_le_bytes(half)),
                None => word.and_then(|w| riscv(u32::from_le_bytes(w))),
            },
            Isa::Powerpc | Isa::Powerpc64 => word.and_then(|w| power(u32::from_be_bytes(w))),
            Isa::Powerpc64le => word.and_then(|w| power(u32::from_le_bytes(w))),
            Isa::Arm => None,
        };
        found.unwrap_or(Self::Otherwise)
    }
}

fn x86(instruction: &[u8], long: bool) -> Option<Ends> {
    let prefix = |byte: u8| match byte {
        0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf2 | 0xf3 => true,
        0x40..=0x4f => long,
        _ => false,
    };
    let mut rest = instruction.iter().copied().skip_while(|&byte| prefix(byte));
    match rest.next()? {
        0xe8 => Some(Ends::Call),
        0x9a if !long => Some(Ends::Call),
        0xff => {
            // The second and third of the group are calls, near and far.
            let group = rest.next()? >> 3 & 7;
            matches!(group, 2 | 3).then_some(Ends::Call)
        }
        0xc2 | 0xc3 | 0xca | 0xcb => Some(Ends::Return),
        _ => None,
    }
}

fn aarch64(word: u32) -> Option<Ends> {
    // BL, BLR, and BLR with an authenticated pointer.
    let call = word & 0xfc00_0000 == 0x9400_0000
        || word & 0xffff_fc1f == 0xd63f_0000
        || word & 0xffff_f81f == 0xd63f_081f
        || word & 0xffff_f800 == 0xd73f_0800;
    let back = word & 0xffff_fc1f == 0xd65f_0000 || matches!(word, 0xd65f_0bff | 0xd65f_0fff);
    ended(call, back)
}

fn riscv(word: u32) -> Option<Ends> {
    // x1 and x5 hold return addresses.
    let link = |register: u32| matches!(register & 31, 1 | 5);
    let (opcode, to, from) = (word & 0x7f, word >> 7, word >> 15);
    let jump = opcode == 0x67;
    ended((opcode == 0x6f || jump) && link(to), jump && to & 31 == 0 && link(from))
}

fn riscv_short(half: u16) -> Option<Ends> {
    // C.JALR with a register, C.JR with x1 or x5.
    ended(half & 0xf07f == 0x9002 && half & 0x0f80 != 0, matches!(half, 0x8082 | 0x8282))
}

fn power(word: u32) -> Option<Ends> {
    // Branches to an address, to the link register and to the count register; the last bit links.
    let (opcode, links, extended) = (word >> 26, word & 1 == 1, word >> 1 & 0x3ff);
    let to_link = opcode == 19 && extended == 16;
    let branches = matches!(opcode, 16 | 18) || to_link || opcode == 19 && extended == 528;
    ended(branches && links, to_link && !links)
}

fn ended(call: bool, back: bool) -> Option<Ends> {
    match (call, back) {
        (true, _) => Some(Ends::Call),
        (false, true) => Some(Ends::Return),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodings of the manuals: calls, returns, and others.
    fn check<B: AsRef<[u8]>>(isa: Isa, calls: &[B], returns: &[B], others: &[B]) {
        let lists = [(calls, Ends::Call), (returns, Ends::Return), (others, Ends::Otherwise)];
        for (list, end) in lists {
            for bytes in list {
                let bytes = bytes.as_ref();
                assert_eq!(Ends::of(isa, bytes), end, "{isa} {bytes:x?}");
            }
        }
    }

    #[test]
    fn calls_and_returns_of_x86() {
        let calls: [&[u8]; 4] =
            [&[0xe8, 1, 0, 0, 0], &[0xff, 0xd0], &[0x41, 0xff, 0xd4], &[0xff, 0x15, 1, 0, 0, 0]];
        let returns: [&[u8]; 4] = [&[0xc3], &[0xf3, 0xc3], &[0xf2, 0xc3], &[0xc2, 8, 0]];
        // Jumps by address, by memory and by register; a system call; nothing.
        let others: [&[u8]; 6] = [
            &[0xeb, 5],
            &[0xff, 0x25, 1, 0, 0, 0],
            &[0xff, 0xe0],
            &[0x0f, 0x05],
            &[0x41, 0xff],
            &[],
        ];
        check(Isa::X86_64, &calls, &returns, &others);
        // A prefix of 64 bits is an instruction of its own (inc) in 32.
        let others: [&[u8]; 2] = [&[0x41], &[0x41, 0xff, 0xd4]];
        check(Isa::I386, &calls[..2], &returns, &others);
    }

    #[test]
    fn calls_and_returns_of_words() {
        let check = |isa, bytes: fn(u32) -> [u8; 4], lists: [&[u32]; 3]| {
            let bytes = |list: &[u32]| list.iter().copied().map(bytes).collect::<Vec<_>>();
            let [calls, returns, others] = lists.map(bytes);
            check(isa, &calls, &returns, &others);
        };
        // bl, blr x1, blraaz x1; ret, retaa; b, br x17.
        let arm: [&[u32]; 3] = [
            &[0x9400_0001, 0xd63f_0020, 0xd63f_083f],
            &[0xd65f_03c0, 0xd65f_0bff],
            &[0x1400_0001, 0xd61f_0220],
        ];
        check(Isa::Aarch64, u32::to_le_bytes, arm);
        // jal ra, jalr ra; ret; j, jr a5.
        let riscv: [&[u32]; 3] =
            [&[0x0080_00ef, 0x0007_80e7], &[0x0000_8067], &[0x0000_006f, 0x0007_8067]];
        check(Isa::Riscv64, u32::to_le_bytes, riscv);
        // bl, blrl, bctrl; blr, beqlr; b, bctr.
        let power: [&[u32]; 3] = [
            &[0x4800_0009, 0x4e80_0021, 0x4e80_0421],
            &[0x4e80_0020, 0x4d82_0020],
            &[0x4800_0008, 0x4e80_0420],
        ];
        check(Isa::Powerpc, u32::to_be_bytes, power);
        check(Isa::Powerpc64le, u32::to_le_bytes, power);
        let none: [&[u32]; 3] = [&[], &[], &[0xeb00_0001, 0xe12f_ff1e]];
        check(Isa::Arm, u32::to_le_bytes, none);
    }

    #[test]
    fn short_calls_and_returns_of_riscv() {
        // c.jalr a5; c.jr ra; c.jr a5, c.ebreak.
        check(Isa::Riscv64, &[[0x82, 0x97]], &[[0x82, 0x80]], &[[0x82, 0x87], [0x02, 0x90]]);
    }
}
