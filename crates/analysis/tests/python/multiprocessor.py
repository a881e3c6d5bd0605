"""Straightforward references for the tests of global EDF and the tardiness bounds, in exact fractions.

Written from the theorems, by enumeration where the Rust code is clever, and sharing nothing with it. One task set a line on
stdin: {"cores": m, "tasks": [[C, T, D], ...]}; one object a line on stdout. Releases may be at any real time, so a miss
implies that "interference exceeds D - C" and conditions are checked just above D - C.
"""

import json
import sys
from fractions import Fraction as Q
from functools import reduce
from itertools import combinations
from math import ceil, gcd


def lcm(a, b):
    return a * b // gcd(a, b)


def gfb(m, tasks):
    dens = [Q(c, min(d, t)) for c, t, d in tasks]
    return sum(dens) <= m - (m - 1) * max(dens)


def possible(m, works, x):
    """Can the works keep m cores busy for more than x? (sum of min(W, y) >= m*y for some y just above x)"""
    at_x = sum(min(w, x) for w in works)
    if at_x != m * x:
        return at_x > m * x
    # Between integers all terms are linear in y: at equality the next integer decides.
    return sum(min(w, x + 1) for w in works) >= m * (x + 1)


def bcl_work(ti, dk):
    """ECRTS 2005, theorem 5."""
    c, t, d = ti
    n = (dk - d) // t + 1
    return n * c + min(c, max(0, dk - n * t))


def bcl(m, tasks):
    for k, (c, t, d) in enumerate(tasks):
        works = [bcl_work(ti, d) for i, ti in enumerate(tasks) if i != k]
        if c > d or possible(m, works, d - c):
            return False
    return True


def edf_work(ti, dk, slack):
    """TPDS 2009, equation 17."""
    c, t, _ = ti
    n = dk // t
    return n * c + min(c, max(0, dk - n * t - slack))


def any_work(ti, length, slack):
    """RTSS 2007, equations 4 and 8."""
    c, t, d = ti
    n = (length + d - c - slack) // t
    return n * c + min(c, length + d - c - slack - n * t)


def iterate(m, tasks, works_of):
    """Slacks to their fixed point; works_of(k, x, slacks) are the works for an interference of x."""
    slacks = [0] * len(tasks)
    while True:
        improved, passed = False, True
        for k, (c, t, d) in enumerate(tasks):
            x = next((x for x in range(d - c + 1) if not possible(m, works_of(k, x, slacks), x)), None)
            if x is None:
                passed = False
            elif d - c - x > slacks[k]:
                slacks[k] = d - c - x
                improved = True
        if not improved:
            return passed, [d - s for (_, _, d), s in zip(tasks, slacks)]


def bcl_iterative(m, tasks):
    def works(k, x, slacks):
        return [edf_work(ti, tasks[k][2], slacks[i]) for i, ti in enumerate(tasks) if i != k]

    return iterate(m, tasks, works)[0]


def response(m, tasks):
    def works(k, x, slacks):
        c, _, d = tasks[k]
        return [
            min(edf_work(ti, d, slacks[i]), any_work(ti, c + x, slacks[i])) for i, ti in enumerate(tasks) if i != k
        ]

    return iterate(m, tasks, works)


def dbf(ti, t):
    c, period, d = ti
    return max(0, ((t - d) // period + 1) * c)


def bar_total(m, tasks, k, a, cap):
    """RTSS 2007, theorem 2, with the works capped at `cap`."""
    c, _, d = tasks[k]
    t = a + d
    total, extra = 0, []
    for i, (ci, ti, di) in enumerate(tasks):
        without, carry = dbf(tasks[i], t), t // ti * ci + min(ci, t % ti)
        if i == k:
            without, carry = min(without - c, a), min(carry - c, a)
        else:
            without, carry = min(without, cap), min(carry, cap)
        total += without
        extra.append(carry - without)
    return total + sum(sorted(extra, reverse=True)[: m - 1])


def bar(m, tasks):
    u = sum(Q(c, t) for c, t, _ in tasks)
    if u >= m or any(c > d for c, _, d in tasks):
        return False
    carry = sum(sorted((c for c, _, _ in tasks), reverse=True)[: m - 1])
    late = sum((t - d) * Q(c, t) for c, t, d in tasks)
    for k, (c, _, d) in enumerate(tasks):
        last = (carry - d * (m - u) + late + m * c) / (m - u)
        # All integers and halves, in quarters; next to L is half the way to where a term can bend.
        quarters = [(4 * c, 4 * t, 4 * d) for c, t, d in tasks]
        for a in range(0, 4 * max(0, ceil(last)) + 3, 2):
            length, step = a + 4 * (d - c), 2 if a % 4 == 0 else 1
            total = bar_total(m, quarters, k, a, length)
            if total > m * length:
                return False
            if total == m * length and bar_total(m, quarters, k, a, length + step) >= m * (length + step):
                return False
    return True


def ffdbf(ti, t, sigma):
    c, period, d = ti
    if d > period:
        # Jobs in the window, and one begun before it. The printed form is for D <= T.
        jobs = max(0, (t - d) // period + 1)
        return jobs * c + max(Q(0), c - (d + jobs * period - t) * sigma)
    q, r = divmod(t, period)
    if r >= d:
        return q * c + c
    if r >= d - c / sigma:
        return q * c + c - (d - r) * sigma
    return Q(q * c)


def allowed(m, tasks, t, low, high):
    """The sigma in [low, high] with sum FF-DBF(t, sigma) <= (m - (m - 1)*sigma)*t: an interval, found at its kinks."""

    def excess(s):
        return sum(ffdbf(ti, t, s) for ti in tasks) - (m - (m - 1) * s) * t

    kinks = {low, high}
    for c, period, d in tasks:
        ahead = d + max(0, (t - d) // period + 1) * period - t
        if low < Q(c, ahead) < high:
            kinks.add(Q(c, ahead))
    kinks = sorted(kinks)
    good = []
    for a, b in zip(kinks, kinks[1:] or kinks):
        ea, eb = excess(a), excess(b)
        if ea <= 0:
            good.append(a)
        if eb <= 0:
            good.append(b)
        if (ea > 0) != (eb > 0) and ea != eb:
            good.append(a + (b - a) * ea / (ea - eb))
    return (min(good), max(good)) if good else None


def ffdbf_test(m, tasks):
    """Verdict, and whether it hangs on the one sigma with m - (m - 1)*sigma = U."""
    u = sum(Q(c, t) for c, t, _ in tasks)
    if any(c > d for c, _, d in tasks) or u > m:
        return False, False
    hyper = reduce(lcm, (t for _, t, _ in tasks))
    # From the longest deadline on, all repeats with the hyperperiod, and capacity is at least U.
    end = hyper + max(d for _, _, d in tasks)
    points = sorted({p for _, t, d in tasks for p in range(d, end + 1, t)} | {end})
    if m == 1:
        return all(sum(dbf(ti, p) for ti in tasks) <= p for p in points), u == 1
    low, high = max(Q(c, min(d, t)) for c, t, d in tasks), (m - u) / (m - 1)
    end = high
    for p in points:
        if low > high:
            return False, False
        both = allowed(m, tasks, p, low, high)
        if both is None:
            return False, False
        low, high = both
    return low <= high, low == end


def gel(m, tasks, fair):
    """Responses from the least compliant vector: the largest solution over all choices of ceil(U) - 1 tasks."""
    u = [Q(c, t) for c, t, _ in tasks]
    y = [Q(d) - (Q(m - 1, m) * c if fair else 0) for c, _, d in tasks]
    y = [a - min(y) for a in y]
    head = [ui * max(Q(0), t - yi) for (c, t, _), ui, yi in zip(tasks, u, y)]
    best = None
    for chosen in combinations(range(len(tasks)), min(len(tasks), ceil(sum(u)) - 1)):
        # s = sum head + sum over chosen u*((s - C)/m) + C - S, with S = C*max(0, 1 - Y/T)
        constant = sum(head) + sum(tasks[j][0] - head[j] - u[j] * Q(tasks[j][0], m) for j in chosen)
        s = constant / (1 - sum(u[j] for j in chosen) / m)
        best = s if best is None else max(best, s)
    return [ceil(yi + c + (best - c) / m) for (c, _, _), yi in zip(tasks, y)]


def devi_anderson(m, tasks):
    if any(t != d for _, t, d in tasks):
        return None
    if m == 1:
        return [0] * len(tasks)
    u = sorted((Q(c, t) for c, t, _ in tasks), reverse=True)
    c = sorted((c for c, _, _ in tasks), reverse=True)
    pending = ceil(sum(u)) - 1
    x = max(Q(0), Q(sum(c[:pending]) - c[-1])) / (m - sum(u[: max(0, pending - 1)]))
    return [ceil(x) + ci for ci, _, _ in tasks]


def restricted(m, tasks, taken):
    """Responses with one task (C, T) of a higher level per core, or none; solved by repeated linear solution."""
    u = [Q(c, t) for c, t, _ in tasks]
    rate = m - sum(Q(c, t) for c, t in taken)
    omega = sum(2 * c * (1 - Q(c, t)) for c, t in taken)
    if sum(u) > rate or rate - (m - 1) * max(u) - sum(sorted(u, reverse=True)[: m - 1]) <= 0:
        return None
    y = [d - min(d for _, _, d in tasks) for _, _, d in tasks]
    head = sum(ui * max(0, t - yi) for (_, t, _), ui, yi in zip(tasks, u, y)) + omega

    def x_line(i):
        """x = a*s + b where positive"""
        per = rate - (m - 1) * u[i]
        return 1 / per, -(rate - m + 1) * tasks[i][0] / per

    s = Q(head)
    while True:
        terms = []
        for i, (_, t, _) in enumerate(tasks):
            a, b = x_line(i)
            a, b = (a, b) if a * s + b > 0 else (Q(0), Q(0))
            terms.append((u[i] * (a * s + b + min(y[i], t)), u[i] * a, u[i] * (b + min(y[i], t))))
        terms.sort(reverse=True)
        chosen = terms[: m - 1]
        if s >= head + sum(v for v, _, _ in chosen):
            break
        s = (head + sum(b for _, _, b in chosen)) / (1 - sum(a for _, a, _ in chosen))
    result = []
    for i, (c, _, _) in enumerate(tasks):
        a, b = x_line(i)
        result.append(float(y[i] + c + max(Q(0), a * s + b)))
    return result


def judge(line):
    data = json.loads(line)
    m, tasks = data["cores"], [tuple(t) for t in data["tasks"]]
    out = {"gfb": gfb(m, tasks)}
    out["ffdbf"], out["ffdbf_edge"] = ffdbf_test(m, tasks)
    out["gel"], out["gfl"] = gel(m, tasks, False), gel(m, tasks, True)
    out["da"] = devi_anderson(m, tasks)
    out["restricted"] = restricted(m, tasks, data["taken"])
    if all(d <= t for _, t, d in tasks):
        out["bcl"], out["bcl_iterative"], out["bar"] = bcl(m, tasks), bcl_iterative(m, tasks), bar(m, tasks)
        out["response"], responses = response(m, tasks)
        out["responses"] = responses if out["response"] else None
    return out


if __name__ == "__main__":
    for text in sys.stdin:
        print(json.dumps(judge(text)))
