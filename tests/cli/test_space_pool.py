"""Cache colours and DRAM banks: maps, programs in their colours, recolouring, and what is refused.

Frames are shown to root only, and moving pages needs Linux 6.8: where one is missing, what needs it is skipped, and the refusal is tested
in its place. The colours are those of a map (32, by bits 12 to 16), so the tests do not depend on the machine's caches.
"""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT, refused

MAP = "".join(f"# colour: {bit}\n" for bit in range(12, 17)) + "13 20\n14 21\n"
COLOURED = ["exec", "--map", "map.txt", "--colors", "0-7", "--pages", "pages.json"]

# Heap, large blocks, threads' stacks, a file mapped privately and written to, rights that change, rewritten code.
BUSY = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <unistd.h>
static char big[3 << 20] = {1};
static void fail(const char *what) { printf("BAD %s\n", what); exit(9); }
static void *work(void *seed)
{
	unsigned s = (unsigned)(long)seed;
	char stack[100000];
	memset(stack, (int)s, sizeof stack);
	for (int i = 0; i < 400; i++) {
		size_t n = rand_r(&s) % 300000 + 1;
		unsigned char *p = malloc(n), c = s & 255;
		memset(p, c, n);
		if (i % 3 == 0)
			p = realloc(p, n * 2);
		for (size_t k = 0; k < n; k += 991)
			if (p[k] != c)
				fail("heap");
		free(p);
	}
	return (void *)(long)stack[5000];
}
int main(int count, char **arguments)
{
	pthread_t t[3];
	memset(big, 7, sizeof big);
	for (long i = 0; i < 3; i++)
		pthread_create(&t[i], 0, work, (void *)(i + 1));
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], 0);
	int fd = open(arguments[0], O_RDONLY);
	char *file = mmap(0, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
	char first = file[0];
	mprotect(file, 8192, PROT_READ | PROT_WRITE);
	file[1] = 'x';
	if (file[0] != first || file[1] != 'x')
		fail("file");
	char *none = mmap(0, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(none, 1 << 20, PROT_READ | PROT_WRITE);
	memset(none, 3, 1 << 20);
	char *fixed = mmap((void *)0x200000000000, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (fixed != (void *)0x200000000000)
		fail("fixed");
	memset(fixed, 4, 1 << 16);
	char *ready = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	char *moved = mremap(ready, 1 << 20, 4 << 20, MREMAP_MAYMOVE);
	memset(moved + (2 << 20), 5, 2 << 20);
	char *read_only = mmap(0, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (read_only[5000])
		fail("zero");
	mprotect(read_only, 1 << 16, PROT_READ | PROT_WRITE);
	read_only[5000] = 1;
	char *locked = mmap(0, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mlock(locked, 1 << 17);
	memset(locked, 6, 1 << 18);
	madvise(locked, 1 << 16, MADV_DONTNEED);
	if (moved[2 << 20] != 5 || none[77777] != 3 || big[1 << 20] != 7 || locked[1 << 17] != 6 || fixed[9] != 4)
		fail("contents");
	if (count > 1) {
		/* Waits to be recoloured, and keeps writing meanwhile. */
		unsigned long n = 0;
		puts("ready");
		fflush(stdout);
		while (access(arguments[1], F_OK)) {
			for (int i = 0; i < 1000; i++) {
				size_t at = (n++ * 4099) % (sizeof big - 8);
				unsigned char expected = big[at];
				big[at] = (char)(expected + 1);
				if ((unsigned char)big[at] != (unsigned char)(expected + 1))
					fail("lost write");
			}
		}
		/* Every write is there. */
		static unsigned char book[3 << 20];
		memset(book, 7, sizeof book);
		for (unsigned long k = 0; k < n; k++)
			book[(k * 4099) % (sizeof big - 8)]++;
		if (memcmp(book, big, sizeof book))
			fail("lost writes");
	}
	puts("ok");
	return 5;
}
"""

FORKS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char data[2 << 20];
int main(int count, char **arguments)
{
	int status, sum = 0;
	memset(data, 1, sizeof data);
	for (int i = 0; i < 3; i++) {
		if (!fork()) {
			memset(data, 2 + i, sizeof data);
			char *p = malloc(1 << 20);
			memset(p, i, 1 << 20);
			exit(data[12345] == 2 + i && data[sizeof data - 1] == 2 + i ? 10 + i : 1);
		}
		memset(data + (1 << 20), 50 + i, 1 << 20);
		wait(&status);
		sum += WEXITSTATUS(status);
		if (data[12345] != 1 || data[sizeof data - 1] != 50 + i)
			return 2;
	}
	if (system("exit 4") >> 8 != 4)
		return 3;
	return sum == 33 ? 0 : 4;
}
"""


@pytest.fixture
def coloured(solocore):
    """A directory with a map; skips, after the refusal has been seen to be one, where nothing can be coloured."""
    solocore.write("map.txt", MAP)
    done = solocore(*COLOURED, "--", "true")
    if done.code == 3 and re.search("CAP_SYS_ADMIN|6.8|aarch64", done.err):
        refused(done, codes=(3,))
        pytest.skip(done.err)
    assert done.code == 0, done.err
    return solocore


def pages(solocore, name="pages.json"):
    return json.loads((solocore.dir / name).read_text())


def test_a_program_lies_in_its_colours(coloured, compile_c):
    done = coloured(*COLOURED, "--", compile_c(BUSY))
    assert done.code == 5, done.err
    assert done.out == b"ok\n"
    found = pages(coloured)
    assert found["pages"]["anonymous"]["wrong"] == 0
    # Its own three megabytes, and the pool's pages with them.
    assert found["pages"]["anonymous"]["resident"] > 1500
    assert (found["coloured"], found["ended"], found["failed"], found["uncoloured"]) == (1, 1, 0, [])
    assert "0 in wrong colours (0.00 %)" in done.err


def test_the_audit_sees_wrong_pages(coloured, compile_c):
    """Of a plain program, each page is wrong either in some colours or in the others; the kernel decides in which."""
    gate = coloured.dir / "gate"
    plain = subprocess.Popen([compile_c(BUSY), gate], stdout=subprocess.PIPE)
    try:
        assert plain.stdout.readline() == b"ready\n"
        shares = []
        for colours in ["0-7", "8-31", "0-31"]:
            done = coloured("space", "audit", plain.pid, "--map", "map.txt", "--colors", colours, "--format", "json")
            shares.append(done.json()["anonymous"])
            assert done.code == (1 if shares[-1]["wrong"] else 0)
        assert shares[0]["wrong"] + shares[1]["wrong"] == shares[2]["resident"] > 1000
        assert shares[2]["wrong"] == 0
    finally:
        gate.touch()
        plain.wait(10)


def test_children_lie_in_them_too(coloured, compile_c):
    done = coloured(*COLOURED, "--", compile_c(FORKS), timeout=120)
    assert done.code == 0, done.err
    found = pages(coloured)
    # The program, three children, and the shell.
    assert found["coloured"] == 5 and found["ended"] == 5
    assert found["pages"]["anonymous"]["wrong"] == 0


def test_children_without_the_environment_are_coloured(coloured):
    done = coloured(*COLOURED, "--", "env", "-i", "/bin/sh", "-c", "/bin/true; exit 6")
    assert done.code == 6
    found = pages(coloured)
    # env becomes the shell, which starts true.
    assert found["coloured"] == 2 and found["pages"]["anonymous"]["wrong"] == 0


def test_libraries_loaded_later(coloured):
    python = "import ctypes, sqlite3, json, decimal; ctypes.CDLL('libm.so.6'); print(sqlite3.connect(':memory:').execute('select 41+1').fetchone()[0])"
    done = coloured(*COLOURED, "--", "/usr/bin/python3", "-c", python)
    assert done.code == 0, done.err
    assert done.out == b"42\n"
    assert pages(coloured)["pages"]["anonymous"]["wrong"] == 0


def test_banks(coloured, compile_c):
    done = coloured("exec", "--map", "map.txt", "--banks", "1,2", "--pages", "pages.json", "--", compile_c(BUSY))
    assert done.code == 5, done.err
    assert pages(coloured)["pages"]["anonymous"]["wrong"] == 0
    both = coloured(*COLOURED, "--banks", "3", "--", compile_c(BUSY))
    assert both.code == 5, both.err
    assert pages(coloured)["pages"]["anonymous"]["wrong"] == 0


def test_recolouring_moves_everything_and_loses_nothing(coloured, compile_c):
    gate = coloured.dir / "gate"
    process = coloured.start(*COLOURED, "--", compile_c(BUSY), gate)
    try:
        assert process.stdout.readline() == b"ready\n"
        child = int(subprocess.check_output(["pgrep", "-P", str(process.pid)]).split()[0])
        for colours in ["8-15", "16-31", "0,5,9", "8-15"]:
            done = coloured("recolor", child, "--colors", colours, "--format", "json")
            assert done.code == 0, done.err
            moved = done.json()["processes"]
            assert [m["pid"] for m in moved] == [child]
            assert moved[0]["pages"] > 700 and moved[0]["stuck"] == 0 and moved[0]["wrong"] == 0
            audit = coloured("space", "audit", child, "--map", "map.txt", "--colors", colours)
            assert audit.code == 0, audit.out
        refused(coloured("recolor", child, "--colors", "40"), "there is no colour 40", codes=(2,))
        table = coloured("recolor", child, "--colors", "0-7")
        assert table.code == 0 and b"GB/s" in table.out
    finally:
        gate.touch()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 5, err
    assert out == b"ok\n"
    assert b"0 in wrong colours (0.00 %)" in err


def test_other_options_beside_colours(coloured):
    show = "import os; print(len(os.sched_getaffinity(0)), 'SOLOCORE_LATER_SPACE' in os.environ)"
    done = coloured(*COLOURED, "--core", "0", "--", "/usr/bin/python3", "-c", show)
    assert done.code == 0, done.err
    assert done.out == b"1 False\n"
    # What `exec --core` did before it became the program is not coloured.
    assert pages(coloured)["coloured"] == 1


def test_what_cannot_be_coloured_is_refused(coloured, compile_c):
    program = "int main(void) { return 0; }"
    static = compile_c(program, "-static", name="still")
    refused(coloured(*COLOURED, "--", static), "linked statically", "still", codes=(2,))
    owned = coloured.dir / "owned"
    owned.write_bytes(compile_c(program).read_bytes())
    owned.chmod(0o2755)
    refused(coloured(*COLOURED, "--", owned), "set-user-ID or set-group-ID", codes=(2,))
    narrow = coloured.dir / "narrow"
    narrow.write_bytes(b"\x7fELF\x01" + bytes(200))
    narrow.chmod(0o755)
    refused(coloured(*COLOURED, "--", narrow), "32-bit", codes=(2,))
    refused(coloured(*COLOURED, "--", "no-such-program"), "not in PATH", codes=(2,))


def test_a_static_child_is_reported(coloured, compile_c):
    static = compile_c("int main(void) { return 0; }", "-static", name="still")
    done = coloured(*COLOURED, "--", "/bin/sh", "-c", f"{static}; exit 0")
    assert done.code == 0
    assert "still is linked statically: it ran without colours" in done.err
    assert len(pages(coloured)["uncoloured"]) == 1


LOCKS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static unsigned long locked_kib(void)
{
	char line[256];
	unsigned long kib = 0;
	FILE *status = fopen("/proc/self/status", "r");
	while (fgets(line, sizeof line, status))
		if (sscanf(line, "VmLck: %lu", &kib) == 1)
			break;
	fclose(status);
	return kib;
}
int main(void)
{
	char *before = malloc(8 << 20), *after;
	memset(before, 1, 4 << 20);
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return 2;
	after = malloc(8 << 20);
	memset(after, 2, 8 << 20);
	printf("%lu %d\n", locked_kib(), before[5 << 20] + before[12345] + after[12345]);
	return 0;
}
"""


def test_locking_all_memory_locks_the_programs(coloured, compile_c):
    """The pool's addresses are more than there is memory: a plain mlockall() would fill it all."""
    done = coloured(*COLOURED, "--", compile_c(LOCKS))
    assert done.code == 0, done.err
    locked, sum_ = map(int, done.out.split())
    assert 16 << 10 <= locked < 100 << 10 and sum_ == 3
    assert pages(coloured)["pages"]["anonymous"]["wrong"] == 0


FILLS = r"""
#include <stdlib.h>
#include <string.h>
int main(int count, char **arguments)
{
	size_t bytes = (size_t)atoi(arguments[1]) << 20;
	char *p = malloc(bytes);
	memset(p, 1, bytes);
	return count == 2 && p[bytes - 1] == 1 ? 0 : 1;
}
"""


@pytest.fixture
def small_cgroup():
    """A memory cgroup of 100 MiB: its directory."""
    second = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    lines = open("/proc/self/cgroup").read().splitlines()
    own = next(line.split(":", 2)[2] for line in lines if line.startswith("0::" if second else "") and (second or ":memory:" in line))
    place = ("/sys/fs/cgroup" if second else "/sys/fs/cgroup/memory") + own.rstrip("/") + f"/solocore-test-{os.getpid()}"
    try:
        os.mkdir(place)
        open(place + ("/memory.max" if second else "/memory.limit_in_bytes"), "w").write(str(100 << 20))
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    yield place
    os.rmdir(place)


def test_a_memory_cgroup_is_not_exceeded(coloured, compile_c, small_cgroup):
    """To look through four frames for each that is kept must not bring the kernel to end the program. Whether 10 MiB fit depends on
    which frames it gives; more than the cgroup's memory never does."""
    inside = ["/bin/sh", "-c", f'echo $$ > {small_cgroup}/cgroup.procs; exec "$@"', "sh", coloured.program, *COLOURED, "--", compile_c(FILLS)]
    for mebibytes in [10, 120]:
        done = subprocess.run([*inside, str(mebibytes)], cwd=coloured.dir, capture_output=True, text=True, timeout=60)
        assert done.returncode == 3 or (done.returncode, mebibytes) == (0, 10), done.stderr
        assert done.returncode == 0 or "left to its cgroup" in done.stderr


def test_a_search_for_few_frames_ends(coloured, small_cgroup):
    """One class of 16,384, whose bits no memory has: the search ends after its memory was looked through, and not after terabytes."""
    coloured.write("few.txt", "".join(f"# colour: {bit}\n" for bit in range(12, 17)) + "".join(f"{bit}\n" for bit in range(40, 49)))
    inside = ["/bin/sh", "-c", f'echo $$ > {small_cgroup}/cgroup.procs; exec "$@"', "sh", coloured.program]
    done = subprocess.run([*inside, "exec", "--map", "few.txt", "--colors", "0", "--banks", "1", "--", "true"],
                          cwd=coloured.dir, capture_output=True, text=True, timeout=100)
    assert done.returncode == 3 and "left to its cgroup" in done.stderr, done.stderr


def build(folder, *names):
    """The library by its makefile, and programs of tests/vm."""
    subprocess.run(["make", "-s", "-C", ROOT / "crates/space/preload", f"OUT={folder}"], check=True)
    for name in names:
        subprocess.run(["cc", "-O2", ROOT / f"tests/vm/{name}.c", "-o", folder / name, "-pthread", "-ldl", "-lrt"], check=True)


def test_a_reserve_lends_what_a_program_needs(coloured, tmp_path):
    """All memory is left to others but the frames that a reserve frees on the program's CPU: tests/vm/colours.c stands in for both."""
    build(tmp_path, "colours", "coloured")
    command = [tmp_path / "colours", tmp_path / "libsolocore-colours.so", "lend", tmp_path / "coloured"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^lent \d{4,} frames", done.stdout, re.M), done.stdout


def test_the_stand_in_uses_places_of_ended_programs_again(coloured, tmp_path):
    """It has 63 places. It fails, and hangs, if the place of a program that has ended stays taken."""
    build(tmp_path, "colours")
    command = [tmp_path / "colours", tmp_path / "libsolocore-colours.so", "stay", "/bin/bash", "-c", "for i in $(seq 65); do /bin/true; done; :"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and done.stdout.count("at the end: ") >= 65, done.stdout[-500:]


def test_lent_frames_are_pages_of_the_program_at_once(coloured, compile_c, tmp_path):
    """24 MiB are 6,144 pages. Pages that are taken, looked at, and moved are faults, all of them; pages that are made where the program
    touches them are none. It fails where the library takes the first way (16,578 to 22,721 faults)."""
    build(tmp_path, "colours")
    fills = coloured.dir / compile_c(FILLS)
    command = [tmp_path / "colours", tmp_path / "libsolocore-colours.so", "lend", fills, "24"]
    tries = [subprocess.run(command, capture_output=True, text=True, timeout=120) for _ in range(3)]
    assert all(done.returncode == 0 and ", 0 wrong" in done.stdout for done in tries), tries
    faults = [int(re.search(r"requests, (\d+) faults", done.stdout)[1]) for done in tries]
    assert min(faults) < 12_000, faults


KILLED = "#include <signal.h>\n" + FILLS.replace("return count", "raise(SIGKILL);\n\treturn count")

# The child of vfork has its parent's memory, and goes on with it after the parent was killed.
ORPHAN = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
	volatile char *p = malloc(8 << 20);
	memset((char *)p, 5, 8 << 20);
	if (vfork())
		return 3;
	kill(getppid(), SIGKILL);
	usleep(500000);
	int sum = 0;
	for (int i = 0; i < 8 << 20; i += 4096)
		sum += p[i];
	if (sum == 5 * 2048)
		(void)!write(1, "its memory is there\n", 20);
	_exit(0);
}
"""


def test_frames_of_ended_programs_come_back(coloured, compile_c, tmp_path):
    """However a process ends: by exit, killed, by becoming another program. It fails if its frames are free before the reserve takes them: then most
    are other frames. Programs that run meanwhile on the same CPU get some, so the best of a few tries counts."""
    build(tmp_path, "colours", "coloured")
    fills, killed = (coloured.dir / compile_c(source, name=name) for source, name in ((FILLS, "fills"), (KILLED, "killed")))
    programs = {"exit": [fills, "24"], "kill": [killed, "24"], "exec": ["/bin/sh", "-c", f"exec {fills} 24"], "threads and forks": [tmp_path / "coloured"]}
    for how, program in programs.items():
        command = [tmp_path / "colours", tmp_path / "libsolocore-colours.so", "back", *program]
        shares = []
        while len(shares) < 8 and max(shares, default=0) < 0.9:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert ", 0 failures" in done.stdout and (how == "kill" or done.returncode == 0), (how, done.stdout, done.stderr)
            back, told = map(int, re.search(r"^(\d+) of (\d+) frames came back", done.stdout, re.M).groups())
            # A program with 24 MiB has 6,144 pages.
            assert told > (2000 if how.startswith("threads") else 6144), (how, done.stdout)
            shares.append(back / told)
        print(how, shares)
        assert max(shares) >= 0.9, (how, shares)


def test_an_heir_is_not_root_and_has_nothing_of_the_program(coloured, tmp_path):
    """Nothing but the memory: its own user, CAP_IPC_LOCK alone, a connection with the reserve, and the frames of the memory."""
    build(tmp_path, "colours")
    with subprocess.Popen([tmp_path / "colours", tmp_path / "libsolocore-colours.so", "back", "/bin/sleep", "3"], stdout=subprocess.PIPE, cwd=coloured.dir) as stand_in:
        end, heir = time.monotonic() + 10, None
        while not heir and time.monotonic() < end:
            time.sleep(0.05)
            for name in subprocess.run(["pgrep", "-x", "solocore-heir"], capture_output=True, text=True).stdout.split():
                if os.path.exists(f"/proc/{name}/exe") and os.readlink(f"/proc/{name}/exe").endswith("sleep"):
                    heir = f"/proc/{name}"
        assert heir, "no heir"
        status = dict(line.split(":", 1) for line in open(f"{heir}/status"))
        users = {int(word) for key in ("Uid", "Gid") for word in status[key].split()}
        assert len(users) == 1 and min(users) >= 0x70000000 and not status["Groups"].strip(), status
        assert [int(status[key], 16) for key in ("CapPrm", "CapEff", "CapInh")] == [1 << 14, 1 << 14, 0], status
        links = sorted(os.readlink(f"{heir}/fd/{name}").split(":")[0] for name in os.listdir(f"{heir}/fd"))
        assert len(links) == 2 and links[0].endswith("/pagemap") and links[1] == "socket" and os.readlink(f"{heir}/cwd") == "/", links
        assert b", 0 failures" in stand_in.stdout.read()


def test_memory_stays_while_a_process_shares_it(coloured, compile_c, tmp_path):
    """It fails if the frames of a killed program go back while a child of vfork uses them."""
    build(tmp_path, "colours")
    orphan = coloured.dir / compile_c(ORPHAN)
    done = subprocess.run([tmp_path / "colours", tmp_path / "libsolocore-colours.so", "back", orphan], capture_output=True, text=True, timeout=120)
    assert "its memory is there" in done.stdout and ", 0 failures" in done.stdout, (done.stdout, done.stderr)
    assert int(re.search(r"^(\d+) of \d+ frames came back", done.stdout, re.M)[1]) > 1000, done.stdout


def test_message_queues_answer_as_the_kernels_do(coloured, tmp_path):
    """tests/vm/queues.c says what each call answers: limits, priorities, waiting, signals, forks, kills, threads. Then the frames of a queue."""
    build(tmp_path, "queues")
    name = f"/solocore-test-{os.getpid()}"
    kernels = subprocess.run([tmp_path / "queues", name], capture_output=True, text=True, timeout=120)
    assert kernels.returncode == 0 and "\nopen: 1 " in kernels.stdout, kernels.stdout
    names = ("--queues", f"/other,{name}")
    done = coloured(*COLOURED, *names, "--", tmp_path / "queues", name, timeout=120)
    frames = coloured("exec", "--map", "map.txt", "--colors", "0-15", *names, "--", tmp_path / "queues", name, "frames")
    assert done.code == 0 and done.out.decode() == kernels.stdout, done.err
    assert "stays in the kernel" not in done.err
    assert pages(coloured)["pages"]["anonymous"]["wrong"] == 0
    assert frames.code == 0 and frames.out.startswith(b"huge: -1 EINVAL\nnotify: -1 EOPNOTSUPP\nwrong pages: 0 \nmapped: -1"), (frames.out, frames.err)
    assert not os.path.exists(f"/dev/shm/solocore-queue-{name[1:]}")
    # A FIFO of another user in its place is no reason to wait.
    os.mkfifo(f"/dev/shm/solocore-queue-{name[1:]}")
    fifo = coloured("exec", "--map", "map.txt", "--colors", "0-15", *names, "--", tmp_path / "queues", name, "frames")
    assert fifo.code == 0 and fifo.out.startswith(b"huge: -1 EBADF\n"), (fifo.out, fifo.err)
    assert not os.path.exists(f"/dev/shm/solocore-queue-{name[1:]}")


def test_system_v_queues_answer_as_the_kernels_do(coloured, tmp_path):
    """tests/vm/sysv.c says what each call answers: limits, types, waiting, signals, forks, kills, rights, threads. Then the frames of a queue."""
    build(tmp_path, "sysv")
    key = 0x50000000 | os.getpid()
    kernels = subprocess.run([tmp_path / "sysv", str(key)], capture_output=True, text=True, timeout=120)
    assert kernels.returncode == 0 and "\nmade: 1 " in kernels.stdout, kernels.stdout
    # In another form than the library writes it; 0 are queues without a key.
    done = coloured(*COLOURED, "--queues", f"/other,{key},0", "--", tmp_path / "sysv", str(key), timeout=120)
    assert done.code == 0 and done.out.decode() == kernels.stdout, done.err
    assert pages(coloured)["pages"]["anonymous"]["wrong"] == 0 and "stays in the kernel" not in done.err
    for queues, wrong in ((hex(key), 0), ("all", 0), ("0x1", -1)):
        frames = coloured("exec", "--map", "map.txt", "--colors", "0-15", "--queues", queues, "--", tmp_path / "sysv", str(key), "frames")
        assert frames.code == 0 and f"wrong pages: {wrong}\n" in frames.out.decode(), (queues, frames.out, frames.err)
    assert not [name for name in os.listdir("/dev/shm") if name.startswith("solocore-messages-") and f"-{key:x}" in name]


def test_names_of_system_v_queues_are_used_for_their_own_files_alone(coloured, tmp_path):
    """A program marks a queue as removed, and leaves its names: the key gets another queue. IPC_SET does not follow a link in the place of the file."""
    build(tmp_path, "sysv")
    key = 0x51000000 | os.getpid()
    done = coloured(*COLOURED, "--queues", hex(key), "--", tmp_path / "sysv", str(key), "names")
    assert done.code == 0 and done.out.decode().splitlines() == [
        "marked: 4 ", "another: 1 ", "no such limit: -1 EPERM", "no user: -1 EINVAL", "link: 0 ", "set: -1 EIDRM", "mode: 0 ", "remove: 0 ", "key's file: 0 ", "link: 0 ",
    ], (done.out, done.err)


def test_a_killed_process_leaves_no_file_of_a_queue_for_long(coloured, tmp_path):
    """It was killed between the two names of a queue that it made or removed: the next process that makes a queue removes the file."""
    build(tmp_path, "sysv")
    key = 0x52000000 | os.getpid()
    done = coloured(*COLOURED, "--queues", hex(key), "--", tmp_path / "sysv", str(key), "left")
    assert done.code == 0 and done.out.decode().splitlines() == [
        "its file: 1 ", "another: 1 ", "its file: 0 ", "removed: -1 EINVAL", "none: -1 ENOENT", "its key's file: 0 ", "at work: 1 ", "its file: 0 ", "remove: 0 ",
        "writable by others: 1 ",
    ], (done.out, done.err)


def test_a_queue_that_the_kernel_has_stays_there(coloured, tmp_path):
    """A program without the library made it: programs with the library use the same one, and solocore says so once."""
    build(tmp_path, "sysv", "queues")
    number = subprocess.run(["ipcmk", "-Q"], capture_output=True, text=True, check=True).stdout.split()[-1]
    try:
        listed = subprocess.run(["ipcs", "-q"], capture_output=True, text=True, check=True).stdout.splitlines()
        key = hex(next(int(line.split()[0], 16) for line in listed if line.split()[1:2] == [number]))
        done = coloured(*COLOURED, "--queues", key, "--", "/bin/sh", "-c", f"{tmp_path}/sysv {key} has; {tmp_path}/sysv {key} has")
    finally:
        subprocess.run(["ipcrm", "-q", number], check=True)
    assert done.code == 0 and done.out.decode() == "queue: 1 \nwrong pages: -1\n" * 2, (done.out, done.err)
    assert done.err.count(f"message queue {key} stays in the kernel, because it was made without solocore; remove it") == 1, done.err
    name = f"/solocore-kernels-{os.getpid()}"
    libc = ctypes.CDLL(None)
    descriptor = libc.mq_open(name.encode(), os.O_RDWR | os.O_CREAT, 0o600, None)
    assert descriptor >= 0
    os.close(descriptor)
    done = coloured(*COLOURED, "--queues", "all", "--", tmp_path / "queues", name, "frames")
    assert done.code == 0 and b"wrong pages: -1" in done.out, (done.out, done.err)
    assert f"message queue {name} stays in the kernel" in done.err
    assert libc.mq_unlink(name.encode()) == -1, "the program removed the kernel's queue"


def test_the_names_of_queues_are_checked(solocore):
    solocore.write("map.txt", MAP)
    for names in ("frames", "/a/b", "/a,pipe", "fifo:run", "0x", ""):
        done = solocore(*COLOURED, "--queues", names, "--", "true")
        assert done.code == 2 and "is not a queue; write a POSIX name like /frames, a System V key like 0x4d2, all for both, pipes, sockets, or a named pipe" in done.err, done.err


def test_the_library_is_built_for_aarch64(tmp_path):
    made = subprocess.run(["make", "-C", ROOT / "crates" / "space" / "preload", "CC=aarch64-linux-gnu-gcc", f"OUT={tmp_path}"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "libsolocore-colours.so").read_bytes()[18] == 0xb7  # EM_AARCH64


def test_the_bench_of_queues_compares_them_with_the_kernels(coloured):
    bench = [sys.executable, ROOT / "bench/queues.py", "--rounds", "1", "--batches", "5"]
    done = subprocess.run(bench, env={**os.environ, "SOLOCORE": coloured.program}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:-1]]
    assert [row[:2] for row in rows[:4]] == [["posix", "64"], ["sysv", "64"], ["pipe", "64"], ["socket", "64"]] and len(rows) == 20, done.stdout
    assert all(float(number) > 0 for row in rows for number in row[2:5])
    none = subprocess.run(bench, env={**os.environ, "SOLOCORE": "/nowhere/solocore"}, capture_output=True, text=True)
    assert none.returncode == 3 and none.stderr == "bench/queues.py: /nowhere/solocore is not there; build it, or name it in SOLOCORE\n", none.stderr
    wrong = subprocess.run([*bench, "--colors", "99"], env={**os.environ, "SOLOCORE": coloured.program}, capture_output=True, text=True)
    assert wrong.returncode == 3 and "there is no colour 99" in wrong.stderr, wrong.stderr


def test_programs_that_fork_and_execute_again_and_again_have_no_wrong_page(coloured):
    """The same with 1,000 children, and more: tests/vm/forks.sh COUNT."""
    done = subprocess.run([ROOT / "tests/vm/forks.sh", "20"], env={**os.environ, "SOLOCORE": coloured.program}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and re.match(r"31 processes, \d+ private pages, 0 in wrong colours;", done.stdout), done.stdout + done.stderr
    none = subprocess.run([ROOT / "tests/vm/forks.sh"], env={**os.environ, "SOLOCORE": "/nowhere/solocore"}, capture_output=True, text=True)
    assert none.returncode == 3 and "is not there; build it, or name it in SOLOCORE" in none.stderr, none.stderr


def test_what_a_coloured_start_costs(coloured):
    done = coloured("bench", "colour-start", "--map", "map.txt", "--runs", "2", "--before", "8-31", "--format", "json", "--", "true")
    assert done.code == 0, done.err
    found = done.json()
    assert found["runs"] == 2 and found["ratio_from"] <= found["ratio"] <= found["ratio_to"]
    assert found["coloured_ms"] > found["plain_ms"] > 0
    refused(coloured("bench", "colour-start", "--map", "map.txt", "--before", "99", "--", "true"), "there is no colour 99", codes=(2,))


def test_banks_that_no_memory_has_are_refused(coloured, compile_c):
    """A bank function of a bit that no memory has: nothing is in bank 1."""
    coloured.write("none.txt", "# colour: 12\n45\n")
    done = coloured("exec", "--map", "none.txt", "--banks", "1", "--", "true", timeout=120)
    assert done.code == 3
    assert "no frame that the kernel gives has its colours and banks" in done.err


def test_killed_programs(coloured):
    done = coloured(*COLOURED, "--", "/bin/sh", "-c", "kill -9 $$")
    assert done.code == 137
    assert "was killed" in done.err


def test_ctrl_c_reaches_it_and_leaves_nothing(coloured):
    process = coloured.start(*COLOURED, "--", "/bin/sh", "-c", "trap 'exit 9' TERM INT; echo up; while :; do sleep 0.1; done")
    assert process.stdout.readline() == b"up\n"
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 9
    assert not subprocess.run(["pgrep", "-g", str(process.pid)], capture_output=True).stdout


def test_bad_options(solocore):
    solocore.write("map.txt", MAP)
    exec_ = ("exec", "--map", "map.txt")
    refused(solocore(*exec_, "--colors", "32", "--", "true"), "there is no colour 32", "0 to 31", codes=(2,))
    refused(solocore(*exec_, "--colors", "7-0", "--", "true"), "`7-0` is not a number or range", codes=(2,))
    refused(solocore(*exec_, "--banks", "4", "--", "true"), "there is no bank 4", codes=(2,))
    solocore.write("colours.txt", "# colour: 12\n")
    refused(solocore("exec", "--map", "colours.txt", "--banks", "0", "--", "true"), "no bank functions", codes=(2,))
    for text, words in [("13 13\n", "line 1: bit 13 is there twice"), ("13\nx\n", "line 2: `x`"),
                        ("13\n14\n13 14\n", "line 3: 13 14 is the XOR"), ("# colour: 3\n", "line 1: a colour")]:
        solocore.write("wrong.txt", text)
        refused(solocore("exec", "--map", "wrong.txt", "--colors", "0", "--", "true"), "wrong.txt", words, codes=(2,))
    refused(solocore("exec", "--map", "none.txt", "--colors", "0", "--", "true"), "none.txt", codes=(2,))
    refused(solocore("space", "audit", 4194303, "--map", "map.txt", "--colors", "0"), "no process", codes=(2,))
    refused(solocore("recolor", 4194303, "--colors", "0"), "no process 4194303", codes=(2,))
    refused(solocore("recolor", 4194303, "--colors", "x"), "`x` is not a number", codes=(2,))


def test_recolor_refuses_other_programs(solocore):
    if os.geteuid():
        pytest.skip("needs root")
    sleep = subprocess.Popen(["sleep", "30"])
    try:
        refused(solocore("recolor", sleep.pid, "--colors", "0"), "was not started in colours", codes=(3,))
    finally:
        sleep.kill()
        sleep.wait()


def test_without_privileges(program, tmp_path):
    if os.geteuid():
        pytest.skip("needs root to give up capabilities")
    (tmp_path / "map.txt").write_text(MAP)
    drop = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", program]
    done = subprocess.run([*drop, "exec", "--map", "map.txt", "--colors", "0-7", "--", "true"], cwd=tmp_path, capture_output=True)
    assert done.returncode == 3
    assert b"CAP_SYS_ADMIN" in done.stderr and done.stdout == b""


def test_maps_without_timing(solocore):
    done = solocore("space", "map", "--no-banks", "--platform", "core-i5-2500k")
    assert done.code == 0, done.err
    assert done.out.decode().count("# colour: ") == 5
    written = solocore("space", "map", "--no-banks", "--platform", "core-i5-2500k", "-o", "new.txt")
    assert written.code == 0 and (solocore.dir / "new.txt").read_bytes() == done.out


def test_a_map_by_timing_is_made_or_refused(solocore):
    """On a guest the timing rarely separates; then nothing is written."""
    done = solocore("space", "map", "--memory", "64 MiB", "-o", "found.txt", timeout=120)
    if done.code == 0:
        text = (solocore.dir / "found.txt").read_text()
        assert "confidence" in text and any(line[:1].isdigit() for line in text.splitlines())
    else:
        assert done.code == 3
        assert re.search("does not separate|CAP_SYS_ADMIN|x86-64 only", done.err)
        assert not (solocore.dir / "found.txt").exists()


def test_the_pools_bench(solocore):
    done = solocore("bench", "pool", "--requests", "2000", "--runs", "5", "--memory", "16 MiB", "--format", "json")
    assert done.code == 0, done.err
    rows = {r["what"]: r["ns"] for r in done.json()["rows"]}
    assert all(ns > 0 for ns in rows.values()) and "mmap, a write and munmap of a page" in rows
    refused(solocore("bench", "pool", "--memory", "1 MiB"), "--memory", codes=(2,))


def test_the_banks_bench_needs_banks(solocore):
    solocore.write("colours.txt", "# colour: 12\n")
    refused(solocore("bench", "banks", "--map", "colours.txt"), "no bank function", codes=(2,))


def test_colours_of_a_plan(coloured):
    system = """platform = "core-i5-2500k"
[regulation]
policy = "memguard"
period = "1 ms"
share = "even"
[[task]]
name = "one"
core = 1
period = "100 ms"
wcet = "1 ms"
misses = 100
"""
    coloured.plan(system)
    done = coloured("exec", "--map", "map.txt", "--plan", "plan.json", "--task", "one", "--pages", "pages.json", "--", "true")
    assert done.code == 0, done.err
    assert pages(coloured)["pages"]["anonymous"]["wrong"] == 0
    refused(coloured("exec", "--map", "map.txt", "--plan", "plan.json", "--task", "two", "--", "true"),
            "no task `two`", "one", codes=(2,))
