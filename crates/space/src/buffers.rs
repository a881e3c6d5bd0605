//! What a program and a reserve say to each other about a buffer.
//!
//! Rule: client/c/solocore_reserve.h has the layout; one request, and one answer, with which the
//! file comes. This is the reserve's side. Does not cover: who may ask, and how long a buffer lives
//! ([`crate::lend`]).

use crate::error::SpaceError;
use crate::hold::Hold;
use crate::map::{Choice, PAGE};
use crate::placed::Placed;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The address of the reserve's socket, in the kernel's name space.
pub(crate) const NAME: &str = "solocore-reserve";
const REQUEST: u32 = 0x6675_6273;
const PROTOCOL: u32 = 1;
const REQUEST_BYTES: usize = 80;
const TASK: std::ops::Range<usize> = 16..REQUEST_BYTES;

/// `enum sc_buffer_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ok = 0,
    None = 1,
    Unknown = 3,
    Few = 4,
    Argument = 5,
    Refused = 6,
    System = 7,
}

/// A request for a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    protocol: u32,
    bytes: u64,
    task: String,
}

impl Request {
    /// The request in a message; `None`: the message is another one.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let four = |at: usize| Some(u32::from_ne_bytes(message.get(at..at + 4)?.try_into().ok()?));
        if message.len() != REQUEST_BYTES || four(0)? != REQUEST {
            return None;
        }
        let task = message.get(TASK)?.split(|&b| b == 0).next()?;
        Some(Self {
            protocol: four(4)?,
            bytes: u64::from_ne_bytes(message.get(8..16)?.try_into().ok()?),
            task: String::from_utf8_lossy(task).into_owned(),
        })
    }

    /// Makes the buffer from the frames of the task; `None`: `tasks` are of no plan.
    fn serve(
        &self,
        tasks: Option<&BTreeMap<String, Choice>>,
        hold: &mut Hold,
    ) -> Result<Placed, Status> {
        if self.protocol != PROTOCOL {
            return Err(Status::Refused);
        }
        let choice = tasks.ok_or(Status::None)?.get(&self.task).ok_or(Status::Unknown)?;
        let pages = usize::try_from(self.bytes.div_ceil(PAGE)).ok().filter(|&n| n > 0);
        let pages = pages.ok_or(Status::Argument)?;
        match Placed::new(pages, choice, hold) {
            Ok(placed) => placed.ok_or(Status::Few),
            Err(SpaceError::Input(_) | SpaceError::Machine(_)) => Err(Status::System),
        }
    }

    /// Answers a program. Returns the buffer that it has now; `Err`: the program has gone.
    pub fn answer(
        &self,
        socket: &OwnedFd,
        tasks: Option<&BTreeMap<String, Choice>>,
        hold: &mut Hold,
    ) -> Result<Option<Placed>, rustix::io::Errno> {
        let made = self.serve(tasks, hold);
        let status = made.as_ref().err().copied().unwrap_or(Status::Ok);
        let placed = made.ok();
        let bytes = placed.as_ref().map_or(0, Placed::bytes) as u64;
        let mut message = PROTOCOL.to_ne_bytes().to_vec();
        message.extend((status as u32).to_ne_bytes());
        message.extend(bytes.to_ne_bytes());
        send(socket, &message, placed.as_ref().map(|p| p.file().as_fd()))?;
        Ok(placed)
    }
}

/// Sends an answer, and a file with it.
fn send(
    socket: &OwnedFd,
    message: &[u8],
    file: Option<BorrowedFd<'_>>,
) -> Result<(), rustix::io::Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if file.is_some() {
        control.push(SendAncillaryMessage::ScmRights(file.as_slice()));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(message)], &mut control, flags)?;
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A request as the library in C makes it.
    pub fn request(task: &str, bytes: u64) -> Vec<u8> {
        let mut message = REQUEST.to_ne_bytes().to_vec();
        message.extend(PROTOCOL.to_ne_bytes());
        message.extend(bytes.to_ne_bytes());
        message.extend(task.as_bytes());
        message.resize(REQUEST_BYTES, 0);
        message
    }

    /// Whether the C compiler takes a program.
    pub fn compiles(program: &str) -> bool {
        let mut compiler = std::process::Command::new("cc")
            .args(["-x", "c", "-std=gnu11", "-fsyntax-only", "-"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("there is a C compiler");
        let mut input = compiler.stdin.take().expect("a pipe");
        std::io::Write::write_all(&mut input, program.as_bytes()).expect("written");
        drop(input);
        compiler.wait().expect("it ends").success()
    }

    #[test]
    fn requests_are_told_from_other_messages() {
        let message = request("video", 5000);
        let read = Request::decode(&message);
        let task = "video".to_owned();
        assert_eq!(read, Some(Request { protocol: PROTOCOL, bytes: 5000, task }));
        assert_eq!(Request::decode(&message[..79]), None);
        assert_eq!(Request::decode(&[0; REQUEST_BYTES]), None);
    }

    /// The C compiler's values.
    #[test]
    fn the_numbers_are_those_of_the_library() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../client/c");
        let mut program = format!(
            "#include \"{folder}/solocore_buffer.h\"\n#include \"{folder}/solocore_reserve.h\"\n\
             _Static_assert(SC_RESERVE_REQUEST == {REQUEST}u && SC_RESERVE_PROTOCOL == {PROTOCOL}, \
             \"words\");\n_Static_assert(sizeof(struct sc_buffer_request) == {REQUEST_BYTES} && \
             __builtin_offsetof(struct sc_buffer_request, task) == {}, \"layout\");\n\
             _Static_assert(sizeof SC_RESERVE_SOCKET == {} + 1, \"name\");\n",
            TASK.start,
            NAME.len()
        );
        for (name, status) in [
            ("OK", Status::Ok),
            ("NONE", Status::None),
            ("UNKNOWN", Status::Unknown),
            ("FEW", Status::Few),
            ("ARGUMENT", Status::Argument),
            ("REFUSED", Status::Refused),
            ("SYSTEM", Status::System),
        ] {
            program +=
                &format!("_Static_assert(SC_BUFFER_{name} == {}, \"{name}\");\n", status as u32);
        }
        assert!(compiles(&program));
    }
}
