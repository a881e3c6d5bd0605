/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Operations: 0 init (now, a: cores), 1 task (id, a: level, b: core, c: period, d: pet), 2 slot
 * (id: core, a: start, b: end, c: task, d: frame), 3 release (id, now), 4 complete (id, now), 5
 * pick (id: core, now), 6 state (id).
 */
#ifndef SOLOCORE_TESTS_DRIVE_LEVELS_H
#define SOLOCORE_TESTS_DRIVE_LEVELS_H

#include "../driver.h"
#include <solocore/levels.h>

#ifndef SC_WORLD_CPUS
#define SC_WORLD_CPUS 8u
#endif

struct sc_world_levels {
	sc_u64 ready;
	sc_u64 cores;
	sc_u64 origin_ns;
	struct sc_levels shared;
	struct sc_level_core core[SC_WORLD_CPUS];
};

SC_FN void sc_drive_levels_init(struct sc_world_levels *w, const struct sc_event *e,
				struct sc_answer *out)
{
	sc_u32 i;

	if (w->ready || e->a == 0 || e->a > SC_WORLD_CPUS)
		return;
	/* The world starts zeroed: the heaps are empty. */
	for (i = 0; i < SC_WORLD_CPUS; i++) {
		w->core[i].last_ns = sc_time(e->now);
		w->core[i].current = SC_NONE;
		w->core[i].number = i;
	}
	w->cores = e->a;
	w->origin_ns = e->now;
	w->ready = 1;
	out->word[0] = 1;
}

SC_FN sc_u32 sc_drive_levels_task(struct sc_world_levels *w, const struct sc_event *e)
{
	sc_u64 period_and_pet[2], core = e->a == SC_LEVEL_C ? 0 : e->b;

	if (e->a > SC_LEVEL_D || core >= w->cores)
		return 0;
	period_and_pet[0] = e->c;
	period_and_pet[1] = e->d;
	return sc_level_add(&w->shared, e->id, (sc_u32)e->a, (sc_u32)core, period_and_pet);
}

SC_FN sc_u32 sc_drive_levels_slot(struct sc_world_levels *w, const struct sc_event *e)
{
	struct sc_table *table;
	const struct sc_level_task *t;

	if (e->id >= w->cores || e->id >= SC_WORLD_CPUS || e->c >= SC_MAX_TASKS)
		return 0;
	table = &w->core[SC_MASKED(e->id, SC_WORLD_CPUS)].table;
	t = &w->shared.task[SC_TASK(e->c)];
	if (t->state == SC_TASK_NONE || t->level != SC_LEVEL_A || t->core != e->id)
		return 0;
	if (table->frame_ns == 0) {
		/* A first entry that is refused leaves no table behind. */
		if (e->a >= e->b || e->b > e->d || !sc_table_init(table, w->origin_ns, e->d))
			return 0;
	} else if (table->frame_ns != e->d) {
		return 0;
	}
	return sc_table_append(table, e->a, e->b, (sc_u32)e->c);
}

/* The core that the task runs on, or else the one it belongs to. */
SC_FN sc_u32 sc_drive_levels_core(const struct sc_world_levels *w, sc_u32 id)
{
	const struct sc_level_task *t = &w->shared.task[SC_TASK(id)];

	return t->running < SC_WORLD_CPUS ? t->running : t->core;
}

SC_FN void sc_drive_levels_pick(struct sc_world_levels *w, const struct sc_event *e,
				struct sc_answer *out)
{
	struct sc_level_choice choice;

	if (e->id >= w->cores)
		return;
	sc_level_pick(&w->shared, &w->core[SC_MASKED(e->id, SC_WORLD_CPUS)], e->now, &choice);
	out->word[0] = choice.task;
	out->word[1] = choice.level;
	out->word[2] = choice.until_ns;
	out->word[3] = w->shared.overruns;
}

SC_FN void sc_drive_levels_state(const struct sc_world_levels *w, sc_u32 id, struct sc_answer *out)
{
	const struct sc_level_task *t = &w->shared.task[SC_TASK(id)];

	if (t->state == SC_TASK_NONE)
		return;
	out->word[0] = t->state;
	out->word[1] = t->used_ns;
	out->word[2] = t->deadline_ns;
	out->word[3] = t->overruns;
	out->word[4] = t->running;
}

SC_FN void sc_drive_levels(struct sc_world_levels *w, const struct sc_event *e,
			   struct sc_answer *out)
{
	struct sc_level_core *core;

	sc_answer_clear(out);
	if (e->op == 0) {
		sc_drive_levels_init(w, e, out);
		return;
	}
	if (!w->ready)
		return;
	if (e->op == 5) {
		sc_drive_levels_pick(w, e, out);
		return;
	}
	if (e->op == 2) {
		out->word[0] = sc_drive_levels_slot(w, e);
		return;
	}
	if (e->id >= SC_MAX_TASKS)
		return;
	core = &w->core[SC_MASKED(sc_drive_levels_core(w, e->id), SC_WORLD_CPUS)];
	switch (e->op) {
	case 1:
		out->word[0] = sc_drive_levels_task(w, e);
		break;
	case 3:
		out->word[1] = sc_level_release(&w->shared, core, e->id, e->now);
		out->word[0] = out->word[1] != 0;
		break;
	case 4:
		out->word[0] = sc_level_complete(&w->shared, core, e->id, e->now);
		break;
	case 6:
		sc_drive_levels_state(w, e->id, out);
		break;
	}
}

#endif
