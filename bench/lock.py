"""What the bandwidth lock costs a client, and the signals of a job: bw_lock() with bw_unlock(), and sc_job_begin() with sc_job_end(), against a
system call in the same run. The signals of the dynamic-budgeting paper take 2.5 to 7 us together (section V-C).

    python3 bench/lock.py

The page is a plain piece of shared memory that this script hands out in the daemon's place (client/c/solocore_page.h): the
client cannot tell, and neither root nor a kernel with BPF is needed. A missed target is said and is no failure.
"""

import array
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = 4096
REPETITIONS = 101
TARGET_NS = 20


def serve(listener):
    """Grants one client a page, and keeps its connection."""
    connection, _ = listener.accept()
    request = connection.recv(80)
    assert len(request) == 80, "a request of the library's shape"
    page = os.memfd_create("page")
    os.truncate(page, PAGE)
    connection.sendmsg([struct.pack("IIQ", 0, 0, 0)],
                       [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [page]))])
    os.close(page)
    connection.recv(1)


def main():
    with tempfile.TemporaryDirectory() as work:
        program, path = Path(work) / "lock", Path(work) / "socket"
        client = ROOT / "client/c"
        subprocess.run(["make", "-s", "-C", client, f"OUT={work}"], check=True)
        subprocess.run(["cc", "-O2", f"-I{client}", "-o", program, ROOT / "bench/lock.c", f"-L{work}", "-lsolocore",
                        f"-Wl,-rpath,{work}"], check=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
            listener.listen()
            threading.Thread(target=serve, args=(listener,), daemon=True).start()
            out = subprocess.run([program, str(REPETITIONS)], env={**os.environ, "SOLOCORE_SOCKET": str(path)},
                                 check=True, capture_output=True, text=True).stdout
    pairs = [tuple(map(float, line.split())) for line in out.splitlines()]
    lock, job, call = (sorted(column) for column in zip(*pairs))
    for name, times in [("bw_lock + bw_unlock", lock), ("sc_job_begin + sc_job_end", job)]:
        print(f"{name}: median {statistics.median(times):.2f} ns (quartiles {times[len(times) // 4]:.2f} and {times[3 * len(times) // 4]:.2f})")
    print(f"getpid(): median {statistics.median(call):.1f} ns; {len(lock)} repetitions, shared library")
    if statistics.median(lock) >= TARGET_NS:
        print(f"missed: the target is below {TARGET_NS} ns", file=sys.stderr)


if __name__ == "__main__":
    main()
