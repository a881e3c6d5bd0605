"""`solocore platform detect` and `measure` inside the virtual board, against the platform file that the board was made of.

    python3 bench/board_measure.py [PRESET or FILE.toml ...]          # default: four presets; a minute each

The guest does not tell the type of its memory, which a board's manual does. So [dram] of the file under test, without overhead, latency_max
and capacity, takes the place of what `detect` assumed. Every quantity is printed with truth, what was measured, their ratio and a verdict. The
exit code is 1 if one missed. SOLOCORE names the command [default: target/release/solocore]; it needs the board's plugin beside it.

| quantity | truth | target |
|---|---|---|
| frequency, sizes and ways of the caches, lines | the file | exact |
| cpi, l2.latency, llc.latency | the file | within 5 % |
| a row conflict beyond the shared cache | overhead, t_rp, t_rcd, t_cl, t_burst and three clocks of the controller | within 5 % |
| L_max found: the longest read right behind the last write that was served | dram.latency_max | 90 to 100 % |
| dram.latency_max that the file gets | dram.latency_max | 100 to 105 % |
"""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRESETS = ["core-i5-2500k", "xeon-w3530", "xeon-x5650", "raspberry-pi-4"]
OURS = ("capacity", "overhead", "latency_max", "latency_max_paper", "counts_writes")
CLOCKS = 3
KEYS = "cpi,l2.latency,llc.latency,dram.overhead,dram.latency_max"
SCRIPT = """set -e
solocore platform detect -o /out/detected.toml
sed '/^\\[dram\\]/,$d' /out/detected.toml > /out/machine.toml
cat {dram} >> /out/machine.toml
grep '^capacity' /out/detected.toml >> /out/machine.toml
solocore platform measure /out/machine.toml -o /out/measured.toml --only {keys} --format json > /out/measured.json
"""


def number(text):
    """In ns, cycles or bytes."""
    value, _, unit = str(text).partition(" ")
    factor = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "ps": 1e-3, "us": 1e3, "GHz": 1e9, "MHz": 1e6}
    return float(value) * factor.get(unit, 1)


def run(solocore, board, work):
    """What the guest wrote: the measured file, and what `measure` printed."""
    path = Path(board) if board.endswith(".toml") else ROOT / "platforms" / f"{board}.toml"
    text = path.read_text()
    dram = [line for line in text[text.index("[dram]"):].splitlines() if not line.startswith(OURS)]
    # Values that any memory keeps to; both are measured.
    dram += ['overhead = "120 ns"', 'latency_max = "1000 ns"']
    (work / "dram.toml").write_text("\n".join(dram) + "\n")
    (work / "script.sh").write_text(SCRIPT.format(dram=work / "dram.toml", keys=KEYS))
    out = work / "out"
    done = subprocess.run([str(solocore), "board", "run", board, "--cpus", "2", "--share", str(work), "--out", str(out), "--", "sh",
                           str(work / "script.sh")], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{board}: {done.stderr.splitlines()[-1]}")
    measured = json.loads((out / "measured.json").read_text())
    return tomllib.loads(text), tomllib.loads((out / "measured.toml").read_text()), {f["key"]: f for f in measured["findings"]}


def row(finding, begins):
    """Median of the part that begins like this; none: it was not found."""
    return next((r["median"] for r in finding["rows"] if r["of"].startswith(begins)), float("nan"))


def compare(truth, file, found):
    """Rows of quantity, truth, measured, least and largest ratio."""
    rows = []
    exact = [("frequency", truth["frequency"], file["frequency"]), ("llc.line", truth["llc"]["line"], file["llc"]["line"])]
    for level in ("l1i", "l1d", "l2", "llc"):
        for key in ("size", "ways"):
            if level in truth:
                exact.append((f"{level}.{key}", truth[level][key], file.get(level, {}).get(key, "nan")))
    rows += [(name, number(a), number(b), 1, 1) for name, a, b in exact]
    rows.append(("cpi", truth["cpi"], file["cpi"], 0.95, 1.05))
    for level in ("l2", "llc"):
        if level in truth:
            rows.append((f"{level}.latency", number(truth[level]["latency"]), number(file[level]["latency"]), 0.95, 1.05))
    d = truth["dram"]
    commands = sum(number(d[key]) for key in ("t_rp", "t_rcd", "t_cl", "t_burst"))
    memory = tomllib.loads((ROOT / "crates" / "dram" / "memories" / f"{d['memory']}.toml").read_text())
    clock = number(memory["timing"]["clock"])
    conflict = number(d["overhead"]) + commands + CLOCKS * clock
    rows.append(("row conflict, ns", conflict, row(found["dram.overhead"], "a row conflict"), 0.95, 1.05))
    most = number(d["latency_max"])
    rows.append(("L_max found, ns", most, row(found["dram.latency_max"], "right behind the last write"), 0.9, 1.0))
    rows.append(("dram.latency_max, ns", most, number(file["dram"]["latency_max"]), 1.0, 1.05))
    return rows


def main():
    solocore = os.environ.get("SOLOCORE", ROOT / "target" / "release" / "solocore")
    missed = False
    for board in sys.argv[1:] or PRESETS:
        with tempfile.TemporaryDirectory() as work:
            rows = compare(*run(solocore, board, Path(work)))
        print(f"{board}\n{'quantity':22}{'truth':>14}{'measured':>14}{'ratio':>8}  verdict")
        for name, truth, got, least, largest in rows:
            good = least <= got / truth <= largest
            missed |= not good
            verdict = "met" if good else f"MISSED: not {least} to {largest}"
            print(f"{name:22}{truth:14.10g}{got:14.10g}{got / truth:8.3f}  {verdict}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
