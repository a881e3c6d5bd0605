"""Opens a report in a real browser, offline, and checks what a reader would see.

requests   none but the document itself; nothing on the console
numbers    bars, curve points and timeline stand for the embedded JSON's numbers, in data attributes and in drawn lengths
reading    contrast of all text in both colour schemes, no label over another, no sideways scrolling of the page
keyboard   Tab reaches the charts' marks, and one sees where one is
paper      prints

Not covered: other browsers, and what a screen reader says (names and roles are checked, speech is not).
Run with `SOLOCORE_REPORT=report.html pytest tests/browser/test_report.py`; needs playwright's Python package and Debian's
chromium.
"""

import json
import os
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDTHS = (360, 1280)
SERIES = ("solo", "unmanaged", "managed")


@pytest.fixture(scope="session")
def report():
    path = os.environ.get("SOLOCORE_REPORT")
    if not path:
        pytest.fail("set SOLOCORE_REPORT to the path of a report, as `solocore report -o report.html` writes it")
    if not Path(path).is_file():
        pytest.fail(f"SOLOCORE_REPORT={path} is no file")
    return Path(path).resolve()


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser, report):
    """The report, offline; fails the test when it asks for anything or says anything on the console."""
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    requests, noise = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: noise.append(f"console: {message.type}: {message.text}"))
    page.on("pageerror", lambda error: noise.append(f"page error: {error}"))
    page.goto(report.as_uri(), wait_until="load")
    yield page
    context.close()
    assert requests == [report.as_uri()]
    assert noise == []


@pytest.fixture
def data(page):
    return json.loads(page.locator("#solocore-data").text_content())


def result_of(data, series, task):
    """The task's measurements, or None."""
    return next((t for t in (data[series] or {"tasks": []})["tasks"] if t["name"] == task), None)


# ---- nothing runs, nothing is fetched ----


def test_nothing_is_requested_and_the_console_is_silent(page):
    page.mouse.wheel(0, 20000)
    page.wait_for_timeout(200)  # for a late request to show; the fixture looks
    assert page.evaluate("[...document.scripts].every(s => s.type === 'application/json')")
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0


def test_works_without_javascript(browser, report):
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("#verdict p.verdict").is_visible()
    if page.locator("details").count():  # a report of a plan alone has no curve and no timeline
        page.locator("details > summary").first.click()
        assert page.locator("details").first.get_attribute("open") is not None
    context.close()


# ---- the numbers ----


def test_verdict_is_first_and_agrees_with_the_plan(page, data):
    assert page.locator("main > section").first.get_attribute("id") == "verdict"
    sentence = page.locator("p.verdict").inner_text()
    assert data["plan"]["platform"]["title"] in sentence
    analysed = [t for t in data["plan"]["tasks"] if t["criticality"] != "D"]
    passing = sum(t["schedulable"] for t in analysed)
    counts = [int(c) for c in page.locator("ul.counts strong").all_inner_texts()]
    assert counts == [passing, len(analysed) - passing, len(data["plan"]["tasks"]) - len(analysed)]
    assert sentence.startswith("✓") == (data["plan"]["schedulable"] and passing == len(analysed))


def test_bars_are_the_numbers(page, data):
    drawn = page.evaluate(
        """[...document.querySelectorAll('rect[data-series]')].map(
            r => [r.dataset.task, r.dataset.series, r.dataset.valueNs, r.getBoundingClientRect().width])"""
    )
    values = {(task, series): int(value) for task, series, value, _ in drawn}
    assert len(values) == len(drawn)
    expected = {(t["name"], "bound"): t["c_sce_ns"] for t in data["plan"]["tasks"]}
    for task in data["plan"]["tasks"]:
        for series in SERIES:
            if seen := result_of(data, series, task["name"]):
                expected[task["name"], series] = seen["moet_ns"]
    assert values == expected
    for task in {task for task, *_ in drawn}:
        mine = [(int(value), width) for name, _, value, width in drawn if name == task]
        most, longest = max(mine)
        assert most == 0 or longest > 20, task
        for value, width in mine:
            assert width == pytest.approx(longest * value / max(most, 1), abs=0.5), task


def test_distributions_are_the_numbers(page, data):
    """Each curve rises at a job's time, on one scale with bound and deadline."""
    drawn = page.evaluate(
        """[...document.querySelectorAll('polyline.distribution')].map(
            p => [p.dataset.task, p.dataset.series, [...p.points].map(q => [q.x, q.y])])"""
    )
    limits = page.evaluate(
        """[...document.querySelectorAll('#distributions line[data-limit]')].map(l => [
            l.dataset.task, l.dataset.limit, Number(l.dataset.valueNs), parseFloat(l.getAttribute('x1'))])"""
    )
    analysed = [t["name"] for t in data["plan"]["tasks"] if t["criticality"] != "D"]
    results = {(task, series): result_of(data, series, task) for task in analysed for series in SERIES}
    expected = {key for key, r in results.items() if r}
    if not any(r and r.get("execution_ns") for r in results.values()):
        expected = set()
    assert {(task, series) for task, series, _ in drawn} == expected
    for task, series, points in drawn:
        steps = results[task, series].get("execution_ns", [])
        if not steps:
            assert points == []
            continue
        scale = 1000 * steps[-1][0] / points[-2][0]
        for (x, y), (ns, jobs) in zip(points[2::2], steps, strict=True):
            assert x == pytest.approx(1000 * ns / scale, abs=0.02) and y == pytest.approx(1000 - 1000 * jobs / steps[-1][1], abs=0.02)
        for name, _, ns, percent in limits:
            assert name != task or percent == pytest.approx(100 * ns / scale, rel=1e-3)


def test_deadlines_lie_on_the_bars_scale(page, data):
    drawn = page.evaluate(
        """[...document.querySelectorAll('line[data-deadline-ns]')].map(l => {
            const bound = l.closest('svg').querySelector('[data-series=bound]').getBoundingClientRect();
            return [l.dataset.task, l.dataset.deadlineNs, l.getBoundingClientRect().x + l.getBoundingClientRect().width / 2
                - bound.x, bound.width]})"""
    )
    named = page.evaluate("[...document.querySelectorAll('[data-deadline-ns]')].map(l => [l.dataset.task, l.dataset.deadlineNs])")
    assert {t: int(ns) for t, ns in named} == {
        t["name"]: t["deadline_ns"] for t in data["plan"]["tasks"] if t["deadline_ns"] is not None
    }
    bounds = {t["name"]: t["c_sce_ns"] for t in data["plan"]["tasks"]}
    for task, ns, x, width in drawn:
        assert x * bounds[task] == pytest.approx(width * int(ns), rel=0.01, abs=bounds[task]), task


def test_curve_points_are_the_profile(page, data):
    curves = json.loads(page.locator("#solocore-curves").text_content())
    charts = page.evaluate(
        """[...document.querySelectorAll('svg.curve')].map(svg => {
            const middle = e => { const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; };
            const axis = [...svg.querySelectorAll('line.axis')].find(l => l.y1.baseVal.value === l.y2.baseVal.value);
            return {base: middle(axis)[1], left: axis.getBoundingClientRect().x, points: [...svg.querySelectorAll(
                '[data-pages]')].map(p => [p.dataset.task, p.dataset.pages, p.dataset.misses, p.dataset.marker, ...middle(p)])};
        })"""
    )
    assert len(charts) == sum(bool(curve) for curve in curves.values())
    planned = {t["name"]: t for t in data["plan"]["tasks"]}
    for chart in charts:
        points = [(t, int(pages), int(misses), mark, x, y) for t, pages, misses, mark, x, y in chart["points"]]
        task = points[0][0]
        curve = curves[task]
        assert all(p[0] == task and curve[p[1]] == p[2] for p in points)
        assert points[0][1] == 0 and [p[1] for p in points] == sorted({p[1] for p in points})
        marked = [p[1] for p in points if p[3] == "plan"]
        assert marked == ([min(len(planned[task]["locked_pages"]), len(curve) - 1)] if task in planned else [])
        end, top = points[-1], max(points, key=lambda p: p[2])
        for _, pages, misses, _, x, y in points:
            assert (x - chart["left"]) * max(end[1], 1) == pytest.approx((end[4] - chart["left"]) * pages, abs=max(end[1], 1))
            assert (chart["base"] - y) * max(top[2], 1) == pytest.approx((chart["base"] - top[5]) * misses, abs=max(top[2], 1))


@pytest.mark.parametrize("mode", ["managed", "unmanaged"])
def test_timeline_is_the_schedule(page, data, mode):
    segments = (data[mode] or {}).get("timeline", [])
    figure = page.locator(f"svg.timeline[data-mode={mode}]")
    assert figure.count() == bool(segments)
    if not segments:
        return
    drawn = figure.evaluate(
        """svg => [...svg.querySelectorAll('[data-activity]')].map(r => [+r.dataset.core, r.dataset.task, r.dataset.activity,
            +r.dataset.startNs, +r.dataset.endNs, r.getBoundingClientRect().x - svg.getBoundingClientRect().x,
            r.getBoundingClientRect().width, svg.getBoundingClientRect().width, r.getAttribute('fill')])"""
    )
    tasks = data[mode]["tasks"]
    expected = [(s["core"], tasks[s["task"]]["name"], s["activity"], s["start_ns"], s["end_ns"]) for s in segments]
    expected.sort(key=lambda s: (s[3], s[0]))  # as the report: the earliest are drawn
    dropped = int(figure.get_attribute("data-dropped"))
    assert len(drawn) == len(expected) - dropped
    assert sorted(tuple(d[:5]) for d in drawn) == sorted(expected[: len(drawn)])
    throttled = [d for d in drawn if d[2] == "throttled"]
    assert bool(throttled) == any(s[2] == "throttled" for s in expected[: len(drawn)])
    assert all((d[8] == "url(#fill-throttled)") == (d[2] == "throttled") for d in drawn)
    longest = max(drawn, key=lambda d: d[6])
    for _, _, _, start, end, x, width, _, _ in drawn:
        scale = longest[6] / max(longest[4] - longest[3], 1)
        assert width == pytest.approx((end - start) * scale, abs=0.5)
        assert x == pytest.approx(start * scale, abs=1 + longest[7] / 1000)


# ---- reading ----

CONTRAST = """() => {
    const rgb = c => c.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
    const ground = e => {
        for (; e; e = e.parentElement) {
            const c = rgb(getComputedStyle(e).backgroundColor);
            if (c.length === 3 || c[3] === 1) return c;
        }
        return [255, 255, 255];
    };
    const found = [];
    for (const e of document.body.querySelectorAll('*')) {
        const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
        if (!own || !e.checkVisibility() || ['SCRIPT', 'title'].includes(e.tagName)) continue;
        const style = getComputedStyle(e), svg = e instanceof SVGElement;
        let back = ground(e);
        if (e.classList.contains('number')) {
            const fill = e.previousElementSibling.getAttribute('fill');
            if (!fill.startsWith('#')) continue;
            back = [1, 3, 5].map(i => parseInt(fill.slice(i, i + 2), 16));
        }
        const [a, b] = [light(rgb(svg ? style.fill : style.color)), light(back)].sort((x, y) => y - x);
        found.push([(a + .05) / (b + .05), e.textContent.slice(0, 40)]);
    }
    return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    back = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(back) < 200) == (scheme == "dark")
    found = page.evaluate(CONTRAST)
    assert len(found) > 50
    assert [f for f in found if f[0] < 4.5] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_page_does_not_scroll_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.body.scrollWidth") <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_no_label_lies_over_another(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    overlaps = page.evaluate(
        """() => [...document.querySelectorAll('figure svg[role=img]')].flatMap(svg => {
            const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
            return texts.flatMap(([a, p], i) => texts.slice(i + 1).filter(([, q]) => p.x < q.right - 1 && q.x < p.right - 1
                && p.y < q.bottom - 4 && q.y < p.bottom - 4).map(([b]) => [a, b]));
        })"""
    )
    assert overlaps == []


def test_charts_have_names_and_numbers(page):
    nameless = page.evaluate(
        """[...document.querySelectorAll('figure svg[role=img]')].filter(
            svg => !document.getElementById(svg.getAttribute('aria-labelledby'))?.textContent.trim()).length"""
    )
    assert nameless == 0
    assert page.evaluate("[...document.querySelectorAll('.mark')].every(m => m.tabIndex === 0 && m.ariaLabel)")
    assert page.evaluate(
        """[...document.querySelectorAll('svg.curve, svg.steps, svg.timeline, svg.spark')].every(
            svg => svg.closest('figure').querySelector('details table tbody tr, details .muted'))"""
    )
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


# ---- keyboard and paper ----


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_tab_reaches_the_marks_visibly(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    stops = page.evaluate("document.querySelectorAll('a, summary, [tabindex]').length")
    for _ in range(stops):
        chart = page.evaluate("document.activeElement.closest('.mark')?.closest('svg[role=img]')?.classList[0] ?? ''")
        if chart and chart not in reached:
            reached.add(chart)
            outline = page.evaluate(
                "(s => [s.outlineStyle, parseFloat(s.outlineWidth)])(getComputedStyle(document.activeElement))"
            )
            assert outline[0] != "none" and outline[1] >= 2
            box = page.evaluate("(b => [b.x, b.y, b.width, b.height])(document.activeElement.getBoundingClientRect())")
            clip = {"x": max(box[0] - 8, 0), "y": max(box[1] - 8, 0), "width": box[2] + 16, "height": box[3] + 16}
            focused = page.screenshot(clip=clip)
            page.evaluate("window.marked = document.activeElement; window.marked.blur()")
            assert page.screenshot(clip=clip) != focused, chart
            page.evaluate("window.marked.focus()")
        page.keyboard.press("Tab")
    charts = page.evaluate("[...new Set([...document.querySelectorAll('figure svg[role=img]')].map(s => s.classList[0]))]")
    assert reached == set(charts)


def test_prints(page):
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 less its margins
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == "rgb(255, 255, 255)"
    assert [f for f in page.evaluate(CONTRAST) if f[0] < 4.5] == []
    cut = page.evaluate(
        """[...document.querySelectorAll('figure svg[role=img] :is(rect, text, circle), table')].filter(
            e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.textContent.slice(0, 40))"""
    )
    assert cut == []
    assert page.evaluate("[...document.querySelectorAll('figure')].every(f => getComputedStyle(f).breakInside === 'avoid')")
    pdf = page.pdf(format="A4", print_background=False)
    assert pdf.startswith(b"%PDF") and len(pdf) > 10_000
