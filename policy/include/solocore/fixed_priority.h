/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Fixed-priority scheduling of one core.
 *
 * Problem: which of the ready tasks runs next.
 * Rule: the ready task of highest priority, 1 being the highest; among equals the one of lower index
 * (rate monotonic when priorities follow periods; Liu and Layland, 1973).
 * Invariants: the answer is a ready task, or SC_NONE when there is none.
 * Known limits: looks at every task, O(n); n is at most SC_MAX_TASKS.
 */
#ifndef SOLOCORE_FIXED_PRIORITY_H
#define SOLOCORE_FIXED_PRIORITY_H

#include "types.h"

#define SC_NONE (~(sc_u32)0)

/* priority[i] is 0 when task i is not ready. */
static inline sc_u32 fixed_priority_pick(const sc_u32 *priority, sc_u32 count)
{
	sc_u32 best = SC_NONE;
	sc_u32 i;

	if (count > SC_MAX_TASKS)
		count = SC_MAX_TASKS;
	for (i = 0; i < count; i++) {
		if (priority[i] != 0 && (best == SC_NONE || priority[i] < priority[best]))
			best = i;
	}
	return best;
}

#endif
