//! Instructions that the board handles when they run, recognised by their bytes.

use crate::operand::Operand;

/// An instruction that the board handles when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `cpuid`.
    Cpuid,
    /// `rdmsr`.
    ReadMsr,
    /// `wrmsr`.
    WriteMsr,
    /// `rdpmc`.
    ReadCounter,
    /// `mov cr3, r`.
    Space(u8),
    /// `invlpg` and its kin.
    Invalidate,
    /// `out` of 16 or 32 bits to a port in DX.
    Out,
    /// `pause`.
    Pause,
    /// `clflush`, `clflushopt`.
    Flush(Operand),
    /// `lfence`; `mfence` waits for stores as well.
    Fence {
        /// Whether it waits for all accesses.
        stores: bool,
    },
}

/// Recognises an instruction by its bytes.
pub fn special(bytes: &[u8]) -> Option<Special> {
    let mut rex = 0;
    let mut at = 0;
    let (mut repeated, mut short) = (false, false);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            // Segments are prefixes without a meaning here: the kernel puts `ds` in front of
            // `wrmsr`.
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 => {}
            0x66 => short = true,
            0xf3 => repeated = true,
            0x40..=0x4f => rex = byte,
            _ => break,
        }
        at += 1;
    }
    match *bytes.get(at..)? {
        [0x90, ..] if repeated => Some(Special::Pause),
        [0xef, ..] => Some(Special::Out),
        [0x0f, 0xa2, ..] => Some(Special::Cpuid),
        [0x0f, 0x32, ..] => Some(Special::ReadMsr),
        [0x0f, 0x30, ..] => Some(Special::WriteMsr),
        [0x0f, 0x33, ..] => Some(Special::ReadCounter),
        [0x0f, 0x22, modrm, ..] if modrm >> 3 & 7 == 3 => {
            Some(Special::Space(modrm & 7 | (rex & 1) << 3))
        }
        // A write of CR4 changes global pages.
        [0x0f, 0x22, modrm, ..] if modrm >> 3 & 7 == 4 => Some(Special::Invalidate),
        [0x0f, 0x01, modrm, ..] if modrm >> 3 & 7 == 7 && modrm < 0xc0 => Some(Special::Invalidate),
        [0x0f, 0x38, 0x82, ..] => Some(Special::Invalidate),
        [0x0f, 0xae, 0xe8..=0xef, ..] if !repeated => Some(Special::Fence { stores: false }),
        [0x0f, 0xae, 0xf0..=0xf7, ..] if !repeated && !short => {
            Some(Special::Fence { stores: true })
        }
        [0x0f, 0xae, modrm, ..] if modrm >> 3 & 7 == 7 && !repeated => {
            Operand::of(&bytes[at + 2..], rex).map(Special::Flush)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_recognised() {
        let lfence = Some(Special::Fence { stores: false });
        let mfence = Some(Special::Fence { stores: true });
        let flush = Operand::of(&[0x38], 0).map(Special::Flush);
        let cases: [(&[u8], Option<Special>); 19] = [
            (&[0x66, 0xef], Some(Special::Out)),
            (&[0x0f, 0xa2], Some(Special::Cpuid)),
            (&[0x3e, 0x0f, 0x30], Some(Special::WriteMsr)),
            (&[0x0f, 0x32], Some(Special::ReadMsr)),
            (&[0x0f, 0x33], Some(Special::ReadCounter)),
            (&[0xf3, 0x90], Some(Special::Pause)),
            (&[0x90], None),
            (&[0x0f, 0x22, 0xd8], Some(Special::Space(0))),
            (&[0x41, 0x0f, 0x22, 0xdc], Some(Special::Space(12))),
            (&[0x0f, 0x01, 0x38], Some(Special::Invalidate)),
            (&[0x0f, 0x01, 0xf8], None),
            (&[0x0f, 0xae, 0xe8], lfence),
            (&[0x0f, 0xae, 0xf0], mfence),
            (&[0x0f, 0xae, 0xf8], None),
            (&[0x0f, 0xae, 0x38], flush),
            (&[0x66, 0x0f, 0xae, 0x38], flush),
            // clwb, tpause, umonitor, incssp
            (&[0x66, 0x0f, 0xae, 0x30], None),
            (&[0x66, 0x0f, 0xae, 0xf0], None),
            (&[0xf3, 0x0f, 0xae, 0xe8], None),
        ];
        for (bytes, expect) in cases {
            assert_eq!(special(bytes), expect, "{bytes:x?}");
        }
    }
}
