//! A program that is a client as a whole, and holds the lock in some of its functions.
//!
//! Rule: this process asks the running solocore for a page that is its own and its descendants'
//! (`SC_SCOPE_PROGRAM`), and sets probes that write it; the program is its child. Both are removed
//! when the process ends.
//! Does not cover: a process without root, which cannot set probes.

use super::door::SOCKET;
use super::functions::{Call, Calls, Function, Watch};
use crate::contract::{SC_GRANTED, SC_PROTOCOL, SC_SCOPE_PROGRAM, sc_answer, sc_request};
use crate::error::LinuxError;
use crate::host::threads::start_of;
use crate::sys::seqpacket;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Number of the only program.
const ONLY: u32 = 0;

/// A program whose calls hold the lock; the page is returned when this is dropped.
pub struct Sections {
    watch: Watch,
    _page: OwnedFd,
    _connection: OwnedFd,
    /// Longest time for which a section counts, in nanoseconds; 0: no limit.
    pub max_hold_ns: u64,
}

impl Sections {
    /// Makes calls of these functions by descendants of this process hold the lock from now on.
    /// `None`: no solocore with a lock runs here.
    ///
    /// # Errors
    /// solocore refuses the request, or the kernel refuses the probes.
    pub fn of(functions: &[Function]) -> Result<Option<Self>, LinuxError> {
        let path = std::env::var_os("SOLOCORE_SOCKET").map_or_else(|| SOCKET.into(), PathBuf::from);
        let refused = |e: io::Error| {
            LinuxError::of_io(
                &format!("the solocore that serves {}", path.display()),
                &e,
                "start one, and run this as root or as a member of its group",
            )
        };
        let connection = match seqpacket::connect(&path) {
            Ok(connection) => connection,
            Err(e) if nobody_is_there(&e) => return Ok(None),
            Err(e) => return Err(refused(e)),
        };
        let (page, max_hold_ns) = granted(&connection).map_err(refused)?;
        let me = std::process::id();
        let started = start_of(me, me).unwrap_or(0);
        let mut watch = Watch::open(false)?;
        watch.add(ONLY, page.as_fd(), (me, started), false)?;
        functions.iter().try_for_each(|f| watch.call(ONLY, f, Call::Section))?;
        Ok(Some(Self { watch, _page: page, _connection: connection, max_hold_ns }))
    }

    /// Counts and times of the calls so far.
    pub fn seen(&self) -> Calls {
        self.watch.seen(ONLY, Call::Section)
    }
}

fn nobody_is_there(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Asks for a page. Returns the page and the longest time of a section, ns.
fn granted(connection: &OwnedFd) -> io::Result<(OwnedFd, u64)> {
    let request = sc_request {
        protocol: SC_PROTOCOL,
        scope: SC_SCOPE_PROGRAM,
        thread: std::process::id(),
        ..sc_request::new_zeroed()
    };
    seqpacket::send(connection, request.as_bytes(), None)?;
    let mut bytes = [0u8; size_of::<sc_answer>()];
    let (length, page) = seqpacket::receive_with(connection, &mut bytes)?;
    let answer = sc_answer::read_from_bytes(&bytes[..length]);
    match (answer, page) {
        (Ok(answer), Some(page)) if answer.verdict == SC_GRANTED => Ok((page, answer.max_hold_ns)),
        (Ok(answer), _) => Err(io::Error::other(format!(
            "it gives no page (verdict {} of solocore_page.h)",
            answer.verdict
        ))),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}
