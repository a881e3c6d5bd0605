#!/usr/bin/env python3
"""Speed, memory and counts of `solocore profile`, against its targets and against Valgrind's lackey.

Measures, in one run:
  speed   data references (loads + stores, from the profile) per second of wall time of a whole `solocore profile`
  lackey  wall time of `valgrind --tool=lackey --trace-mem=yes PROGRAM | lackey` (the same cache model, examples/lackey.rs)
          divided by that of `solocore profile PROGRAM`, in pairs run one after the other
  memory  peak resident memory of the profiled run less that of the program under plain qemu-user, and natively
  counts  instructions, references and first-level misses that both tools feed to the model, which should agree
Prints a table and writes build/bench/profiler.json. A missed target is said and is no failure.
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = 5
PAIRS = 3
N = 430
LACKEY_N = 160
TARGETS = {"references_per_s": 50e6, "lackey_ratio": 20.0, "memory_mb": 200.0}

# Integers, because QEMU computes floating point in software, which would be measured instead of the model.
# `matrix N columns` walks one factor down its columns (a first-level miss every few references);
# `matrix N rows` does the same sums in an order that runs along rows.
MATRIX_C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    size_t n = strtoul(argv[1], NULL, 10);
    int *a = malloc(n * n * sizeof *a), *b = malloc(n * n * sizeof *b), *c = calloc(n * n, sizeof *c);
    if (!a || !b || !c)
        return 1;
    for (size_t i = 0; i < n * n; i++) {
        a[i] = (int)(i % 7);
        b[i] = (int)(i % 5);
    }
    if (strcmp(argv[2], "rows") == 0) {
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < n; k++)
                for (size_t j = 0; j < n; j++)
                    c[i * n + j] += a[i * n + k] * b[k * n + j];
    } else {
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                int sum = 0;
                for (size_t k = 0; k < n; k++)
                    sum += a[i * n + k] * b[k * n + j];
                c[i * n + j] = sum;
            }
    }
    double trace = 0;
    for (size_t i = 0; i < n; i++)
        trace += c[i * n + i];
    printf("%.0f\n", trace);
    return 0;
}
"""

# Runs a program and writes its peak resident memory in KiB. Started from Python directly, a program would be charged
# with Python's own peak: Linux keeps the larger of the two images across exec.
PEAK_C = r"""
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    int status;
    struct rusage usage;
    FILE *out = fopen(argv[1], "w");
    if (child < 0 || !out || wait4(child, &status, 0, &usage) < 0)
        return 125;
    fprintf(out, "%ld\n", usage.ru_maxrss);
    return fclose(out) || !WIFEXITED(status) ? 125 : WEXITSTATUS(status);
}
"""


class Failed(Exception):
    """The benchmark cannot be run; the text says why and what to do."""


def main():
    args = arguments()
    solocore = needed(args.solocore, "build it with `cargo build --release`")
    results = {"machine": machine(), "targets": TARGETS, "speed": [], "lackey": None, "memory": [], "counts": []}
    print(f"{results['machine']['date']}  {results['machine']['cpu']}, {results['machine']['cores']} cores, "
          f"load {results['machine']['load']:.1f}\n")
    with tempfile.TemporaryDirectory(prefix="solocore-bench-") as temp:
        temp = pathlib.Path(temp)
        matrix, peak = (compile_c(temp, *source) for source in (("matrix", MATRIX_C), ("peak", PEAK_C)))
        programs = {
            f"matrix, columns, n={args.n}": [matrix, str(args.n), "columns"],
            f"matrix, rows, n={args.n}": [matrix, str(args.n), "rows"],
        }
        vision = ROOT / "examples/vision"
        if (vision / "build/canny").exists():
            programs["vision: canny"] = [vision / "build/canny", vision / "data/grey.pgm"]
        row("", "median", "min", "max", "target")
        for name, program in programs.items():
            results["speed"].append(speed(name, solocore, program, temp))
        if args.no_lackey:
            print("lackey: left out")
        elif shutil.which("valgrind") is None:
            print("lackey: valgrind is missing; install it (Debian: `apt install valgrind`) to compare with it")
        else:
            compare(results, args, solocore, matrix, temp)
        for name, program in programs.items():
            results["memory"].append(memory(name, solocore, peak, program, temp))
    if results["counts"]:
        print("\nThe same model fed by lackey and by QEMU, run for run the same program:")
        print(f"  {'':14}{'lackey':>14}{'QEMU':>14}{'difference':>12}")
        for c in results["counts"]:
            print(f"  {c['what']:14}{c['lackey']:14,}{c['qemu']:14,}{c['difference']:12.3%}")
    results["machine"]["load_after"] = os.getloadavg()[0]
    out = ROOT / "build/bench/profiler.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"\nwritten to {out}")


def speed(name, solocore, program, temp):
    """References per second of whole runs."""
    rates, profile = [], None
    for _ in range(RUNS):
        seconds, profile = profiled(solocore, program, temp)
        rates.append(profile["references"] / seconds)
    misses = level(profile, "L1D")["misses"] / profile["references"]
    plain = [timed(["qemu-x86_64", *program]) for _ in range(3)] if shutil.which("qemu-x86_64") else []
    result = {"program": name, "references": profile["references"], "l1d_miss_ratio": misses,
              **spread("references_per_s", rates), "plain_qemu_s": statistics.median(plain) if plain else None}
    verdict = met(result["references_per_s"], TARGETS["references_per_s"], at_least=True)
    row(f"{name}: million references/s ({misses:.1%} miss L1D)", *(f"{r / 1e6:.1f}" for r in trio(rates)),
        f">= {TARGETS['references_per_s'] / 1e6:.0f} {verdict}")
    seconds = f"{profile['references'] / result['references_per_s']:.2f} s"
    print(f"  ({seconds}" + (f"; plain QEMU {result['plain_qemu_s']:.2f} s)" if plain else ")"))
    return result


def compare(results, args, solocore, matrix, temp):
    """Wall times and counts of lackey and of solocore on the same program."""
    model = needed(args.lackey, "it is examples/lackey.rs of solocore-profile") if args.lackey else build_model()
    program = [matrix, str(args.lackey_n), "columns"]
    pairs, fed, profile = [], None, None
    for _ in range(PAIRS):
        seconds, fed = lackey(model, program)
        own, profile = profiled(solocore, program, temp)
        pairs.append((seconds, own))
    ratios = [a / b for a, b in pairs]
    results["lackey"] = {"program": f"matrix, columns, n={args.lackey_n}", "pairs_s": pairs,
                         **spread("lackey_ratio", ratios)}
    verdict = met(statistics.median(ratios), TARGETS["lackey_ratio"], at_least=True)
    row(f"matrix, columns, n={args.lackey_n}: lackey time / solocore time", *(f"{r:.1f}" for r in trio(ratios)),
        f">= {TARGETS['lackey_ratio']:.0f} {verdict}")
    seconds = "lackey {:.1f} s, solocore {:.2f} s".format(*(statistics.median(side) for side in zip(*pairs)))
    print(f"  ({seconds}; solocore also records the trace and attributes misses to code)")
    counts = [(what, fed[what], profile[what]) for what in ("instructions", "loads", "stores", "references")]
    for name in ("L1I", "L1D", "L2", "LLC"):
        counts.append((f"{name} misses", level(fed, name)["misses"], level(profile, name)["misses"]))
    for what, ours, theirs in counts:
        difference = (theirs - ours) / max(ours, 1)
        results["counts"].append({"what": what, "lackey": ours, "qemu": theirs, "difference": difference})


def memory(name, solocore, peak, program, temp):
    """Peak memory of one program in MB: profiled, under plain QEMU, native."""
    def of(command):
        out = temp / "peak.txt"
        run([peak, out, *command])
        return int(out.read_text()) * 1024 / 1e6

    full = [of([solocore, "profile", "-o", temp / "m.json", "--", *program]) for _ in range(PAIRS)]
    native = of(program)
    plain = of(["qemu-x86_64", *program]) if shutil.which("qemu-x86_64") else None
    above = [f - (native if plain is None else plain) for f in full]
    result = {"program": name, "profiled_mb": statistics.median(full), "plain_qemu_mb": plain, "native_mb": native,
              **spread("memory_mb", above)}
    verdict = met(result["memory_mb"], TARGETS["memory_mb"], at_least=False)
    row(f"{name}: MB above {'native' if plain is None else 'plain QEMU'}", *(f"{m:.1f}" for m in trio(above)),
        f"<  {TARGETS['memory_mb']:.0f} {verdict}")
    print(f"  (peak {result['profiled_mb']:.1f} MB; {result['profiled_mb'] - native:.1f} MB above native)")
    return result


def profiled(solocore, program, temp):
    out = temp / "profile.json"
    seconds = timed([solocore, "profile", "-o", out, "--", *program])
    profile = json.loads(out.read_text(encoding="utf-8"))
    return seconds, profile


def lackey(model, program):
    """Seconds and counts of one piped run. Valgrind logs to a descriptor of its own: the program has the usual ones."""
    start = time.perf_counter()
    read, write = os.pipe()
    log = ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-fd={write}"]
    with subprocess.Popen([*log, *program], stdout=subprocess.DEVNULL, pass_fds=[write]) as source:
        os.close(write)
        with subprocess.Popen([model], stdin=read, stdout=subprocess.PIPE) as sink:
            os.close(read)
            out = sink.stdout.read()
    seconds = time.perf_counter() - start
    if source.returncode != 0 or sink.returncode != 0:
        raise Failed(f"lackey pipe: valgrind ended with {source.returncode}, the model with {sink.returncode}")
    return seconds, json.loads(out)


def level(profile, name):
    return next(entry for entry in profile["levels"] if entry["name"] == name)


def build_model():
    """The lackey-fed cache model, from the same sources."""
    command = ["cargo", "build", "--release", "--quiet", "-p", "solocore-profile", "--example", "lackey"]
    if shutil.which("cargo") is None:
        raise Failed("cargo is missing, and with it the lackey example; install Rust or pass --lackey PROGRAM")
    run(command, cwd=ROOT)
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release/examples/lackey"


def compile_c(temp, name, source):
    (temp / f"{name}.c").write_text(source, encoding="utf-8")
    compiler = os.environ.get("CC", "gcc")
    if shutil.which(compiler) is None:
        raise Failed(f"{compiler} is missing; install a C compiler (Debian: `apt install gcc`) or name one in CC")
    run([compiler, "-O2", "-g", "-o", temp / name, temp / f"{name}.c"])
    return temp / name


def timed(command):
    start = time.perf_counter()
    run(command)
    return time.perf_counter() - start


def run(command, **more):
    got = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, **more)
    if got.returncode != 0:
        raise Failed(f"`{' '.join(map(str, command))}` ended with {got.returncode}:\n{got.stderr.decode(errors='replace')}")


def needed(path, how):
    if not path.is_file():
        raise Failed(f"{path} is missing; {how}")
    return path.resolve()


def trio(values):
    return statistics.median(values), min(values), max(values)


def spread(name, values):
    median, low, high = trio(values)
    return {name: median, "min": low, "max": high, "runs": values}


def met(value, target, at_least):
    return "met" if (value >= target if at_least else value < target) else "MISSED"


def row(what, median, low, high, target):
    print(f"{what:66}{median:>8}{low:>8}{high:>8}  {target}", flush=True)


def machine():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes"), "cpu": model,
            "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solocore", type=pathlib.Path, default=ROOT / "target/release/solocore",
                        help="the program (default: target/release/solocore)")
    parser.add_argument("--lackey", type=pathlib.Path, help="the built lackey example (default: cargo builds it)")
    parser.add_argument("--n", type=int, default=N, help="matrix side for speed and memory (default: %(default)s)")
    parser.add_argument("--lackey-n", type=int, default=LACKEY_N,
                        help="matrix side for lackey, which is slow (default: %(default)s)")
    parser.add_argument("--no-lackey", action="store_true", help="leave lackey out")
    args = parser.parse_args()
    if args.n < 1 or args.lackey_n < 1:
        parser.error("a matrix has a side of at least 1")
    return args


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"profiler.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
