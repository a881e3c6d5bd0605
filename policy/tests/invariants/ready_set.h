/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SOLOCORE_TESTS_INVARIANTS_READY_SET_H
#define SOLOCORE_TESTS_INVARIANTS_READY_SET_H

#include "../driver.h"
#include <solocore/ready_set.h>

/* The broken invariant of a set, or 0. */
static inline const char *sc_ready_broken(const struct sc_ready_set *s)
{
	sc_u32 i, count = 0, first = SC_NONE;

	for (i = 0; i < SC_READY_WORDS; i++)
		if ((s->word[i] != 0) != (s->summary >> i & 1u))
			return "summary of a set";
	for (i = SC_MAX_TASKS; i-- > 0;)
		if (sc_ready_contains(s, i)) {
			count++;
			if (sc_ready_next(s, i) != i || sc_ready_next(s, i + 1) != first)
				return "next of a set";
			first = i;
		}
	if (sc_ready_first(s) != first)
		return "first of a set";
	return count == s->count ? 0 : "count of a set";
}

#ifdef SOLOCORE_TESTS_DRIVE_READY_SET_H
static inline const char *sc_check_ready_set(const struct sc_world_ready_set *w,
					     const struct sc_event *e, const struct sc_answer *out)
{
	(void)e;
	(void)out;
	return sc_ready_broken(&w->set);
}
#endif

#endif
