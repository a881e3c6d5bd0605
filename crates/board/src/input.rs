//! The input of a shell on its way from a pipe or a file of the host to the guest.
//!
//! Problem: typed at a terminal, input can get lost. The end of the input is Ctrl-D there, and that
//! ends a shell only after the shell has prepared the terminal for its prompt. Until then the
//! kernel takes Ctrl-D for the end of a line, and the shell reads a NUL in its place and waits for
//! more. Rule: the input goes through shared memory into a pipe, as bytes, and its end is the pipe's
//! end. Does not cover: shells for a user who types, as these have the terminal itself.

use crate::channel::{Channel, Kind};
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

/// Interval between two looks at the ring, by the clock of the side that looks: the guest for
/// input, the host for room.
const LOOK: Duration = Duration::from_millis(10);
/// Longest part of the input in a message, bytes.
const PART: usize = 1 << 16;

/// The host's side: sends the input to its end, and then an empty message.
pub fn read(mut from: impl Read, to: &mut Channel) {
    let mut buffer = vec![0; PART];
    loop {
        let n = match from.read(&mut buffer) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            // Input that cannot be read has ended.
            read => read.unwrap_or(0),
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
            scope.spawn(|| read(typed.as_slice(), &mut host));
            write(&mut got, guest);
        });
        assert!(got == typed, "{} of {} bytes", got.len(), typed.len());
    }

    #[test]
    fn no_input_ends_at_once() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(SIZE as u64).expect("grown");
        let map = || Channel::map(&file, Way::ToGuest).expect("mapped");
        let mut got = Vec::new();
        read(std::io::empty(), &mut map());
        write(&mut got, map());
        assert!(got.is_empty());
    }
}
