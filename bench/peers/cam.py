"""The heuristic of CaM: similar tasks on one core, then ways and bandwidth to the core where they help most, then tasks move.

After Xu, Phan, Choi, Lin, Li, Lu, Lee, "Holistic Resource Allocation for Multicore Real-Time Systems", RTAS 2019. Three steps:

1. A task's slowdown vector has its execution time with each amount of cache and bandwidth, relative to that with all. Tasks are clustered by
   these vectors (k-means), and go to the cores cluster by cluster, the largest utilization first, each core up to an even part of the load.
2. Each core begins with one way and one unit of bandwidth. As long as a core is overloaded, the share that lowers its load most is given to
   it. What is left goes to the core with the largest load.
3. While a core is overloaded, one of its tasks moves to another core, where that lowers the largest load; then step 2 again.

All numbers of clusters up to that of the cores are tried, and the least largest load is taken. The paper begins from several random clusters;
here the first centres are the vectors that lie farthest apart, so that the result is the same each time. A core's pages are split among its
tasks: each goes where it lowers the load most.
"""

import heapq
import math

from peers.system import Found

# Load of a task for which there is no bound: it comes before all others.
UNBOUNDED = 100.0
ROUNDS = 20         # of k-means
MOVES = 2           # moves at most, for each task


class Loads:
    """The load of a core with these tasks, ways and units, and the pages of its tasks."""

    def __init__(self, system):
        self.system, self.known = system, {}

    def of(self, tasks, ways, units):
        key = (tasks, ways, units)
        if key not in self.known:
            self.known[key] = self.found(tasks, self.system.pages_in_ways[ways], units)
        return self.known[key]

    def found(self, tasks, room, units):
        s = self.system
        steps = {t: [(s.pages[k], s.use[t][units - 1][k]) for k in s.options(t, units)] for t in tasks}
        at, load, open_steps = {}, 0.0, []
        for t, options in steps.items():
            if options and options[0][0] > 0:
                options.insert(0, (0, UNBOUNDED))
            at[t] = 0
            load += options[0][1] if options else UNBOUNDED

        def offer(t):
            """The step of a task, not only the next one, that lowers the load most for its pages."""
            options, here = steps[t], at[t]
            ahead = [((options[here][1] - use) / (pages - options[here][0]), to)
                     for to, (pages, use) in enumerate(options) if to > here]
            if ahead:
                gain, to = max(ahead)
                heapq.heappush(open_steps, (-gain, t, to))

        for t in steps:
            offer(t)
        while open_steps:
            _, t, to = heapq.heappop(open_steps)
            pages, use = steps[t][to]
            before, had = steps[t][at[t]]
            if pages - before <= room:
                room -= pages - before
                load -= had - use
                at[t] = to
                offer(t)
            elif to > at[t] + 1:
                # A smaller step may still have room.
                steps[t] = steps[t][:to]
                offer(t)
        load += max((s.once[t] for t in tasks), default=0.0)
        return load, {t: steps[t][at[t]][0] if steps[t] else 0 for t in tasks}


def vectors(s):
    """The slowdown vector of each task."""
    out = []
    for rows in s.use:
        best = min((use for row in rows for use in row if use is not None), default=1.0)
        out.append([min(use / best, UNBOUNDED) if use is not None else UNBOUNDED for row in rows for use in row])
    return out


def clusters(points, count):
    """The cluster of each point, by k-means on the logarithms of the slowdowns."""
    points = [[math.log(value) for value in point] for point in points]
    centres = [min(points, key=sum)]
    while len(centres) < count:
        centres.append(max(points, key=lambda p: min(math.dist(p, c) for c in centres)))
    nearest = []
    for _ in range(ROUNDS):
        before, nearest = nearest, [min(range(count), key=lambda c: math.dist(p, centres[c])) for p in points]
        if nearest == before:
            break
        for c in range(count):
            own = [p for p, of in zip(points, nearest) if of == c]
            if own:
                centres[c] = [sum(values) / len(own) for values in zip(*own)]
    return nearest


def packed(s, cluster):
    """The tasks of each core: cluster by cluster, the clusters and their tasks with the largest utilization first."""
    reference = [min((use for row in rows for use in row if use is not None), default=UNBOUNDED) for rows in s.use]
    weight = lambda c: sum(use for use, of in zip(reference, cluster) if of == c)
    order = sorted(range(len(s.use)), key=lambda t: (-weight(cluster[t]), cluster[t], -reference[t], t))
    full = sum(reference) / s.cores
    out, loads = [set() for _ in range(s.cores)], [0.0] * s.cores
    for t in order:
        # The first core with room for half of the task, so that the parts of the load are about even.
        room = [c for c in range(s.cores) if loads[c] + reference[t] / 2 <= full]
        core = room[0] if room else loads.index(min(loads))
        out[core].add(t)
        loads[core] += reference[t]
    return [frozenset(tasks) for tasks in out]


def shared_out(s, cores, loads):
    """Ways and units of each core, and the loads."""
    ways, units = [1] * s.cores, [1] * s.cores
    now = [loads.of(tasks, 1, 1)[0] for tasks in cores]
    done = [not tasks for tasks in cores]
    while not all(done):
        left = (s.ways - sum(ways), s.units - sum(units))
        core = max((c for c in range(s.cores) if not done[c]), key=lambda c: now[c])
        gains = []
        # One way may hold no whole colour more, so larger steps are looked at as well.
        for kind, step in ((kind, step) for kind in (0, 1) for step in range(1, 4) if step <= left[kind]):
            more = (ways[core] + step, units[core]) if kind == 0 else (ways[core], units[core] + step)
            gains.append(((now[core] - loads.of(cores[core], *more)[0]) / step, more))
        gain, more = max(gains, default=(0.0, None))
        if gain <= 1e-9:
            done[core] = True
            continue
        ways[core], units[core] = more
        now[core] = loads.of(cores[core], *more)[0]
    return ways, units, now


def balanced(s, cores, loads):
    """Tasks move from an overloaded core, one by one, while that lowers the largest load."""
    best = (cores, *shared_out(s, cores, loads))
    for _ in range(MOVES * len(s.use)):
        cores, _, _, now = best
        if max(now) <= 1:
            break
        source = now.index(max(now))
        tried = []
        for t in sorted(cores[source]):
            for to in (c for c in range(s.cores) if c != source):
                moved = [tasks - {t} if c == source else tasks | {t} if c == to else tasks for c, tasks in enumerate(cores)]
                tried.append((moved, *shared_out(s, moved, loads)))
        better = min(tried, key=lambda found: max(found[3]), default=best)
        if max(better[3]) >= max(now) - 1e-9:
            break
        best = better
    return best


def solve(s):
    """The allotment with the least largest load over all numbers of clusters."""
    loads, points, best = Loads(s), vectors(s), None
    for count in range(1, min(s.cores, len(s.use)) + 1):
        found = balanced(s, packed(s, clusters(points, count)), loads)
        if best is None or max(found[3]) < max(best[3]):
            best = found
    cores, ways, units, now = best
    core, pages = [0] * len(s.use), [0] * len(s.use)
    for c, tasks in enumerate(cores):
        for t, locked in loads.of(tasks, ways[c], units[c])[1].items():
            core[t], pages[t] = c, locked
    return Found(max(now), core, ways, units, pages)
