use super::server::MOST;
use super::*;
use crate::fuzz::{Mutator, inputs};
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

/// The daemon and other scrapers go on within this time, on a machine that is busy with other
/// tests. A server that waits a tenth of a second for each of the clients below takes 50 s.
const SOON: Duration = Duration::from_secs(10);

/// Sets a flag when it is dropped, so that a test that fails ends its other threads as well.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The sockets of a daemon, with the one for plans beside the one for snapshots.
fn status_at(path: &Path, metrics: Option<&Place>) -> Result<Status, LinuxError> {
    Status::at(path, &path.with_extension("plan"), metrics)
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// An answer as a scraper reads it, and how long it took.
fn scrape(address: SocketAddr) -> (String, Duration) {
    let since = Instant::now();
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(10 * SOON)).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    (text, since.elapsed())
}

/// Everything that the other end still says, as text; a connection that is cut says nothing more.
fn rest(client: &mut TcpStream) -> String {
    client.set_read_timeout(Some(10 * SOON)).unwrap();
    let mut got = Vec::new();
    match client.read_to_end(&mut got) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => panic!("it is not let go"),
        _ => String::from_utf8(got).unwrap(),
    }
}

#[test]
fn whoever_asks_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("socket"), dir.path().join("metrics"));
    // Left over by a daemon that was killed.
    drop(UnixListener::bind(&path).unwrap());
    let status = status_at(&path, Some(&Place::Socket(other.clone()))).unwrap();
    for file in [&path, &other] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let http = |request: &str| {
        let mut client = UnixStream::connect(&other).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
    };
    assert!(http("GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "), "too early");
    let mut local = UnixStream::connect(&path).unwrap();
    local.set_read_timeout(Some(10 * SOON)).unwrap();
    let mut text = String::new();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| local.read_to_string(&mut text).unwrap());
        while !asked.is_finished() {
            status.serve(|| "snapshot".to_owned(), || "metrics\n".to_owned());
        }
    });
    assert_eq!(text, "snapshot");
    let text = http("GET /metrics HTTP/1.1\r\n\r\n");
    assert!(
        text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nmetrics\n"),
        "{text}"
    );
    let text = http("HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(text.contains("Content-Length: 8\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    assert!(http("GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    // A place where somebody listens is his, and so is a file.
    let third = dir.path().join("third");
    for taken in [&other, &dir.path().to_owned()] {
        let refused = status_at(&third, Some(&Place::Socket(taken.clone())));
        let error = refused.map(drop).unwrap_err().to_string();
        assert!(error.contains("--metrics") && error.contains("choose another place"), "{error}");
        assert!(!third.exists());
        assert!(check(Some(&Place::Socket(taken.clone()))).is_err());
    }
    drop(status);
    assert!(!path.exists() && !other.exists());
}

#[test]
fn a_look_at_a_place_leaves_nothing_there() {
    let dir = tempfile::tempdir().unwrap();
    let is_free = |name: &str| check(Some(&Place::Socket(dir.path().join(name)))).is_ok();
    assert!(is_free("new") && !is_free("none/new") && !is_free(&"x".repeat(200)));
    drop(UnixListener::bind(dir.path().join("left")).unwrap());
    assert!(is_free("left"), "its process has ended");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(check(Some(&Place::Address(taken.local_addr().unwrap()))).is_err());
    assert!(check(Some(&Place::Address(free_address()))).is_ok());
    assert!(check(None).is_ok());
}

/// Idle, slow, half-closed and endless clients, at all places at once.
#[test]
fn nobody_keeps_others_from_their_answers() {
    let dir = tempfile::tempdir().unwrap();
    let (path, address) = (dir.path().join("socket"), free_address());
    let status = status_at(&path, Some(&Place::Address(address))).unwrap();
    // Longer than what a socket holds for a client that does not read.
    let (snapshot, metrics) = ("s".repeat(4 << 20), "m".repeat(4 << 20));
    let (stop, longest) = (AtomicBool::new(false), std::sync::Mutex::new(Duration::ZERO));
    std::thread::scope(|scope| {
        let stops = Stops(&stop);
        scope.spawn(|| {
            // The daemon is not Sync, so it is this thread's.
            let status = status;
            while !stop.load(Ordering::SeqCst) {
                let since = Instant::now();
                status.serve(|| snapshot.clone(), || metrics.clone());
                let mut longest = longest.lock().unwrap();
                *longest = (*longest).max(since.elapsed());
                drop(longest);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let connect = || TcpStream::connect(address).unwrap();
        let told = |text: &[u8]| {
            let mut client = connect();
            // It may have been let go already.
            let _ = client.write_all(text);
            client
        };
        while !scrape(address).0.starts_with("HTTP/1.1 200 ") {}
        let deaf: Vec<_> = (0..100).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let idle: Vec<_> = (0..300).map(|_| connect()).collect();
        let unread: Vec<_> =
            (0..100).map(|_| told(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")).collect();
        let mut slow: Vec<_> = (0..20).map(|_| told(b"G")).collect();
        let mut closed: Vec<_> = (0..10).map(|_| told(b"GET /metrics HTTP/1.1\r\n\r\n")).collect();
        closed.iter().for_each(|c| drop(c.shutdown(Shutdown::Write)));
        let mut huge = told(format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(1 << 16)).as_bytes());
        for _ in 0..10 {
            let (text, took) = scrape(address);
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("mmm"));
            assert!(took < SOON, "a scraper waited for {took:?}");
        }
        let since = Instant::now();
        let mut top = UnixStream::connect(&path).unwrap();
        top.set_read_timeout(Some(10 * SOON)).unwrap();
        let mut text = String::new();
        top.read_to_string(&mut text).unwrap();
        assert!(text.len() == snapshot.len() && since.elapsed() < SOON, "{:?}", since.elapsed());
        for client in &mut closed {
            assert!(rest(client).starts_with("HTTP/1.1 200 OK\r\n"), "half closed");
        }
        assert!(matches!(rest(&mut huge).get(..12), None | Some("HTTP/1.1 431")));
        // Those who never end their requests are let go in time.
        slow.iter_mut().for_each(|client| assert_eq!(rest(client), ""));
        assert!(since.elapsed() < 3 * SOON, "slow clients are kept for {:?}", since.elapsed());
        drop((deaf, idle, unread, stops));
    });
    let longest = *longest.lock().unwrap();
    assert!(longest < SOON / 10, "the daemon waited for {longest:?}");
}

/// More clients than there may be: the oldest go, the others are served.
#[test]
fn the_number_of_clients_is_bounded() {
    let address = free_address();
    let dir = tempfile::tempdir().unwrap();
    let status = status_at(&dir.path().join("s"), Some(&Place::Address(address))).unwrap();
    status.serve(String::new, || "metrics\n".to_owned());
    let mut clients: Vec<_> = (0..2 * MOST).map(|_| TcpStream::connect(address).unwrap()).collect();
    scrape(address);
    let since = Instant::now();
    for client in &mut clients[..MOST] {
        assert_eq!(rest(client), "");
    }
    assert!(since.elapsed() < SOON / 2, "more than {MOST} clients are kept: {:?}", since.elapsed());
    let last = clients.last_mut().unwrap();
    last.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    assert!(rest(last).ends_with("metrics\n"));
}

/// The next plan that the daemon finds.
fn next_plan(status: &Status) -> (u64, Result<Sent, LinuxError>) {
    let since = Instant::now();
    loop {
        if let Some(found) = status.plan() {
            return found;
        }
        assert!(since.elapsed() < SOON, "no plan comes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_plan_comes_when_its_client_has_said_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let status = status_at(&path, None).unwrap();
    let connect = || UnixStream::connect(path.with_extension("plan")).unwrap();
    // One that stalls, one that dies half-way, and two that say all.
    let mut stalled = connect();
    stalled.write_all(b"{\"format\":").unwrap();
    let mut dying = connect();
    dying.write_all(b"{\"cut").unwrap();
    drop(dying);
    let (number, sent) = next_plan(&status);
    assert!(
        matches!(&sent, Err(LinuxError::Input(why)) if why.contains("is not a plan")),
        "{sent:?}"
    );
    status.decide(number, "refused".to_owned());
    // Longer than what a socket holds.
    let plan = include_str!("../../../tests/plan.json");
    let long = format!("new.json\n{plan}{}", " ".repeat(1 << 20));
    let text = long.as_bytes();
    let (mut first, mut second) = (connect(), connect());
    std::thread::scope(|scope| {
        for client in [&mut first, &mut second] {
            scope.spawn(move || {
                client.write_all(text).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            });
        }
    });
    let both = [next_plan(&status), next_plan(&status)];
    for (number, sent) in &both {
        assert_eq!(sent.as_ref().map(|sent| sent.name.as_str()), Ok("new.json"));
        status.decide(*number, "taken".to_owned());
    }
    for client in [&mut first, &mut second] {
        client.set_read_timeout(Some(SOON)).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "taken");
    }
    assert!(status.plan().is_none(), "the one that stalls has not said all");
}

#[test]
fn a_place_is_an_address_or_a_path() {
    assert_eq!("127.0.0.1:9184".parse(), Ok(Place::Address(([127, 0, 0, 1], 9184).into())));
    assert_eq!(METRICS.parse(), Ok(Place::Socket(PathBuf::from(METRICS))));
    for wrong in ["", "plan.json", "127.0.0.1", "localhost:80"] {
        assert!(wrong.parse::<Place>().unwrap_err().contains("127.0.0.1:9184"), "{wrong}");
    }
}

/// Any request, in any pieces, is answered by a status of HTTP or not at all, and the next scraper
/// is served.
#[test]
fn no_request_ends_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("metrics");
    let status = status_at(&dir.path().join("s"), Some(&Place::Socket(place.clone()))).unwrap();
    status.serve(String::new, || "metrics\n".to_owned());
    let base = b"GET /metrics HTTP/1.1\r\nHost: here\r\nAccept: text/plain\r\n\r\n";
    let long = [b'x'; 9000];
    let words = [&b"\r\n"[..], b"\r\n\r\n", b"HEAD ", b"\0", b": ", b"X: y\r\n", &long];
    let mut mutator = Mutator::new(11);
    let mut seen = std::collections::BTreeMap::<String, u64>::new();
    for _ in 0..inputs() {
        let request = mutator.bytes(base, &words);
        let mut client = UnixStream::connect(&place).unwrap();
        let cut = mutator.below(request.len() + 1);
        // It may be answered, or let go, before all is said.
        let _ = client.write_all(&request[..cut]).and_then(|()| client.write_all(&request[cut..]));
        if mutator.below(8) == 0 {
            continue;
        }
        let _ = client.shutdown(Shutdown::Write);
        client.set_read_timeout(Some(10 * SOON)).unwrap();
        let mut answer = Vec::new();
        match client.read_to_end(&mut answer) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => panic!("no end: {request:?}"),
            _ => {}
        }
        let answer = String::from_utf8(answer).unwrap();
        let status = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        assert!(answer.is_empty() || status.is_some(), "{answer:?} to {request:?}");
        *seen.entry(status.unwrap_or("none").to_owned()).or_default() += 1;
    }
    let statuses: Vec<&str> = seen.keys().map(String::as_str).collect();
    assert_eq!(statuses, ["200", "400", "404", "405", "431", "none"], "{seen:?}");
    let mut last = UnixStream::connect(&place).unwrap();
    last.write_all(base).unwrap();
    let mut text = String::new();
    last.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("metrics\n"));
}

/// Any text at the socket for plans, in any pieces, is left to the daemon as a plan or as an error,
/// and its client has the daemon's answer; the next plan comes.
#[test]
fn no_plan_ends_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let status = status_at(&path, None).unwrap();
    let plan = include_str!("../../../tests/plan.json");
    let base = format!("new.json\n{plan}").into_bytes();
    let value: serde_json::Value = serde_json::from_str(plan).unwrap();
    let words = [&b"\n"[..], b"{", b"\"", b"null", b"-1", b"\0", b"\xff", b"18446744073709551615"];
    let mut mutator = Mutator::new(12);
    let (mut plans, mut errors) = (0u64, 0u64);
    let mut sent = |text: &[u8], cut: usize| {
        let mut client = UnixStream::connect(path.with_extension("plan")).unwrap();
        client.set_read_timeout(Some(10 * SOON)).unwrap();
        // It may be let go before all is said.
        let _ = client.write_all(&text[..cut]).and_then(|()| client.write_all(&text[cut..]));
        client.shutdown(Shutdown::Write).unwrap();
        let (number, found) = next_plan(&status);
        match &found {
            Ok(_) => plans += 1,
            Err(_) => errors += 1,
        }
        status.decide(number, "decided".to_owned());
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "decided");
        found.is_ok()
    };
    for number in 0..inputs() / 2 {
        let text = if number % 2 == 0 {
            mutator.bytes(&base, &words)
        } else {
            format!("new.json\n{}", mutator.json(&value)).into_bytes()
        };
        sent(&text, mutator.below(text.len() + 1));
    }
    assert!(sent(&base, 3));
    assert!(plans > 20 && errors > 20, "{plans} plans and {errors} errors");
}
