/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SOLOCORE_TESTS_INVARIANTS_LEVELS_H
#define SOLOCORE_TESTS_INVARIANTS_LEVELS_H

#include "heap.h"
#include "time_table.h"

/* Is the task in the queue of its level exactly if it is ready (and, at level C, runs nowhere)? */
static inline const char *sc_level_task_broken(const struct sc_world_levels *w, sc_u32 id)
{
	const struct sc_level_task *t = &w->shared.task[id];
	sc_u32 ready = t->state == SC_TASK_READY, i;

	if (t->state == SC_TASK_NONE)
		return 0;
	for (i = 0; i < w->cores; i++) {
		const struct sc_level_core *c = &w->core[i];

		if (sc_heap_contains(&c->ready_b, id) !=
			    (ready && t->level == SC_LEVEL_B && t->core == i) ||
		    sc_heap_contains(&c->ready_d, id) !=
			    (ready && t->level == SC_LEVEL_D && t->core == i))
			return "queue of a core";
		if ((c->current == id) != (t->running == i))
			return "the task that runs on a core";
	}
	if (sc_heap_contains(&w->shared.ready_c, id) !=
	    (ready && t->level == SC_LEVEL_C && t->running == SC_NONE))
		return "queue of level C";
	if (ready ? t->used_ns >= t->pet_ns : t->running != SC_NONE)
		return "a job that should have ended";
	return 0;
}

static inline const char *sc_check_levels(const struct sc_world_levels *w, const struct sc_event *e,
					  const struct sc_answer *out)
{
	const char *broken = sc_heap_broken(&w->shared.ready_c);
	sc_u32 i;

	(void)e;
	(void)out;
	for (i = 0; i < w->cores && !broken; i++) {
		broken = sc_heap_broken(&w->core[i].ready_b);
		broken = broken ? broken : sc_heap_broken(&w->core[i].ready_d);
		broken = broken ? broken : sc_table_broken(&w->core[i].table);
	}
	for (i = 0; i < SC_MAX_TASKS && !broken; i++)
		broken = sc_level_task_broken(w, i);
	return broken;
}

#endif
