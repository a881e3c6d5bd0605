/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SOLOCORE_TESTS_INVARIANTS_HEAP_H
#define SOLOCORE_TESTS_INVARIANTS_HEAP_H

#include "../driver.h"
#include <solocore/heap.h>

/* The broken invariant of a heap, or 0. */
static inline const char *sc_heap_broken(const struct sc_heap *h)
{
	sc_u32 i, members = 0;

	if (h->zero != 0 || h->count > SC_MAX_TASKS)
		return "count of a heap";
	for (i = 0; i < h->count; i++) {
		if (h->id[i] >= SC_MAX_TASKS || h->position[h->id[i]] != i + 1)
			return "positions of a heap";
		if (i > 0 && sc_heap_before(h, h->key[i], h->id[i], (i - 1) / 2))
			return "order of a heap";
	}
	for (i = 0; i < SC_MAX_TASKS; i++)
		members += h->position[i] != 0;
	return members == h->count ? 0 : "members of a heap";
}

#ifdef SOLOCORE_TESTS_DRIVE_HEAP_H
static inline const char *sc_check_heap(const struct sc_world_heap *w, const struct sc_event *e,
					const struct sc_answer *out)
{
	if (w->ready && e->op == 2 && sc_heap_contains(&w->heap, e->id))
		return "what was removed is still there";
	if (w->ready && e->op == 1 && e->id < SC_MAX_TASKS && !sc_heap_contains(&w->heap, e->id))
		return "what was pushed is not there";
	(void)out;
	return sc_heap_broken(&w->heap);
}
#endif

#endif
