"""Whether everybody can read the report: with a keyboard, on a telephone, on paper, with a screen reader.

axe        axe-core finds no serious fault: light, dark, 400 px
narrow     at 400 px every table shows all its columns, and charts keep their labels apart
zoom       buttons, keys, wheel and double click zoom a timeline; what is said below the pointer is in the result
paper      at most five pages and 1 MB

Not covered: what axe-core cannot see; nobody has listened to the page. AXE_ALL=1 runs all of axe-core's rules in each case
(`make nightly`); otherwise the rules that a colour scheme or a width can break.
"""

import io
import os

import pytest
from axe import faults
from labels import overlaps
from pypdf import PdfReader

ALL = os.environ.get("AXE_ALL") == "1"
# What depends on colours, and on widths.
COLOURS, WIDTHS = ["color-contrast", "link-in-text-block"], ["scrollable-region-focusable", "target-size", "list"]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 400), ("dark", 400)])
def test_axe_finds_no_serious_fault(opened, report, scheme, width):
    page = opened(report, scheme, width)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    if ALL:
        assert faults(page) == []
    elif width == 400:
        assert faults(page, rules=WIDTHS) == []
    else:
        # Contrast is slow to find; test_text_has_contrast looks at every text of the page.
        assert faults(page, rules=COLOURS, inside=["header", "#verdict", "#timeline", "#provenance"]) == []
        assert scheme == "dark" or faults(page, without=COLOURS) == []


def test_axe_sees_faults(opened, tmp_path):
    """The check itself: a page with three faults."""
    bad = tmp_path / "bad.html"
    bad.write_text('<html lang="en"><title>x</title><main><h1>x</h1><p style="color:#aaa">pale</p><img src="data:,"><button></button></main>')
    assert {"color-contrast", "image-alt", "button-name"} <= {rule for rule, *_ in faults(opened(bad))}


@pytest.mark.parametrize("width", [360, 400])
def test_a_narrow_page_hides_no_column(opened, report, width):
    page = opened(report, width=width)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    scrolls = page.evaluate(
        "[...document.querySelectorAll('.wide')].filter(w => w.scrollWidth > w.clientWidth + 1).map(w => w.ariaLabel)"
    )
    assert scrolls == []
    cells = page.evaluate(
        """[...document.querySelectorAll('td, tbody th')].map(c => [c, c.getBoundingClientRect()])
            .filter(([c, b]) => b.width < 1 || b.height < 1 || b.left < 0 || b.right > innerWidth)
            .map(([c]) => c.closest('table').textContent.slice(0, 80))"""
    )
    assert cells == []


def test_a_narrow_page_names_each_value(opened, report):
    """Each cell of a card has its column's name before it."""
    page = opened(report, width=400)
    wrong = page.evaluate(
        """[...document.querySelectorAll('.wide table')].flatMap(table => {
            const heads = [...table.querySelectorAll('thead th')].map(h => h.textContent.replace(/\\s/g, '').replace('sce', '_sce'));
            return [...table.querySelectorAll('tbody tr')].slice(0, 2).flatMap(row => [...row.children].map((cell, at) =>
                [getComputedStyle(cell, '::before').content.replace(/["\\s]/g, ''), heads[at]]));
        }).filter(([shown, head]) => shown !== head)"""
    )
    assert wrong == []
    assert page.locator(".wide table tbody tr").count() > 10


# ---- zoom ----


@pytest.fixture
def timeline(page):
    figures = page.locator("figure.zooms")
    if figures.count() == 0:
        pytest.skip("a report without a timeline")
    return figures.last


def zoom(figure):
    """The zoom that is stated, and the one that is drawn; both must agree."""
    stated = float(figure.get_attribute("data-zoom") or 1)
    drawn = figure.evaluate(
        "f => f.querySelector('svg.timeline').getBoundingClientRect().width / (f.querySelector('.wide').clientWidth - 16)"
    )
    assert drawn == pytest.approx(stated, rel=0.01)
    return stated


def test_buttons_and_keys_zoom(page, timeline):
    assert zoom(timeline) == 1
    timeline.get_by_role("button", name="Zoom in").click()
    assert zoom(timeline) == 2
    timeline.locator(".wide:has(svg.timeline)").focus()
    page.keyboard.press("+")
    page.keyboard.press("+")
    assert zoom(timeline) == 8
    page.keyboard.press("-")
    assert zoom(timeline) == 4
    page.keyboard.press("0")
    assert zoom(timeline) == 1
    timeline.get_by_role("button", name="Zoom out").click()
    assert zoom(timeline) == 1


def test_the_mouse_zooms_where_it_points(page, timeline):
    view, svg = timeline.locator(".wide:has(svg.timeline)"), timeline.locator("svg.timeline")
    view.scroll_into_view_if_needed()
    box = view.bounding_box()
    x, y = box["x"] + 0.7 * box["width"], box["y"] + 60

    def below():
        inner = svg.bounding_box()
        return (x - inner["x"]) / inner["width"]

    before = below()
    page.mouse.move(x, y)
    page.mouse.wheel(0, -480)
    assert zoom(timeline) == 1, "the wheel alone scrolls the page"
    view.scroll_into_view_if_needed()
    box = view.bounding_box()
    x, y = box["x"] + 0.7 * box["width"], box["y"] + 60
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -480)
    page.keyboard.up("Control")
    page.wait_for_function("f => Number(f.dataset.zoom) > 1", arg=timeline.element_handle())
    assert zoom(timeline) == 4 and below() == pytest.approx(before, abs=0.001)
    page.mouse.dblclick(x, y)
    assert zoom(timeline) == 8 and below() == pytest.approx(before, abs=0.001)


def test_the_pointer_is_told_what_is_there(page, timeline, data):
    svg = timeline.locator("svg.timeline")
    svg.scroll_into_view_if_needed()
    result, box = data[svg.get_attribute("data-mode")], svg.bounding_box()
    segment = max(result["timeline"], key=lambda s: s["end_ns"] - s["start_ns"])
    cores = svg.evaluate("s => JSON.parse(s.dataset.cores)")
    middle = (segment["start_ns"] + segment["end_ns"]) / 2 / int(svg.get_attribute("data-end-ns"))
    lane = int(svg.get_attribute("data-lane"))
    page.mouse.move(box["x"] + middle * box["width"], box["y"] + lane * cores.index(segment["core"]) + lane / 2)
    said = timeline.locator("output").inner_text()
    name = result["tasks"][segment["task"]]["name"]
    assert said.startswith(f"core {segment['core']} at ") and f": {name} " in said
    assert f"from {segment['start_ns'] / 1e6:.3f}\xa0ms to {segment['end_ns'] / 1e6:.3f}\xa0ms" in said


def test_next_miss_goes_to_each_miss(page, timeline):
    misses = sorted(int(m) for m in timeline.evaluate("f => [...f.querySelectorAll('[data-miss-ns]')].map(m => m.dataset.missNs)"))
    button = timeline.get_by_role("button", name="Next miss", include_hidden=True)
    assert button.is_visible() == bool(misses)
    for miss in misses[:3]:
        button.click()
        shown = timeline.evaluate(
            """(f, ns) => { const m = f.querySelector(`[data-miss-ns="${ns}"]`).getBoundingClientRect(), v = f.querySelector(
                '.wide').getBoundingClientRect(); return m.right > v.left && m.left < v.right; }""",
            miss,
        )
        assert shown and zoom(timeline) >= 8, miss


def test_ticks_of_a_zoomed_timeline_are_apart_and_true(page, timeline):
    timeline.locator(".wide:has(svg.timeline)").focus()
    for _ in range(5):
        page.keyboard.press("+")
        ticks = timeline.evaluate(
            """f => { const svg = f.querySelector('svg.timeline').getBoundingClientRect(); return [...f.querySelectorAll(
                '.ticks text')].map(t => [t.textContent, t.getAttribute('x'), t.getBoundingClientRect().left,
                t.getBoundingClientRect().right]); }"""
        )
        end = int(timeline.locator("svg.timeline").get_attribute("data-end-ns"))
        assert len(ticks) >= 2
        for (text, x, _, right), after in zip(ticks, [*ticks[1:], None]):
            assert float(text.split("\xa0")[0]) * 1e6 == pytest.approx(float(x[:-1]) / 100 * end, abs=end / 1e6)
            assert after is None or right < after[2]


def test_a_zoomed_timeline_on_a_telephone_has_a_scale(opened, report):
    """Two numbers on the axis at each zoom, apart; and the whole again before it is printed."""
    page = opened(report, width=400)
    figure = page.locator("figure.zooms").last
    if not figure.count():
        pytest.skip("a report without a timeline")
    for _ in range(9):
        figure.get_by_role("button", name="Zoom in").click()
        boxes = figure.evaluate("f => [...f.querySelectorAll('.ticks text')].map(t => t.getBoundingClientRect()).map(b => [b.left, b.right])")
        assert len(boxes) >= 2 and all(a[1] < b[0] for a, b in zip(boxes, boxes[1:])), zoom(figure)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert zoom(figure) == 1


def test_the_numbers_of_tasks_follow_the_zoom(page, timeline, data):
    """Each stretch with room for it has its task's number in the part that is shown."""
    for _ in range(5):
        timeline.get_by_role("button", name="Zoom in").click()
    shown = timeline.evaluate(
        """f => { const view = f.querySelector('.wide').getBoundingClientRect(), svg = f.querySelector('svg.timeline'), all = svg.getBoundingClientRect();
            const seen = t => getComputedStyle(t).visibility !== 'hidden';
            return {numbers: [...svg.querySelectorAll('text.number')].filter(seen).map(t => [t.textContent, t.getBoundingClientRect()]).map(
                ([n, b]) => [n, (b.left + b.right) / 2 - all.left, b.left >= view.left - 8 && b.right <= view.right + 8]), width: all.width,
                from: view.left - all.left, to: view.right - all.left, mode: svg.dataset.mode, end: +svg.dataset.endNs}; }"""
    )
    result, names = data[shown["mode"]], [t["name"] for t in data["plan"]["tasks"]]
    scale = shown["width"] / shown["end"]
    wanted = [
        str(names.index(result["tasks"][s["task"]]["name"]) + 1)
        for s in result["timeline"]
        if s["activity"] == "run" and min(s["end_ns"] * scale, shown["to"] - 8) - max(s["start_ns"] * scale, shown["from"] + 8) > 48
    ]
    assert wanted and all(inside for *_, inside in shown["numbers"])
    assert not [n for n in wanted if n not in [number for number, *_ in shown["numbers"]]]


# ---- paper ----


def test_the_demo_prints_on_five_pages(page, data):
    """Not a promise for every plan: a plan of 500 tasks has longer tables."""
    pdf = page.pdf(format="A4", print_background=True)
    pages = PdfReader(io.BytesIO(pdf)).pages
    assert len(pdf) < 1_000_000
    if len(data["plan"]["tasks"]) <= 10:
        assert 2 <= len(pages) <= 5
    text = "\n".join(p.extract_text() for p in pages)
    headings = [h.strip() for h in page.locator("h2, h3").all_text_contents()]
    lasts = [p.extract_text().strip().splitlines()[-1].strip() for p in pages]
    assert [last for last in lasts if last in headings] == [], "a heading at the foot of a page"
    for words in ("Verdict", "What is guaranteed", "What it costs", "Timeline of the cores", "Assumptions", "How this page came about"):
        assert words in text, words
    assert "Zoom in" not in text


def test_paper_has_no_label_over_another(opened, report):
    page = opened(report, width=702, media="print")
    assert overlaps(page) == []
