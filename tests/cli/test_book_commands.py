"""Each command that README, the guide and the lab book show is executed, in the order of its page and with the files that the page speaks of.

Nightly (BOOK=1): some take a minute. What needs counters, sched_ext or ways runs on the virtual board. Shown are lines of blocks without a
language, and whole commands in the text of README and the guide. ELSEWHERE names the test that executes a line in the place of this one, and
its words there. NOT_EXECUTED says why nothing does. The quick tests here keep both lists true; crates/cli/src/args/book.rs parses all commands,
also those with names for values, and `crates/cli/tests/docs_paths.rs` looks for the tests and targets that figures name.
"""

import os
import re
import shutil
import signal
import subprocess

import pytest
from conftest import ROOT
from test_board import CACHE, fetched  # noqa: F401
from test_docs import LAB, PAGES, blocks

book = pytest.mark.skipif(not os.environ.get("BOOK"), reason="each command of the book; BOOK=1 asks for it")
# Against what never ends: a busy machine with a build that has checks takes a quarter of an hour for a line.
LIMIT = 3600

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

# Lines of the pages that are executed elsewhere: where, and the words there that are the command.
ELSEWHERE = [
    (r"make test$", ".ci/run", "make test"),
    (r"make demo$", "Makefile", "assess examples/vision/system.toml"),
    (r"make install", "tests/install/prefix.sh", "make --no-print-directory install"),
    (r"make uninstall", "tests/install/prefix.sh", "make --no-print-directory uninstall"),
    (r"scripts/setup\.sh package", "packaging/Makefile", "scripts/setup.sh package"),
    (r"make deb$", "packaging/Makefile", "-f packaging/Makefile deb"),
    (r"make carried$", "packaging/Makefile", "-f packaging/Makefile carried"),
    (r"apt-get install \./build/deb", "tests/install/chroot.sh", 'apt-get -qq -y --no-install-recommends "$@"'),
    (r"packaging/checksums\.sh sign", "tests/install/checksums.sh", '"$sums" sign'),
    (r"packaging/checksums\.sh check", "tests/install/checksums.sh", '"$sums" check'),
    (r"scripts/pmu-events\.py", "tests/cli/test_pmu_events.py", "scripts/pmu-events.py"),
    (r"target/debug/resctrl-double", "tests/cli/test_ways.py", '"resctrl-double"'),
    (r"SOLOCORE_RESCTRL=", "tests/cli/test_ways.py", "SOLOCORE_RESCTRL=str("),
    (r"solocore platform collect --script", "tests/cli/test_platform.py", '"platform", "collect", "--script"'),
    (r"solocore board ask", "tests/cli/test_board.py", "solocore board ask"),
    (r"solocore reserve ", "tests/vm/guest/reserve.sh", "solocore reserve"),
    (r"solocore run .*--replace", "tests/vm/guest/replace.sh", "solocore run /plans/night.json --replace"),
    (r"solocore board shell", "tests/cli/test_board.py", '"board", "shell"'),
    (r"solocore board run .*--share plans", "tests/cli/test_board.py", '"--share"'),
    (r"solocore (study|reproduce) .*--dask", "tests/python/test_dask.py", '"--dask"'),
    (r"dask scheduler", "tests/python/test_dask.py", '"scheduler", "--host"'),
    (r"dask worker", "tests/python/test_dask.py", '"worker", to'),
    (r"git show .*:plan.json|solocore (plan|diff) .*(old.json|\|\| exit 1)", "scripts/check-margins.sh", "git show"),
    (r"scripts/check-margins\.sh", "tests/cli/test_margins.py", "scripts/check-margins.sh"),
    (r"taplo check", "tests/cli/test_formats.py", '"check"'),
    (r"solocore profile --from run\.json", "tests/cli/test_profile_counted.py", '"profile", "--from"'),
    (r"solocore report plan\.json verify\.json", "tests/cli/test_verify.py", '"report", "plan.json", "verify.json"'),
    (r"solocore vcpu bind --unit", "tests/vm/guest/vcpu.sh", "solocore vcpu bind --unit"),
    (r"solocore vcpu bind --cgroup", "tests/vm/guest/vcpu.sh", "solocore vcpu bind --cgroup"),
    (r"solocore run plan\.json .*driver\.py", "tests/cli/test_run.py", "driver.py"),
]
# Lines that nothing executes, and why.
NOT_EXECUTED = {
    r"make build$": "the release build of all; `make test` builds the same crates with checks, tests/install/prefix.sh installs what it made",
    r"scp ": "it asks for a second machine; tests/install/alone.sh executes the file that it copies",
    r"(PARTS=(\w+|\"[\w ]+\") )?tests/install/reproducible\.sh": "two whole builds; by hand",
    r"podman ": "it asks a registry; tests/install/container.sh builds and runs the same file with buildah, podman's builder",
    r"apt-get download linux-source|tar -xJf x/": "150 MB of the kernel's source; tests/cli/test_pmu_events.py has a small tree of the same form",
    r"solocore bench camera /dev/video0": "it asks for a camera; tests/vm/camera.sh measures with one of a guest",
    r"solocore top --format json": "it says that nothing runs, on its own; each board page has `top` beside a run",
    r"solocore (run --colors|exec --(colors|colors 0-7|vcpu)|board run|vcpu drill|platform measure|assess --check)$": "named without its arguments",
    r"solocore (plan|profile|run|sim|verify|schedule-io) -o \S+$|solocore (diff|run --dry-run|platform measure|compare) --format json$|solocore (run --start|profile --engine perf|sim --timeline .*|run plan\.json --metrics)$":
        "named without its arguments",
}
# What a page calls by a name of the reader's own.
NAMES = {"task.NAME": "task.sort", "--task NAME": "--task detect", "pilot=./pilot": "attitude=./pilot", "--engine perf --platform imx6q": "--engine perf --platform machine.toml",
         "imx6q -o base.json": "machine.toml -o base.json", " make": " ./detect a.pgm", "solocore init": "rm -f machine.toml system.toml; solocore init"}
# Names in capitals stand for values of the reader's own; the parser's test has them.
FORM = r"(?<![\w./])[A-Z]{2,}\b(?!=\S*/)|\w\|\w"
# Numbers of processes.
PROCESSES = ("1234", "4711", "4712")
# What goes on until Ctrl-C.
ENDLESS = r"solocore (run|vcpu serve|top|latency)\b(?!.*--(duration|dry-run|count|calibrate))"
# What the virtual board executes: it has counters, sched_ext and ways, and this machine may have none.
BOARD = r"solocore (run|verify|top|vcpu|exec|recolor|space|doctor --plan)\b|mount "
# Exit codes other than 0 that are answers.
ANSWERS = {r"diff ": (1,), r"platform check|doctor": (1, 3), r"plan .*|reproduce ": (1,), r"assess .*--check": (1,), r"exit 7": (7,), r"space map": (3,), r"bench (banks|colors|pool|color-start)": (3,), ENDLESS: (130,)}
# What regulates by itself ends what an earlier line began; so does each line of a list of commands, but for what watches.
LISTS = ("commands.md",)
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
period = "{period}"
command = ["./detect", "a.pgm"]
[[task]]
name = "batch"
core = 3
criticality = "D"
wcet = "1 ms"
misses = 1
"""
MEMGUARD = BUDGETS.format(policy="memguard", more='period = "1 ms"', period="500 ms")
# Nothing limits the other cores of a plan with the lock: its bounds are long.
BWLOCK = BUDGETS.format(policy="bwlock", more='lock_bandwidth = "100 MB/s"', period="50 s")
# Budgets for a start on frames of the core's colours and banks, which is quick in DRAM; the skid is that start's. Nobody locks pages, so the
# task states its misses.
COLOURED = BUDGETS.format(policy="memguard", more='period = "1 ms"\nshare = "explicit"\nskid = 6000', period="3 s").replace('pages = "anywhere"\n', "").replace(
    'name = "detect"\n', 'name = "detect"\nwcet = "100 ms"\nmisses = 400000\n') + "".join(
    f'[[core]]\nid = {core}\nbandwidth = "{rate} MB/s"\n' for core, rate in enumerate([896, 64, 64, 64]))
# The plan of a page, on the board: a system, or a command that writes one.
SYSTEMS = {
    "functions.md": BWLOCK,
    "space.md": MEMGUARD.replace('pages = "anywhere"\n', ""),
    "lock.md": BWLOCK,
    "promises.md": COLOURED,
    "ways.md": MEMGUARD.replace('pages = "anywhere"\n', "").replace("core-i5-2500k", "ways.toml"),
    "linux-levels.md": "sed 's/imx6q/ways.toml/' examples/mc2/system.toml",
    "vcpus.md": "cat examples/vcpus/system.toml",
    "windows.md": "sed 's/p4080/core-i5-2500k/' examples/ima-sce/system.toml",
    "slots.md": "sed 's/p4080/core-i5-2500k/; s/partition 1\"/nav\"/' examples/ima-sce/system.toml",
}
# Pages whose lines on the board read a map.
MAPPED = ("promises.md", "space.md")
# Lines that write to /etc: they get a copy of it, in a name space of their own, and a systemctl that needs no systemd.
ETC = r"groupadd |(.*\| *(sudo )?)?install (-D )?-m 644 |.*tee /etc/"
OWN_ETC = r"""
set -e
cp -a /etc {place}/etc; mount --bind {place}/etc /etc; mkdir -p /etc/solocore /etc/systemd/system /etc/here; cd /etc/here
ln -s {root}/packaging . && cp {place}/plan.json .
id -u alice >/dev/null 2>&1 || useradd -M alice
systemctl() {{ [ "$1" = daemon-reload ] || {{ [ "$1 $2" = "enable --now" ] && /usr/bin/systemctl --root=/ enable "$3"; }}; }}
cp packaging/solocore.service /etc/systemd/system/
sudo() {{ "$@"; }}
{line}
"""
# What a page begins with: `init` makes the system where the page shows it.
BARE = ("README.md", "commands.md", "machine.md")
# No map is found by timing in a guest; these are known.
COLOURS = 'for b in 12 13 14 15 16; do echo "# colour: $b"; done >map.txt; '
BANKED_MAP = COLOURS + "echo 19 23 >>map.txt; echo 20 24 >>map.txt"
BEFORE = {
    "promises.md": [COLOURS + "printf '%s\\n' 13 14 15 16 >>map.txt"],
    "space.md": [BANKED_MAP],
    "levels.md": ["head -c 64M /dev/zero >disk.img", BANKED_MAP],
    "commands.md": ["make -s -C examples/vision", 'solocore init "./detect a.pgm"; solocore plan system.toml -o old.json',
                    """echo '{"cores": 2, "tasks": [{"wcet": 1, "period": 4, "deadline": 4}]}' >corpus.jsonl"""],
    "watching.md": ["solocore run plan.json --event page-faults --partial --duration '1 s' -o run.json"],
    "linux-levels.md": ["solocore plan examples/mc2/system.toml -o plan.json"],
    "reference.md": ["cp examples/scenarios/memguard.toml scenario.toml"],
    "reference-scenario-result.md": ["cp examples/scenarios/memguard.toml scenario.toml"],
    "dram.md": ["cp memories/ddr3-1333.toml my-memory.toml"],
    "simulator.md": ["cp examples/scenarios/memguard.toml scenario.toml"],
    "report.md": ["make -s -C examples/vision", "solocore run plan.json --event page-faults --partial --duration '1 s' -o run.json"],
}


def lines(page):
    """Commands of a page's blocks. A block with prompts has what they print, too."""
    for language, block in blocks(page.read_text()):
        text = re.sub(r"\\\n\s*", "", block)
        prompts = [line[2:] for line in re.sub(r"\|\n\s+", "| ", text).splitlines() if line.startswith("$ ")]
        for line in prompts or (text.splitlines() if language in ("", "sh", "console") else []):
            if line.strip() and not line.startswith("#"):
                yield re.split(r"\s+#\s", line)[0].strip().removeprefix("sudo ").rstrip(" &")


def inline(page):
    """Commands with arguments in a page's text, whose words are all real, each once; those of blocks are left out."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    found = (" ".join(code.split()).removeprefix("sudo ") for code in re.findall(r"`([^`]+)`", text))
    return [code for code in dict.fromkeys(found) if re.match(r"solocore [a-z]+ \S+", code) and not re.search(FORM, named(code))
            and not re.fullmatch(r"solocore (platform|space|bench|board|vcpu) [a-z-]+", code)]


def on_board(page, line):
    """Whether the board executes it; a trace is checked where it was made."""
    return re.match(BOARD, line) or page.name == "linux-levels.md" and "check-trace" in line


def every():
    """Pages with all lines that they show; what a block of any page has is executed there."""
    shown = {page: list(lines(page)) for page in [*PAGES, *LAB]}
    known = {line for page in shown for line in shown[page]}
    for page in shown:
        yield page, shown[page] + [line for line in (inline(page) if page in PAGES else []) if line not in known]


def shown():
    """Pages with the lines that are executed here; the tutorial's blocks have a test of their own."""
    for page, all_lines in every():
        own = [line for line in all_lines if not any(re.match(pattern, line) for pattern in [*(e[0] for e in ELSEWHERE), *NOT_EXECUTED])]
        own = [line for line in own if page.name != "tutorial.md" or line not in list(lines(page))]
        if own:
            yield page, own


def test_each_line_that_is_not_executed_here_has_its_place_or_its_reason():
    everything = [line for _, own in every() for line in own]
    for pattern, place, words in ELSEWHERE:
        assert words in (ROOT / place).read_text(), f"{place} has no {words!r}"
        assert any(re.match(pattern, line) for line in everything), f"no page shows {pattern!r} any more"
    for pattern in NOT_EXECUTED:
        assert any(re.match(pattern, line) for line in everything), f"no page shows {pattern!r} any more"
    assert sum(len(own) for _, own in shown()) > 190


def test_blocks_hold_commands_that_are_there():
    """A block without a language is for the shell: its first words are programs, and no output is among its lines."""
    known = "solocore|make|mount|scp|podman|dask|taplo|git|apt-get|tar|echo|install|groupadd|grep|sed|time|seq|head|packaging/\\S+|bench/\\S+|tests/\\S+|scripts/\\S+|target/\\S+|[A-Z_]+=\\S+"
    wrong = [f"{page.name}: {line}" for page, own in every() for line in own if not re.match(rf"({known}) \S|bench/|tests/|scripts/|packaging/", line)]
    assert wrong == []


def test_commands_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("`solocore plan\nsystem.toml`, `solocore plan FILE`, `solocore bench pool`, `solocore schema a|b`, `make x`\n\n"
                    "```\nsudo make a   # why\n\nsolocore b \\\n   c &\n```\n```text\nout\n```\n```console\n$ x |\n    y\nout\n```\n")
    assert list(lines(page)) == ["make a", "solocore b c", "x | y"]
    assert inline(page) == ["solocore plan system.toml"]


@pytest.fixture(scope="module")
def kit(tmp_path_factory, program, compile_c):
    """Programs and files that the pages speak of."""
    kit = tmp_path_factory.mktemp("kit")
    (kit / "bin").mkdir()
    (kit / "bin/solocore").symlink_to(program)
    for name, rounds in PROGRAMS.items():
        shutil.copy(compile_c(DETECT, "-O1", f"-DROUNDS={rounds}", name=name), kit / name)
    shutil.copytree(ROOT / "crates/dram/memories", kit / "memories")
    for name in ("a.pgm", "b.pgm", "in.pgm", "data", "data.bin", "data.txt", "words.txt"):
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
    if re.match(ETC, line):
        if os.geteuid():
            return 0, "left out: it asks for root"
        script = OWN_ETC.format(place=place, root=ROOT, line=line)
        done = subprocess.run(["unshare", "-m", "bash", "-c", script], capture_output=True, text=True, timeout=LIMIT)
        return done.returncode, (done.stderr.strip().splitlines() or [""])[-1]
    endless = re.search(ENDLESS, line)
    process = subprocess.Popen(["bash", "-c", line], cwd=place, env=variables(place), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        err = process.communicate(timeout=3 if endless else LIMIT)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
        assert endless, f"{line}: no end after {LIMIT} s"
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


@book
@pytest.mark.parametrize("page, own", [pytest.param(page, own, id=page.name) for page, own in shown()])
def test_commands_that_any_machine_executes(page, own, kit, machine, tmp_path):
    own = [named(line) for line in own if not on_board(page, line)]
    if not own:
        pytest.skip("all of its commands are the board's")
    place = prepared(kit if page.name in BARE else machine, tmp_path / "kit", *BEFORE.get(page.name, []))
    faults = [w for line in own for w in wrong(line, *execute(line, place))]
    assert not faults, "\n".join(faults)


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


@book
@pytest.mark.parametrize("page, own", [pytest.param(page, own, id=page.name) for page, own in shown() if any(on_board(page, line) for line in own)])
def test_commands_of_a_board(page, own, kit, tmp_path, fetched):  # noqa: F811
    own = [named(line) for line in own if on_board(page, line)]
    system = SYSTEMS.get(page.name, MEMGUARD)
    write = f"cat >system.toml <<'END'\n{system}\nEND" if "\n" in system else f"{system} >system.toml"
    place = prepared(kit, tmp_path / "kit", "solocore platforms core-i5-2500k | sed 's/^partition = .*/partition = \"way\"/' >ways.toml", write,
                     "solocore plan system.toml -o plan.json",
                     "sed 's/imx6q/ways.toml/' examples/mc2/system.toml >levels.toml; solocore plan levels.toml -o levels.json",
                     *(BEFORE[page.name] if page.name in MAPPED else []),
                     f"cat >shared.toml <<'END'\n{SYSTEMS['ways.md']}\nEND", "solocore plan shared.toml -o ways.json")
    script = GUEST.format(place=place, refused=REFUSED)
    for number, line in enumerate(own):
        for process, name in zip(PROCESSES, "ABC"):
            line = line.replace(process, f"${name}")
        if "--scheduler levels" in line:
            line = line.replace("plan.json", "levels.json")
        if page.name in LISTS and "--resctrl" in line:
            line = line.replace("plan.json", "ways.json")
            script += "mount -t resctrl resctrl /sys/fs/resctrl\n"
        top = "solocore top" in line
        line = line.replace("solocore top", "solocore top --count 1")
        # All jobs beside all kinds of enemies take more than an hour in an emulator.
        line = re.sub(r"solocore verify plan\.json$", "solocore verify plan.json --enemy write -n 1", line)
        if re.match(ALONE, line) or page.name in LISTS and not top:
            script += "ended\n"
        script += f'{"begin" if re.search(ENDLESS, line) and not top else "try"} {number} "{line.replace(chr(34), chr(39))}"\n'
    (place / "script.sh").write_text(script + "ended\n")
    done = subprocess.run([place / "bin/solocore", "board", "run", "core-i5-2500k", "--allocation", "--memory", "3 GiB", "--share", str(place), "--", "sh",
                           str(place / "script.sh")], env=variables(place), capture_output=True, text=True, timeout=2 * LIMIT, stdin=subprocess.DEVNULL)
    found = {int(number): (int(code), said) for code, number, said in re.findall(r"^@@ (\d+) (\d+) ?(.*)$", done.stdout, re.M)}
    assert found.keys() == set(range(len(own))), done.stdout + done.stderr
    faults = [w for number, line in enumerate(own) for w in wrong(line, *found[number])]
    assert not faults, "\n".join(faults)
