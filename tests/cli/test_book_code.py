"""Code that the book shows: its C compiles and links, its TOML plans or simulates, its Python calls what is there.

A block is a part of a file: FRAMES has what stands around it, by page. A block in a language that no test here knows is a failure.
tests/python/test_book.py executes the Python of docs/python.md, which needs the package.
"""

import re
import subprocess
import sys
from unittest import mock

import pytest
from conftest import ROOT
from test_docs import LAB, PAGES, blocks

CODE = [(page, language, block) for page in [*PAGES, *LAB] for language, block in blocks(page.read_text()) if language not in ("", "sh", "console", "text")]
ROOM = "extern void *memory, *frame; extern unsigned long bytes, size;\nvoid *memory, *frame; unsigned long bytes, size;\n"
C = {
    "lock.md": "static int image; static void filter(int i) { (void)i; }\nint main(void)\n{\nBLOCK\nreturn 0;\n}\n",
    "buffers.md": "#include <solocore_buffer.h>\n#include <solocore_ipc.h>\n" + ROOM + "int main(void)\n{\nBLOCK\nreturn 0;\n}\n",
    "reserve.md": "#include <unistd.h>\n#include <solocore_buffer.h>\nstatic void video(int camera)\n{\nBLOCK\n}\nint main(void)\n{\nvideo(0);\nreturn 0;\n}\n",
    "slots.md": "#include <solocore.h>\nstatic void start_dma(unsigned long long m) { (void)m; } static void wait_for_dma(void) {}\nint main(void)\n{\nBLOCK\nreturn 0;\n}\n",
    "windows.md": "#include <stddef.h>\n#include <solocore.h>\nstatic void move_data(void) {}\nint main(void)\n{\nBLOCK\nreturn 0;\n}\n",
}
NUMBERS = 'wcet = "1 ms"\nmisses = 1000\n'
TASK = '[[task]]\nname = "{}"\nperiod = "100 ms"\n' + NUMBERS
BOARD = 'platform = "core-i5-2500k"\n'
LEVELS = '[[task]]\nname = "gps"\ncriticality = "A"\nperiod = "20 ms"\ncore = 0\nwcet_by_ways = ["1 ms"]\nmisses_by_ways = [100]\n'
# What stands before and after a block, by the page and the block's first line, and by the first word of its second one where pages have several.
TOML = {
    ("system-file.md", 'platform = "p4080"'): ("", NUMBERS),
    ("functions.md", "[[task]]"): (BOARD + '[regulation]\npolicy = "bwlock"\nlock_bandwidth = "100 MB/s"\n', 'name = "a"\nperiod = "100 ms"\n' + NUMBERS),
    ("vcpus.md", "[regulation]"): (BOARD, "".join(TASK.format(name) for name in ("decode", "scale"))),
    ("levels.md", 'platform = "imx6q"'): ("", LEVELS),
    ("shares.md", "[regulation]"): (BOARD, TASK.format("a") + TASK.format("b")),
    ("shares.md", "[regulation]", "reclaim"): (BOARD, TASK.format("a") + TASK.format("b") + 'criticality = "D"\n'),
    ("profiles.md", "[[task]]"): (BOARD, NUMBERS),
    ("editors.md", "#:schema ./system.schema.json"): ("", TASK.format("a")),
}


def bare(line):
    """A line without its comment."""
    return re.split(r"\s+#(?!:)", line)[0].strip()


# Pages whose blocks are the head of a scenario, and what is in it.
SCENARIOS = {"simulator.md": 'duration = "1 ms"\n[[task]]\nname = "a"\ncore = 0\nworkload = { kind = "latency", size = "1 MiB" }\n'}
# Blocks that are parts of a platform file, by page, and the preset that has the other keys.
PLATFORMS = {"machine.md": "p4080"}


def test_every_block_has_a_language_that_is_tried():
    assert {language for _, language, _ in CODE} <= {"c", "toml", "python"}
    assert {page.name for page, language, _ in CODE if language == "c"} == set(C)
    assert {page.name for page, language, _ in CODE if language == "toml"} == {key[0] for key in TOML} | set(PLATFORMS) | set(SCENARIOS)
    assert {page.name for page, language, _ in CODE if language == "python"} == {"buffers.md", "slots.md", "python.md"}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    out = tmp_path_factory.mktemp("client")
    subprocess.run(["make", "-s", "-C", ROOT / "client/c", f"OUT={out}"], check=True)
    return out


@pytest.mark.parametrize("page, block", [pytest.param(page, block, id=page.name) for page, language, block in CODE if language == "c"])
def test_c_compiles_and_links(client, tmp_path, page, block):
    includes = "".join(f"{line}\n" for line in block.splitlines() if line.startswith("#include"))
    rest = "".join(f"{line}\n" for line in block.splitlines() if not line.startswith("#include"))
    (tmp_path / "a.c").write_text(includes + C[page.name].replace("BLOCK", rest))
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/client/c", "-o", tmp_path / "a", tmp_path / "a.c", f"-L{client}", "-lsolocore"], check=True)


@pytest.mark.parametrize("page, block", [pytest.param(page, block, id=f"{page.name}-{at}") for at, (page, language, block) in enumerate(CODE) if language == "toml"])
def test_toml_is_taken(solocore, page, block):
    if page.name in PLATFORMS:
        preset = (ROOT / f"platforms/{PLATFORMS[page.name]}.toml").read_text()
        keys, tables = block.split("[[", 1)
        stated = {line.split(" = ")[0] for line in keys.splitlines() if line}
        rest = "".join(f"{line}\n" for line in preset.splitlines() if line.split(" = ")[0] not in stated)
        solocore.write("board.toml", f"{keys}{rest}[[{tables}")
        assert solocore.plan('platform = "board.toml"\n' + TASK.format("a"))["platform"]["frequency"] in block
        return
    if page.name in SCENARIOS:
        solocore.write("scenario.toml", block + SCENARIOS[page.name])
        done = solocore("sim", "scenario.toml", "--format", "json")
        assert done.code == 0, done.err
        return
    key = page.name, bare(block.splitlines()[0])
    second = bare(block.splitlines()[1]).split(" ")[0] if len(block.splitlines()) > 1 else ""
    before, after = TOML.get((*key, second)) or TOML[key]
    if "wcet" in after and "[[" not in after:
        # The numbers take the place of a command or a profile.
        block = re.sub(r"^(command|inputs|job|lock) = .*\n", "", block, flags=re.M) if "job =" not in block or page.name == "system-file.md" else block
    solocore.write("system.toml", before + block + after)
    done = solocore("plan", "system.toml", "-o", "plan.json")
    assert done.code in (0, 1), done.err
    assert (solocore.dir / "plan.json").exists()


@pytest.fixture
def bindings(client, monkeypatch):
    """The Python of this tree, with its client library."""
    monkeypatch.setenv("SOLOCORE_LIBRARY", str(client / "libsolocore.so.0"))
    monkeypatch.syspath_prepend(ROOT / "python")
    for name in [name for name in sys.modules if name.split(".")[0] == "solocore"]:
        monkeypatch.delitem(sys.modules, name)


def python_of(page):
    [block] = [block for of, language, block in CODE if (of.name, language) == (page, "python")]
    return compile(block, f"docs/{page}", "exec")


def test_the_buffers_python_calls_what_is_there(bindings, monkeypatch):
    from solocore import buffers

    held, read = mock.Mock(spec=["memory"]), []
    made = mock.create_autospec(buffers.Buffer)
    made.return_value.__enter__ = lambda _: held
    made.return_value.__exit__ = lambda *_: False
    monkeypatch.setattr(buffers, "Buffer", made)
    exec(python_of("buffers.md"), {"buffers": buffers, "camera": mock.Mock(readinto=read.append)})
    made.assert_called_once_with("video", 400 << 10)
    assert read == [held.memory]


def test_the_drivers_python_calls_what_is_there(bindings, monkeypatch):
    """With the client's own signatures; the third slot is the end of solocore."""
    from solocore import client as module

    class Ended(Exception):
        pass

    slots = iter([2, 0])

    class Slot:
        def __enter__(self):
            for missed in slots:
                return missed
            raise Ended

        def __exit__(self, *_):
            pass

    attached, moved = mock.create_autospec(module.attach_slot), []
    monkeypatch.setattr(module, "attach_slot", attached)
    monkeypatch.setattr(module, "slot", mock.create_autospec(module.slot, side_effect=Slot))
    with pytest.raises(Ended):
        exec(python_of("slots.md"), {"transfer": lambda: moved.append(1)})
    attached.assert_called_once_with("nav/1/device-input")
    assert len(moved) == 2
