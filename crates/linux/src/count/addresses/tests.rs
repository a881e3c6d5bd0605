use super::super::records::tests::{became, mapped, sample};
use super::*;
use std::path::Path;
use std::sync::{Arc, Mutex};

const NUMBERS: Numbers = Numbers { sample: 7, enter: 8, exit: 9 };

/// What a follower of process 50 makes of these bytes.
fn followed(event: AddressEvent, bytes: &[u8]) -> (Vec<Step>, Sampled) {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&steps);
    let told = move |step| told.lock().unwrap().push(step);
    let mut follower = Follower::new(event, 50, NUMBERS, told);
    follower.take(bytes);
    assert!(!follower.broken);
    let sampled = follower.sampled;
    drop(follower);
    (Arc::into_inner(steps).unwrap().into_inner().unwrap(), sampled)
}

fn loads() -> AddressEvent {
    AddressEvent { stands_in: None, ..AddressEvent::stand_in(None) }
}

fn access(process: u32, in_program: bool, address: u64, source: u64) -> Vec<u8> {
    sample(&Sample { event: 7, process, in_program, address, source, ..Sample::default() })
}

/// A call and its return, as the tracepoints say it.
fn call(thread: u32, call: i64, arguments: [u64; 6], result: i64) -> Vec<u8> {
    let of = |event, words: Vec<u64>| {
        let raw: Vec<u8> =
            [0].into_iter().chain(words).flat_map(u64::to_ne_bytes).chain([0; 4]).collect();
        sample(&Sample { event, process: 50, thread, raw: &raw, ..Sample::default() })
    };
    let number = call.cast_unsigned();
    let entered = of(8, [number].into_iter().chain(arguments).collect());
    [entered, of(9, vec![number, result.cast_unsigned()])].concat()
}

const RAM: u64 = 0x82 << 5;

#[test]
fn only_what_the_program_itself_has_of_memory_is_a_sample() {
    let bytes = [
        became(50),
        access(50, true, 0x1000, RAM),
        access(50, false, 0x2000, RAM),
        access(51, true, 0x3000, RAM),
        access(50, true, 0x4000, 0x42 << 5),
        became(51),
        access(50, true, 0x5000, RAM),
        became(50),
        access(50, true, 0x6000, RAM),
    ]
    .concat();
    let (steps, sampled) = followed(loads(), &bytes);
    assert_eq!(steps, [Step::Access(0x1000), Step::Access(0x5000)]);
    assert_eq!((sampled.samples, sampled.elsewhere), (2, 4));
    // A page fault may be the kernel's, on the program's behalf, and tells no source.
    let faults = [became(50), access(50, false, 0x2000, 0)].concat();
    assert_eq!(followed(AddressEvent::stand_in(None), &faults).1.samples, 1);
}

#[test]
fn memory_is_followed_in_the_order_of_the_calls() {
    let file = Path::new("/lib/x.so");
    let stack = Path::new("[stack]");
    let anonymous = ANONYMOUS | 2;
    let bytes = [
        became(50),
        mapped(50, 0x40_0000, 0x2000, 0, false, Path::new("/bin/p")),
        call(50, libc::SYS_brk, [0; 6], 0x90_0000),
        mapped(50, 0x10_0000, 0x3000, 0x5000, false, file),
        call(50, libc::SYS_mmap, [0, 0x2001, 1, 2, 3, 0x5000], 0x10_0000),
        // A changed protection is not a mapping, and a stack that grows is.
        mapped(50, 0x10_1000, 0x1000, 0, true, file),
        mapped(50, 0x70_0000, 0x2000, 0, true, stack),
        mapped(51, 0x70_0000, 0x2000, 0, true, stack),
        call(50, libc::SYS_mmap, [0, 0x1000, 3, anonymous, u64::MAX, 0], 0x20_0000),
        call(50, libc::SYS_mmap, [0, 0x1000, 3, anonymous, u64::MAX, 0], -12),
        call(51, libc::SYS_mremap, [0x20_0000, 0x1000, 0x4000, 1, 0, 0], 0x30_0000),
        call(50, libc::SYS_munmap, [0x30_0000, 0x1000, 0, 0, 0, 0], 0),
    ]
    .concat();
    let (steps, sampled) = followed(loads(), &bytes);
    let given = |start, length, writable, name: &Path| Step::Given {
        start,
        length,
        offset: 0,
        writable,
        name: name.to_owned(),
    };
    let from_file = Some((file.to_owned(), 0x5000));
    let expected = [
        given(0x40_0000, 0x2000, false, Path::new("/bin/p")),
        Step::Break(0x90_0000),
        Step::Mapped { start: 0x10_0000, length: 0x3000, writable: false, file: from_file },
        given(0x70_0000, 0x2000, true, stack),
        Step::Mapped { start: 0x20_0000, length: 0x1000, writable: true, file: None },
        Step::Unmapped { start: 0x20_0000, length: 0x1000 },
        Step::Mapped { start: 0x30_0000, length: 0x4000, writable: true, file: None },
        Step::Unmapped { start: 0x30_0000, length: 0x1000 },
    ];
    assert_eq!(steps, expected);
    assert_eq!(sampled, Sampled::default());
}
