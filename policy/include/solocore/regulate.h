/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Bandwidth regulation of one core (MemGuard).
 *
 * Problem: a core that misses its caches at full speed slows every other core's memory accesses.
 * Rule: each core may make `budget` accesses in a period. The access that uses the budget up throttles
 * the core; the next period gives the whole budget back (single-core-equivalence, section 2.2).
 * Invariants: used <= budget while accesses are reported one by one; throttled implies used >= budget;
 * nothing is carried from one period to the next.
 * Known limits: no reclaiming and no sharing of what is left; accesses that a counter reports late
 * (skid) are counted when reported.
 */
#ifndef SOLOCORE_REGULATE_H
#define SOLOCORE_REGULATE_H

#include "types.h"

struct sc_regulator {
	sc_u64 budget;	  /* accesses per period */
	sc_u64 period_ns; /* length of a period */
	sc_u64 used;	  /* accesses in this period */
	sc_u64 next_ns;	  /* when the next period starts */
	sc_u32 throttled; /* 1: the core must not run */
	sc_u32 reserved;
};

/* Starts the first period at now_ns. A zero budget or period is refused: 0, and 1 on success. */
static inline sc_u32 regulator_init(struct sc_regulator *r, sc_u64 budget, sc_u64 period_ns, sc_u64 now_ns)
{
	if (budget == 0 || period_ns == 0)
		return 0;
	r->budget = budget;
	r->period_ns = period_ns;
	r->used = 0;
	r->next_ns = now_ns + period_ns;
	r->throttled = 0;
	r->reserved = 0;
	return 1;
}

/* Counts accesses; 1 if the core must stop until the next period. */
static inline sc_u32 regulator_account(struct sc_regulator *r, sc_u64 accesses)
{
	sc_u64 room = ~(sc_u64)0 - r->used;

	r->used += accesses < room ? accesses : room;
	if (r->used >= r->budget)
		r->throttled = 1;
	return r->throttled;
}

/* The timer of the period fired at now_ns; 1 if the core was stopped and may go on. A late timer
 * skips the periods that passed: their budgets are lost, not saved. */
static inline sc_u32 regulator_replenish(struct sc_regulator *r, sc_u64 now_ns)
{
	sc_u32 was_throttled = r->throttled;

	if (now_ns < r->next_ns)
		return 0;
	r->next_ns += r->period_ns * ((now_ns - r->next_ns) / r->period_ns + 1);
	r->used = 0;
	r->throttled = 0;
	return was_throttled;
}

#endif
