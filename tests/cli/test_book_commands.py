"""Each command that README and the guide show is executed, in the order of its page and with the files that the page speaks of.

Nightly (BOOK=1): some take a minute. What needs counters, sched_ext or ways runs on the virtual board.
What is no command of solocore names the test that executes it.
"""

import os
import re
import shutil
import signal
import subprocess

import pytest
from conftest import ROOT
from test_board import CACHE, fetched  # noqa: F401
from test_docs import PAGES, blocks

pytestmark = pytest.mark.skipif(not os.environ.get("BOOK"), reason="each command of the guide; BOOK=1 asks for it")
LIMIT = 1200

# Reads its files, filters for a while in a function of its own, and ends.
DETECT = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static unsigned char image[1 << 20];
__attribute__((noinline)) unsigned long filter_image(void) {
    unsigned long sum = 0;
    for (size_t i = 0; i < sizeof image; i += 16) sum += image[i] += 1;
    return sum;
}
__attribute__((noinline)) unsigned long filter(void) { return filter_image(); }
__attribute__((noinline)) unsigned long step(void) { usleep(100); return filter_image(); }
int main(int c, char **v) {
    unsigned long sum = 0;
    for (int i = 1; i < c; i++) {
        FILE *f = fopen(v[i], "r");
        if (f) sum += fread(image, 1, sizeof image, f), fclose(f);
    }
    for (int i = 0; i < ROUNDS; i++) sum += filter() + step();
    printf("%lu\n", sum);
    return 0;
}
"""
PROGRAMS = {"detect": 4, "tracking": 4, "task-arm": 2, "control": 300, "driver": 20000, "pilot": 20000, "video": 20000}

# Lines of the pages that are executed elsewhere, and where.
ELSEWHERE = {
    r"make (build|deb|carried)$|(sudo )?make (un)?install|sudo apt-get install|scp |packaging/checksums|tests/install/rep|PARTS=": "packaging/Makefile",
    r"podman ": "tests/install/container.sh",
    r"make (demo|test) ": "Makefile",
    r"sudo groupadd": "tests/vm/root.sh",
    r"solocore platform collect --script": "tests/cli/test_platform.py",
    r"solocore board (ask|shell|run .*--share plans)": "tests/cli/test_board.py",
    r"(sudo )?solocore reserve |.*(solocore-|solocore/)reserve": "tests/vm/guest/reserve.sh",
    r"solocore (study|reproduce) .*--dask |dask ": "tests/python/test_dask.py",
    r"tests/(vm|install|cli)/|make [a-z-]+|cargo |\./": "Makefile",
}
# What a page calls by a name of the reader's own.
NAMES = {"task.NAME": "task.sort", "pilot=./pilot": "attitude=./pilot", "--engine perf --platform imx6q": "--engine perf --platform machine.toml",
         "imx6q -o base.json": "machine.toml -o base.json", " make": " ./detect a.pgm", "solocore init": "rm -f machine.toml system.toml; solocore init"}
# Numbers of processes.
PROCESSES = ("1234", "4711", "4712")
# What goes on until Ctrl-C.
ENDLESS = r"solocore (run|vcpu serve|top|latency)\b(?!.*--(duration|dry-run|count|calibrate))"
# What the virtual board executes: it has counters, sched_ext and ways, and this machine may have none.
BOARD = r"solocore (run|verify|top|vcpu|exec|recolor|space|doctor --plan)\b|mount "
# Exit codes other than 0 that are answers.
ANSWERS = {r"diff ": (1,), r"platform check|doctor": (1, 3), r"plan .*": (1,), r"assess .*--check": (1,), r"exit 7": (7,), r"space map": (3,), ENDLESS: (130,)}
# What regulates by itself ends what an earlier line began.
ALONE = r"solocore (run|verify|vcpu (serve|drill)|exec .*--(vcpu|budget|lock-bandwidth|ways))\b"
# A plan of bounds is refused while a promise is open, as devices are; the line is executed again, without the bounds.
REFUSED = "--partial"

BUDGETS = """
platform = "core-i5-2500k"
[regulation]
policy = "{policy}"
{more}
pages = "anywhere"
[[task]]
name = "detect"
core = 0
period = "500 ms"
command = ["./detect", "a.pgm"]
[[task]]
name = "batch"
core = 3
criticality = "D"
wcet = "1 ms"
misses = 1
"""
MEMGUARD = BUDGETS.format(policy="memguard", more='period = "1 ms"')
# The plan of a page, on the board: a system, or a command that writes one.
SYSTEMS = {
    "functions.md": BUDGETS.format(policy="bwlock", more='lock_bandwidth = "100 MB/s"'),
    "space.md": MEMGUARD.replace('pages = "anywhere"\n', ""),
    "lock.md": BUDGETS.format(policy="bwlock", more='lock_bandwidth = "100 MB/s"'),
    "ways.md": MEMGUARD.replace('pages = "anywhere"\n', "").replace("core-i5-2500k", "ways.toml"),
    "linux-levels.md": "sed 's/imx6q/ways.toml/' examples/mc2/system.toml",
    "vcpus.md": "cat examples/vcpus/system.toml",
    "windows.md": "sed 's/p4080/core-i5-2500k/' examples/ima-sce/system.toml",
    "slots.md": "sed 's/p4080/core-i5-2500k/; s/partition 1\"/nav\"/' examples/ima-sce/system.toml",
}
# What a page begins with: `init` makes the system where the page shows it.
BARE = ("README.md", "commands.md", "machine.md")
BEFORE = {
    # No map is found by timing in a guest; this one is known.
    "space.md": ["for b in 12 13 14 15 16 17 18; do echo \"# colour: $b\"; done >map.txt; echo 19 23 >>map.txt; echo 20 24 >>map.txt"],
    "commands.md": ["make -s -C examples/vision", 'solocore init "./detect a.pgm"; solocore plan system.toml -o old.json',
                    """echo '{"cores": 2, "tasks": [{"wcet": 1, "period": 4, "deadline": 4}]}' >corpus.jsonl"""],
    "simulator.md": ["cp examples/scenarios/memguard.toml scenario.toml"],
    "report.md": ["make -s -C examples/vision", "solocore run plan.json --event page-faults --partial --duration '1 s' -o run.json"],
}


def lines(page):
    """Commands of a page. A block with prompts has what they print, too."""
    for language, block in blocks(page.read_text()):
        text = re.sub(r"\\\n\s*", "", block)
        prompts = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
        for line in prompts or (text.splitlines() if language in ("", "sh", "console") else []):
            if re.match(r"(sudo )?(solocore [a-z]|make |mount |scp |podman |dask |packaging/|tests/|PARTS=)", line):
                yield re.split(r"\s+#\s", line)[0].removeprefix("sudo ").rstrip(" &")


def on_board(page, line):
    """Whether the board executes it; a trace is checked where it was made."""
    return re.match(BOARD, line) or page.name == "linux-levels.md" and "check-trace" in line


def shown():
    """Pages with the lines that are executed here."""
    for page in PAGES:
        own = [line for line in lines(page) if not any(re.match(pattern, line) for pattern in ELSEWHERE)]
        if own and page.name != "tutorial.md":
            yield page, own


def test_each_line_has_its_place():
    for place in ELSEWHERE.values():
        assert (ROOT / place).is_file(), place
    assert sum(len(own) for _, own in shown()) > 130


@pytest.fixture(scope="module")
def kit(tmp_path_factory, program, compile_c):
    """Programs and files that the pages speak of."""
    kit = tmp_path_factory.mktemp("kit")
    (kit / "bin").mkdir()
    (kit / "bin/solocore").symlink_to(program)
    for name, rounds in PROGRAMS.items():
        shutil.copy(compile_c(DETECT, "-O1", f"-DROUNDS={rounds}", name=name), kit / name)
    for name in ("a.pgm", "b.pgm", "in.pgm", "data.bin", "data.txt", "words.txt"):
        (kit / name).write_text("".join(f"line {i * 7919 % 10007}\n" for i in range(30_000)))
    shutil.copytree(ROOT / "examples", kit / "examples", ignore=shutil.ignore_patterns("build"))
    return kit


def variables(place):
    return {**os.environ, "PATH": f"{place}/bin:{os.environ['PATH']}", "HOME": str(place / "home"), "NO_COLOR": "1", "TERM": "dumb",
            "XDG_CACHE_HOME": str(place / "home/cache"), "SOLOCORE_BOARD_CACHE": str(CACHE)}


def prepared(kit, place, *setup):
    """A copy of the kit, after some commands."""
    shutil.copytree(kit, place, symlinks=True)
    (place / "home").mkdir(exist_ok=True)
    for line in setup:
        done = subprocess.run(["bash", "-c", line], cwd=place, env=variables(place), capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode in (0, 1), f"{line}: {done.stderr}"
    return place


@pytest.fixture(scope="module")
def machine(kit, tmp_path_factory):
    """The kit with a system and a plan for this machine."""
    return prepared(kit, tmp_path_factory.mktemp("machine") / "kit", 'solocore init "./detect a.pgm" "./control"',
                    "solocore plan system.toml -o plan.json")


def execute(line, place):
    """Exit code and the last line of stderr. What goes on until Ctrl-C gets it after three seconds."""
    endless = re.search(ENDLESS, line)
    process = subprocess.Popen(["bash", "-c", line], cwd=place, env=variables(place), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        err = process.communicate(timeout=3 if endless else LIMIT)[1]
    except subprocess.TimeoutExpired:
        assert endless, f"{line}: no end after {LIMIT} s"
        os.killpg(process.pid, signal.SIGINT)
        err = process.communicate(timeout=20)[1]
    return process.returncode, (err.strip().splitlines() or [""])[-1]


def wrong(line, code, said):
    """Why the outcome of a line is none that its page lets expect; nothing if it is."""
    codes = {0, *(c for pattern, more in ANSWERS.items() if re.search(pattern, line) for c in more)}
    return [] if code in codes else [f"{line}: exit code {code}: {said}"]


def named(line):
    for name, own in NAMES.items():
        line = line.replace(name, own)
    return line


@pytest.mark.parametrize("page, own", [pytest.param(page, own, id=page.name) for page, own in shown()])
def test_commands_that_any_machine_executes(page, own, kit, machine, tmp_path):
    own = [named(line) for line in own if not on_board(page, line)]
    if not own:
        pytest.skip("all of its commands are the board's")
    place = prepared(kit if page.name in BARE else machine, tmp_path / "kit", *BEFORE.get(page.name, []))
    assert [w for line in own for w in wrong(line, *execute(line, place))] == []


# A guest's script: each line with its exit code and its last words. What goes on until Ctrl-C works beside the lines after it.
GUEST = r"""
cd {place}
export PATH={place}/bin:$PATH HOME=/tmp XDG_CACHE_HOME=/tmp NO_COLOR=1
solocore exec --colors 0-7 -- ./pilot >/dev/null 2>&1 & sleep 4; A=$(pidof pilot); sleep 100000 & B=$!; sleep 100000 & C=$!
ended() {{
	[ -n "$running" ] || return 0
	kill -INT $running; wait $running; echo "@@ $? $number $(tail -n 1 $number.err)"; running=
}}
try() {{
	solocore board ask model-on
	sh -c "$2" >$1.out 2>$1.err; code=$?
	if [ $code = 3 ] && grep -q -e '{refused}' $1.err; then sh -c "$2 --partial" >$1.out 2>$1.err; code=$?; fi
	echo "@@ $code $1 $(tail -n 1 $1.err)"
}}
begin() {{
	ended; number=$1
	sh -c "exec $2" >$1.out 2>$1.err & running=$!
	sleep 4
	if ! kill -0 $running 2>/dev/null && grep -q -e '{refused}' $1.err; then
		sh -c "exec $2 --partial" >$1.out 2>$1.err & running=$!
		sleep 4
	fi
}}
"""


@pytest.mark.parametrize("page, own", [pytest.param(page, own, id=page.name) for page, own in shown() if any(on_board(page, line) for line in own)])
def test_commands_of_a_board(page, own, kit, tmp_path, fetched):  # noqa: F811
    own = [named(line) for line in own if on_board(page, line)]
    system = SYSTEMS.get(page.name, MEMGUARD)
    write = f"cat >system.toml <<'END'\n{system}\nEND" if "\n" in system else f"{system} >system.toml"
    place = prepared(kit, tmp_path / "kit", "solocore platforms core-i5-2500k | sed 's/^partition = .*/partition = \"way\"/' >ways.toml", write,
                     "solocore plan system.toml -o plan.json",
                     "sed 's/imx6q/ways.toml/' examples/mc2/system.toml >levels.toml; solocore plan levels.toml -o levels.json",
                     *(BEFORE[page.name] if page.name == "space.md" else []))
    script = GUEST.format(place=place, refused=REFUSED)
    for number, line in enumerate(own):
        for process, name in zip(PROCESSES, "ABC"):
            line = line.replace(process, f"${name}")
        if "--scheduler levels" in line:
            line = line.replace("plan.json", "levels.json")
        top = "solocore top" in line
        line = line.replace("solocore top", "solocore top --count 1")
        if re.match(ALONE, line):
            script += "ended\n"
        script += f'{"begin" if re.search(ENDLESS, line) and not top else "try"} {number} "{line.replace(chr(34), chr(39))}"\n'
    (place / "script.sh").write_text(script + "ended\n")
    done = subprocess.run([place / "bin/solocore", "board", "run", "core-i5-2500k", "--allocation", "--memory", "3 GiB", "--share", str(place), "--", "sh",
                           str(place / "script.sh")], env=variables(place), capture_output=True, text=True, timeout=3000, stdin=subprocess.DEVNULL)
    found = {int(number): (int(code), said) for code, number, said in re.findall(r"^@@ (\d+) (\d+) ?(.*)$", done.stdout, re.M)}
    assert found.keys() == set(range(len(own))), done.stdout + done.stderr
    assert [w for number, line in enumerate(own) for w in wrong(line, *found[number])] == []
