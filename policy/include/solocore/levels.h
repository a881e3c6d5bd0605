/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Criticality levels (MC2): the choice of the running task on a core that tasks of four levels
 * share.
 *
 * Problem: hard tasks must not depend on the behaviour of softer ones, and the softer ones should
 * still get all remaining time. Rule (mc2-os-isolation, section 2): levels are strictly
 * prioritised, A over B over C over D.
 *   A  per core, by a time table (a cyclic executive);
 *   B  per core, rate monotonic;
 *   C  on all cores, earliest deadline first (GEDF);
 *   D  per core, best effort, the lowest number first.
 * Overruns: a job that has run for its provisioned execution time (PET) is counted, and at level A
 * it ends; at levels B and C it is suspended until its task's next release. Level D has no budget.
 * A release that finds the job before it unfinished ends and counts it at level A. At B and C the
 * job goes on with a new budget and the new deadline. At D nothing changes. Invariants: within a
 * slot of the table whose job is ready, that job runs, from the slot's first ns to its last. A
 * level-C job runs on one core at a time. No ready task waits while a core that may run it is idle,
 * provided that every core picks again when it is told (below). Known limits: the caller keeps one
 * core at a time in these functions (a lock). After a release, completion or displacement of a
 * level-C job another core may have to pick again: a core on which nothing or a task of lower
 * priority runs. Suspension of level-A and -B jobs (self-suspension) is not modelled, as in the
 * paper. Cost: O(log n) in the tasks and in the entries of the table.
 */
#ifndef SOLOCORE_LEVELS_H
#define SOLOCORE_LEVELS_H

#include "heap.h"
#include "time_table.h"
#include "types.h"

#define SC_LEVEL_A 0u
#define SC_LEVEL_B 1u
#define SC_LEVEL_C 2u
#define SC_LEVEL_D 3u
#define SC_LEVEL_IDLE 4u

/* States of a task. */
#define SC_TASK_NONE 0u	     /* there is no such task */
#define SC_TASK_IDLE 1u	     /* no job */
#define SC_TASK_READY 2u     /* has a job that wants to run or runs */
#define SC_TASK_SUSPENDED 3u /* its job has used its PET up and waits for the next release */

struct sc_level_task {
	sc_u64 period_ns;
	sc_u64 pet_ns;	    /* provisioned execution time of a job at the task's own level */
	sc_u64 used_ns;	    /* execution of the present job */
	sc_u64 deadline_ns; /* absolute, of the present job */
	sc_u64 overruns;    /* jobs that used their PET up, or at level A were not done at the next
			       release */
	sc_u32 level;
	sc_u32 core;	/* levels A, B and D: its core */
	sc_u32 state;	/* SC_TASK_* */
	sc_u32 running; /* core that it runs on; SC_NONE */
};

/* State that the cores share. */
struct sc_levels {
	struct sc_heap ready_c; /* ready jobs of level C that run nowhere, by deadline */
	sc_u64 overruns;	/* of all tasks */
	struct sc_level_task task[SC_MAX_TASKS];
};

struct sc_level_core {
	sc_u64 last_ns;		/* time up to which execution has been charged */
	sc_u32 current;		/* the task that runs; SC_NONE */
	sc_u32 number;		/* number of this core */
	struct sc_table table;	/* level A */
	struct sc_heap ready_b; /* ready tasks of level B, by period */
	struct sc_heap ready_d; /* ready tasks of level D, by number */
};

/* The answer of sc_level_pick. */
struct sc_level_choice {
	sc_u64 until_ns; /* latest time at which the core must pick again; SC_UNLIMITED: only at an
			    event */
	sc_u32 task;	 /* SC_NONE: nothing to run */
	sc_u32 level;	 /* SC_LEVEL_* */
};

/* An empty core from now_ns on; its table has to be initialised apart. */
SC_FN void sc_level_core_init(struct sc_level_core *c, sc_u32 number, sc_u64 now_ns)
{
	c->last_ns = sc_time(now_ns);
	c->current = SC_NONE;
	c->number = number;
	c->table.frame_ns = 0;
	c->table.count = 0;
	sc_heap_init(&c->ready_b);
	sc_heap_init(&c->ready_d);
}

/* Adds a task without a job. 0 if a number is out of range or taken. */
SC_FN sc_u32 sc_level_add(struct sc_levels *w, sc_u32 id, sc_u32 level, sc_u32 core,
			  const sc_u64 period_and_pet[2])
{
	struct sc_level_task *t;

	if (id >= SC_MAX_TASKS || level > SC_LEVEL_D || core >= SC_MAX_CPUS ||
	    !sc_span_valid(period_and_pet[0]) ||
	    (level != SC_LEVEL_D && !sc_span_valid(period_and_pet[1])))
		return 0;
	t = &w->task[SC_TASK(id)];
	if (t->state != SC_TASK_NONE)
		return 0;
	t->period_ns = period_and_pet[0];
	t->pet_ns = level == SC_LEVEL_D ? SC_UNLIMITED : period_and_pet[1];
	t->used_ns = 0;
	t->deadline_ns = 0;
	t->overruns = 0;
	t->level = level;
	t->core = core;
	t->state = SC_TASK_IDLE;
	t->running = SC_NONE;
	return 1;
}

/* Puts a ready task that does not run into the queue of its level; level A has its table instead.
 * */
SC_FN void sc_level_enqueue(struct sc_levels *w, struct sc_level_core *home, sc_u32 id)
{
	const struct sc_level_task *t = &w->task[SC_TASK(id)];

	if (t->level == SC_LEVEL_B)
		sc_heap_push(&home->ready_b, t->period_ns, id);
	else if (t->level == SC_LEVEL_C)
		sc_heap_push(&w->ready_c, t->deadline_ns, id);
	else if (t->level == SC_LEVEL_D)
		sc_heap_push(&home->ready_d, 0, id);
}

/* Ends or suspends the present job. `home` is the core of the task's level-B or -D queue. */
SC_FN void sc_level_leave(struct sc_levels *w, struct sc_level_core *home, sc_u32 id, sc_u32 state)
{
	struct sc_level_task *t = &w->task[SC_TASK(id)];

	if (t->level == SC_LEVEL_B)
		sc_heap_remove(&home->ready_b, id);
	else if (t->level == SC_LEVEL_C)
		sc_heap_remove(&w->ready_c, id);
	else if (t->level == SC_LEVEL_D)
		sc_heap_remove(&home->ready_d, id);
	t->state = state;
	t->running = SC_NONE;
}

/* Charges the execution since the last call to the task that runs. */
SC_FN void sc_level_charge(struct sc_levels *w, struct sc_level_core *c, sc_u64 now_ns)
{
	sc_u64 now = sc_max(sc_time(now_ns), c->last_ns), ran = now - c->last_ns;
	sc_u32 id = c->current;

	c->last_ns = now;
	if (id < SC_MAX_TASKS)
		w->task[SC_TASK(id)].used_ns = sc_add(w->task[SC_TASK(id)].used_ns, ran);
}

/* Charges the execution since the last call to the task that runs, and enforces its budget. */
SC_FN void sc_level_settle(struct sc_levels *w, struct sc_level_core *c, sc_u64 now_ns)
{
	sc_u32 id = c->current;
	struct sc_level_task *t;

	sc_level_charge(w, c, now_ns);
	if (id >= SC_MAX_TASKS)
		return;
	t = &w->task[SC_TASK(id)];
	if (t->used_ns < t->pet_ns)
		return;
	t->overruns++;
	w->overruns++;
	c->current = SC_NONE;
	sc_level_leave(w, c, id, t->level == SC_LEVEL_A ? SC_TASK_IDLE : SC_TASK_SUSPENDED);
}

/* A job of the task is released at now_ns. `core` is the core it runs on, or else the core it
 * belongs to. Returns the task's state, 0 if there is no such task. */
SC_FN sc_u32 sc_level_release(struct sc_levels *w, struct sc_level_core *core, sc_u32 id,
			      sc_u64 now_ns)
{
	struct sc_level_task *t;
	sc_u32 queued;

	if (id >= SC_MAX_TASKS || w->task[SC_TASK(id)].state == SC_TASK_NONE)
		return 0;
	t = &w->task[SC_TASK(id)];
	if (core->current == id)
		sc_level_settle(w, core, now_ns);
	if (t->state == SC_TASK_READY && t->level == SC_LEVEL_D)
		return t->state;
	if (t->state == SC_TASK_READY && t->level == SC_LEVEL_A) {
		t->overruns++;
		w->overruns++;
	}
	/* Its place in the queue of level C depends on the deadline. */
	queued = t->state != SC_TASK_READY ||
		 (t->level == SC_LEVEL_C && sc_heap_remove(&w->ready_c, id));
	t->used_ns = 0;
	t->deadline_ns = sc_add(sc_time(now_ns), t->period_ns);
	t->state = SC_TASK_READY;
	if (queued)
		sc_level_enqueue(w, core, id);
	return t->state;
}

/*
 * The task's job is done at now_ns; `core` as in sc_level_release. Returns 1, or 0 if the task had
 * none.
 */
SC_FN sc_u32 sc_level_complete(struct sc_levels *w, struct sc_level_core *core, sc_u32 id,
			       sc_u64 now_ns)
{
	if (id >= SC_MAX_TASKS || w->task[SC_TASK(id)].state == SC_TASK_NONE)
		return 0;
	if (w->task[SC_TASK(id)].state != SC_TASK_READY)
		return 0;
	/*
	 * The completion counts, also for a job that needed exactly its PET, or more before this
	 * call.
	 */
	if (core->current == id) {
		sc_level_charge(w, core, now_ns);
		core->current = SC_NONE;
	}
	sc_level_leave(w, core, id, SC_TASK_IDLE);
	return 1;
}

/* The level-C job for this core: the running one, unless a waiting one has an earlier deadline. */
SC_FN sc_u32 sc_level_earliest(const struct sc_levels *w, const struct sc_level_core *c)
{
	sc_u32 here = c->current, top = sc_heap_top(&w->ready_c);

	if (here >= SC_MAX_TASKS || w->task[SC_TASK(here)].level != SC_LEVEL_C)
		return top;
	if (top == SC_NONE ||
	    sc_heap_before(&w->ready_c, w->task[SC_TASK(here)].deadline_ns, here, 0))
		return here;
	return top;
}

/* Makes `id` the running task; a level-C job that it displaces goes back to the queue. */
SC_FN void sc_level_switch(struct sc_levels *w, struct sc_level_core *c, sc_u32 id)
{
	sc_u32 old = c->current;

	if (old == id)
		return;
	if (id < SC_MAX_TASKS) {
		if (w->task[SC_TASK(id)].level == SC_LEVEL_C)
			sc_heap_remove(&w->ready_c, id);
		w->task[SC_TASK(id)].running = c->number;
	}
	if (old < SC_MAX_TASKS) {
		w->task[SC_TASK(old)].running = SC_NONE;
		if (w->task[SC_TASK(old)].level == SC_LEVEL_C)
			sc_heap_push(&w->ready_c, w->task[SC_TASK(old)].deadline_ns, old);
	}
	c->current = id;
}

/* Chooses the task of the core from now_ns on. */
SC_FN void sc_level_pick(struct sc_levels *w, struct sc_level_core *c, sc_u64 now_ns,
			 struct sc_level_choice *choice)
{
	struct sc_table_slot slot;
	sc_u32 id = SC_NONE;

	sc_level_settle(w, c, now_ns);
	sc_table_lookup(&c->table, c->last_ns, &slot);
	if (slot.id < SC_MAX_TASKS && w->task[SC_TASK(slot.id)].state == SC_TASK_READY)
		id = slot.id;
	if (id == SC_NONE)
		id = sc_heap_top(&c->ready_b);
	if (id == SC_NONE)
		id = sc_level_earliest(w, c);
	if (id == SC_NONE)
		id = sc_heap_top(&c->ready_d);
	sc_level_switch(w, c, id);
	choice->task = id;
	choice->level = SC_LEVEL_IDLE;
	choice->until_ns = slot.edge_ns;
	if (id >= SC_MAX_TASKS)
		return;
	choice->level = w->task[SC_TASK(id)].level;
	/* sc_add leaves "unlimited" of level D as it is. */
	choice->until_ns =
		sc_min(slot.edge_ns, sc_add(c->last_ns, w->task[SC_TASK(id)].pet_ns -
								w->task[SC_TASK(id)].used_ns));
}

#endif
