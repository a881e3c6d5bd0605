/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Limits of time of control groups (bpf/groups.h), compiled for this machine.
 *
 * Problem: a limit is kept by several CPUs that charge late, in groups within groups. Rule: random
 * groups and tasks on a few CPUs run as the scheduler runs them, for a minute of their time. In any
 * window, a group may have used its limit for each period that the window touches, its burst, and
 * what was running as that ended. A task that always wants to run must get what its groups
 * leave it. No task may wait for long without a question.
 * Does not cover: two CPUs in the same function at the same time; the queue of tasks that wait
 * (sched_ext.bpf.c).
 *
 * Usage: groups SEED TIMES. Exit 1: a rule is broken.
 */
#define _GNU_SOURCE
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf_helpers.h>
#include "groups.h"

#define CPUS 4
#define GROUPS 8
#define TASKS 12
/* The first tasks rest for some seconds now and then. */
#define SLEEPERS 6
#define MS 1000000ull
#define SLICE (3 * MS)
#define TICK (4 * MS)
#define END (60000 * MS)
#define SAMPLES (END / (10 * MS))

static struct kernfs_node nodes[GROUPS];
static struct cgroup cgroups[GROUPS];
static struct task_group groups[GROUPS];
static struct group_time times[GROUPS];
static int known[GROUPS];
static struct task_struct tasks[TASKS];
static __u64 due[TASKS], until[TASKS], began[TASKS], at;
/* Used by each group, each 10 ms. */
static __u64 used[GROUPS], sampled[GROUPS][SAMPLES + 1];

void *bpf_map_lookup_elem(void *map, const void *key)
{
	__u64 id = *(const __u64 *)key;

	return map == &group_times && known[id] ? &times[id] : 0;
}

long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags)
{
	__u64 id = *(const __u64 *)key;

	(void)map, (void)flags;
	if (!known[id])
		memcpy(&times[id], value, sizeof(times[id]));
	known[id] = 1;
	return 0;
}

__u64 bpf_ktime_get_ns(void)
{
	return at;
}

static __u64 below(__u64 end)
{
	return (((__u64)random() << 31) | random()) % end;
}

static void made(void)
{
	memset(known, 0, sizeof(known));
	memset(used, 0, sizeof(used));
	for (int g = 0; g < GROUPS; g++) {
		nodes[g].id = g;
		cgroups[g].kn = &nodes[g];
		groups[g].css.cgroup = &cgroups[g];
		groups[g].parent = g == 0 ? 0 : &groups[below(g)];
		groups[g].cfs_bandwidth.period = (below(1000) + 1) * MS;
		groups[g].cfs_bandwidth.quota = NO_QUOTA;
		groups[g].cfs_bandwidth.burst = 0;
		if (g == 0 || below(3) != 0)
			continue;
		groups[g].cfs_bandwidth.quota =
			MS + below(below(4) == 0 ? 1 : CPUS * groups[g].cfs_bandwidth.period);
		if (below(2) == 0)
			groups[g].cfs_bandwidth.burst = below(groups[g].cfs_bandwidth.quota);
	}
	for (int t = 0; t < TASKS; t++) {
		tasks[t].sched_task_group = &groups[below(GROUPS)];
		due[t] = until[t] = 0;
	}
}

static int over(int g, __u64 first, __u64 last)
{
	const struct cfs_bandwidth *b = &groups[g].cfs_bandwidth;
	__u64 periods = (last - first) * 10 * MS / b->period + 2;
	__u64 most = periods * b->quota + b->burst + CPUS * (SLICE + TICK);

	return b->quota != NO_QUOTA && sampled[g][last] - sampled[g][first] > most;
}

/* Is a group this one, or below it? */
static int limited_by(const struct task_group *group, const struct task_group *by)
{
	for (; group; group = group->parent)
		if (group == by)
			return 1;
	return 0;
}

/* Runs all tasks to the end. 1: one had to wait for too long. */
static int run(void)
{
	int running[CPUS], wrong = 0, next = 0;

	memset(running, -1, sizeof(running));
	for (at = 0; at < END; at += MS) {
		for (int cpu = 0; cpu < CPUS; cpu++) {
			int t = running[cpu];

			if (t >= 0 && at >= until[t]) {
				struct group_walk w = groups_ask(&tasks[t], at - began[t]);

				for (struct task_group *g = tasks[t].sched_task_group; g;
				     g = g->parent)
					used[g - groups] += at - began[t];
				due[t] = w.left_ns == 0 ? w.due_ns : at;
				wrong |= due[t] > at + 1100 * MS;
				if (t < SLEEPERS && below(500) == 0)
					due[t] = at + below(10000 * MS);
				running[cpu] = t = -1;
			}
			for (int tries = 0; t < 0 && tries < TASKS; tries++) {
				int other = next++ % TASKS, busy = 0;
				struct group_walk w;
				__u64 slice;

				for (int c = 0; c < CPUS; c++)
					busy |= running[c] == other;
				if (busy || due[other] > at)
					continue;
				w = groups_ask(&tasks[other], 0);
				if (w.left_ns == 0) {
					due[other] = w.due_ns;
					wrong |= due[other] > at + 1100 * MS;
					continue;
				}
				slice = w.left_ns < SLICE ? w.left_ns : SLICE;
				running[cpu] = t = other;
				began[t] = at;
				/* The next tick of the kernel's clock. */
				until[t] = (at + slice + TICK - 1) / TICK * TICK;
			}
		}
		if (at % (10 * MS) == 0)
			for (int g = 0; g < GROUPS; g++)
				sampled[g][at / (10 * MS)] = used[g];
	}
	return wrong;
}

int main(int arguments, char **argument)
{
	int seed = arguments > 1 ? atoi(argument[1]) : 1;
	int number = arguments > 2 ? atoi(argument[2]) : 100, failed = 0, saturated = 0, kept = 0;

	for (int one = 0; one < number; one++) {
		srandom(seed + one);
		made();
		if (run()) {
			printf("%d: a task waits for longer than 1.1 s without a question\n",
			       seed + one);
			failed = 1;
		}
		for (int g = 1; g < GROUPS; g++) {
			const struct cfs_bandwidth *b = &groups[g].cfs_bandwidth;
			__u64 right = END / b->period * b->quota, alone = 1, inside = 0;

			for (int step = 0; step < 2000; step++) {
				__u64 first = below(SAMPLES), last = first + below(SAMPLES - first);

				if (over(g, first, last)) {
					printf("%d: group %d used %llu ns in %llu\n", seed + one, g,
					       sampled[g][last] - sampled[g][first],
					       (last - first) * 10 * MS);
					failed = 1;
					break;
				}
			}
			if (b->quota == NO_QUOTA)
				continue;
			kept++;
			/* Is it the only limit of its tasks, and do these want more? */
			for (int t = SLEEPERS; t < TASKS; t++)
				inside += limited_by(tasks[t].sched_task_group, &groups[g]);
			for (int other = 1; other < GROUPS; other++)
				if (other != g && groups[other].cfs_bandwidth.quota != NO_QUOTA &&
				    (limited_by(&groups[other], &groups[g]) ||
				     limited_by(&groups[g], &groups[other])))
					alone = 0;
			/* A task has a third of a CPU at least; half of that always suffices. */
			if (!alone || right > END * inside / 6)
				continue;
			saturated++;
			if (used[g] < right - right / 10 - b->quota) {
				printf("%d: group %d of %llu tasks got %llu ns of %llu\n",
				       seed + one, g, inside, used[g], right);
				failed = 1;
			}
		}
	}
	printf("%d limits were kept, %d of them used up\n", kept, saturated);
	return failed || saturated < number / 20;
}
