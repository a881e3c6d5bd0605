//! An owner exists as long as the thread with its number and its start time. No message of a client
//! ends the service.

use super::*;
use crate::contract::{self, sc_answer, sc_request};
use crate::fuzz::{Mutator, inputs};
use crate::regulate::attach::Attached;
use crate::regulate::engine;
use crate::regulate::lock::Serving;
use zerocopy::{FromBytes, FromZeros};

#[test]
fn a_thread_is_a_number_and_a_start() {
    let me = std::process::id();
    let mine = start_of(me, me).expect("this process lives");
    assert!(lives(
        me,
        Owner {
            scope: Scope::Thread,
            number: me,
            started: mine,
            endless: false,
            task: None,
            slot: None
        }
    ));
    assert!(!lives(
        me,
        Owner {
            scope: Scope::Thread,
            number: me,
            started: mine + 1,
            endless: false,
            task: None,
            slot: None
        }
    ));
}

/// Descriptors of clients' pages that this process has.
fn pages_open() -> usize {
    let all = fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let is_page = |text: &String| {
        let has = |line: String| text.lines().any(|l| l == line);
        has("map_type:\t2".to_owned())
            && has(format!("value_size:\t{}", super::super::table::PAGE_BYTES))
            && has("max_entries:\t1".to_owned())
    };
    all.filter_map(|e| fs::read_to_string(e.path()).ok()).filter(is_page).count()
}

/// A request as a client of this process would send it.
fn request(scope: u32, task: &str) -> sc_request {
    let thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    let mut request = sc_request { protocol: 1, scope, thread, ..sc_request::new_zeroed() };
    contract::set_text(&mut request.task, task);
    request
}

/// The answer to a request. The page that comes with it is closed at once.
fn ask(socket: &OwnedFd, request: &[u8]) -> Option<sc_answer> {
    seqpacket::send(socket, request, None).ok()?;
    if seqpacket::wait(&[socket.as_fd()], Duration::from_secs(5)) != [true] {
        return None;
    }
    let mut buffer = [0; 64];
    let (got, _page) = seqpacket::receive_with(socket, &mut buffer).ok()?;
    sc_answer::read_from_bytes(&buffer[..got]).ok()
}

/// Waits until the service has no client.
fn until_nobody_is_there(service: &Service) {
    let since = Instant::now();
    while !service.clients().is_empty() {
        assert!(since.elapsed() < Duration::from_secs(10), "clients stay: {:?}", service.clients());
        std::thread::yield_now();
    }
}

/// After any messages in any order, the next client is served, and no page is lost.
#[test]
fn no_message_ends_the_service_or_keeps_a_page() {
    const AT_A_TIME: usize = 8;
    let object = match engine::load() {
        Ok(object) => object,
        Err(e) => return eprintln!("not tested: {e}"),
    };
    let events = Attached::default();
    let serving = Serving {
        look_ns: 100_000,
        max_hold_ns: 1_000_000,
        cpus: 1,
        tasks: vec!["video".to_owned(), "nav".to_owned()],
        holders: true,
        slots_only: false,
    };
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("client.sock");
    let table = Table::new(&object, &events, serving).unwrap();
    let service = Service::start(table, ServiceOptions::new(&socket, "nogroup"), 0).unwrap();
    let mut mutator = Mutator::new(22);
    let scopes = [
        request(contract::SC_SCOPE_THREAD, ""),
        request(contract::SC_SCOPE_THREAD, "video"),
        request(contract::SC_SCOPE_PROGRAM, "nav"),
        request(contract::SC_SCOPE_SLOT, "nav/1/device-input"),
    ];
    let mut clients: Vec<OwnedFd> = Vec::new();
    let (mut granted, mut refused) = (0, 0);
    for _ in 0..inputs() {
        if clients.len() < AT_A_TIME {
            clients.push(seqpacket::connect(&socket).unwrap());
        }
        let at = mutator.below(clients.len());
        let whole = scopes[mutator.below(scopes.len())];
        match mutator.below(8) {
            0 => drop(clients.swap_remove(at)),
            1 => drop(rustix::net::shutdown(&clients[at], rustix::net::Shutdown::Both)),
            // An answer, so that some get pages; the others go on meanwhile.
            2 => match ask(&clients[at], whole.as_bytes()).map(|answer| answer.verdict) {
                Some(contract::SC_GRANTED) => granted += 1,
                Some(_) => refused += 1,
                None => drop(clients.swap_remove(at)),
            },
            _ => {
                let words = [&b"video"[..], &[0xff; 8], &1u32.to_ne_bytes(), &[0; 80]];
                let message = mutator.bytes(whole.as_bytes(), &words);
                if seqpacket::send(&clients[at], &message, None).is_err() {
                    drop(clients.swap_remove(at));
                }
            }
        }
    }
    assert!(granted > 0 && refused > 0, "{granted} granted, {refused} refused: nothing was tested");
    drop(clients);
    until_nobody_is_there(&service);
    let kept = pages_open();
    // Those that came back, for the next clients of their user.
    assert!(kept <= AT_A_TIME, "{kept} pages are kept");
    let last = seqpacket::connect(&socket).unwrap();
    let answer = ask(&last, request(contract::SC_SCOPE_THREAD, "video").as_bytes());
    assert_eq!(answer.map(|a| a.verdict), Some(contract::SC_GRANTED));
    drop(last);
    drop(service);
    assert_eq!(pages_open(), 0);
}
