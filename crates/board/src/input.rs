//! The input of a shell on its way from a pipe or a file of the host to the guest.
//!
//! Problem: typed at a terminal, input can get lost. The end of the input is Ctrl-D there, and that
//! ends a shell only after the shell has prepared the terminal for its prompt. Until then the
//! kernel takes Ctrl-D for the end of a line, and the shell reads a NUL in its place and waits for
//! more. Rule: the input goes through shared memory into a pipe, as bytes, and its end is the
//! pipe's end. Does not cover: shells for a user who types, as these have the terminal itself.

use crate::channel::{Channel, Kind};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Interval between two looks at the ring, by the clock of the side that looks: the guest for
/// input, the host for room.
const LOOK: Duration = Duration::from_millis(10);
/// Longest part of the input in a message, bytes.
const PART: usize = 1 << 16;

/// The error that ended the input; none: it was read to its end, or is still read.
pub type Failed = Mutex<Option<io::Error>>;

/// The host's side: sends the input to its end, and then an empty message. Where the input cannot
/// be read to its end, the guest has the part before the error. The error is in `failed` before
/// the guest is told of the end: a guest that ended by it always finds the error there.
pub fn read(mut from: impl Read, to: &mut Channel, failed: &Failed) {
    let mut buffer = vec![0; PART];
    loop {
        let n = match from.read(&mut buffer) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Ok(n) => n,
            Err(e) => {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                0
            }
        };
        to.send(Kind::Data, &buffer[..n], || std::thread::sleep(LOOK));
        if n == 0 {
            return;
        }
    }
}

/// The guest's side: writes the input to the program, up to the empty message.
pub fn write(mut to: impl Write, mut from: Channel) {
    loop {
        match from.receive() {
            Ok(None) => std::thread::sleep(LOOK),
            Ok(Some((Kind::Data, bytes))) if !bytes.is_empty() => {
                // A program that ended reads no more.
                if to.write_all(&bytes).is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{SIZE, Way};

    #[test]
    fn every_byte_arrives_and_so_does_the_end() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(SIZE as u64).expect("grown");
        let map = || Channel::map(&file, Way::ToGuest).expect("mapped");
        let (mut host, guest) = (map(), map());
        // Ctrl-D and NUL are bytes like others. More bytes than the ring holds: the host waits.
        let typed: Vec<u8> = (0..=u8::MAX).cycle().take(SIZE).collect();
        let mut got = Vec::new();
        std::thread::scope(|scope| {
            let sent = scope.spawn(|| {
                let failed = Failed::default();
                read(typed.as_slice(), &mut host, &failed);
                failed.into_inner().expect("not poisoned")
            });
            write(&mut got, guest);
            assert!(sent.join().expect("it ends").is_none(), "read to its end");
        });
        assert!(got == typed, "{} of {} bytes", got.len(), typed.len());
    }

    #[test]
    fn no_input_ends_at_once() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(SIZE as u64).expect("grown");
        let map = || Channel::map(&file, Way::ToGuest).expect("mapped");
        let mut got = Vec::new();
        let failed = Failed::default();
        read(io::empty(), &mut map(), &failed);
        assert!(failed.into_inner().expect("not poisoned").is_none(), "it has ended");
        write(&mut got, map());
        assert!(got.is_empty());
    }

    /// Says a part, is interrupted, says another, and then cannot be read.
    struct Broken(Vec<io::Result<&'static [u8]>>);

    impl Read for Broken {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let part = self.0.pop().unwrap_or(Ok(&b"more"[..]))?;
            to[..part.len()].copy_from_slice(part);
            Ok(part.len())
        }
    }

    /// Fails if an error is taken for the end of the input.
    #[test]
    fn input_that_cannot_be_read_is_told() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(SIZE as u64).expect("grown");
        let map = || Channel::map(&file, Way::ToGuest).expect("mapped");
        let error = |kind: ErrorKind| Err(io::Error::from(kind));
        // The last one comes first.
        let parts: Vec<io::Result<&[u8]>> = vec![
            error(ErrorKind::IsADirectory),
            Ok(&b"wo"[..]),
            error(ErrorKind::Interrupted),
            Ok(&b"t"[..]),
        ];
        let (failed, mut got) = (Failed::default(), Vec::new());
        let (mut host, guest, broken) = (map(), map(), Broken(parts));
        std::thread::scope(|scope| {
            scope.spawn(|| read(broken, &mut host, &failed));
            write(&mut got, guest);
            assert!(failed.lock().expect("not poisoned").is_some(), "as soon as the end is told");
        });
        let told = failed.into_inner().expect("not poisoned").expect("it is told");
        assert_eq!(told.kind(), ErrorKind::IsADirectory);
        assert_eq!(got, b"two", "the part before the error, and an end");
    }
}
