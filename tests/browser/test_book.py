"""Whether everybody can read the book: axe-core finds no serious fault, no page scrolls sideways, and paper has the page alone.

Without AXE_ALL=1 (`make nightly`) it looks at a few pages: the first, one more, and for widths and paper those of wide tables.
Not covered: what axe-core cannot see.
"""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from axe import faults
from pypdf import PdfReader
from test_report import CONTRAST

ROOT = Path(__file__).resolve().parents[2]
ALL = os.environ.get("AXE_ALL") == "1"
FEW = ("index", "report")
# Their tables and listings are wide.
WIDE = ("linux", "space", "advice", "ARCHITECTURE", "reference-system", "dram", "reproduction")
SCREENS = [("light", 400), ("dark", 1280), ("light", 1280), ("dark", 400)] if ALL else [("light", 400), ("dark", 1280)]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    place = tmp_path_factory.mktemp("book")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(place)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return place


def pages(book):
    # 404.html names its styles by a server's paths, and no page leads to it.
    found = sorted(path for path in book.glob("*.html") if path.name != "404.html")
    assert len(found) > 30
    return found if ALL else [book / f"{name}.html" for name in FEW]


def wide(book):
    """Pages for what depends on a width."""
    return sorted({*pages(book), *(book / f"{name}.html" for name in WIDE)})


@pytest.mark.parametrize(("scheme", "width"), SCREENS)
def test_axe_finds_no_serious_fault(opened, book, scheme, width):
    assert {path.name: found for path in pages(book) if (found := faults(opened(path, scheme, width)))} == {}


@pytest.mark.parametrize(("scheme", "width"), SCREENS)
def test_no_page_scrolls_sideways(opened, book, scheme, width):
    page = opened(book / "index.html", scheme, width)
    widths = {}
    for path in wide(book):
        page.goto(path.as_uri())
        widths[path.name] = page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)")
    assert {name: found for name, found in widths.items() if found > width} == {}


def test_no_script_of_a_page_fails_and_the_theme_can_be_switched(opened, book):
    page = opened(book / "index.html", "light", 1280)
    said = []
    page.on("pageerror", lambda error: said.append(f"{page.url}: {error}"))
    for path in sorted({*pages(book), book / "tutorial.html", book / "CHANGES.html"}):
        page.goto(path.as_uri())
        for mode in ("dark", "light"):
            page.click("#theme-menu")
            page.click(f"[data-bs-theme-value={mode}]")
            assert page.evaluate("document.documentElement.dataset.bsTheme") == mode, path.name
        assert "server" in page.get_attribute("#mkdocs-search-query", "placeholder")
    assert said == []


def test_the_menu_can_be_read(opened, book):
    """axe-core sees closed menus only; the entry of the shown page has another background."""
    page = opened(book / "report.html", "light", 1280)
    page.click("a.dropdown-toggle:has-text('Guide')")
    assert page.is_visible(".dropdown-menu.show .active")
    assert faults(page) == []


def test_a_narrow_page_hides_no_column(opened, book):
    """A table does not scroll by itself either, and each cell of a card has its column's name before it."""
    page = opened(book / "index.html", width=400)
    wrong = {}
    for path in wide(book):
        page.goto(path.as_uri())
        found = page.evaluate("""[...document.querySelectorAll('.scrolls')].filter(s => s.scrollWidth > s.clientWidth + 1
            || [...s.querySelectorAll('td')].some(c => c.textContent && c.getBoundingClientRect().width < 20)
            || [...s.querySelectorAll('.cards tbody tr')].some(r => [...r.cells].some((c, i) => getComputedStyle(c, '::before').content
                !== JSON.stringify(s.querySelectorAll('th')[i].textContent)))).map(s => s.textContent.replace(/\\s+/g, ' ').slice(0, 60))""")
        if found:
            wrong[path.name] = found
    assert wrong == {}


# What paper hides, and what it would cut. A wide part has no bar to scroll with there.
PAPER = """() => {
    const cut = e => e.getBoundingClientRect().right > innerWidth + 1 || e.matches('pre, .scrolls') && e.scrollWidth > e.clientWidth + 1;
    return [[...document.querySelectorAll('nav, .navbar, .bs-sidebar, .modal, footer, .headerlink')].filter(e => e.checkVisibility()).map(e => e.className),
        [...document.querySelectorAll('[role=main] *')].filter(e => e.checkVisibility() && cut(e)).map(e => e.textContent.slice(0, 40)),
        getComputedStyle(document.body).backgroundColor];
}"""


def test_paper_has_the_page_alone(opened, book):
    """Of a browser that shows it dark, too."""
    page = opened(book / "index.html", "dark", 688, "print")  # A4 less its margins
    wrong = {}
    for path in wide(book):
        page.goto(path.as_uri())
        shown, cut, ground = page.evaluate(PAPER)
        pale = [text for contrast, text in page.evaluate(CONTRAST) if contrast < 4.5]
        if (shown, cut, ground, pale) != ([], [], "rgb(255, 255, 255)", []):
            wrong[path.name] = (shown, cut, ground, pale)
    assert wrong == {}


def test_a_printed_page(opened, book):
    page = opened(book / "report.html", "dark")
    paper = PdfReader(io.BytesIO(page.pdf(format="A4"))).pages
    text = "\n".join(p.extract_text() for p in paper)
    assert "The report" in text and "What is on it" in text
    assert "Search" not in text and "Edit on" not in text and "Documentation built" not in text
    assert len(paper) <= 3
