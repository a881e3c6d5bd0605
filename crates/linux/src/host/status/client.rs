//! One client of a running solocore, from its connection to the end of its answer.
//!
//! Rule: nothing here waits. A client has [`REQUEST`] for its request, of at most [`LONGEST`] bytes
//! of HTTP, and [`ANSWER`] to read the answer; then it is disconnected. Each connection has one
//! answer. A plan may have [`LONGEST_PLAN`] bytes, and may take [`ANSWER`]. It ends where the
//! client has said all; a plan that is cut off is no longer JSON, so the daemon refuses it. Does
//! not cover: how many clients there may be (`server`).

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time from the connection to the end of the request.
pub(super) const REQUEST: Duration = Duration::from_secs(1);
/// Time from there to the end of the answer. A daemon that is busy may take some of it.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// Bytes of a request with all its headers. A scraper's has some hundred.
const LONGEST: usize = 8192;
const HEADERS: usize = 64;
/// Bytes of another plan.
pub(super) const LONGEST_PLAN: usize = 16 << 20;

/// The kind of answer that a listener gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The whole state, once; it sends nothing.
    Snapshot,
    /// The metrics, by HTTP.
    Metrics,
    /// The daemon's answer to another plan, which it sends.
    Plan,
}

impl Kind {
    fn longest(self) -> usize {
        if self == Self::Plan { LONGEST_PLAN } else { LONGEST }
    }
}

#[derive(Debug)]
enum State {
    /// Its request is not complete.
    Asking(Vec<u8>),
    /// It waits for the snapshot with this number.
    Waiting(u64),
    /// Its plan is complete.
    Asked(Vec<u8>),
    /// The daemon has its plan, under this number.
    Deciding(u64),
    /// `sent` bytes of the answer are sent: its head, then its body.
    Answering { head: Vec<u8>, body: Arc<str>, sent: usize },
    /// All is sent. Its further bytes are thrown away: to close now could take the answer from it.
    Leaving,
}

/// The texts that clients are answered with.
pub(super) struct Figures<'a> {
    /// Number of the last snapshot that was made.
    pub made: u64,
    pub snapshot: &'a Arc<str>,
    pub metrics: &'a Arc<str>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Client {
    pub socket: OwnedFd,
    pub kind: Kind,
    /// Time of its disconnection.
    pub until: Instant,
    state: State,
}

impl Client {
    /// A client that has just connected; `wanted`: number of the snapshot that it waits for.
    pub fn new(socket: OwnedFd, kind: Kind, wanted: u64) -> Self {
        let (state, patience) = match kind {
            Kind::Snapshot => (State::Waiting(wanted), ANSWER),
            Kind::Metrics => (State::Asking(Vec::new()), REQUEST),
            Kind::Plan => (State::Asking(Vec::new()), ANSWER),
        };
        Self { socket, kind, until: Instant::now() + patience, state }
    }

    /// Events of its socket that the client waits for, if any.
    pub fn waits_for(&self) -> Option<PollFlags> {
        match self.state {
            State::Asking(_) | State::Leaving => Some(PollFlags::IN),
            State::Answering { .. } => Some(PollFlags::OUT),
            State::Waiting(_) | State::Asked(_) | State::Deciding(_) => None,
        }
    }

    /// Takes the plan that has come, if there is one; it has this number from now on.
    pub fn asked(&mut self, number: u64) -> Option<Vec<u8>> {
        let State::Asked(plan) = &mut self.state else { return None };
        let plan = std::mem::take(plan);
        self.state = State::Deciding(number);
        Some(plan)
    }

    /// The daemon's answer to the plan with this number.
    pub fn decided(&mut self, number: u64, answer: &Arc<str>) {
        if matches!(self.state, State::Deciding(of) if of == number) {
            self.answer(Vec::new(), Arc::clone(answer));
        }
    }

    /// Does what can be done without waiting; `None`: it is to be let go.
    pub fn go_on(mut self, figures: &Figures<'_>) -> Option<Self> {
        if Instant::now() >= self.until {
            return None;
        }
        if let State::Asking(got) = &mut self.state {
            let ended = read(&self.socket, got, self.kind.longest())?;
            if self.kind == Kind::Plan {
                return self.asking_plan(ended);
            }
            let asked = request(got);
            let (status, text) = match asked {
                Request::Partial if ended => return None,
                Request::Partial => return Some(self),
                Request::Refused(status, why) => (status, Arc::from(why)),
                _ if figures.metrics.is_empty() => (STARTING, Arc::from("The run is starting.\n")),
                Request::Get | Request::Head => (OK, Arc::clone(figures.metrics)),
            };
            let head = head(status, text.len());
            self.answer(head, if asked == Request::Head { Arc::from("") } else { text });
        }
        if matches!(self.state, State::Waiting(number) if number <= figures.made) {
            self.answer(Vec::new(), Arc::clone(figures.snapshot));
        }
        if let State::Answering { head, body, sent } = &mut self.state {
            while *sent < head.len() + body.len() {
                let rest = head.get(*sent..).filter(|rest| !rest.is_empty());
                let rest = rest.unwrap_or_else(|| &body.as_bytes()[*sent - head.len()..]);
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                match rustix::net::send(&self.socket, rest, flags) {
                    Ok(bytes) => *sent += bytes,
                    Err(Errno::AGAIN | Errno::INTR) => return Some(self),
                    Err(_) => return None,
                }
            }
            rustix::net::shutdown(&self.socket, Shutdown::Write).ok()?;
            self.state = State::Leaving;
            self.until = Instant::now() + REQUEST;
        }
        if matches!(self.state, State::Leaving) && read(&self.socket, &mut Vec::new(), LONGEST)? {
            return None;
        }
        Some(self)
    }

    /// More of a plan has come; `ended`: the client has said all.
    fn asking_plan(mut self, ended: bool) -> Option<Self> {
        let State::Asking(plan) = &mut self.state else { return Some(self) };
        if plan.len() > LONGEST_PLAN {
            return None;
        }
        if ended {
            self.state = State::Asked(std::mem::take(plan));
            self.until = Instant::now() + ANSWER;
        }
        Some(self)
    }

    fn answer(&mut self, head: Vec<u8>, body: Arc<str>) {
        self.until = Instant::now() + ANSWER;
        self.state = State::Answering { head, body, sent: 0 };
    }
}

const OK: &str = "200 OK";
const STARTING: &str = "503 Service Unavailable";

#[derive(Debug, PartialEq, Eq)]
enum Request {
    Partial,
    Get,
    Head,
    /// A status, and why.
    Refused(&'static str, &'static str),
}

/// The request in the bytes that have come.
fn request(got: &[u8]) -> Request {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let large = Request::Refused(
        "431 Request Header Fields Too Large",
        "A request may have 8192 bytes and 64 headers.\n",
    );
    match parsed.parse(got) {
        Ok(_) if got.len() > LONGEST => return large,
        Ok(httparse::Status::Partial) => return Request::Partial,
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return large,
        Err(_) => return Request::Refused("400 Bad Request", "This is not a request of HTTP/1.\n"),
    }
    let path = parsed.path.and_then(|path| path.split('?').next());
    match (parsed.method, path) {
        (Some("GET"), Some("/" | "/metrics")) => Request::Get,
        (Some("HEAD"), Some("/" | "/metrics")) => Request::Head,
        (Some("GET" | "HEAD"), _) => {
            Request::Refused("404 Not Found", "The metrics are at /metrics.\n")
        }
        _ => Request::Refused("405 Method Not Allowed", "The metrics are read by GET.\n"),
    }
}

fn head(status: &str, length: usize) -> Vec<u8> {
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n{allow}Content-Length: \
            {length}\r\nConnection: close\r\n\r\n"
    )
    .into_bytes()
}

/// Takes what has come, up to one byte more than `longest`; has the other end said all?
/// `None`: the connection is broken.
fn read(socket: &OwnedFd, got: &mut Vec<u8>, longest: usize) -> Option<bool> {
    let mut part = [0; 2048];
    while got.len() <= longest {
        let room = part.len().min(longest + 1 - got.len());
        match rustix::net::recv(socket, &mut part[..room], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Some(true),
            Ok((bytes, _)) => got.extend_from_slice(&part[..bytes]),
            Err(Errno::AGAIN | Errno::INTR) => return Some(false),
            Err(_) => return None,
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_far_as_they_are_needed() {
        let of = |text: &str| request(text.as_bytes());
        assert_eq!(of("GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"), Request::Get);
        assert_eq!(of("GET /metrics?x=1 HTTP/1.0\r\n\r\n"), Request::Get);
        assert_eq!(of("HEAD / HTTP/1.1\r\n\r\n"), Request::Head);
        for partial in ["", "G", "GET /metrics HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: h\r\n"] {
            assert_eq!(of(partial), Request::Partial, "{partial:?}");
        }
        let status = |text: &str| match of(text) {
            Request::Refused(status, _) => status[..3].to_owned(),
            other => panic!("{text:?}: {other:?}"),
        };
        assert_eq!(status("GET /other HTTP/1.1\r\n\r\n"), "404");
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "405");
        assert_eq!(status("\0\0\0"), "400");
        let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(LONGEST));
        assert_eq!(status(&long), "431");
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: x\r\n".repeat(HEADERS + 1));
        assert_eq!(status(&many), "431");
    }
}
