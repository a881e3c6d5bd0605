"""What a message costs unmodified programs (bench/queues.c): kernel's queues against queues in frames of the program's colours.

    SOLOCORE=target/debug/solocore python3 bench/queues.py [--rounds N] [--batches N] [--colors LIST --map FILE]

A round is a run of the program alone and a run under `solocore exec --colors LIST --queues all,pipes,sockets`. Others slow both, so the ratio of a
round is what counts: the median over the rounds, with the middle half of them. Without --map the colours are 32, by bits 12 to 16 of the address. SOLOCORE names the command
[default: target/release/solocore]. Exit code 3: something is missing, and stderr says what.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIZES = (64, 256, 1024, 4096, 8192)
MAP = "".join(f"# colour: {bit}\n" for bit in range(12, 17))


class Missing(Exception):
    """The machine lacks something."""


def run(argv):
    """What a command prints; `Missing`, with its last words, if it fails."""
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"it ended with exit code {done.returncode}"]
        raise Missing(f"{Path(argv[0]).name}: {said[-1].removeprefix('solocore: ')}")
    return done.stdout


def check(solocore):
    """Looks for what the runs need before any is made."""
    if os.geteuid():
        raise Missing("frames are shown to root only; run it as root")
    if not os.access(solocore, os.X_OK):
        raise Missing(f"{solocore} is not there; build it, or name it in SOLOCORE")
    if not shutil.which("cc"):
        raise Missing("no C compiler (cc) is in PATH; install gcc")


def times(argv):
    """Sending and receiving together in ns, by kind and size."""
    lines = (line.split() for line in run(argv).splitlines())
    return {(kind, int(size)): float(send) + float(receive) for kind, size, send, receive in lines}


def measure(args, solocore, work):
    program, colours = work / "queues", args.map or work / "map.txt"
    if not args.map:
        colours.write_text(MAP)
    run(["cc", "-O2", ROOT / "bench/queues.c", "-o", program, "-lrt"])
    plain = [program, args.batches, *SIZES]
    coloured = [solocore, "exec", "--map", colours, "--colors", args.colors, "--queues", "all,pipes,sockets", "--", *plain]
    times(plain)
    return [(times(plain), times(coloured)) for _ in range(args.rounds)]


def show(rounds):
    print(f"{'queue':6} {'bytes':>6} {'kernel, ns':>11} {'coloured, ns':>13} {'ratio':>6}  middle half")
    for kind, size in rounds[0][0]:
        pairs = [(plain[kind, size], coloured[kind, size]) for plain, coloured in rounds]
        ratios = sorted(coloured / plain for plain, coloured in pairs)
        kernel, own = (statistics.median(column) for column in zip(*pairs))
        print(f"{kind:6} {size:6} {kernel:11.0f} {own:13.0f} {statistics.median(ratios):6.2f}  "
              f"{ratios[len(ratios) // 4]:.2f} to {ratios[len(ratios) * 3 // 4]:.2f}")
    print(f"send and receive together, medians of {len(rounds)} rounds")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batches", type=int, default=500, help="batches of up to 8 messages for each size in a run")
    parser.add_argument("--colors", default="0-7")
    parser.add_argument("--map", type=Path)
    args = parser.parse_args()
    if args.rounds < 1 or args.batches < 1:
        parser.error("--rounds and --batches begin at 1")
    solocore = Path(os.environ.get("SOLOCORE", ROOT / "target/release/solocore")).resolve()
    try:
        check(solocore)
        with tempfile.TemporaryDirectory() as work:
            show(measure(args, solocore, Path(work)))
    except Missing as missing:
        print(f"bench/queues.py: {missing}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
