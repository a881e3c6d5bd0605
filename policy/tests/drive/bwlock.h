/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Operations: 0 init (now, a: period, b: max, c: min, d: cores), 1 task (id, a: realtime), 2 lock
 * (id), 3 unlock (id), 4 switch (id: core, a: next task or SC_NONE, b: accesses), 5 account (id:
 * core, a: accesses), 6 tick (id: core, now), 7 update (id: core), 8 exit (id), 9 limit (a: min).
 * Answers: 0, 1 and 9 ok; 2 and 3 ok, depth, holders; 4 ok, verdict, budget, used, holders, sample;
 * 5 and 7 verdict, sample, used, budget; 6 verdict, began, used, budget, holders, next; 8 ok,
 * holders.
 */
#ifndef SOLOCORE_TESTS_DRIVE_BWLOCK_H
#define SOLOCORE_TESTS_DRIVE_BWLOCK_H

#include "../driver.h"
#include <solocore/bwlock.h>

#ifndef SC_WORLD_CPUS
#define SC_WORLD_CPUS 8u
#endif

struct sc_world_bwlock {
	sc_u64 ready;
	struct sc_bwlock lock;
	struct sc_bwlock_core core[SC_WORLD_CPUS];
	sc_u32 current[SC_WORLD_CPUS]; /* the task that runs, plus 1; 0 if idle */
	sc_u64 cores;
	struct sc_bwlock_task task[SC_MAX_TASKS];
};

SC_FN sc_u64 sc_world_bwlock_init(struct sc_world_bwlock *w, const struct sc_event *e)
{
	sc_u32 i;

	if (w->ready || e->d == 0 || e->d > SC_WORLD_CPUS ||
	    !sc_bwlock_init(&w->lock, e->a, e->b, e->c))
		return 0;
	for (i = 0; i < SC_WORLD_CPUS; i++)
		sc_bwlock_core_init(&w->lock, &w->core[i], i, e->now);
	w->cores = e->d;
	w->ready = 1;
	return 1;
}

/* Task operations: 1 task, 2 lock, 3 unlock, 8 exit. */
SC_FN void sc_world_bwlock_task(struct sc_world_bwlock *w, const struct sc_event *e,
				struct sc_answer *out)
{
	struct sc_bwlock_task *t;
	struct sc_bwlock_core *c = &w->core[0];
	sc_u32 on;

	if (e->id >= SC_MAX_TASKS)
		return;
	t = &w->task[SC_TASK(e->id)];
	on = t->core;
	if (on < SC_WORLD_CPUS)
		c = &w->core[SC_MASKED(on, SC_WORLD_CPUS)];
	switch (e->op) {
	case 1:
		out->word[0] = e->a <= 1 ? sc_bwlock_task_init(t, (sc_u32)e->a) : 0;
		return;
	case 2:
		out->word[0] = sc_bwlock_lock(&w->lock, c, t);
		break;
	case 3:
		out->word[0] = sc_bwlock_unlock(&w->lock, c, t);
		break;
	default:
		out->word[0] = sc_bwlock_exit(&w->lock, c, t);
		if (out->word[0] && on < SC_WORLD_CPUS)
			w->current[SC_MASKED(on, SC_WORLD_CPUS)] = 0;
		break;
	}
	if (!out->word[0])
		return;
	out->word[1] = e->op == 8 ? w->lock.holders : t->depth;
	out->word[2] = e->op == 8 ? 0 : w->lock.holders;
}

SC_FN void sc_world_bwlock_switch(struct sc_world_bwlock *w, const struct sc_event *e,
				  struct sc_answer *out)
{
	struct sc_bwlock_core *c = &w->core[SC_MASKED(e->id, SC_WORLD_CPUS)];
	struct sc_bwlock_task *prev = 0, *next = 0;
	sc_u32 old = w->current[SC_MASKED(e->id, SC_WORLD_CPUS)];

	if (e->a >= SC_MAX_TASKS && e->a != SC_NONE)
		return;
	if (old != 0)
		prev = &w->task[SC_TASK(old - 1)];
	if (e->a != SC_NONE)
		next = &w->task[SC_TASK(e->a)];
	if (!sc_bwlock_switch(&w->lock, c, prev, next, e->b))
		return;
	w->current[SC_MASKED(e->id, SC_WORLD_CPUS)] = e->a == SC_NONE ? 0 : (sc_u32)e->a + 1;
	out->word[0] = 1;
	out->word[1] = c->throttled ? SC_STOP : SC_GO;
	out->word[2] = c->budget;
	out->word[3] = c->used;
	out->word[4] = w->lock.holders;
	out->word[5] = sc_bwlock_sample(c);
}

/* Core operations: 5 account, 6 tick, 7 update. */
SC_FN void sc_world_bwlock_core(struct sc_world_bwlock *w, const struct sc_event *e,
				struct sc_answer *out)
{
	struct sc_bwlock_core *c = &w->core[SC_MASKED(e->id, SC_WORLD_CPUS)];

	if (e->op == 6) {
		out->word[1] = sc_bwlock_tick(&w->lock, c, e->now);
		out->word[0] = c->throttled ? SC_STOP : SC_GO;
		out->word[2] = c->used;
		out->word[3] = c->budget;
		out->word[4] = w->lock.holders;
		out->word[5] = c->next_ns;
		return;
	}
	out->word[0] = e->op == 5 ? sc_bwlock_account(c, e->a) : sc_bwlock_update(&w->lock, c);
	out->word[1] = sc_bwlock_sample(c);
	out->word[2] = c->used;
	out->word[3] = c->budget;
}

SC_FN void sc_drive_bwlock(struct sc_world_bwlock *w, const struct sc_event *e,
			   struct sc_answer *out)
{
	sc_answer_clear(out);
	if (e->op == 0)
		out->word[0] = sc_world_bwlock_init(w, e);
	if (e->op == 0 || e->op > 9 || !w->ready)
		return;
	if (e->op == 9) {
		out->word[0] = sc_bwlock_limit(&w->lock, e->a);
		return;
	}
	if (e->op <= 3 || e->op == 8) {
		sc_world_bwlock_task(w, e, out);
		return;
	}
	if (e->id >= w->cores || e->id >= SC_WORLD_CPUS)
		return;
	if (e->op == 4)
		sc_world_bwlock_switch(w, e, out);
	else
		sc_world_bwlock_core(w, e, out);
}

#endif
