/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Dynamic budgets on the kernel's performance counters, for both engines.
 *
 * Problem: solocore/dynamic_budget.h decides, but it must hear of each beginning and end of a job,
 * and a hard task signals these with a store to its page (client/c/solocore_page.h), which causes
 * no event.
 * Rule: each soft CPU looks at the pages of the hard tasks itself: at every overflow of its counter
 * and at every tick, which come some ten times per period while there are clients. Its accesses
 * since its last look are charged to the budgets that were in force and, as the job may have begun
 * just after that look, to the new one as well. It is stopped when the rest is less than a sample,
 * since the next overflow may come that late. So in a job it never makes more than its budget; a
 * budget that is noticed late stays in force late, which costs the soft CPU accesses and the hard
 * task nothing. Source: dynamic-budgeting, section IV, Algorithm 1.
 *
 * A task that loses its client during a job needs no protection any more: the job counts as
 * finished.
 *
 * Another plan: the loader writes the tasks' budgets and lengths, and asks each soft CPU, which
 * takes them at its next look. A job keeps the budget and the length that it began with.
 * Does not cover: more than one job between two looks of a CPU: only the last one is seen. The CPU
 * makes less than a sample between two looks, and so in each of them.
 */
#ifndef SOLOCORE_DYNAMIC_H
#define SOLOCORE_DYNAMIC_H

#include "clients.h"
#include "core.h"
#include "engine.h"
#include "lock_intf.h"

#include <solocore/dynamic_budget.h>

/* The loader's description of the hard tasks, and the daemon's of their pages. */
/* One soft CPU under dynamic budgets. */
struct run_dynamic {
	sc_u64 counted;		/* the counter at the last look */
	sc_u64 jobs;		/* number of jobs that it saw begin */
	sc_u64 stops;		/* number of stops */
	sc_u64 limit;		/* accesses that are left; SC_UNLIMITED: any number */
	sc_u64 seen[RUN_TASKS]; /* by task: the page's word at the last look */
	sc_u64 slot[RUN_TASKS]; /* and their slots */
	struct sc_dynamic dynamic;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RUN_TASKS);
	__type(key, __u32);
	__type(value, struct run_task);
} dynamic_tasks SEC(".maps");

/* By task: written by the loader before it asks a CPU (`guard.asked`). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RUN_TASKS);
	__type(key, __u32);
	__type(value, struct run_other);
} dynamic_others SEC(".maps");

/* The loader makes an entry for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct run_dynamic);
} dynamic_cores SEC(".maps");

/* One look of a CPU. */
struct dynamic_look {
	struct run_dynamic *r;
	__u64 now, made;
};

/* Both are checked by the verifier once, by themselves: their loops are long (SC_SUBPROGRAM,
 * solocore/types.h). */
__noinline __u32 dynamic_apply(struct run_dynamic *r, __u32 what, __u32 i, __u64 now, __u64 made)
{
	return r ? sc_dynamic_apply(&r->dynamic, what, i, now, made) : 0;
}

__noinline __u32 dynamic_decide(struct run_dynamic *r)
{
	struct sc_dynamic_decision decision = {};

	if (!r)
		return 0;
	sc_dynamic_decide(&r->dynamic, &decision);
	r->limit = decision.limit;
	return decision.verdict;
}

static long dynamic_define(__u32 i, struct dynamic_look *look)
{
	struct run_task *t = bpf_map_lookup_elem(&dynamic_tasks, &i);

	struct run_other *other = bpf_map_lookup_elem(&dynamic_others, &i);

	if (!t || !other || t->length_ns == 0)
		return 1;
	if (other->length_ns != 0)
		sc_dynamic_define(&look->r->dynamic, i, t->core, other->budget, other->length_ns);
	else
		sc_dynamic_define(&look->r->dynamic, i, t->core, t->budget, t->length_ns);
	return 0;
}

/* The word of a task's page; 0 without a client. */
static __always_inline __u64 jobs_of(__u64 slot)
{
	struct sc_page *page = slot != 0 ? page_at(&lock_pages, (__u32)slot - 1) : 0;

	return page ? sc_load(&page->jobs) : 0;
}

/* Has a job of task i begun or ended since the last look? */
static long dynamic_signals(__u32 i, struct dynamic_look *look)
{
	struct run_task *t = bpf_map_lookup_elem(&dynamic_tasks, &i);
	struct run_dynamic *r = look->r;
	__u64 word, old, slot;

	if (!t || t->length_ns == 0 || i >= RUN_TASKS)
		return 1;
	slot = sc_load(&t->slot);
	old = r->seen[SC_MASKED(i, RUN_TASKS)];
	if (r->slot[SC_MASKED(i, RUN_TASKS)] != slot) {
		if (old & 1)
			dynamic_apply(r, SC_DYNAMIC_FINISHED, i, look->now, 0);
		r->slot[SC_MASKED(i, RUN_TASKS)] = slot;
		old = 0;
	}
	word = jobs_of(slot);
	r->seen[SC_MASKED(i, RUN_TASKS)] = word;
	if (word >> 1 != old >> 1) {
		dynamic_apply(r, SC_DYNAMIC_STARTED, i, look->now, 0);
		/*
		 * Charged to all budgets in force: too much for the old ones, never too little for
		 * the new one.
		 */
		dynamic_apply(r, SC_DYNAMIC_EVENT, i, look->now, look->made);
		r->jobs++;
	}
	if (!(word & 1) && (old & 1 || word >> 1 != old >> 1))
		dynamic_apply(r, SC_DYNAMIC_FINISHED, i, look->now, 0);
	return 0;
}

static __always_inline void dynamic_start(struct run_core *c, struct run_dynamic *r, __u64 now,
					  __u64 count)
{
	struct dynamic_look look = {.r = r, .now = now};

	core_reserve(c);
	sc_dynamic_init(&r->dynamic, now);
	bpf_loop(RUN_TASKS, dynamic_define, &look, 0);
	c->guard.budget[SC_READ] = SC_UNLIMITED;
	c->guard.next_ns = now + settings.period_ns / 2;
	c->at_start = count;
	r->counted = count;
	c->ticked_ns = now;
	c->started = 1;
}

/* A look: 1 if the CPU must stop now and did not have to before. */
static __always_inline __u32 dynamic_look(struct run_core *c, __u32 cpu, __u64 now, __u64 count)
{
	struct run_dynamic *r = bpf_map_lookup_elem(&dynamic_cores, &cpu);
	struct dynamic_look look = {.r = r, .now = now};
	__u32 was = c->guard.throttled;
	__u64 asked;

	if (!r)
		return 0;
	if (!c->started) {
		dynamic_start(c, r, now, count);
		return 0;
	}
	look.made = count - r->counted;
	r->counted = count;
	dynamic_apply(r, SC_DYNAMIC_EVENT, 0, now, look.made);
	/*
	 * Jobs that have begun before the CPU was asked keep their budgets. A wish that comes
	 * during this look waits for the next one, as this look may have missed a job that has
	 * begun since.
	 */
	asked = sc_load(&c->guard.asked[SC_READ]);
	bpf_loop(RUN_TASKS, dynamic_signals, &look, 0);
	if (asked != 0) {
		bpf_loop(RUN_TASKS, dynamic_define, &look, 0);
		core_asked(c);
	}
	dynamic_decide(r);
	c->guard.throttled = r->limit != SC_UNLIMITED && r->limit < c->sample;
	if (now >= c->guard.next_ns) {
		core_tally(c, cpu, now, count);
		c->guard.next_ns = now + settings.period_ns;
	}
	if (!was && c->guard.throttled) {
		c->stopped_ns = now;
		r->stops++;
		return 1;
	}
	if (was && !c->guard.throttled) {
		core_resumed(c, now);
		cpu_go(cpu);
	}
	return 0;
}

/* The counter overflowed at this count. 1 if the CPU must stop. */
static __always_inline __u32 dynamic_overflow(struct run_core *c, __u32 cpu, __u64 count)
{
	dynamic_look(c, cpu, bpf_ktime_get_ns(), count);
	return c->guard.throttled;
}

#endif
