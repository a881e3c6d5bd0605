#!/usr/bin/env python3
"""What scheduling costs against the number of VCPUs, as a picture: time of a round through two pipes, by VCPUs.

Reads what the guest part `vcpu-cost` of tests/vm says (lines `VCPUs N: round X ns` and `the kernel's scheduler: round X ns`), from a
file or standard input, and draws it with a logarithmic axis of VCPUs: a cost that grows as log n is a straight line there. Beside the
points, the line a + b log2 n that fits them best (least squares), and the kernel's own scheduler. Fails where there are fewer than
three points, or where the largest number costs a tenth more than the line through all others says: growth faster than log n.

    VM_KERNELS=6.19.14:sched-ext VM_PARTS=vcpu-cost tests/vm/test.sh target/release/solocore | python3 bench/vcpu_cost.py -o docs/img/vcpu-cost.svg
"""

import argparse
import math
import pathlib
import re
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 70, 20, 20, 50


class Failed(Exception):
    """What was wrong, and what to do."""


def read(text):
    """Points (VCPUs, ns) in the order of VCPUs, and the kernel's own ns."""
    points = sorted((int(n), float(ns)) for n, ns in re.findall(r"^VCPUs (\d+): round ([\d.]+) ns", text, re.MULTILINE))
    own = re.search(r"^the kernel's scheduler: round ([\d.]+) ns", text, re.MULTILINE)
    if len(points) < 3 or not own:
        raise Failed("no lines `VCPUs N: round X ns`, or too few; give what tests/vm/test.sh says with VM_PARTS=vcpu-cost")
    return points, float(own.group(1))


def fit(points):
    """Least squares of a + b log2 n."""
    xs, ys = [math.log2(n) for n, _ in points], [ns for _, ns in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    b = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / sum((x - mean_x) ** 2 for x in xs)
    return mean_y - b * mean_x, b


def draw(points, own, line):
    a, b = line
    top = 1.15 * max([own] + [ns for _, ns in points])
    low, high = math.log2(points[0][0]), math.log2(points[-1][0])
    x = lambda n: LEFT + 20 + (math.log2(n) - low) / (high - low) * (WIDTH - LEFT - RIGHT - 40)
    y = lambda ns: TOP + (1 - ns / top) * (HEIGHT - TOP - BOTTOM)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    step = 10 ** math.floor(math.log10(top))
    step = step / 2 if top / step < 4 else step
    for k in range(int(top / step) + 1):
        out.append(f'<path d="M{LEFT} {y(k * step):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 8}" y="{y(k * step) + 4:.1f}" text-anchor="end">{k * step / 1000:g} us</text>')
    for n, ns in points:
        out.append(f'<text x="{x(n):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{n}</text>')
        out.append(f'<circle cx="{x(n):.1f}" cy="{y(ns):.1f}" r="4" fill="#0b6e99"/>')
    first, last = points[0][0], points[-1][0]
    ends = [(x(n), y(a + b * math.log2(n))) for n in (first, last)]
    out.append(f'<path d="M{ends[0][0]:.1f} {ends[0][1]:.1f}L{ends[1][0]:.1f} {ends[1][1]:.1f}" stroke="#0b6e99" fill="none"/>')
    out.append(f'<path d="M{LEFT} {y(own):.1f}H{WIDTH - RIGHT}" stroke="#c0392b" stroke-dasharray="5 4"/>')
    out.append(f'<text x="{LEFT + 10}" y="{y(own) + 16:.1f}" fill="#c0392b">the kernel\'s own scheduler: {own / 1000:.1f} us</text>')
    out.append(f'<text x="{LEFT + 10}" y="{y(a + b * low) - 12:.1f}" fill="#0b6e99">a round through two pipes; line: {a / 1000:.1f} us '
               f'{"+" if b >= 0 else "-"} {abs(b):.0f} ns log2 n</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">VCPUs on four CPUs</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("said", nargs="?", type=argparse.FileType(encoding="utf-8", errors="replace"), default=sys.stdin, help="what the part said [default: standard input]")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True, help="SVG")
    args = parser.parse_args()
    points, own = read(args.said.read().replace("\r", ""))
    a, b = line = fit(points)
    fewer = fit(points[:-1])
    args.output.write_text(draw(points, own, line), encoding="utf-8")
    for n, ns in points:
        print(f"{n:5} VCPUs: {ns / 1000:.2f} us a round, {ns / own:.2f} of the kernel's own; by the line {(a + b * math.log2(n)) / 1000:.2f} us")
    n, ns = points[-1]
    if ns > 1.1 * (fewer[0] + fewer[1] * math.log2(n)):
        raise Failed(f"{n} VCPUs cost {ns:.0f} ns, above the line of the others by more than a tenth: growth faster than log n")


if __name__ == "__main__":
    try:
        main()
    except (Failed, OSError) as error:
        sys.exit(f"vcpu_cost.py: {error}")
