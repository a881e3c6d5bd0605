"""`solocore run --metrics` beside clients that mean no good, on the machine that runs the tests.

The server alone is tested in `crates/linux/src/host/status`; here: the run's watchdog, its signals, its memory and other scrapers.
"""

import http.client
import os
import signal
import socket
import time
from pathlib import Path

import pytest
from conftest import refused
from test_run import LEAVE, planned  # noqa: F401

# Other tests run beside this one. The server that took one client after the other kept a scraper for 5.2 s.
SOON = 4.0
SOCKET = Path("/run/solocore-metrics.sock")


class AtPath(http.client.HTTPConnection):
    """HTTP over a socket in the file system."""

    def __init__(self, path):
        super().__init__("solocore", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(str(self.path))


def scrape(connection):
    """The metrics, and the time that they took."""
    since = time.monotonic()
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    text = answer.read().decode()
    return answer.status, text, time.monotonic() - since


def looked(connect):
    """Waits for the first look at its counts, before which it says 503."""
    end = time.monotonic() + 10
    while scrape(connect())[0] == 503 and time.monotonic() < end:
        time.sleep(0.02)


def resident(pid):
    """KiB of memory."""
    return next(int(line.split()[1]) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))


class Running:
    """A run with a service manager that listens."""

    def __init__(self, command, *options):
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(command.dir / "notify"))
        self.manager.settimeout(20)
        command.env["NOTIFY_SOCKET"] = str(command.dir / "notify")
        self.process = command.start("run", "plan.json", *LEAVE, *options)
        try:
            assert self.manager.recv(100) == b"READY=1"
        except TimeoutError:
            self.process.kill()
            pytest.skip(self.process.stderr.read().decode().strip().splitlines()[-1])

    def alive(self, seconds):
        """Longest time between two signs of life, over a time."""
        end, last, longest = time.monotonic() + seconds, time.monotonic(), 0
        while last < end:
            self.manager.recv(100)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        return longest

    def drain(self):
        """Throws away what has come."""
        self.manager.setblocking(False)
        try:
            while True:
                self.manager.recv(100)
        except BlockingIOError:
            self.manager.settimeout(20)

    def end(self):
        """Asks for the end; the time until it says that it ends, and its exit code."""
        self.drain()
        since = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        while self.manager.recv(100) != b"STOPPING=1":
            pass
        took = time.monotonic() - since
        return took, self.process.wait(20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)
        self.process.stdout.close()
        self.process.stderr.close()
        self.manager.close()


@pytest.fixture
def regulates(planned):  # noqa: F811
    """A command with a plan that this machine can run."""
    done = planned("run", "plan.json", *LEAVE, "--duration", "100 ms")
    if done.code == 3:
        pytest.skip(done.err.strip().splitlines()[-1])
    assert done.code == 0, done.err
    return planned


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_clients_that_mean_no_good(regulates):
    port = free_port()

    def connected(text=b""):
        client = socket.create_connection(("127.0.0.1", port), timeout=10)
        client.setblocking(False)
        say(client, text)
        return client

    def say(client, text):
        try:
            client.send(text)
        except OSError:
            pass  # It has been let go.

    def scraped():
        status, text, took = scrape(http.client.HTTPConnection("127.0.0.1", port, timeout=10))
        assert status == 200 and "solocore_periods_total{cpu=" in text
        return took

    with Running(regulates, "--metrics", f"127.0.0.1:{port}") as run:
        looked(lambda: http.client.HTTPConnection("127.0.0.1", port, timeout=10))
        for _ in range(20):
            scraped()
        before = resident(run.process.pid)
        run.drain()
        clients = [connected() for _ in range(600)]
        slow = [connected(b"G") for _ in range(50)]
        for request in (b"", b"GET /metrics HTTP/1.1\r\n", b"GET /metrics HTTP/1.1\r\n\r\n"):
            clients.append(connected(request))
            clients[-1].shutdown(socket.SHUT_WR)
        clients += [connected(b"GET / HTTP/1.1\r\nX: " + b"x" * 1_000_000) for _ in range(20)]
        longest = 0
        for _ in range(3):
            longest = max(longest, scraped())
            for client in slow:
                say(client, b"E")
            # Nobody who is let go is missed: as many come again.
            clients += [connected() for _ in range(50)]
            run.drain()
            assert run.alive(0.3) < SOON
        assert longest < SOON, f"a scraper waited for {longest:.2f} s"
        grown = resident(run.process.pid) - before
        assert grown < 4096, f"its memory grew by {grown} KiB"
        took, code = run.end()
        assert took < SOON and code == 0, f"it took {took:.2f} s to hear of a signal, exit code {code}"
        for client in clients + slow:
            client.close()


def test_a_socket_is_the_default(regulates):
    with Running(regulates, "--metrics") as run:
        assert SOCKET.stat().st_mode & 0o777 == 0o600
        looked(lambda: AtPath(SOCKET))
        status, text, took = scrape(AtPath(SOCKET))
        assert status == 200 and "solocore_engine" in text and took < SOON
        connection = AtPath(SOCKET)
        connection.request("GET", "/nothing")
        assert connection.getresponse().status == 404
        if os.geteuid() == 0:
            other = os.fork()
            if other == 0:
                os.setgid(65534)
                os.setuid(65534)
                try:
                    AtPath(SOCKET).connect()
                except PermissionError:
                    os._exit(0)
                os._exit(1)
            assert os.waitpid(other, 0)[1] == 0, "anybody may connect"
        run.end()
    assert not SOCKET.exists()


def test_places_that_cannot_be(planned):  # noqa: F811
    done = planned("run", *LEAVE, "--metrics", "plan.json")
    assert done.code == 2 and "127.0.0.1:9184" in done.err and str(SOCKET) in done.err
    done = planned("run", "plan.json", *LEAVE, "--duration", "100 ms", "--metrics", str(planned.dir / "plan.json"))
    refused(done, "--metrics", "choose another place", codes=(3,))
    assert (planned.dir / "plan.json").is_file()
