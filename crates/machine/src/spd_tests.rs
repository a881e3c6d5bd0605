//! Modules as their makers describe them; the bytes follow the standards' tables.

use super::*;
use proptest::prelude::*;

fn checked(mut bytes: Vec<u8>, end: usize, at: usize) -> Vec<u8> {
    let mut sum = 0_u16;
    for &byte in &bytes[..end] {
        for bit in (0..8).rev() {
            let out = (sum >> 15) as u8 ^ (byte >> bit & 1);
            sum = sum << 1 ^ if out == 1 { 0x1021 } else { 0 };
        }
    }
    bytes[at..at + 2].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn rom(size: usize, set: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; size];
    for (at, data) in set {
        bytes[*at..at + data.len()].copy_from_slice(data);
    }
    bytes
}

/// 4 GiB of DDR3-1333H, two ranks of eight chips of 2 Gbit.
fn ddr3() -> Vec<u8> {
    let timing = [0x0c, 0, 0x7e, 0, 0x69, 0x78, 0x69, 0x30, 0x69, 0x11, 0x20, 0x89];
    let bytes = rom(
        256,
        &[
            (0, &[0x92, 0x10, 0x0b, 0x02, 0x03, 0x19, 0x00, 0x09, 0x03, 0x52, 0x01, 0x08]),
            (12, &timing),
        ],
    );
    checked(bytes, 117, 126)
}

/// 8 GiB of DDR4-2400R, one rank of eight chips of 8 Gbit.
fn ddr4() -> Vec<u8> {
    let bytes = rom(
        512,
        &[
            (0, &[0x23, 0x11, 0x0c, 0x02, 0x85, 0x21, 0x00, 0x08, 0x00, 0x60, 0x00, 0x03, 0x00]),
            (13, &[0x03, 0, 0, 0, 0, 0x07, 0x0d, 0xfc, 0x2b, 0, 0, 0x6b, 0x6b, 0x6b, 0x11, 0]),
            (12, &[0x01]),
            (121, &[0xca, 0xca, 0xca, 0x00, 0xd6]),
        ],
    );
    checked(bytes, 126, 126)
}

/// 16 GiB of DDR5-4800B, one rank of eight chips of 16 Gbit.
fn ddr5() -> Vec<u8> {
    let word = |value: u16| value.to_le_bytes();
    let bytes = rom(
        1024,
        &[
            (0, &[0x30, 0x10, 0x12, 0x02, 0x04, 0x00, 0x20, 0x62]),
            (20, &word(416)),
            (30, &word(16000)),
            (32, &word(16000)),
            (34, &word(16000)),
            (36, &word(32000)),
            (234, &[0x00, 0x22]),
        ],
    );
    checked(bytes, 510, 510)
}

fn found(bytes: &[u8]) -> Option<Spd> {
    decode(bytes, "0-0050".to_owned())
}

fn least(cl: u64, rcd: u64, rp: u64, ras: u64) -> Least {
    let [cl, rcd, rp, ras] = [cl, rcd, rp, ras].map(Time::from_ps);
    Least { cl, rcd, rp, ras }
}

#[test]
fn modules_are_read_as_their_data_sheets_have_them() {
    let place = "0-0050".to_owned();
    let m = found(&ddr3()).unwrap();
    let times = least(13125, 13125, 13125, 36000);
    let expected = Spd {
        place: place.clone(),
        kind: "DDR3",
        size: 4 << 30,
        speed: 1333,
        ranks: 2,
        banks: 8,
        row: 8192,
        least: times,
    };
    assert_eq!(m, expected);
    let m = found(&ddr4()).unwrap();
    // 13.32 ns: 16 clocks of 0.833 ns.
    let times = least(13321, 13321, 13321, 32000);
    let shape = Spd { kind: "DDR4", size: 8 << 30, speed: 2400, ranks: 1, banks: 16, ..expected };
    assert_eq!(m, Spd { least: times, ..shape.clone() });
    let m = found(&ddr5()).unwrap();
    let times = least(16000, 16000, 16000, 32000);
    let shape = Spd { kind: "DDR5", size: 16 << 30, speed: 4807, banks: 32, row: 4096, ..shape };
    assert_eq!(m, Spd { least: times, ..shape });
}

#[test]
fn a_byte_that_changed_is_found_out() {
    for module in [ddr3(), ddr4()] {
        for at in 0..117 {
            let mut bytes = module.clone();
            bytes[at] ^= 0x10;
            assert_eq!(found(&bytes), None, "{at}");
        }
        for cut in 0..128 {
            assert_eq!(found(&module[..cut]), None);
        }
    }
}

proptest! {
    /// Any bytes with a right checksum are read or refused.
    #[test]
    fn any_module_is_read_or_refused(
        kind in prop::sample::select(vec![0x0b_u8, 0x0c, 0x12]),
        mut bytes in prop::collection::vec(any::<u8>(), 1024),
    ) {
        bytes[2] = kind;
        let (end, at) = match kind {
            0x0b if bytes[0] >> 7 == 1 => (117, 126),
            0x12 => (510, 510),
            _ => (126, 126),
        };
        if let Some(spd) = found(&checked(bytes, end, at)) {
            prop_assert!(spd.size > 0 && spd.speed > 0 && spd.ranks > 0);
        }
    }
}
