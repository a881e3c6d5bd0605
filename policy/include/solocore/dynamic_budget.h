/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Dynamic budgets: a soft real-time core has a budget of accesses for each job of a hard real-time
 * task.
 *
 * Problem: the accesses of soft real-time cores delay the hard real-time tasks on other cores. A
 * budget per period of time must assume the worst task at all times, and wastes the unused budget
 * of jobs that finish early.
 * Rule: a job of hard task i that starts brings a budget of B_i accesses for A_i of time (its WCET
 * with that interference, and with that of the other hard cores). Of each hard core's active
 * budgets only the one of highest priority is in force: it alone is consumed, and its time alone
 * counts. When the job finishes early, the rest of its time is unlimited. When the time is over,
 * the next budget is in force. With several hard cores, the smallest budget in force limits the
 * core, and all of them are consumed (dynamic-budgeting, section IV, Algorithm 1).
 * Worked values: B_0 = 2, A_0 = 5, B_1 = 9, A_1 = 20, both on one core. 1 starts at 0, 0 starts at
 * 10 after 4 accesses: the limit is 2 until 15, then 9 - 4 = 5, until 25.
 *
 * One `struct sc_dynamic` per soft core, changed by that core only. A task's index is its priority,
 * the lower the higher. Every event has the number of accesses of the core since the event before.
 * Invariants: a hard core's head is the smallest index among its active budgets. B_i is that of the
 * start of i. Between this and its expiry, the accesses made while the verdict was SC_GO and i was
 * an unfinished head are at most B_i, if they are reported one by one.
 * Known limits: a head whose expiry is noticed late may have been in force at the same time as its
 * successor, so both are charged. The successor's time counts from the event: late timers cost the
 * soft core accesses and never the hard task its bound. One budget per list expires in an event; if
 * more are due, they expire later. Accesses beyond a budget (skid) are lost from the account of
 * that budget.
 * Cost: O(hard cores): O(1) per hard core up to the highest number in use; starting and expiring
 * are O(1).
 */
#ifndef SOLOCORE_DYNAMIC_BUDGET_H
#define SOLOCORE_DYNAMIC_BUDGET_H

#include "types.h"

#define SC_DYNAMIC_WORDS ((SC_MAX_TASKS + 63u) / 64u)

/* Kinds of events. */
#define SC_DYNAMIC_STARTED 0u  /* a job of a hard task started */
#define SC_DYNAMIC_FINISHED 1u /* it finished */
#define SC_DYNAMIC_EVENT 2u    /* the counter overflowed or the timer fired */

struct sc_dynamic_task {
	sc_u64 budget;	  /* B_i: accesses of this soft core per job */
	sc_u64 length_ns; /* A_i: time for which the budget is in force */
	sc_u64 left;	  /* accesses that the active budget still has */
	sc_u64 left_ns;	  /* time in force that it still has, at least 1 */
	sc_u32 core;	  /* hard core of the task */
	sc_u32 defined;	  /* 1: the above mean something */
	sc_u32 active;	  /* 1: in its core's list */
	sc_u32 finished;  /* 1: its job has finished, it limits nothing */
};

/* The active budgets of one hard core: bit i % 64 of word[i / 64], and bit w of summary for word[w]
 * != 0. */
struct sc_dynamic_list {
	sc_u64 summary;
	sc_u64 word[SC_DYNAMIC_WORDS];
};

/* All zero before sc_dynamic_init. */
struct sc_dynamic {
	sc_u64 last_ns; /* time of the last event */
	sc_u64 zero;  /* always 0: the BPF verifier no longer knows a value that is or-ed with it */
	sc_u32 cores; /* highest number of a hard core in use, plus 1 */
	sc_u32 reserved;
	sc_u32 head[SC_MAX_CPUS]; /* by hard core: index of the budget in force, plus 1; 0 if there
				     is none */
	struct sc_dynamic_list list[SC_MAX_CPUS]; /* by hard core */
	struct sc_dynamic_task task[SC_MAX_TASKS];
};

struct sc_dynamic_decision {
	sc_u64 limit;	   /* accesses until the core must stop; SC_UNLIMITED */
	sc_u64 sample;	   /* number of accesses after which the counter should interrupt */
	sc_u64 timeout_ns; /* latest time to report an event; SC_UNLIMITED: never */
	sc_u32 verdict;	   /* SC_STOP until the next event, or SC_GO */
	sc_u32 reserved;
};

/* Starts the clock of a zeroed struct. */
SC_FN void sc_dynamic_init(struct sc_dynamic *d, sc_u64 now_ns)
{
	d->last_ns = sc_time(now_ns);
}

/* Index of the lowest bit of a word that is not 0. Without branches, which the BPF verifier would
 * follow. */
SC_FN sc_u32 sc_dynamic_lowest(sc_u64 word)
{
	sc_u64 below = (word & (~word + 1)) - 1;

	below -= (below >> 1) & 0x5555555555555555ull;
	below = (below & 0x3333333333333333ull) + ((below >> 2) & 0x3333333333333333ull);
	below = (below + (below >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return (sc_u32)((below * 0x0101010101010101ull) >> 56);
}

/* Recomputes the head of a hard core. */
SC_FN void sc_dynamic_find_head(struct sc_dynamic *d, sc_u32 core)
{
	struct sc_dynamic_list *list = &d->list[SC_CPU(core)];
	sc_u32 w;

	if (list->summary == 0) {
		d->head[SC_CPU(core)] = 0;
		return;
	}
	w = sc_dynamic_lowest(list->summary);
	if (w >= SC_DYNAMIC_WORDS)
		return;
	d->head[SC_CPU(core)] =
		64 * w + sc_dynamic_lowest(list->word[SC_MASKED(w, SC_DYNAMIC_WORDS)]) + 1;
}

/* Puts i < SC_MAX_TASKS into its list, again or not. */
SC_FN void sc_dynamic_insert(struct sc_dynamic *d, sc_u32 i)
{
	struct sc_dynamic_task *t = &d->task[SC_TASK(i)];
	struct sc_dynamic_list *list = &d->list[SC_CPU(t->core)];
	sc_u32 w = i / 64;

	list->word[SC_MASKED(w, SC_DYNAMIC_WORDS)] |= 1ull << (i % 64);
	list->summary |= 1ull << (w % 64);
	t->active = 1;
	sc_dynamic_find_head(d, t->core);
}

/* Takes i < SC_MAX_TASKS out of its list. */
SC_FN void sc_dynamic_remove(struct sc_dynamic *d, sc_u32 i)
{
	struct sc_dynamic_task *t = &d->task[SC_TASK(i)];
	struct sc_dynamic_list *list = &d->list[SC_CPU(t->core)];
	sc_u32 w = i / 64;

	list->word[SC_MASKED(w, SC_DYNAMIC_WORDS)] &= ~(1ull << (i % 64));
	if (list->word[SC_MASKED(w, SC_DYNAMIC_WORDS)] == 0)
		list->summary &= ~(1ull << (w % 64));
	t->active = 0;
	sc_dynamic_find_head(d, t->core);
}

/*
 * Defines task i: B_i = budget, A_i = length_ns, or changes both; an active budget stays as it is
 * until the next job. Returns 0 if a number is out of range, or if it is active on another core.
 * The analysis of task i assumes the sum of B_i over the soft cores.
 */
SC_FN sc_u32 sc_dynamic_define(struct sc_dynamic *d, sc_u32 i, sc_u32 core, sc_u64 budget,
			       sc_u64 length_ns)
{
	struct sc_dynamic_task *t;

	if (i >= SC_MAX_TASKS || core >= SC_MAX_CPUS || budget == 0 || budget > SC_MAX_ACCESSES ||
	    !sc_span_valid(length_ns))
		return 0;
	t = &d->task[SC_TASK(i)];
	if (t->active && t->core != core)
		return 0;
	t->budget = budget;
	t->length_ns = length_ns;
	t->core = core;
	t->defined = 1;
	if (d->cores <= core)
		d->cores = core + 1;
	return 1;
}

/* The budget in force on a hard core: consumes `accesses` and `elapsed_ns` of it. */
SC_FN void sc_dynamic_consume(struct sc_dynamic *d, sc_u32 core, sc_u64 elapsed_ns, sc_u64 accesses)
{
	sc_u32 head = d->head[SC_CPU(core)] - 1, late; /* 0 - 1 is not an index, either */
	struct sc_dynamic_task *t;

	if (head >= SC_MAX_TASKS)
		return;
	t = &d->task[SC_TASK(head)];
	t->left = sc_sub(t->left, accesses);
	if (elapsed_ns < t->left_ns) {
		t->left_ns -= elapsed_ns;
		return;
	}
	late = elapsed_ns > t->left_ns;
	sc_dynamic_remove(d, head);
	head = d->head[SC_CPU(core)] - 1;
	if (!late || head >= SC_MAX_TASKS)
		return;
	/* It was in force for some of the time, with an unknown number of the accesses. */
	t = &d->task[SC_TASK(head)];
	t->left = sc_sub(t->left, accesses);
}

/* Time passes until now_ns, and the core has made `accesses` in it. */
SC_FN void sc_dynamic_advance(struct sc_dynamic *d, sc_u64 now_ns, sc_u64 accesses)
{
	sc_u64 now = sc_max(sc_time(now_ns), d->last_ns), elapsed = now - d->last_ns;
	sc_u32 core;

	d->last_ns = now;
	for (core = 0; core < SC_MAX_CPUS; core++) {
		if (core >= d->cores)
			break;
		sc_dynamic_consume(d, core, elapsed, accesses);
	}
}

/* Decides whether the core may go on, for how many accesses, and until which time. */
SC_FN void sc_dynamic_decide(const struct sc_dynamic *d, struct sc_dynamic_decision *out)
{
	sc_u64 limit = SC_UNLIMITED - d->zero, left_ns = SC_UNLIMITED - d->zero;
	sc_u32 core;

	for (core = 0; core < SC_MAX_CPUS; core++) {
		const struct sc_dynamic_task *t;
		sc_u32 head = d->head[SC_CPU(core)] - 1;

		if (core >= d->cores)
			break;
		if (head >= SC_MAX_TASKS)
			continue;
		t = &d->task[SC_TASK(head)];
		left_ns = sc_min(left_ns, t->left_ns) | d->zero;
		if (!t->finished)
			limit = sc_min(limit, t->left) | d->zero;
	}
	out->limit = limit;
	out->sample = sc_sample(limit);
	out->timeout_ns = sc_add(d->last_ns, left_ns);
	out->verdict = limit == 0 ? SC_STOP : SC_GO;
	out->reserved = 0;
}

/*
 * Handles an event at now_ns: a job of task i started or finished, the counter overflowed or the
 * timer fired (then i does not matter). The core has made `accesses` since the event before.
 * sc_dynamic_decide then gives the limits of the core. A job that finishes after its budget has
 * expired is an event like any other. Returns 0, without any change, if i is not an index, or if a
 * job of an undefined task starts.
 */
SC_FN sc_u32 sc_dynamic_apply(struct sc_dynamic *d, sc_u32 what, sc_u32 i, sc_u64 now_ns,
			      sc_u64 accesses)
{
	struct sc_dynamic_task *t;

	if (what > SC_DYNAMIC_EVENT || (what != SC_DYNAMIC_EVENT && i >= SC_MAX_TASKS))
		return 0;
	if (what == SC_DYNAMIC_STARTED && !d->task[SC_TASK(i)].defined)
		return 0;
	/* The verifier walks the loop once, not once for each known value of `what` and `i`. */
	what |= (sc_u32)d->zero;
	i |= (sc_u32)d->zero;
	sc_dynamic_advance(d, now_ns, accesses);
	if (what == SC_DYNAMIC_EVENT || i >= SC_MAX_TASKS)
		return 1;
	t = &d->task[SC_TASK(i)];
	if (what == SC_DYNAMIC_STARTED) {
		t->left = t->budget;
		t->left_ns = t->length_ns;
		t->finished = 0;
		sc_dynamic_insert(d, i);
	} else if (what == SC_DYNAMIC_FINISHED && t->active) {
		t->finished = 1;
	}
	return 1;
}

#endif
