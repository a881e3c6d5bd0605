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
import re

import pytest
from labels import overlaps

WIDTHS = (360, 400, 1280)
SERIES = ("solo", "unmanaged", "even", "managed")


def result_of(data, series, task):
    """The task's measurements, or None."""
    return next((t for t in (data[series] or {"tasks": []})["tasks"] if t["name"] == task), None)


# ---- nothing runs, nothing is fetched ----


def test_nothing_is_requested_and_the_console_is_silent(page):
    page.mouse.wheel(0, 20000)
    page.wait_for_timeout(200)  # for a late request to show; the fixture looks
    # One script of the page's own, which its policy names by its hash.
    scripts = page.evaluate("[...document.scripts].filter(s => s.type !== 'application/json').map(s => [s.src, s.text.length])")
    assert [src for src, _ in scripts] == [""] and scripts[0][1] < 8192
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert re.search(r"default-src 'none';.* script-src 'sha256-[\w+/]{43}=';", policy)
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0


def test_works_without_javascript(browser, report):
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("#verdict p.verdict").is_visible()
    if page.locator("details").count():  # a report of a plan alone has no curve and no timeline
        assert page.locator(".controls").count() == page.locator(".controls[hidden]").count(), "no button that does nothing"
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
    assert counts[:3] == [passing, len(analysed) - passing, len(data["plan"]["tasks"]) - len(analysed)]
    assert sentence.startswith("✓") == (data["plan"]["schedulable"] and passing == len(analysed))


def test_bars_are_the_numbers(page, data):
    drawn = page.evaluate(
        """[...document.querySelectorAll('rect[data-series]')].map(
            r => [r.dataset.task, r.dataset.series, r.dataset.valueNs, r.getBoundingClientRect().width])"""
    )
    values = {(task, series): int(value) for task, series, value, _ in drawn}
    assert len(values) == len(drawn)
    expected = {(t["name"], "bound"): t["c_sce_ns"] for t in data["plan"]["tasks"]}
    expected |= {(t["name"], "wcrt"): t["wcrt_ns"] for t in data["plan"]["tasks"] if t["wcrt_ns"] is not None}
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
    width, paths = figure.evaluate(
        """svg => [svg.getBoundingClientRect().width, [...svg.querySelectorAll('[data-activity]')].map(p => [+p.dataset.core,
            p.dataset.task, p.dataset.activity, p.getAttribute('d'), p.getBoundingClientRect().x -
            svg.getBoundingClientRect().x, p.getBoundingClientRect().width, p.getBoundingClientRect().height])]"""
    )
    tasks, end = data[mode]["tasks"], int(figure.get_attribute("data-end-ns"))
    expected = [(s["core"], tasks[s["task"]]["name"], s["activity"], s["start_ns"], s["end_ns"]) for s in segments]
    expected.sort(key=lambda s: (s[3], s[0]))  # as the report: the earliest are drawn
    drawn, heights = set(), {}
    for core, task, activity, d, x, wide, height in paths:
        parts = [tuple(map(int, m)) for m in re.findall(r"M(\d+) \d+h(\d+)v\d+H(\d+)z", d)]
        assert re.fullmatch(r"(M\d+ \d+h\d+v\d+H\d+z)+", d) and all(start == back for start, _, back in parts)
        drawn |= {(core, task, activity, start, start + length) for start, length, _ in parts}
        first, last = parts[0][0], max(start + length for start, length, _ in parts)
        assert x == pytest.approx(width * first / end, abs=0.5) and wide == pytest.approx(width * (last - first) / end, abs=0.5)
        heights[activity] = height
    dropped = int(figure.get_attribute("data-dropped"))
    assert drawn == set(expected[: len(expected) - dropped])
    # A stop is a thin line, also without colours.
    assert heights.get("throttled", 0) < heights["run"] / 2


@pytest.mark.parametrize("mode", ["managed", "unmanaged"])
def test_releases_deadlines_and_misses_are_those_of_the_result(page, data, mode):
    if not (data[mode] or {}).get("timeline"):
        return
    svg, result = page.locator(f"svg.timeline[data-mode={mode}]"), data[mode]
    end = max(result.get("timeline_ns") or 0, *(s["end_ns"] for s in result["timeline"]))
    jobs = [(result["tasks"][j["task"]]["name"], j) for j in result.get("jobs", []) if j["release_ns"] <= end]
    assert int(svg.get_attribute("data-dropped-jobs")) == 0 and len(jobs) > 5

    def marks(name):
        found = svg.evaluate(
            """(svg, name) => [...svg.querySelectorAll(`[${name}]`)].map(u => {
                const box = u.getBoundingClientRect(), all = svg.getBoundingClientRect();
                return [u.dataset.task, +u.getAttribute(name), (box.x + box.width / 2 - all.x) / all.width]; })""",
            name,
        )
        scale = int(svg.get_attribute("data-end-ns"))
        assert all(place == pytest.approx(ns / scale, abs=0.004) for _, ns, place in found)
        return sorted((task, ns) for task, ns, _ in found)

    assert marks("data-release-ns") == sorted((name, j["release_ns"]) for name, j in jobs)
    assert marks("data-deadline") == sorted((name, j["deadline_ns"]) for name, j in jobs if j["deadline_ns"] <= end)
    missed = sorted((name, j["deadline_ns"]) for name, j in jobs if j["late"] and j["deadline_ns"] <= end)
    assert marks("data-miss-ns") == missed
    # No job of the stretch is late that the whole run does not count.
    for task in result["tasks"]:
        assert sum(j["late"] for name, j in jobs if name == task["name"]) <= task["misses_deadline"], task["name"]


def test_guarantees_and_costs_are_the_numbers(page, data):
    """Figures of the verdict, from the plan and the results by other sums than the page's."""
    best = [t["name"] for t in data["plan"]["tasks"] if t["criticality"] == "D"]
    for key in ("jobs", "accesses"):
        sums = [sum(t[key] for t in (data[run] or {"tasks": []})["tasks"] if t["name"] in best) for run in ("managed", "unmanaged")]
        line = page.locator(f"[data-cost={key}]")
        assert line.count() == bool(data["managed"] and sums[1])
        if line.count():
            assert [int(line.get_attribute(f"data-{run}")) for run in ("managed", "unmanaged")] == sums
            assert f"{100 * sums[0] / sums[1]:.1f}\xa0%" in line.inner_text()
    sure = [t for t in data["plan"]["tasks"] if t["criticality"] != "D" and t["schedulable"] and t.get("wcrt_ns") and t.get("deadline_ns")]
    if sure:
        tightest = max(t["wcrt_ns"] / t["deadline_ns"] for t in sure)
        line = page.locator("[data-tightest]")
        assert int(line.get_attribute("data-wcrt-ns")) / int(line.get_attribute("data-deadline")) == pytest.approx(tightest)
    pages = sum(c["locked_pages"] for c in data["plan"]["cores"])
    assert not pages or int(page.locator("[data-cost=locked]").get_attribute("data-pages")) == pages
    # Choices stand in a list of their own; each other reason is a row.
    choices = [f"{c['of']}: {c['chosen']}" for c in data["plan"].get("choices", [])]
    assert [text for text in page.locator("#plan li[data-choice]").all_inner_texts() if not text.startswith(tuple(choices))] == []
    assert page.locator("#plan li[data-choice]").count() == len(choices)
    assert page.locator("#plan tr[data-reason]").count() == len(data["plan"]["reasons"]) - len(choices)
    assert page.locator("#promises tbody tr").count() == len(data["plan"].get("promises", []))


def test_the_page_says_how_it_came_about(page, data, report):
    """Hashes are those of the files beside the page."""
    import hashlib

    text = page.locator("#provenance").inner_text()
    assert data["provenance"]["date"] in text and data["provenance"]["host"] in text
    for run in SERIES:
        if data[run]:
            assert f"seed {data[run]['seed']}" in text
    hashes = dict(data["provenance"]["inputs"])
    beside = [name for name in hashes if (report.parent / name).is_file()]
    assert len(beside) >= 2 or not (report.parent / "managed.json").exists()
    for name in beside:
        assert hashes[name] == hashlib.sha256((report.parent / name).read_bytes()).hexdigest() and hashes[name] in text, name


def test_bandwidth_has_axes_and_the_budget(page, data):
    cores = {c["id"]: c["bandwidth_bytes_per_s"] for c in data["plan"]["cores"]}
    charts = page.evaluate(
        """[...document.querySelectorAll('[data-chart=bandwidth]')].map(svg => {
            const line = svg.querySelector('[data-budget]'), columns = [...svg.querySelectorAll('[data-bytes-per-s]')];
            return [svg.closest('article').querySelector('h3').textContent, svg.closest('figure').textContent,
                line && [+line.dataset.budget, line.y1.baseVal.value], columns.map(c => [+c.dataset.bytesPerS, c.y.baseVal.value,
                c.height.baseVal.value]), [...svg.querySelectorAll('text')].map(t => t.textContent)]; })"""
    )
    core_of = {t["name"]: t["core"] for t in data["plan"]["tasks"]}
    for task, words, line, columns, labels in charts:
        budget = cores[core_of[task]]
        peak, top, height = max(columns)
        assert any("B/s" in t for t in labels) and any(re.search("[nµm]s$", t) for t in labels)
        if line:
            assert line[0] == budget
            # On the columns' scale: both heights are above the same foot.
            assert (top + height - line[1]) * peak == pytest.approx(height * budget, rel=0.01)
        else:
            assert budget is None or (budget > 4 * peak and "beyond the scale" in words)
            assert budget is None or any(t.startswith("budget") and t.endswith("↑") for t in labels)


def test_the_flame_graph_is_the_misses(page):
    figures = page.evaluate(
        """[...document.querySelectorAll('svg.flame')].map(svg => [svg.getBoundingClientRect().width, [...svg.querySelectorAll(
            'rect')].map(r => [r.dataset.kind, +r.dataset.misses, r.getBoundingClientRect().x - svg.getBoundingClientRect().x,
            r.getBoundingClientRect().width, +r.getAttribute('y')])])"""
    )
    for width, blocks in (f for f in figures if f[0]):  # folded ones have no width
        total = next(misses for kind, misses, *_ in blocks if kind == "program")
        for kind, misses, _, wide, _ in blocks:
            assert wide == pytest.approx(width * misses / total, abs=0.5), kind
        for y in {y for *_, y in blocks}:
            assert sum(misses for _, misses, *_, at in blocks if at == y) <= total
            row = sorted((x, wide) for _, _, x, wide, at in blocks if at == y)
            assert all(x + wide <= after + 0.5 for (x, wide), (after, _) in zip(row, row[1:]))


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
            const fill = e.dataset.fill ?? e.previousElementSibling.getAttribute('fill');
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
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert overlaps(page) == []


def test_charts_have_names_and_numbers(page):
    nameless = page.evaluate(
        """[...document.querySelectorAll('figure svg[role=img]')].filter(
            svg => !document.getElementById(svg.getAttribute('aria-labelledby'))?.textContent.trim()).length"""
    )
    assert nameless == 0
    assert page.evaluate("[...document.querySelectorAll('.mark')].every(m => m.tabIndex === 0 && m.ariaLabel)")
    assert page.evaluate(
        """[...document.querySelectorAll('svg.curve, svg.steps, svg.bandwidth, svg.timeline')].every(
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
    stops = page.evaluate("document.querySelectorAll('a, summary, button, [tabindex]').length")
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
