//! Packets of processes to the server of their colours.

use super::*;
use crate::socket::connect;

/// A server of the first of four colours.
fn server() -> Coloured {
    let map = Map { colours: vec![1 << 12, 1 << 13], banks: vec![], slices: Vec::new() };
    let choice = Choice::new(&map, Some(&[0]), None).unwrap();
    Coloured::new(map, choice, 0, None).unwrap()
}

/// A process connects, and sends its first packet.
fn joined(server: &mut Coloured, packet: &Packet) -> OwnedFd {
    let socket = connect(&server.name).unwrap();
    server.serve(Duration::from_secs(10));
    send(&socket, packet);
    server.serve(Duration::from_secs(10));
    socket
}

/// It has read the colours of before, and has not said hello when the others are asked.
#[test]
fn a_process_that_starts_during_a_request_moves_too() {
    let mut server = server();
    let early = joined(&mut server, &Packet::new(kind::HELLO, ""));
    let starts = connect(&server.name).unwrap();
    let asker = joined(&mut server, &Packet::new(kind::ASK, "1/"));
    let told = [receive(&early), receive(&early)].map(|p| p.unwrap().kind);
    assert_eq!(told, [kind::GO, kind::RECOLOUR]);
    send(&starts, &Packet::new(kind::HELLO, ""));
    server.serve(Duration::from_secs(10));
    assert_eq!(receive(&starts).unwrap().kind, kind::GO);
    let asked = receive(&starts).unwrap();
    assert_eq!((asked.kind, asked.request), (kind::RECOLOUR, 1));
    send(&starts, &Packet { request: 1, ..Packet::new(kind::RECOLOURED, "") });
    server.serve(Duration::from_secs(10));
    assert_eq!(receive(&starts).unwrap().kind, kind::GO);
    assert_eq!(receive(&asker).unwrap().kind, kind::MOVED);
    // A later one reads the new colours.
    let later = joined(&mut server, &Packet::new(kind::HELLO, ""));
    assert_eq!(receive(&later).unwrap().kind, kind::GO);
    assert!(!wait(&mut [PollFd::new(&later, PollFlags::IN)], Duration::ZERO));
}

/// Two are asked for while a program is stopped, and the first asker does not wait for the end.
#[test]
fn an_answer_to_an_asker_that_has_gone_is_not_one_to_the_next() {
    let mut server = server();
    let program = joined(&mut server, &Packet::new(kind::HELLO, ""));
    assert_eq!(receive(&program).unwrap().kind, kind::GO);
    send(&program, &Packet { request: 1 << 32, ..Packet::new(kind::NEED, "") });
    server.serve(Duration::from_secs(10));
    assert_eq!(receive(&program).unwrap().request, 1 << 32, "the program's question");
    drop(joined(&mut server, &Packet::new(kind::ASK, "1/")));
    server.serve(Duration::from_secs(10));
    let asker = joined(&mut server, &Packet::new(kind::ASK, "2/"));
    let asked: Vec<Packet> = (0..2).map(|_| receive(&program).unwrap()).collect();
    assert!(asked.iter().all(|p| p.kind == kind::RECOLOUR));
    let mut answered = |request| {
        send(&program, &Packet { request, ..Packet::new(kind::RECOLOURED, "") });
        server.serve(Duration::from_secs(10));
        assert_eq!(receive(&program).unwrap().kind, kind::GO);
        wait(&mut [PollFd::new(&asker, PollFlags::IN)], Duration::ZERO)
    };
    assert!(!answered(asked[0].request) && answered(asked[1].request));
    let told = [receive(&asker).unwrap().kind, receive(&asker).unwrap().kind];
    assert_eq!(told, [kind::MOVED, kind::DONE]);
}

/// Breaks when a process is looked at whose first pages are not in its frames yet: they would count
/// as wrong, and break a promise.
#[test]
fn a_process_is_looked_at_once_its_first_pages_are_placed() {
    let mut server = server();
    let program = joined(&mut server, &Packet::new(kind::HELLO, ""));
    assert_eq!(server.running().len(), 0);
    send(&program, &Packet::new(kind::PLACED, ""));
    server.serve(Duration::from_secs(10));
    let seen: Vec<u32> = server.running().into_iter().map(|(pid, _)| pid).collect();
    // Frames are shown to root only.
    let shown = Audit::of(std::process::id(), server.choice()).is_ok();
    assert_eq!(seen, if shown { vec![std::process::id()] } else { Vec::new() });
}
