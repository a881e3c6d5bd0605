"""Takes the README's picture from the report of `make demo`, for light and for dark pages, and prints the tables of docs/demo.md.

Usage: build/venv/bin/python scripts/picture.py [RESULTS [IMAGES]]

RESULTS/report.html -> IMAGES/demo.png and demo-dark.png; RESULTS/*.json -> standard output. The defaults are build/demo and docs/img.
A directory without the simulation of even shares is refused, as the picture and the tables compare the plan with them.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = ("solo", "unmanaged", "even", "managed")


def table(head, rows):
    """A table in Markdown."""
    lines = [f"| {' | '.join(cells)} |\n" for cells in (head, *rows)]
    return "".join([lines[0], "|---" * len(head), "|\n", *lines[1:]])


def tables(results):
    """Longest jobs of the analysed tasks, then the jobs that best effort ends."""
    read = {name: json.loads((results / f"{name}.json").read_text()) for name in ("plan", *RUNS)}
    planned = read["plan"]["tasks"]
    of = {name: {task["name"]: task for task in read[name]["tasks"]} for name in RUNS}
    times = [
        [t["name"], *(f"{of[run][t['name']]['moet_ns'] / 1e6:.3f}" for run in RUNS), f"{t['c_sce_ns'] / 1e6:.3f}", f"{t['deadline_ns'] / 1e6:.1f}"]
        for t in planned if t["criticality"] != "D"
    ]
    jobs = [[t["name"], *(str(of[run][t["name"]]["jobs"]) for run in RUNS[1:])] for t in planned if t["criticality"] == "D"]
    simulated = f"{read['managed']['simulated_ns'] / 1e9:g} s"
    return (
        table(["task", *(f"{run} ms" for run in RUNS), "bound ms", "deadline ms"], times)
        + "\n"
        + table([f"best effort, jobs in {simulated}", *RUNS[1:]], jobs)
    )


def pictures(results, images):
    """The charts of the report, without what nobody can open in a picture."""
    # Only here: the tables need no browser.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
        )
        for scheme, name in (("light", "demo.png"), ("dark", "demo-dark.png")):
            page = browser.new_page(viewport={"width": 1000, "height": 900}, color_scheme=scheme)
            page.goto((results / "report.html").resolve().as_uri())
            if not page.locator("#distributions [data-series=even]").count():
                sys.exit(f"picture: {results / 'report.html'} has no curve of even shares; make it again with `make demo`")
            page.add_style_tag(content="#distributions { padding: 12px } #distributions > :first-child { margin-top: 0 }")
            page.add_style_tag(content="#distributions details { display: none }")
            page.locator("#distributions").screenshot(path=images / name)
        browser.close()


if __name__ == "__main__":
    places = [Path(argument) for argument in sys.argv[1:]] + [ROOT / "build/demo", ROOT / "docs/img"][len(sys.argv) - 1:]
    results, images = places[:2]
    missing = [f"{name}.json" for name in ("plan", *RUNS) if not (results / f"{name}.json").is_file()]
    if missing:
        sys.exit(f"picture: {results} has no {missing[0]}; make it with `make demo`")
    print(tables(results), end="")
    pictures(results, images)
