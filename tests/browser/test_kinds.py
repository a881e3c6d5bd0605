"""Whether everybody can read the other kinds of report: windows, levels, VCPUs, a plan that fails, many tasks, runs, a verification, a time table.

The command (SOLOCORE) makes each page from a system of `examples/` or a small one. Run and verification take this machine, with page faults in
place of misses; where it may not be regulated, these two are skipped. Held here is what holds for every page: axe-core finds no serious fault;
texts have contrast in light, dark and on paper; nothing scrolls sideways at 400 and 1280 px or is cut; no label lies over another; cards name
their values; the page asks for nothing and says nothing on the console.

Not covered: the numbers of these pages, which crates/report/tests has.
"""

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest
from axe import faults
from labels import overlaps
from test_reading import COLOURS
from test_report import CONTRAST

ROOT = Path(__file__).resolve().parents[2]
SOLOCORE = ROOT / os.environ.get("SOLOCORE", "target/release/solocore")
SMALL = """
platform = "machine.toml"
[regulation]
policy = "memguard"
period = "1 ms"
[[task]]
name = "video"
core = 0
period = "100 ms"
wcet = "1 ms"
misses = 100
command = ["sleep", "0.01"]
[[task]]
name = "control with a name that is long enough for two lines"
core = 0
period = "{period}"
wcet = "2 ms"
misses = 10
[[task]]
name = "batch"
core = 1
criticality = "D"
wcet = "1 ms"
misses = 1
"""
MACHINE = ("--event", "page-faults", "--partial")


class Maker:
    """Runs the command in a directory of its own."""

    def __init__(self, place):
        self.place = place
        self.env = {**os.environ, "XDG_CACHE_HOME": str(place), "NO_COLOR": "1"}

    def __call__(self, *args, codes=(0,)):
        done = subprocess.run([SOLOCORE, *map(str, args)], cwd=self.place, env=self.env, capture_output=True, text=True, timeout=120)
        if done.returncode == 3 and args[0] in ("run", "verify"):
            pytest.skip(done.stderr.strip().splitlines()[-1])
        assert done.returncode in codes, done.stderr
        return done.stdout

    def simulated(self, system, duration="100 ms", code=0):
        self("plan", system, "-o", "plan.json", codes=(code,))
        self("sim", "plan.json", "--duration", duration, "--timeline", "40 ms", "-o", "managed.json", codes=(0, 1))
        return self("report", "plan.json", "managed.json", "-o", "report.html")

    def small(self, period="50 ms", code=0):
        board = self("platforms", "core-i5-2500k")
        assert board.count("\ncores = 4") == 1
        (self.place / "machine.toml").write_text(board.replace("\ncores = 4", "\ncores = 2"))
        (self.place / "system.toml").write_text(SMALL.format(period=period))
        self("plan", "system.toml", "-o", "plan.json", codes=(code,))


def windows(make):
    make.simulated(ROOT / "examples/ima-sce/system.toml", "144 ms")


def levels(make):
    make.simulated(ROOT / "examples/mc2/system.toml")


def vcpus(make):
    make.simulated(ROOT / "examples/vcpus/system.toml")


def failing(make):
    make.small("2100 us", code=1)
    make.simulated("system.toml", code=1)


def many(make):
    """A plan alone, of 15 tasks with long names."""
    task = '[[task]]\nname = "{}"\ncore = {}\nperiod = "{} ms"\nwcet = "1.1 ms"\nmisses = 3000\n'
    names = ("acquisition_of_the_images_of_stereo_camera_", "trajectory-planner-with-predictive-control-", "detector of pedestrians and cyclists ")
    tasks = [task.format(name + str(n), n % 4, 100 + 10 * n) for n in range(5) for name in names]
    (make.place / "system.toml").write_text('platform = "core-i5-2500k"\n[regulation]\npolicy = "memguard"\nperiod = "1 ms"\n' + "".join(tasks))
    make("plan", "system.toml", "-o", "plan.json")
    make("report", "plan.json", "-o", "report.html")


def run(make):
    make.small()
    make("run", "plan.json", *MACHINE, "--no-move-irqs", "--no-confine", "--start", "--duration", "1 s", "-o", "run.json")
    make("report", "plan.json", "run.json", "-o", "report.html")


def counters(**numbers):
    """A thread or a CPU of a run, with all that its schema asks for."""
    return dict.fromkeys(("decisions", "timers", "max_timer_late_ns", "max_lock_ns", "max_decision_ns", "mean_decision_ns", "intruder_ns", "intrusions", "windows",
                          "switches", "late", "late_ns", "longest_late_ns", "strays", "moves", "background_ns", "errors"), 0) | numbers


def scheduled(make):
    """A run under solocore's schedulers, which asks for sched_ext: written here, with a job beyond its bound and a broken promise."""
    make("plan", ROOT / "examples/mc2/system.toml", "-o", "plan.json")
    plan = json.loads((make.place / "plan.json").read_text())
    task = {"how": "started", "jobs": 100, "completed": 98, "skipped": 1, "overruns": 2, "late": 0, "max_start_late_ns": 12_345, "mean_response_ns": 900_000,
            "max_tardiness_ns": 0, "max_charged_ns": 0, "ran_ns": 10**9}
    tasks = [{**task, "name": t["name"], "level": t["criticality"], "core": t["core"], "max_response_ns": 2 * t["wcrt_ns"] if t["name"] == "gps" else 100_000} for t in plan["tasks"]]
    thread = {"thread": 4711, "process": 4711, "name": "migration/0", "policy": "SCHED_FIFO", "priority": 99, "times": 12, "ran_ns": 345_678, "max_ns": 45_678}
    lost = dict.fromkeys(("a_ns", "b_ns", "c_ns", "d_ns", "idle_ns", "window_ns"), 1000)
    vcpu = {"id": 0, "name": "video of a long name", "core": 1, "capacity_ns": 6_000_000, "period_ns": 20_000_000, "state": "idle", "foreground_ns": 10**9,
            "background_ns": 5 * 10**8, "moves": 3, "longest_move_ns": 4000}
    transfer = {"name": "chain 0 of navigation: physical input", "resource": "device camera", "core": 2, "length_ns": 10**6, "period_ns": 10**7, "slots": 100, "begun": 98,
                "late": 1, "missed": 2, "unattended": 0, "clients": 1, "attached": True, "max_start_late_ns": 5000, "max_end_late_ns": 7000}
    idle = {"how": "not run", "fifo": None, "jobs": 0, "failed": 0, "misses_deadline": 0, "max_response_ns": 0, "mean_response_ns": 0, "max_cpu_ns": 0}
    promises = [{**p, "kept_by": "the scheduler", "checked": True, "why": "it decides who runs"} for p in plan["promises"]]
    result = {
        "format": "solocore-run/2", "scheme": "levels", "duration_ns": 10**10, "ended": "duration", "promises": promises, "broken": [promises[0]["id"]],
        "levels": {"tasks": tasks, "cpus": [counters(cpu=0, lost=lost)], "intruders": [{**thread, "lost": lost}]},
        "vcpus": {"background": "in proportion", "vcpus": [vcpu], "cpus": [counters(cpu=0)], "intruders": [{**thread, "lost_foreground_ns": 1000, "lost_background_ns": 0}]},
        "transfers": [transfer],
        "tasks": [{**idle, "name": t["name"], "core": t["core"] or 0, "how": "started" if t["name"] == "video" else "not run"} for t in plan["tasks"]],
    }
    (make.place / "run.json").write_text(json.dumps(result))
    schema = json.loads(make("schema", "run"))
    assert [e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(result)] == []
    make("report", "plan.json", "run.json", "-o", "report.html")


def verify(make):
    make.small()
    make("verify", "plan.json", *MACHINE, "--memory", "8 MiB", "-n", "2", "--enemy", "rows", "-o", "verify.json", codes=(0, 1))
    make("report", "plan.json", "verify.json", "-o", "report.html")


def table(make):
    make("schedule-io", ROOT / "examples/ima-devices/instance.toml", "-o", "table.json")
    make("report", "table.json", "-o", "report.html")


# Each kind, and words that only its page has.
KINDS = {
    windows: ("Time table of the partitions",),
    levels: ("Levels: regions and buffers",),
    vcpus: ("VCPU video", "best-effort VCPU"),
    failing: ("What would help",),
    many: ("acquisition_of_the_images_of_stereo_camera_4", "15 meet"),
    run: ("On the machine", "stands in for accesses"),
    scheduled: ("Tasks under the scheduler", "VCPUs: time with budget", "Input and output by the time table", "kept as the run began"),
    verify: ("Not tested",),
    table: ("Cores, I/O core and devices",),
}


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """Pages by their kind, each made once."""
    made = {}

    def page(kind):
        if kind not in made:
            place = tmp_path_factory.mktemp(kind.__name__)
            kind(Maker(place))
            made[kind] = place / "report.html"
        return made[kind]

    return page


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request, kinds):
    return request.param, kinds(request.param)


@pytest.fixture
def look(opened, kind):
    """Opens the page of this kind with all that is folded; fails when it asks for anything or says anything on the console."""
    noise = []

    def look(scheme="light", width=1280, media=None):
        page = opened(kind[1], scheme, width, media)
        page.on("request", lambda request: noise.append(request.url))
        page.on("console", lambda message: noise.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: noise.append(f"page error: {error}"))
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        return page

    yield look
    assert noise == []


def contrast(page):
    """Texts that differ too little from their ground; axe-core finds them too, and slowly."""
    found = page.evaluate(CONTRAST)
    assert len(found) > 30
    return [f for f in found if f[0] < 4.5]


def cut(page):
    """What lies outside of the page, or of the box in which its chart scrolls to the right."""
    return page.evaluate(
        """[...document.querySelectorAll('figure svg[role=img] text, table')].map(e => [e, e.getBoundingClientRect(),
                e.closest('.wide')?.getBoundingClientRect()]).filter(([e, b, box]) => b.width && (b.left < (box?.left ?? 0) - 1
                || !box && b.right > innerWidth + 1)).map(([e]) => e.textContent.slice(0, 60))"""
    )


def test_a_wide_page_light_and_dark(look, kind):
    page = look()
    text = page.inner_text("body")
    assert [words for words in KINDS[kind[0]] if words not in text] == []
    assert faults(page, without=COLOURS) == []
    assert (contrast(page), overlaps(page), cut(page)) == ([], [], [])
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    wider = "[...document.querySelectorAll('.wide:not(:has(svg))')].filter(w => w.scrollWidth > w.clientWidth + 1).map(w => w.ariaLabel)"
    assert page.evaluate(wider) == [], "tables with hidden columns"
    nameless = page.evaluate(
        """[...document.querySelectorAll('figure svg[role=img]')].filter(
            svg => !document.getElementById(svg.getAttribute('aria-labelledby'))?.textContent.trim()).length"""
    )
    assert nameless == 0
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    assert set(page.evaluate("[...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.hash.slice(1))")) <= set(ids)
    page.emulate_media(color_scheme="dark")
    assert sum(page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")) < 200
    assert contrast(page) == []


def test_a_narrow_page(look):
    page = look(width=400)
    assert page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)") <= 400
    assert (overlaps(page), cut(page)) == ([], [])
    cells = page.evaluate(
        """[...document.querySelectorAll('td, tbody th')].map(c => [c, c.getBoundingClientRect()])
            .filter(([c, b]) => b.width < 1 || b.height < 1 || b.left < 0 || b.right > innerWidth)
            .map(([c]) => c.closest('table').textContent.slice(0, 80))"""
    )
    assert cells == []
    # A chart may be wider than a telephone and then scrolls by itself; a table may not.
    scrolls = page.evaluate(
        "[...document.querySelectorAll('.wide')].filter(w => !w.querySelector('svg') && w.scrollWidth > w.clientWidth + 1).map(w => w.ariaLabel)"
    )
    assert scrolls == []
    # A name of a column keeps its width beside a long value, up to half of the card.
    squeezed = page.evaluate(
        """() => {
            const ink = document.createElement('canvas').getContext('2d');
            return [...document.querySelectorAll('.wide td:not(.words)')].flatMap(cell => {
                const own = getComputedStyle(cell, '::before');
                ink.font = own.font;
                const name = own.content.replace(/"/g, ''), wanted = Math.min(ink.measureText(name).width, cell.clientWidth / 2);
                return name === 'none' || !name.trim() || parseFloat(own.width) > wanted - 2 ? [] : [[name, own.width, cell.textContent.slice(0, 40)]];
            });
        }"""
    )
    assert squeezed == []


def test_paper(look):
    page = look("dark", 718, "print")  # A4 less its margins
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert (contrast(page), overlaps(page), cut(page)) == ([], [], [])
    assert page.evaluate("document.documentElement.scrollWidth") <= 718


def test_level_c_is_on_all_cores(opened, kinds):
    """Tasks of level C have no core of their own: tables say so, and the timeline has their jobs where they began."""
    page = opened(kinds(scheduled))
    row = page.locator("[aria-label='Tasks of the run'] tbody tr", has=page.locator("th", has_text="video"))
    assert row.locator("td").first.inner_text() == "all"
    page = opened(kinds(levels))
    assert page.locator("#times figcaption", has_text="video").first.inner_text() == "video all cores, level C"
    jobs, stretches = page.evaluate(
        """[[...document.querySelectorAll('[data-mode=managed] [data-release-ns]')].map(u => [u.dataset.task, +u.closest('.lane').dataset.core]),
            [...document.querySelectorAll('[data-mode=managed] [data-activity=run]')].map(p => [p.dataset.task, +p.dataset.core])]"""
    )
    assert {core for task, core in jobs if task in ("video", "map", "log")} - {0}, "not all on the core that the plan names"
    assert {tuple(job) for job in jobs} <= {tuple(stretch) for stretch in stretches}


def test_the_names_of_the_lanes_stay_in_view(opened, kinds):
    """On a telephone the time table scrolls, and its names do not; on paper it fits."""
    page = opened(kinds(windows), width=400)
    look = """() => { const box = document.querySelector('.lanes'), names = [...box.querySelectorAll('.lane-names text')];
        box.scrollLeft = 200; return [box.scrollLeft, names.length, names.every(n => n.getBoundingClientRect().left >= box.getBoundingClientRect().left)]; }"""
    scrolled, names, inside = page.evaluate(look)
    assert scrolled == 200 and names > 2 and inside
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})
    assert page.evaluate("(b => b.scrollWidth <= b.clientWidth + 24)(document.querySelector('.lanes'))")


def test_a_run_beyond_its_plan_is_said_at_the_head(opened, kinds):
    """The job sleeps ten times as long as its bound."""
    page = opened(kinds(run))
    said = page.locator("#verdict .alert li").all_inner_texts()
    assert any(line.startswith("video: a response took") for line in said), said
    assert said == page.locator("#machine .alert li").all_inner_texts()
