#!/usr/bin/env python3
"""`solocore schedule-io` against OR-tools CP-SAT on random IMA instances, one run at a time.

Instances (all drawn from one seed): 8 to 256 partitions, 4 or 8 cores, cores given for two thirds of the instances and free for
the rest, a core load from 0.3 to 0.7, an I/O load from 0.1 to 0.6, periods harmonic (10, 20, 40, 80 ms) or not (20, 30, 40, 60,
120 ms; 20, 50, 70, 100, 140 ms; 12, 18, 24, 30, 36, 60 ms), times in units of 0.01 ms. Loads are shared out by random weights
among partitions and transfers: for two thirds of the instances, the weights differ by up to 3 and a part is at most a third of
the periods' greatest common divisor; for the rest ("uneven") they differ by up to 400 and it is at most half of it, which
makes some of the non-harmonic ones infeasible. Every partition has one chain, one in five two; physical I/O takes 1 to 2
times its transfer, at one of as many devices as keep each below a load of 0.4. The age limit is two periods.

CP-SAT gets the same rules. Where the instances of a hyperperiod are few (--unroll), non-overlap is unrolled into intervals, a
model in which it is strong; else it is the closed form over pairs with an integer for the number of periods between them.
CP-SAT runs with as many workers as there are processors. Time of both is wall time from the parsed instance (CP-SAT: model
building included; ours: the whole command with its start). With --cpu it is processor time, and one worker: what a machine
with nothing else to do would take, also where other work goes on; CP-SAT stops when it has used the limit up.

With --lone, the paper's heuristic (HOS) and the exact search run by themselves as well, as the example `lone_search` of
crates/planner has them: HOS itself against CP-SAT, and CP-SAT as a referee of the exact search.

Writes CSV (one line a run, kept and continued with --resume) and an SVG: time by number of partitions, as Fig. 9 of the paper.
Every table found is checked by `solocore check-io`, CP-SAT's too. Fails if one side finds a table where the other proves none.
"""

import argparse
import contextlib
import csv
import importlib.util
import json
import math
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
HARMONIC = [10, 20, 40, 80]
OTHER = [[20, 30, 40, 60, 120], [20, 50, 70, 100, 140], [12, 18, 24, 30, 36, 60]]
UNIT = 10  # microseconds in a unit of time
FIELDS = ["seed", "partitions", "cores", "free", "harmonic", "uneven", "core_load", "io_load", "solver", "answer", "seconds", "detail"]


class Failed(Exception):
    """What cannot be measured, or must not be."""


def generate(seed, sizes):
    """A random instance: a dictionary in units of UNIT microseconds."""
    rng = random.Random(seed)
    count, cores = rng.choice(sizes), rng.choice([4, 8])
    harmonic, free, uneven = rng.random() < 0.5, rng.random() < 1 / 3, rng.random() < 1 / 3
    core_load, io_load = rng.uniform(0.3, 0.7), rng.uniform(0.1, 0.6)
    periods = [1000 // UNIT * p for p in (HARMONIC if harmonic else rng.choice(OTHER))]
    base = math.gcd(*periods)
    parts = [{"period": rng.choice(periods), "core": n % cores, "chains": []} for n in range(count)]
    for core in range(cores):
        mine = [p for p in parts if p["core"] == core]
        for part, length in zip(mine, share(rng, core_load, [p["period"] for p in mine], base, uneven)):
            part["duration"] = length
    chains = [p for p in parts for _ in range(2 if rng.random() < 0.2 else 1)]
    lengths = share(rng, io_load, [p["period"] for p in chains for _ in range(2)], base, uneven)
    devices = []
    for n, part in enumerate(chains):
        transfers = [transfer(rng, devices, part["period"], lengths[2 * n + k], base) for k in range(2)]
        part["chains"].append(transfers)
    if free:
        for part in parts:
            part["core"] = None
    return {"seed": seed, "cores": cores, "free": free, "harmonic": harmonic, "uneven": uneven, "core_load": round(core_load, 3),
            "io_load": round(io_load, 3), "parts": parts, "devices": len(devices)}


def share(rng, load, periods, base, uneven):
    """Lengths whose shares of the periods sum to about the load."""
    weights = [rng.uniform(0.05, 1) ** 2 if uneven else rng.uniform(0.5, 1.5) for _ in periods]
    total, most = sum(weights), base // 2 if uneven else base // 3
    return [max(1, min(most, int(load * w / total * t))) for w, t in zip(weights, periods)]


def transfer(rng, devices, period, length, base):
    physical = min(base // 3, max(1, int(length * rng.uniform(1, 2))))
    fit = [d for d, load in enumerate(devices) if load + physical / period <= 0.4]
    device = rng.choice(fit) if fit and rng.random() < 0.8 else len(devices)
    if device == len(devices):
        devices.append(0.0)
    devices[device] += physical / period
    return {"device": device, "physical": physical, "transfer": length}


def toml(instance):
    us = lambda units: f'"{units * UNIT} us"'
    out = [f"cores = {instance['cores']}"]
    out += [f'[[device]]\nname = "d{d}"' for d in range(instance["devices"])]
    for n, p in enumerate(instance["parts"]):
        out.append(f'[[partition]]\nname = "p{n}"\nperiod = {us(p["period"])}\nduration = {us(p["duration"])}')
        if p["core"] is not None:
            out.append(f"core = {p['core']}")
        for chain in p["chains"]:
            half = [f'{{ device = "d{t["device"]}", physical = {us(t["physical"])}, transfer = {us(t["transfer"])} }}' for t in chain]
            out.append(f"[[partition.chain]]\ninput = {half[0]}\noutput = {half[1]}")
    return "\n".join(out) + "\n"


def cp_sat(instance, limit, workers, unroll, clock):
    """Solves with CP-SAT; (answer, seconds, rows of the table)."""
    from ortools.sat.python import cp_model
    begin = clock()
    model = cp_model.CpModel()
    parts, rows, on = instance["parts"], [], {}
    cores = range(instance["cores"])
    for n, p in enumerate(parts):
        period = p["period"]

        def activity(chain, stage, length, resource):
            # Processing starts in its first period; with an age of two periods, all is within two periods of it.
            low, high = (0, period - 1) if stage == "processing" else (-2 * period, 3 * period)
            var = model.new_int_var(low, high, "")
            rows.append({"partition": f"p{n}", "chain": chain, "stage": stage, "resource": resource, "var": var,
                         "length": length, "period": period})
            if resource is not None:
                on.setdefault(resource, []).append((var, length, period, None))
            return var

        core = p["core"]
        start = activity(None, "processing", p["duration"], None if core is None else f"core {core}")
        if core is None:
            p["choice"] = [model.new_bool_var("") for _ in cores]
            model.add_exactly_one(p["choice"])
            for c in cores:
                on.setdefault(f"core {c}", []).append((start, p["duration"], period, p["choice"][c]))
        for k, (i, o) in enumerate(p["chains"], 1):
            a = activity(k, "physical-input", i["physical"], f"device d{i['device']}")
            b = activity(k, "device-input", i["transfer"], "io-core")
            c = activity(k, "device-output", o["transfer"], "io-core")
            d = activity(k, "physical-output", o["physical"], f"device d{o['device']}")
            model.add(a + i["physical"] <= b)
            model.add(b + i["transfer"] <= start)
            model.add(start + p["duration"] <= c)
            model.add(c + o["transfer"] <= d)
            model.add(d + o["physical"] - a <= 2 * period)
    for items in on.values():
        hyper = math.lcm(*(t for _, _, t, _ in items))
        if sum(hyper // t for _, _, t, _ in items) <= unroll:
            unrolled(model, items, hyper)
        else:
            pairwise(model, items)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = workers
    with stopping(solver, clock, begin + limit):
        status = solver.solve(model)
    seconds = clock() - begin
    if status == cp_model.INFEASIBLE:
        return "infeasible", seconds, None
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return "not found", seconds, None
    return "found", seconds, table(instance, rows, solver)


@contextlib.contextmanager
def stopping(solver, clock, end):
    """Stops the solver when the clock shows this time."""
    over = threading.Event()

    def watch():
        while not over.wait(0.05):
            if clock() >= end:
                solver.stop_search()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def unrolled(model, items, hyper):
    """All instances of one hyperperiod, each offset taken modulo its period."""
    intervals = []
    for var, length, period, present in items:
        residue = model.new_int_var(0, period - 1, "")
        turns = model.new_int_var(-4, 4, "")
        model.add(var == residue + period * turns)
        # One instance more, for what reaches over the end of the hyperperiod.
        for k in range(hyper // period + 1):
            at = residue + k * period
            if present is None:
                intervals.append(model.new_fixed_size_interval_var(at, length, ""))
            else:
                intervals.append(model.new_optional_fixed_size_interval_var(at, length, present, ""))
    model.add_no_overlap(intervals)


def pairwise(model, items):
    """c_i <= o_j - o_i - k g <= g - c_j for some whole k."""
    for n, (x, cx, tx, px) in enumerate(items):
        for y, cy, ty, py in items[:n]:
            g = math.gcd(tx, ty)
            most = 6 * (tx + ty) // g + 1
            k = model.new_int_var(-most, most, "")
            rules = [model.add(y - x - g * k >= cx), model.add(y - x - g * k <= g - cy)]
            both = [p for p in (px, py) if p is not None]
            if both:
                for rule in rules:
                    rule.only_enforce_if(both)


def table(instance, rows, solver):
    """CP-SAT's answer in the form of ours, each partition moved into its first period."""
    by_part, out = {}, []
    for r in rows:
        by_part.setdefault(r["partition"], []).append(r)
    for n, (name, mine) in enumerate(by_part.items()):
        first = min(solver.value(r["var"]) for r in mine)
        shift = first // mine[0]["period"] * mine[0]["period"]
        for r in mine:
            resource = r["resource"]
            if resource is None:
                resource = f"core {[solver.value(c) for c in instance['parts'][n]['choice']].index(1)}"
            ns = UNIT * 1000
            out.append({"partition": name, "chain": r["chain"], "stage": r["stage"], "resource": resource,
                        "offset_ns": (solver.value(r["var"]) - shift) * ns, "duration_ns": r["length"] * ns,
                        "period_ns": r["period"] * ns})
    return {"activities": out}


def ours(args, directory, seed):
    command = [args.solocore, "schedule-io", directory / "i.toml", "-o", directory / "t.json", "--seed", "1",
               "--time-limit", f"{args.limit} s", "--format", "json"]
    begin = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, check=False)
    seconds = time.perf_counter() - begin[0]
    if args.cpu:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = used.ru_utime + used.ru_stime - begin[1].ru_utime - begin[1].ru_stime
    if done.returncode not in (0, 1):
        raise Failed(f"seed {seed}: schedule-io ended with {done.returncode}:\n{done.stderr.decode(errors='replace')}")
    result = json.loads(done.stdout)
    return result["answer"].replace("-", " "), seconds, "; ".join(result["reasons"]) or result.get("found_by", "")


def lone(args, directory, seed, which):
    """HOS or the exact search by itself: answer, seconds, look-ups."""
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([args.lone, which, directory / "i.toml", str(args.limit)], capture_output=True, check=False)
    if done.returncode != 0:
        raise Failed(f"seed {seed}: {args.lone} ended with {done.returncode}:\n{done.stderr.decode(errors='replace')}")
    used, result = resource.getrusage(resource.RUSAGE_CHILDREN), json.loads(done.stdout)
    cpu = used.ru_utime + used.ru_stime - begin.ru_utime - begin.ru_stime
    return result["answer"], cpu if args.cpu else result["seconds"], f"{result['look_ups']} look-ups"


def check(args, directory, seed, who):
    done = subprocess.run([args.solocore, "check-io", directory / "i.toml", directory / "t.json"], capture_output=True, check=False)
    if done.returncode != 0:
        raise Failed(f"seed {seed}: the table of {who} breaks a rule:\n{done.stdout.decode()}{done.stderr.decode()}")


def run_one(args, seed):
    instance = generate(seed, args.sizes)
    known = {k: instance[k] for k in ("seed", "cores", "free", "harmonic", "uneven", "core_load", "io_load")}
    known["partitions"] = len(instance["parts"])
    rows = []
    with tempfile.TemporaryDirectory() as place:
        directory = pathlib.Path(place)
        (directory / "i.toml").write_text(toml(instance), encoding="utf-8")
        answer, seconds, detail = ours(args, directory, seed)
        if answer == "found":
            check(args, directory, seed, "solocore")
        rows.append({**known, "solver": "solocore", "answer": answer, "seconds": round(seconds, 4), "detail": detail})
        for which in ("hos", "exact") if args.lone else ():
            answer, seconds, detail = lone(args, directory, seed, which)
            rows.append({**known, "solver": which, "answer": answer, "seconds": round(seconds, 4), "detail": detail})
        if not args.alone:
            answer, seconds, found = cp_sat(instance, args.limit, args.workers, args.unroll, time.process_time if args.cpu else time.perf_counter)
            if found:
                (directory / "t.json").write_text(json.dumps(found), encoding="utf-8")
                check(args, directory, seed, "CP-SAT")
            rows.append({**known, "solver": "cp-sat", "answer": answer, "seconds": round(seconds, 4), "detail": ""})
            if {"found", "infeasible"} <= {r["answer"] for r in rows}:
                raise Failed(f"seed {seed}: one side found a table, the other proved that there is none")
    return rows


def summary(rows):
    by = {s: {r["seed"]: r for r in rows if r["solver"] == s} for s in ("solocore", "hos", "exact", "cp-sat")}
    for solver, runs in by.items():
        answers = [r["answer"] for r in runs.values()]
        if answers:
            times = [float(r["seconds"]) for r in runs.values()]
            print(f"{solver:10} {len(answers)} instances: " + ", ".join(f"{answers.count(a)} {a}" for a in ("found", "infeasible", "not found"))
                  + f"; median {statistics.median(times):.3f} s")
            sizes = sorted({int(r["partitions"]) for r in runs.values()})
            for n in sizes:
                mine = [r for r in runs.values() if int(r["partitions"]) == n]
                print(f"    {n} partitions: {sum(r['answer'] != 'not found' for r in mine)} of {len(mine)} decided, "
                      f"median {statistics.median(float(r['seconds']) for r in mine):.4f} s")
    both = [(by["solocore"][s], by["cp-sat"][s]) for s in by["cp-sat"] if s in by["solocore"]]
    if both:
        ratios = [float(b["seconds"]) / float(a["seconds"]) for a, b in both]
        found = [float(b["seconds"]) / float(a["seconds"]) for a, b in both if a["answer"] == "found"]
        print(f"CP-SAT / solocore: median {statistics.median(ratios):.1f} over all", end="")
        print(f", {statistics.median(found):.1f} where solocore found a table" if found else "")
        print("only CP-SAT decided:", [a["seed"] for a, b in both if a["answer"] == "not found" != b["answer"]])
        print("only solocore decided:", sum(b["answer"] == "not found" != a["answer"] for a, b in both))


def draw(rows, path, limit):
    """Time by partitions, both axes logarithmic; hollow where nothing was decided."""
    width, height, left, bottom = 640, 400, 70, 50
    low = math.log2(min(int(r["partitions"]) for r in rows)) - 0.2
    x = lambda n: left + (math.log2(n) - low) / (8.2 - low) * (width - left - 20)
    y = lambda s: 20 + (math.log10(limit * 1.5) - math.log10(min(max(s, 0.002), limit * 1.5))) / (math.log10(limit * 1.5) + 2.7) * (height - bottom - 20)
    colour = {"solocore": "#0b6e99", "cp-sat": "#c0392b", "hos": "#27803a", "exact": "#8a6d1d"}
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for n in sorted({int(r["partitions"]) for r in rows}):
        out.append(f'<text x="{x(n):.1f}" y="{height - bottom + 18}" text-anchor="middle">{n}</text>')
    for s in (0.01, 0.1, 1, 10, 60):
        if s <= limit:
            out.append(f'<path d="M{left} {y(s):.1f}H{width - 20}" stroke="#ddd"/><text x="{left - 8}" y="{y(s) + 4:.1f}" text-anchor="end">{s:g} s</text>')
    out.append(f'<text x="{(left + width) / 2}" y="{height - 12}" text-anchor="middle">partitions</text>')
    for k, (solver, paint) in enumerate(colour.items()):
        mine = [r for r in rows if r["solver"] == solver]
        if not mine:
            continue
        for r in mine:
            fill = "none" if r["answer"] == "not found" else paint
            shift = 1.5 - 3 * (solver == "solocore")
            out.append(f'<circle cx="{x(int(r["partitions"])) + 3 * shift:.1f}" cy="{y(float(r["seconds"])):.1f}" r="2.5" fill="{fill}" stroke="{paint}" opacity="0.6"/>')
        sizes = sorted({int(r["partitions"]) for r in mine})
        medians = [(n, statistics.median(float(r["seconds"]) for r in mine if int(r["partitions"]) == n)) for n in sizes]
        out.append(f'<polyline fill="none" stroke="{paint}" stroke-width="2" points="{" ".join(f"{x(n):.1f},{y(s):.1f}" for n, s in medians)}"/>')
        out.append(f'<text x="{left + 10}" y="{34 + 16 * k}" fill="{paint}">{solver}: median; hollow: undecided at {limit:g} s</text>')
    path.write_text("\n".join(out) + "\n</svg>\n", encoding="utf-8")


def main():
    args = arguments()
    if not args.alone and args.instance is None and importlib.util.find_spec("ortools") is None:
        raise Failed("ortools is missing; `pip install ortools==9.15.6755`, or give --alone")
    if args.instance is None and not args.solocore.is_file():
        raise Failed(f"{args.solocore} is missing; build it with `make build`, or name it with --solocore")
    if args.instance is not None:
        print(toml(generate(args.instance, args.sizes)), end="")
        return
    args.output.mkdir(parents=True, exist_ok=True)
    path, rows = args.output / "ima.csv", []
    if args.resume and path.is_file():
        with path.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    done = {int(r["seed"]) for r in rows}
    begin = time.monotonic()
    for seed in range(args.first, args.first + args.count):
        if seed in done:
            continue
        if args.budget and time.monotonic() - begin > args.budget:
            break
        rows += run_one(args, seed)
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)
        r = rows[-1]
        each = {s["solver"]: f"{s['answer']} {s['seconds']} s" for s in rows if int(s["seed"]) == seed}
        print(f"{seed}: {r['partitions']} partitions, {r['cores']} cores{' free' if str(r['free']) == 'True' else ''}, "
              f"{'harmonic' if str(r['harmonic']) == 'True' else 'other'}, {r['core_load']}/{r['io_load']}: {each}", file=sys.stderr, flush=True)
    draw(rows, args.output / "ima.svg", args.limit)
    summary(rows)
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} processors; {path}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solocore", type=pathlib.Path, default=ROOT / "target/release/solocore")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "build/bench")
    parser.add_argument("--count", type=int, default=200, help="instances")
    parser.add_argument("--first", type=int, default=1, help="seed of the first")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each solver and instance")
    parser.add_argument("--budget", type=float, default=0, help="stop after so many seconds in all")
    parser.add_argument("--sizes", type=lambda s: [int(n) for n in s.split(",")], default=[8, 16, 32, 64, 128, 256])
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cpu", action="store_true", help="measure and limit processor time, with one worker")
    parser.add_argument("--unroll", type=int, default=20000, help="most intervals on a resource for the unrolled model")
    parser.add_argument("--alone", action="store_true", help="without CP-SAT")
    parser.add_argument("--lone", type=pathlib.Path, metavar="EXAMPLE", help="also run HOS and the exact search by themselves, with this lone_search")
    parser.add_argument("--resume", action="store_true", help="keep what the CSV has")
    parser.add_argument("--instance", type=int, metavar="SEED", help="print one instance and end")
    args = parser.parse_args()
    if args.cpu:
        args.workers = 1
    return args


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"bench/schedule_io.py: {error}")
