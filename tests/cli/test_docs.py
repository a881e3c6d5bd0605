"""The book: its tutorial is executed, its commands and options exist, its links lead somewhere, and no sentence is too long.

The pages are those of mkdocs.yml; sentences are counted in all pages, in README.md, in all help and in messages.
"""

import email.utils
import os
import re
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT

LONGEST = 35
NAV = (ROOT / "mkdocs.yml").read_text()
GUIDE = [ROOT / "docs" / name for name in re.findall(r"^      - .*: (\S+\.md)$", NAV[NAV.index("- Guide:"):NAV.index("- Lab book:")], re.M)]
PAGES = [ROOT / "README.md", ROOT / "docs/index.md", *GUIDE]
LAB = [ROOT / name if (ROOT / name).exists() else ROOT / "docs" / name for name in re.findall(r"^      - .*: (\S+\.md)$", NAV[NAV.index("- Lab book:"):], re.M)]
# Long sentences that are left, by page: no more may come, and the number goes down with each that is cut.
LEFT = {"CHANGES.md": 10}


def blocks(text):
    """Fenced code, by its language."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S)


def sentences(text):
    """Sentences of Markdown, without code; each cell of a table and each item of a list stands for itself."""
    text = re.sub(r"^```.*?^```", "\n\n", text, flags=re.M | re.S)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )|\n(?=#)|\n(?=\|)", text):
        for cell in paragraph.strip().strip("|").split("|") if paragraph.strip().startswith("|") else [paragraph]:
            cell = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "Code", cell))
            yield from re.split(r"(?<=[.!?:])[)*]*\s+(?=[A-Z(\"]|solocore)", cell)


def too_long(text):
    words = lambda s: re.findall(r"[^\W_][\w'’./-]*", s)  # noqa: E731
    return [f"{len(words(s))} words: {' '.join(s.split())}" for s in sentences(text) if len(words(s)) > LONGEST]


def test_long_sentences_are_found():
    words = " ".join(["word"] * LONGEST)
    assert too_long(f"W{words}. W{words}. `x` {words[5:]}.\n\n| {words} | {words} |\n* {words}\n* {words}") == []
    assert len(too_long(f"One {words}. Short.\n\n```\n{words} {words}\n```\n| more {words} | {words} |\n* {words} `a b` c")) == 3


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_sentences_are_short(page):
    assert too_long(page.read_text()) == []


@pytest.mark.parametrize("page", LAB, ids=lambda p: p.name)
def test_the_lab_books_sentences_are_short(page):
    long = too_long(page.read_text())
    assert len(long) <= LEFT.get(page.name, 0), long
    assert len(long) == LEFT.get(page.name, 0), f"{len(long)} are left: lower the number in LEFT"


@pytest.mark.parametrize("page", GUIDE, ids=lambda p: p.name)
def test_figures_of_the_guide_are_in_the_lab_book(page):
    """A page of the guide says what to do; what was measured has a page of the lab book."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    assert re.findall(r"^#+ (?:Measured|Figures|What was|What it cost|What came|Seen|Attacked|Against|Speed|Error$).*", text, re.M) == []


def messages():
    """Strings of the sources, outside of tests, each with its file. What is filled in is one word; formulas and whole texts are left out."""
    for path in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        source = re.sub(r"^\s*//.*$", "", path.read_text().split("#[cfg(test)]")[0], flags=re.M)
        for text in re.findall(r'"((?:[^"\\]|\\.)*)"', source, re.S) if "tests" not in path.parts and path.name != "tests.rs" else []:
            text = re.sub(r"\{[^}]*\}", "X", re.sub(r"\\\n\s*", "", text))
            if " " in text and "\n" not in text and not re.search(r" = .*(ceil\(|max\(|sum of)| = max over| = the least of|\w\*\w", text):
                yield path, text.replace("\\n", "\n\n").replace('\\"', '"')


def test_messages_are_short():
    found = list(messages())
    assert len(found) > 3000, f"{len(found)} messages were found"
    assert [f"{path.relative_to(ROOT)}: {long}" for path, text in found for long in too_long(text)] == []


def helps(solocore, *command):
    """The help of a command and of all below it."""
    text = solocore(*command, "--help").out.decode()
    yield command, text
    below = re.search(r"^Commands:\n(.*?)(?:\n\n|\Z)", text, re.M | re.S)
    names = re.findall(r"^  ([a-z][\w-]*)(?:  |$)", below[1] if below else text if not command else "", re.M)
    for name in names:
        if name != "help":
            yield from helps(solocore, *command, name)


@pytest.fixture(scope="module")
def every_help(program):
    def solocore(*args):
        done = subprocess.run([program, *args], capture_output=True)
        return type("Done", (), {"out": done.stdout})

    return dict(helps(solocore))


def test_helps_sentences_are_short(every_help):
    assert len(every_help) > 40, sorted(every_help)
    wrong = []
    for command, text in every_help.items():
        # Options and their texts are paragraphs; examples are none.
        text = re.sub(r"^Examples:\n.*?(?:\n\n|\Z)", "", text, flags=re.M | re.S)
        text = re.sub(r"^ +(?=-{1,2}\w|\[?<?[A-Z]{2})|^  (?=[a-z])", "\n\n", text, flags=re.M)
        wrong += [f"{' '.join(command)}: {s}" for s in too_long(text)]
    assert wrong == []


def commands(text):
    """What the blocks of a page run: words after `solocore`."""
    for _, block in blocks(text):
        for line in block.splitlines():
            line = line.removeprefix("$ ").removeprefix("sudo ")
            if line.startswith("solocore ") and not line.startswith("solocore: "):
                try:
                    yield shlex.split(line, comments=True)[1:]
                except ValueError:
                    continue


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_and_options_exist(page, every_help):
    for words in commands(page.read_text()):
        command = ()
        while len(command) < len(words) and (*command, words[len(command)]) in every_help:
            command = (*command, words[len(command)])
        assert command, f"there is no command {words[0]}"
        own = words[:words.index("--")] if "--" in words else words
        known = set(re.findall(r"--[\w-]+", every_help[command]))
        for option in (w.split("=")[0] for w in own if w.startswith("--")):
            assert option in known, f"`solocore {' '.join(command)}` has no {option}: {' '.join(words)}"


def test_the_tutorial_works_as_it_stands(solocore, program):
    bin_dir = solocore.dir / "bin"
    bin_dir.mkdir()
    (bin_dir / "solocore").symlink_to(program)
    env = {**solocore.env, "PATH": f"{bin_dir}:{os.environ['PATH']}"}
    text = (ROOT / "docs/tutorial.md").read_text()
    lines = [line for language, block in blocks(text) if language == "console" for line in block.splitlines()]
    assert len(lines) >= 10 and all(line.startswith("$ ") for line in lines)
    out = {}
    for line in lines:
        wanted = int(said[1]) if (said := re.search(r"# exit code (\d)", line)) else 0
        command = line.removeprefix("$ ").split("   #")[0]
        done = subprocess.run(["bash", "-c", command], cwd=solocore.dir, env=env, capture_output=True, text=True, timeout=120)
        # What a machine lacks differs.
        assert done.returncode == wanted or "doctor" in command and done.returncode in (0, 3), f"{line}: {done.returncode}\n{done.stderr}"
        out[command] = done.stdout
    plan, what_if, failing = (next(o for c, o in out.items() if c.startswith(f"solocore plan system.toml {words}"))
                              for words in ("-o", '--what-if "task.sort.period=50', '--what-if "task.sort.period=4 '))
    for column in ("C ms", "mu", "C_sce ms", "response ms", "verdict"):
        assert column in plan and f"`{column}`" in text
    assert "meets" in plan and "bounds rest on:" in plan and "task.sort.period" in what_if
    assert "may miss" in failing or "no bound" in failing
    c_sce = plan.splitlines()[1].split()[5]

    def longest(words):
        table = next(o for c, o in out.items() if c.startswith(f"solocore sim plan.json {words}"))
        return float(next(line for line in table.splitlines() if line.startswith("sort")).split()[4])

    assert longest("--duration") <= float(c_sce)
    assert "<html" in (solocore.dir / "report.html").read_text()


def test_the_book_has_no_dead_link(tmp_path):
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "book"], cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stderr
    page = re.sub(r"<[^>]+>", "", (tmp_path / "book/commands.html").read_text())
    assert 'href="machine.html"' in (tmp_path / "book/tutorial.html").read_text()
    assert "plan system.toml" in page
    pages = {p.name for p in (tmp_path / "book").glob("*.html")}
    assert {f"{p.stem}.html" for p in (ROOT / "docs").glob("*.md")} <= pages


def test_the_release_has_one_version_and_one_date():
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    number, date = re.search(r"^## (\S+), (\d{4}-\d\d-\d\d)", (ROOT / "CHANGES.md").read_text(), re.M).groups()
    debian = (ROOT / "packaging/debian/changelog").read_text()
    packaged = email.utils.parsedate_to_datetime(re.search(r"^ -- .*>  (.*)$", debian, re.M)[1])
    assert (number, date) == (version, packaged.date().isoformat()) and debian.startswith(f"solocore ({version})")


def test_labels_of_caveats_are_explained():
    head, _, rest = (ROOT / "CAVEATS.md").read_text().partition("\n## ")
    explained = set(re.findall(r"^\* \*(\w+)\*:", head, re.M))
    used = re.findall(r"^\* \*?([A-Z][a-z]+)(?:\.\*|\*\.|:) ", rest, re.M)
    assert explained == {"Proved", "Tested", "Papers", "Assumed"} and len(used) > 50
    assert set(used) <= explained
