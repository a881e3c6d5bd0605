/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Limits of time of control groups (`cpu.max`), kept inside the sched_ext engine.
 *
 * Problem: the kernel keeps them for the tasks of its own scheduler only. A job that was limited to
 * 10 % of a CPU would have all of it while solocore runs.
 * Rule: limit, period and burst are read where the kernel keeps them, in the task's group and in
 * every group above. So a limit holds from the next decision after it was written. A task's run is
 * charged to these groups as it ends, and it gets a time slice of at most what they have left.
 * Where one has nothing left, the task waits in a queue of its own (sched_ext.bpf.c) until that
 * group's next period.
 *
 * A run ends at a tick of the kernel's clock, and several CPUs may use the same rest up. Such an
 * excess is charged to the next periods, as the kernel's own scheduler does.
 *
 * Source: Linux, Documentation/admin-guide/cgroup-v2.rst (cpu.max, cpu.max.burst).
 * Does not cover: shares (`cpu.weight`, `cpu.idle`); groups below the twelfth level; more than 4096
 * limited groups at a time.
 */
#ifndef SOLOCORE_GROUPS_H
#define SOLOCORE_GROUPS_H

#include "kfuncs.h"
#include <solocore/types.h>

/* Levels of groups that are looked at. */
#define GROUP_LEVELS 12
/* The limit of a group that has none. */
#define NO_QUOTA (~0ull)
/* The longest wait without another question: the limit may have been raised meanwhile, and the
 * kernel ends a scheduler that lets a task wait for 20 s. */
#define LONGEST_WAIT_NS 1000000000ull

/* A limited group. */
struct group_time {
	__s64 left_ns; /* of its limit; negative: an excess */
	__u64 ends_ns; /* end of its period */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* number of the group */
	__type(value, struct group_time);
} group_times SEC(".maps");

/* What a group may use, in ns. */
struct group_limit {
	__u64 quota;
	__u64 period;
	__u64 burst;
};

/* A walk from a task's group to the topmost one. */
struct group_walk {
	const struct task_group *group;
	__u64 now;
	__u64 ran;     /* to charge */
	__u64 left_ns; /* the least that a group has left; 0: the task has to wait */
	__u64 due_ns;  /* until when it has to wait */
};

/* Has one of the task's groups a limit? Most have none: nothing else is done for these. */
static __always_inline __u32 groups_limit(struct task_struct *p)
{
	const struct task_group *group;
	__u32 level, limited = 0;

	if (!bpf_core_field_exists(p->sched_task_group) ||
	    !bpf_core_field_exists(((struct task_group *)0)->cfs_bandwidth))
		return 0;
	group = p->sched_task_group;
	for (level = 0; level < GROUP_LEVELS && group; level++) {
		limited |= group->cfs_bandwidth.quota != NO_QUOTA;
		group = group->parent;
	}
	return limited;
}

/* Periods have ended: the first CPU that sees it gives the group its time again. */
static __always_inline void group_renew(struct group_time *t, const struct group_limit *limit,
					__u64 now)
{
	__s64 most = limit->quota + limit->burst, left, next;
	__u64 ends = t->ends_ns, passed;

	if (now < ends)
		return;
	passed = (now - ends) / limit->period + 1;
	if (__sync_val_compare_and_swap(&t->ends_ns, ends, ends + passed * limit->period) != ends)
		return;
	left = t->left_ns;
	next = passed > 1000 ? most : left + (__s64)(passed * limit->quota);
	if (next > most)
		next = most;
	__sync_fetch_and_add(&t->left_ns, next - left);
}

/* The time of a limited group, as it is now. */
static __always_inline struct group_time *group_time_of(const struct task_group *group,
							const struct group_limit *limit, __u64 now)
{
	__u64 id = BPF_CORE_READ(group, css.cgroup, kn, id);
	struct group_time *t = bpf_map_lookup_elem(&group_times, &id), begun = {};

	if (!t) {
		begun.left_ns = limit->quota;
		begun.ends_ns = now + limit->period;
		bpf_map_update_elem(&group_times, &id, &begun, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&group_times, &id);
	}
	if (t)
		group_renew(t, limit, now);
	return t;
}

/* When a group that has nothing left will have some. */
static __always_inline __u64 group_due(const struct group_time *t, const struct group_limit *limit,
				       __s64 left, __u64 now)
{
	__u64 due = t->ends_ns + (__u64)-left / limit->quota * limit->period;

	return due > now + LONGEST_WAIT_NS ? now + LONGEST_WAIT_NS : due;
}

static long group_step(__u32 level, struct group_walk *w)
{
	const struct task_group *group = w->group;
	struct group_limit limit;
	struct group_time *t;
	__s64 left;
	__u64 due;

	if (!group)
		return 1;
	w->group = BPF_CORE_READ(group, parent);
	limit.quota = BPF_CORE_READ(group, cfs_bandwidth.quota);
	limit.period = BPF_CORE_READ(group, cfs_bandwidth.period);
	limit.burst = BPF_CORE_READ(group, cfs_bandwidth.burst);
	if (limit.quota == NO_QUOTA || limit.quota == 0 || limit.period == 0)
		return 0;
	t = group_time_of(group, &limit, w->now);
	if (!t)
		return 0;
	if (w->ran != 0)
		__sync_fetch_and_add(&t->left_ns, -w->ran);
	/* Read once: other CPUs charge it. */
	left = (__s64)sc_load((const sc_u64 *)&t->left_ns);
	if (left > 0) {
		w->left_ns = sc_min(w->left_ns, (__u64)left);
		return 0;
	}
	w->left_ns = 0;
	due = group_due(t, &limit, left, w->now);
	w->due_ns = sc_max(w->due_ns, due);
	return 0;
}

/* Charges what the task ran (0: nothing) to its groups, and asks them what it may do. */
static __always_inline struct group_walk groups_ask(struct task_struct *p, __u64 ran)
{
	struct group_walk w = {.left_ns = NO_QUOTA};

	if (!groups_limit(p))
		return w;
	w.group = p->sched_task_group;
	w.now = bpf_ktime_get_ns();
	w.ran = ran;
	bpf_loop(GROUP_LEVELS, group_step, &w, 0);
	return w;
}

#endif
