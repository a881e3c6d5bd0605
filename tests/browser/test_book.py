"""Whether everybody can read the book: axe-core finds no serious fault, and no page scrolls sideways on a telephone.

Without AXE_ALL=1 (`make nightly`) it looks at a few pages: the first, one more, and for widths those of wide tables.
Not covered: what axe-core cannot see.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from axe import faults

ROOT = Path(__file__).resolve().parents[2]
ALL = os.environ.get("AXE_ALL") == "1"
FEW = ("index", "report")
# Their tables and listings are wide.
WIDE = ("linux", "space", "advice", "ARCHITECTURE")


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    place = tmp_path_factory.mktemp("book")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(place)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return place


def pages(book):
    found = sorted(book.glob("*.html"))
    assert len(found) > 30
    return found if ALL else [book / f"{name}.html" for name in FEW]


@pytest.mark.parametrize(("scheme", "width"), [("light", 400), ("dark", 1280), ("light", 1280), ("dark", 400)] if ALL else [("light", 400), ("dark", 1280)])
def test_axe_finds_no_serious_fault(opened, book, scheme, width):
    assert {path.name: found for path in pages(book) if (found := faults(opened(path, scheme, width)))} == {}


def test_no_page_scrolls_sideways(opened, book):
    page = opened(book / "index.html", width=400)
    wide = {}
    for path in pages(book) + [book / f"{name}.html" for name in WIDE]:
        page.goto(path.as_uri())
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 400:
            wide[path.name] = width
    assert wide == {}
