"""Whether everybody can read the book: axe-core finds no serious fault, no page scrolls sideways, and paper has the page alone.

Its links, listings and pictures are laid out for each width and scheme, and its search answers from a server and from a disk.

Without AXE_ALL=1 (`make nightly`) it looks at a few pages: the first, one more, and for widths and paper those of wide tables.
Not covered: what axe-core cannot see.
"""

import functools
import http.server
import io
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from axe import faults
from pypdf import PdfReader
from test_report import CONTRAST

ROOT = Path(__file__).resolve().parents[2]
ALL = os.environ.get("AXE_ALL") == "1"
FEW = ("index", "report")
# Their tables and listings are wide.
WIDE = ("linux", "space", "advice", "ARCHITECTURE", "reference-system", "dram", "reproduction", "board-model")
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


def test_a_card_says_its_group(opened, book):
    """Wide tables name a group in its first row only."""
    page = opened(book / "linux-figures.html", width=400)
    first = page.evaluate("""[...document.querySelector('.cards').tBodies[0].rows].map(r => {
        const said = getComputedStyle(r.cells[0], '::after').content;
        return r.cells[0].checkVisibility() && (r.cells[0].textContent || JSON.parse(said === 'none' ? '""' : said));
    })""")
    assert first[:6] == ["6.19.14, sched-ext"] * 5 + ["7.0.13, sched-ext"]


def test_words_of_code_break_at_their_joints_only(opened, book):
    page = opened(book / "commands.html", width=400)
    found = []
    for name in ("commands", "space", "linux", "install"):
        page.goto((book / f"{name}.html").as_uri())
        found += page.evaluate("""[...document.querySelectorAll('[role=main] .word')].map(w => {
            const range = document.createRange();
            range.selectNodeContents(w);
            const lines = new Set([...range.getClientRects()].filter(r => r.width).map(r => Math.round(r.top)));
            const line = w.closest('p, li, td, span:not(.word, .held), h1');
            return [w.textContent, lines.size, line.clientWidth - w.getBoundingClientRect().width];
        })""")
    assert len(found) > 300 and {"--partial", "packaging/solocore.service"} <= {text for text, _, _ in found}
    assert [text for text, lines, room in found if lines > 1 and room > 60] == []
    assert "packaging/<wbr>solocore.<wbr>service" in (book / "linux.html").read_text()
    # What follows such a word stays on its line.
    page.goto((book / "analysis.html").as_uri())
    assert page.evaluate("""[...document.querySelectorAll('.held')].filter(h => {
        const [range, word] = [document.createRange(), h.querySelector('.word').getBoundingClientRect()];
        range.selectNodeContents(h.lastChild);
        return range.getBoundingClientRect().bottom > word.bottom + 8;
    }).map(h => h.textContent)""") == []


def test_no_link_reads_as_the_name_of_a_file(opened, book):
    page = opened(book / "index.html")
    links = {}
    for path in sorted(path for path in book.glob("*.html") if path.name not in ("404.html", "CHANGES.html")):
        main = path.read_text().partition('role="main"')[2].partition("<footer")[0]
        links[path.name] = [re.sub("<[^>]*>", "", text) for text in re.findall(r"<a [^>]*>(.*?)</a>", main, re.S)]
    assert {name: found for name, texts in links.items() if (found := [text for text in texts if re.fullmatch(r"(docs/)?[\w-]+\.md", text)])} == {}
    assert "The bandwidth lock" in links["linux.html"] and "Cache ways" in links["reference-run.html"]
    # A page in a comment of a listing.
    page.goto((book / "commands.html").as_uri())
    page.click(".remark a:text-is('Editors and merges')")
    assert page.url.endswith("/editors.html")


@pytest.mark.parametrize("width", [400, 1280])
def test_a_listing_breaks_its_lines_or_shows_that_it_scrolls(opened, book, width):
    page = opened(book / "index.html", width=width)
    scrolling, broken = [], 0
    for path in {*wide(book), book / "commands.html", book / "machine.html"}:
        page.goto(path.as_uri())
        for lines, over, shadow, keyboard in page.evaluate("""[...document.querySelectorAll('[role=main] pre')].map(p => [
                p.matches('.lines, .doc-signature pre'), p.scrollWidth > p.clientWidth + 1,
                getComputedStyle(p).backgroundAttachment.split(', ').includes('local'), p.tabIndex === 0])"""):
            broken += lines
            assert not (lines and over), path.name
            scrolling += [(shadow, keyboard)] if over else []
    assert broken > 10 and scrolling and set(scrolling) == {(True, True)}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_table_that_scrolls_shows_it(opened, book, scheme):
    page = opened(book / "dram.html", scheme)
    found = page.evaluate("""[...document.querySelectorAll('.scrolls')].filter(s => s.scrollWidth > s.clientWidth + 1).map(s => [
        getComputedStyle(s).backgroundAttachment.split(', ').includes('local'), getComputedStyle(s.querySelector('td')).backgroundColor])""")
    assert found and all(shadow and cell == "rgba(0, 0, 0, 0)" for shadow, cell in found), "no cell hides the shadow"


def test_comments_of_a_listing_stand_beside_it_or_below(opened, book):
    """The text stays as it is in the repository, but for names of pages."""
    for width, beside in ((1280, True), (400, False)):
        page = opened(book / "ways.html", width=width)
        code, remark = page.evaluate("""[document.querySelector('.remark').previousElementSibling, document.querySelector('.remark')].map(e => {
            const box = e.getBoundingClientRect();
            return {top: box.top, bottom: box.bottom, right: box.right, left: box.left};
        })""")
        assert (abs(code["top"] - remark["top"]) < 1 and code["right"] < remark["left"]) == beside
        assert beside or 0 <= remark["top"] - code["bottom"] < 3
        text = page.text_content(".lines")
    listing = re.search(r"```\w*\n(.*?)```", (ROOT / "docs/ways.md").read_text(), re.S)[1]
    assert text == listing


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_have_the_ground_of_the_page(opened, book, scheme):
    page = opened(book / "demo.html", scheme)
    shown = page.evaluate("""[...document.querySelectorAll('[role=main] img')].filter(i => i.checkVisibility() && i.naturalWidth)
        .map(i => i.src.split('/').pop())""")
    assert shown == [{"light": "demo.png", "dark": "demo-dark.png"}[scheme]]
    page.emulate_media(media="print")
    assert page.is_visible("img.light") and not page.is_visible("img.dark")
    page.emulate_media(media="screen")
    page.goto((book / "scheduler-figures.html").as_uri())
    assert ("invert" in page.evaluate("getComputedStyle(document.querySelector('img[src$=svg]')).filter")) == (scheme == "dark")
    assert "(prefers-color-scheme: dark)" in (ROOT / "README.md").read_text()


def test_functions_of_python_are_listed(opened, book):
    """Signatures break, and arguments are a list."""
    page = opened(book / "python-api.html", width=400)
    assert page.evaluate("[...document.querySelectorAll('.doc-signature pre')].filter(p => p.scrollWidth > p.clientWidth + 1).length") == 0
    arguments = page.locator("[id='solocore.generation.generate'] ~ .doc-contents li code:first-child").all_text_contents()
    assert arguments[:4] == ["sets", "tasks", "utilization", "lower, upper"]
    assert page.evaluate("""[...document.querySelectorAll('h3.doc-heading')].every(h => parseFloat(getComputedStyle(h).marginTop) > 20
        && getComputedStyle(h).borderTopStyle === 'solid')""")


@pytest.fixture(scope="module")
def served(book):
    handler = functools.partial(type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None}), directory=book)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("place", ["disk", "server"])
def test_the_search_finds_words_and_options(opened, book, served, place):
    page = opened(book / "index.html")
    said = []
    page.on("pageerror", lambda error: said.append(str(error)))
    if place == "server":
        page.context.set_offline(False)
        page.goto(f"{served}/index.html")
    page.click("text=Search")
    # The theme gives the field the keys once it is shown.
    page.wait_for_function("document.activeElement.id === 'mkdocs-search-query'")
    for query, wanted in (("--what-if", "advice"), ("bandwidth lock", "lock"), ("what-if", "advice"), ("--vou", "promises"),
                          ("tutorial:^ ~2 -", "tutorial")):
        page.fill("#mkdocs-search-query", query)
        page.press("#mkdocs-search-query", "End")
        page.wait_for_function("""wanted => [...document.querySelectorAll('#mkdocs-search-results a')].slice(0, 8)
            .some(a => a.pathname.endsWith(`/${wanted}.html`))""", arg=wanted)
    assert said == []


def test_the_layout_is_no_part_of_the_searchs_index(book):
    text = json.dumps(json.loads((book / "search/search_index.json").read_text()))
    assert "packaging/solocore.service" in text and "packaging/ solocore.service" not in text
