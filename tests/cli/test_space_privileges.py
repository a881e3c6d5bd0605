"""What a program of `exec --colors` keeps of the privileges that it gives up: nothing, in any thread."""

import os
import subprocess

import pytest
from test_space_pool import COLOURED, coloured  # noqa: F401 (fixture)

# Prints the users and capabilities of its threads before and after it gives up being root, then touches, locks and unlocks memory.
GIVES_UP = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
static void threads(const char *when)
{
	char path[300], line[300];
	DIR *all = opendir("/proc/self/task");
	for (struct dirent *one; (one = readdir(all));) {
		snprintf(path, sizeof path, "/proc/self/task/%s/status", one->d_name);
		FILE *status = one->d_name[0] == '.' ? 0 : fopen(path, "r");
		if (!status)
			continue;
		printf("%s", when);
		while (fgets(line, sizeof line, status))
			if (!strncmp(line, "Name:", 5) || !strncmp(line, "Uid:", 4) || !strncmp(line, "Gid:", 4) ||
			    !strncmp(line, "Groups:", 7) || !strncmp(line, "Cap", 3))
				line[strcspn(line, "\n")] = 0, printf("|%s", line);
		puts("");
		fclose(status);
	}
	closedir(all);
}
int main(int count, char **arguments)
{
	size_t size = 4 << 20;
	char *locked = malloc(size);
	struct rlimit limit = {65536, 65536};
	/* It may not look for the file later. */
	int gate = open(arguments[count - 1], O_RDONLY);
	struct stat end;
	memset(locked, 1, size);
	threads("before");
	if (mlock(locked, size) || setrlimit(RLIMIT_MEMLOCK, &limit))
		return 2;
	if (setgroups(0, 0) || setresgid(12345, 12345, 12345) || setresuid(12345, 12345, 12345) || !setuid(0))
		return 3;
	char *after = malloc(size);
	memset(after, 2, size);
	threads("after");
	puts("ready");
	fflush(stdout);
	while (fstat(gate, &end) || !end.st_size)
		usleep(1000);
	for (size_t i = 0; i < size; i += 4096)
		if (locked[i]++ != 1 || after[i]++ != 2)
			return 4;
	return 5;
}
"""


def test_the_thread_that_moves_pages_is_not_root(coloured, compile_c):  # noqa: F811
    """Whatever the program gives up, no thread of it keeps; and its pages are moved as before, locked ones too."""
    if os.geteuid():
        pytest.skip("needs root")
    gate = coloured.dir / "gate"
    gate.touch()
    process = coloured.start(*COLOURED, "--", compile_c(GIVES_UP), gate)
    try:
        threads = []
        while (line := process.stdout.readline().decode().strip()) not in ("ready", ""):
            threads.append(dict(field.split(":", 1) if ":" in field else ("when", field) for field in line.split("|")))
        assert [t["when"] for t in threads] == ["before", "before", "after", "after"], process.stderr.read()
        root = [t for t in threads if "0" in t["Uid"].split() or "0" in t["Gid"].split()]
        # The program itself, before.
        assert [(t["when"], t["Name"].strip()) for t in root] == [("before", "job")]
        ipc_lock = 1 << 14
        handlers = [t for t in threads if t["Name"].strip() == "solocore-pages"]
        assert len(handlers) == 2
        for handler in handlers:
            assert all(int(handler[name], 16) & ~ipc_lock == 0 for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")), handler
            assert not handler["Groups"].split() and int(handler["Uid"].split()[0]) > 1 << 30
        child = int(subprocess.check_output(["pgrep", "-P", str(process.pid)]).split()[0])
        for colours in ["8-15", "16-31"]:
            done = coloured("recolor", child, "--colors", colours, "--format", "json")
            assert done.code == 0, done.err
            moved = done.json()["processes"]
            assert moved[0]["pages"] > 2000 and moved[0]["stuck"] == 0 and moved[0]["wrong"] == 0, moved
    finally:
        gate.write_text("go on")
        _, err = process.communicate(timeout=60)
    assert process.returncode == 5, err


def test_root_is_not_told_to_be_root(solocore):
    """Root without a capability is refused like anybody; `recolor 1` in a container said that root helps."""
    if os.geteuid():
        pytest.skip("it takes capabilities away from root")
    other = subprocess.Popen(["sleep", "60"])
    try:
        def recolour(*before):
            words = [*before, solocore.program, "recolor", str(other.pid), "--colors", "0-3"]
            return subprocess.run(words, cwd=solocore.dir, capture_output=True, text=True, timeout=60)

        root = recolour("setpriv", "--bounding-set=-all", "--inh-caps=-all")
        assert root.returncode == 3 and "or to another container; name a program that `solocore exec --colors` started" in root.stderr, root.stderr
        assert "as root" not in root.stderr and len(root.stderr.splitlines()) == 1
        user = recolour("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "--bounding-set=-all")
        assert user.returncode == 3 and user.stderr.rstrip().endswith("run it as root"), user.stderr
        able = recolour()
        assert able.returncode == 3 and "was not started in colours" in able.stderr
    finally:
        other.kill()
        other.wait()
