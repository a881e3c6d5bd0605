//! How others see what a running solocore does: a socket for `solocore top`, and Prometheus metrics over HTTP.
//!
//! Rule: the daemon answers between two looks at its engine, one connection after the other; a client that does not read or
//! write within a tenth of a second is let go. Regulation goes on in the kernel meanwhile.
//! Does not cover: who may ask for metrics; bind them to a local address.

use crate::error::LinuxError;
use crate::regulation::CoreBudget;
use crate::shared::{Counts, UNLIMITED};
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a running solocore listens; only root may connect.
pub const SOCKET: &str = "/run/solocore.sock";
const PATIENCE: Duration = Duration::from_millis(100);

/// The places where a daemon answers, until it is dropped.
pub struct Status {
    path: PathBuf,
    socket: UnixListener,
    metrics: Option<TcpListener>,
}

impl Status {
    /// Opens them. Only who holds the [`crate::Instance`] may, so what lies in the socket's place is left over.
    ///
    /// # Errors
    /// The address is taken or not allowed.
    pub fn open(metrics: Option<SocketAddr>) -> Result<Self, LinuxError> {
        Self::at(Path::new(SOCKET), metrics)
    }

    fn at(path: &Path, metrics: Option<SocketAddr>) -> Result<Self, LinuxError> {
        let listen = |address: SocketAddr| {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let refused = |address, e: io::Error| {
            LinuxError::of_io(&format!("--metrics {address}"), &e, "choose another address, like 127.0.0.1:9184")
        };
        let metrics = metrics.map(|address| listen(address).map_err(|e| refused(address, e))).transpose()?;
        let fail =
            |e: io::Error| LinuxError::of_io(&path.display().to_string(), &e, "run as root, with a writable /run");
        let _ = fs::remove_file(path);
        let socket = UnixListener::bind(path).map_err(fail)?;
        let status = Self { path: path.to_owned(), socket, metrics };
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(fail)?;
        status.socket.set_nonblocking(true).map_err(fail)?;
        Ok(status)
    }

    /// Answers whoever waits: `snapshot` on the socket, `metrics` over HTTP.
    pub fn serve(&self, snapshot: impl Fn() -> String, metrics: impl Fn() -> String) {
        while let Ok((mut client, _)) = self.socket.accept() {
            // A client that goes away gets nothing, and that is all.
            let _ = client.set_write_timeout(Some(PATIENCE)).and_then(|()| client.write_all(snapshot().as_bytes()));
        }
        while let Some(Ok((mut client, _))) = self.metrics.as_ref().map(TcpListener::accept) {
            let _ = client
                .set_nonblocking(false)
                .and_then(|()| client.set_read_timeout(Some(PATIENCE)))
                .and_then(|()| client.set_write_timeout(Some(PATIENCE)))
                .and_then(|()| client.read(&mut [0; 4096]))
                .and_then(|_| client.write_all(http(&metrics()).as_bytes()));
        }
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn http(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// What a running solocore says of itself now.
///
/// # Errors
/// None runs, or this process may not ask.
pub fn ask() -> Result<String, LinuxError> {
    let fail = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            LinuxError::Machine("no solocore regulates this machine; start one: solocore run PLAN".to_owned())
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            LinuxError::Machine(format!("{SOCKET}: no answer in 10 s: the daemon is stopped or busy; try again"))
        }
        _ => LinuxError::of_io(SOCKET, &e, "run as root"),
    };
    let mut text = String::new();
    let mut stream = UnixStream::connect(SOCKET).map_err(fail)?;
    stream.set_read_timeout(Some(100 * PATIENCE)).and_then(|()| stream.read_to_string(&mut text)).map_err(fail)?;
    Ok(text)
}

/// One metric: name, kind, meaning, and its value of a core.
type Metric = (&'static str, &'static str, &'static str, fn(&CoreBudget, &Counts) -> f64);

const METRICS: &[Metric] = &[
    ("budget_accesses", "gauge", "Accesses per period that the CPU may make.", |b, _| {
        if b.budget == UNLIMITED { f64::INFINITY } else { b.budget as f64 }
    }),
    ("periods_total", "counter", "Regulation periods that have ended.", |_, c| c.periods as f64),
    ("throttled_periods_total", "counter", "Periods in which the CPU was throttled.", |_, c| {
        c.throttled_periods as f64
    }),
    ("throttled_seconds_total", "counter", "Time for which it was throttled.", |_, c| c.throttled_ns as f64 / 1e9),
    ("accesses_total", "counter", "Accesses, by the counter.", |_, c| c.accesses as f64),
    ("max_accesses_per_period", "gauge", "Most accesses in one period.", |_, c| c.max_accesses_per_period as f64),
    ("periods_over_budget_total", "counter", "Periods with more accesses than budget and one sample.", |_, c| {
        c.periods_over_budget as f64
    }),
    ("periods_skipped_total", "counter", "Periods whose start was never seen.", |_, c| c.periods_skipped as f64),
    ("longest_period_seconds", "gauge", "Longest time between two ticks.", |_, c| c.longest_period_ns as f64 / 1e9),
];

/// The same of a core whose writes are counted apart.
const WRITE_METRICS: &[Metric] = &[
    ("write_budget_accesses", "gauge", "Writes per period that the CPU may make.", |b, _| {
        b.writes
            .map_or(f64::INFINITY, |w| if w.write_budget == UNLIMITED { f64::INFINITY } else { w.write_budget as f64 })
    }),
    ("writes_total", "counter", "Writes, by their counter.", |_, c| c.writes.unwrap_or_default().writes as f64),
    ("max_writes_per_period", "gauge", "Most writes in one period.", |_, c| {
        c.writes.unwrap_or_default().max_writes_per_period as f64
    }),
    (
        "periods_over_write_budget_total",
        "counter",
        "Periods with more writes than their budget and one sample.",
        |_, c| c.writes.unwrap_or_default().periods_over_write_budget as f64,
    ),
];

/// Prometheus' text format.
pub fn prometheus(engine: &str, cores: &[(CoreBudget, Counts)]) -> String {
    let mut out = format!(
        "# HELP solocore_engine Which engine regulates.\n# TYPE solocore_engine gauge\nsolocore_engine{{engine=\"{engine}\"}} 1\n"
    );
    let apart = cores.iter().any(|(budget, _)| budget.writes.is_some());
    for (name, kind, meaning, value) in METRICS.iter().chain(if apart { WRITE_METRICS } else { &[] }) {
        let _ = writeln!(out, "# HELP solocore_{name} {meaning}\n# TYPE solocore_{name} {kind}");
        for (budget, counts) in cores {
            let value = value(budget, counts);
            let value = if value.is_infinite() { "+Inf".to_owned() } else { value.to_string() };
            let _ = writeln!(out, "solocore_{name}{{cpu=\"{}\"}} {value}", budget.cpu);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regulation::WriteBudget;

    #[test]
    fn whoever_asks_is_answered() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        fs::write(&path, "left over").unwrap();
        let status = Status::at(&path, Some(([127, 0, 0, 1], 0).into())).unwrap();
        let address = status.metrics.as_ref().unwrap().local_addr().unwrap();
        let mut local = UnixStream::connect(&path).unwrap();
        let mut remote = std::net::TcpStream::connect(address).unwrap();
        remote.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        status.serve(|| "snapshot".to_owned(), || "metrics\n".to_owned());
        let mut text = String::new();
        local.read_to_string(&mut text).unwrap();
        assert_eq!(text, "snapshot");
        text.clear();
        remote.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nmetrics\n"), "{text}");
        assert!(matches!(Status::at(&dir.path().join("other"), Some(address)), Err(LinuxError::Machine(_))));
        assert!(!dir.path().join("other").exists());
        drop(status);
        assert!(!path.exists());
    }

    #[test]
    fn metrics_have_a_line_per_cpu() {
        let budget = CoreBudget { cpu: 3, planned: 20, budget: 20, sample: 2, writes: None };
        let free = CoreBudget { cpu: 4, planned: u64::MAX, budget: UNLIMITED, sample: 1, writes: None };
        let counts = Counts { periods: 7, throttled_ns: 1_500_000_000, ..Counts::default() };
        let text = prometheus("helper", &[(budget, counts), (free, Counts::default())]);
        assert!(text.contains("solocore_engine{engine=\"helper\"} 1\n"));
        assert!(text.contains("solocore_periods_total{cpu=\"3\"} 7\n"));
        assert!(text.contains("solocore_throttled_seconds_total{cpu=\"3\"} 1.5\n"));
        assert!(text.contains("solocore_budget_accesses{cpu=\"4\"} +Inf\n"));
        assert_eq!(text.lines().filter(|l| l.starts_with("# TYPE")).count(), METRICS.len() + 1);
        let writes = WriteBudget { write_planned: 9, write_budget: 8, write_sample: 1 };
        let counted = Counts { writes: Some(crate::WriteCounts { writes: 70, ..Default::default() }), ..counts };
        let text = prometheus("helper", &[(CoreBudget { writes: Some(writes), ..budget }, counted)]);
        assert!(text.contains("solocore_write_budget_accesses{cpu=\"3\"} 8\n"));
        assert!(text.contains("solocore_writes_total{cpu=\"3\"} 70\n"));
        assert_eq!(text.lines().filter(|l| l.starts_with("# TYPE")).count(), METRICS.len() + WRITE_METRICS.len() + 1);
    }
}
