/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory bandwidth lock (BWLOCK).
 *
 * Problem: the memory-performance critical sections of soft real-time tasks lose time to the
 * accesses of other cores, while outside of such sections no task needs protection.
 * Rule 1: a real-time task is never throttled.
 * Rule 2: as long as the running task of some core holds the lock, other tasks than real-time ones
 * (idle, too) may make `min_budget` accesses per period and core, otherwise `max_budget`. Any
 * number of cores may hold the lock; a preempted holder releases it and takes it again when it next
 * runs (bwlock, sections 3 to 3.3, Algorithm 1).
 * Formula: budget = realtime ? unlimited : holders > 0 ? min_budget : max_budget; throttled = used
 * >= budget. Worked values, max unlimited and min 100: used 250 in this period; a task elsewhere
 * locks, the core asks again and stops; the task unlocks, the core asks again and goes on.
 *
 * Differences from the paper: a change of the lock may be passed on at once (sc_bwlock_update),
 * where the paper waits for the next period; the number of holders is kept instead of counted;
 * sections nest.
 * Invariants: holders is the number of cores whose `holding` is 1. A core holds exactly while its
 * running task has a depth above 0, and depth > 0 implies realtime. A real-time core is never
 * throttled. A task runs on at most one core.
 * Known limits: a change of the lock reaches another core with its next switch, tick or update;
 * sc_bwlock_ account goes on using the budget of the last one of these. A switch starts no period,
 * only the tick does. The accesses of a real-time task must be accounted before it exits, or the
 * next switch charges them to the idle core. Accesses of real-time tasks are not limited at all, so
 * they do slow each other.
 * Writers: a core its own struct and its running task's, and any core a task that does not run;
 * `holders` is atomic. The caller says who changes `min_budget` (bpf/lock.h: each core has a lock).
 * Cost: O(1).
 */
#ifndef SOLOCORE_BWLOCK_H
#define SOLOCORE_BWLOCK_H

#include "types.h"

struct sc_bwlock {
	sc_u64 period_ns;
	sc_u64 max_budget; /* accesses per period and core while no core holds the lock; may be
			      SC_UNLIMITED */
	sc_u64 min_budget; /* accesses per period and core while some core does */
	sc_u64 holders;	   /* cores with a running task that holds the lock */
};

struct sc_bwlock_core {
	sc_u64 used;	  /* accesses of tasks that are not real-time, in this period */
	sc_u64 budget;	  /* accesses per period as of the last switch, tick or update */
	sc_u64 next_ns;	  /* start of the next period */
	sc_u32 id;	  /* number of this core */
	sc_u32 busy;	  /* 1: a task runs, 0: idle */
	sc_u32 realtime;  /* 1: the running task is real-time */
	sc_u32 holding;	  /* 1: this core is one of the holders */
	sc_u32 throttled; /* 1: the core must not run its task */
	sc_u32 reserved;
};

struct sc_bwlock_task {
	sc_u32 alive;	 /* 0: the other members mean nothing */
	sc_u32 realtime; /* 0 or 1 */
	sc_u32 depth;	 /* sections it is in */
	sc_u32 core;	 /* core on which it runs, SC_NONE if it does not */
};

/*
 * Another budget beside the lock. A core keeps the budget of its last switch, tick or update until
 * the next one of these, so a caller that does it just before a period's tick gives each period one
 * budget. Returns 0, without any change, unless 1 <= min <= max, with min limited.
 */
SC_FN sc_u32 sc_bwlock_limit(struct sc_bwlock *l, sc_u64 min_budget)
{
	if (min_budget == 0 || min_budget > SC_MAX_ACCESSES || min_budget > l->max_budget)
		return 0;
	l->min_budget = min_budget;
	return 1;
}

/* 0 if the period is not a valid span, or unless 1 <= min <= max, with min limited. */
SC_FN sc_u32 sc_bwlock_init(struct sc_bwlock *l, sc_u64 period_ns, sc_u64 max_budget,
			    sc_u64 min_budget)
{
	if (!sc_span_valid(period_ns) || min_budget == 0 || min_budget > SC_MAX_ACCESSES)
		return 0;
	if (max_budget < min_budget || (max_budget > SC_MAX_ACCESSES && max_budget != SC_UNLIMITED))
		return 0;
	l->period_ns = period_ns;
	l->max_budget = max_budget;
	l->min_budget = min_budget;
	l->holders = 0;
	return 1;
}

/* Core `id` starts idle, with its first period at now_ns. The lock must be initialised. */
SC_FN void sc_bwlock_core_init(const struct sc_bwlock *l, struct sc_bwlock_core *c, sc_u32 id,
			       sc_u64 now_ns)
{
	c->used = 0;
	c->budget = l->max_budget;
	c->next_ns = sc_time(now_ns) + l->period_ns;
	c->id = id;
	c->busy = 0;
	c->realtime = 0;
	c->holding = 0;
	c->throttled = 0;
	c->reserved = 0;
}

/* A new task, not running. 0 if it is alive already, or realtime is neither 0 nor 1. */
SC_FN sc_u32 sc_bwlock_task_init(struct sc_bwlock_task *t, sc_u32 realtime)
{
	if (t->alive || realtime > 1)
		return 0;
	t->alive = 1;
	t->realtime = realtime;
	t->depth = 0;
	t->core = SC_NONE;
	return 1;
}

/* Makes the core a holder from now on, or ends that. */
SC_FN void sc_bwlock_hold(struct sc_bwlock *l, struct sc_bwlock_core *c, sc_u32 holding)
{
	if (c->holding == holding)
		return;
	c->holding = holding;
	sc_fetch_add(&l->holders, holding ? 1 : SC_UNLIMITED /* -1 */);
}

/* Is the task alive, and `c` the core it runs on, if it runs? */
SC_FN sc_u32 sc_bwlock_task_valid(const struct sc_bwlock_core *c, const struct sc_bwlock_task *t)
{
	return t->alive && (t->core == SC_NONE || (c && c->id == t->core));
}

/*
 * The task enters a section. `c` is the core it runs on; not looked at, and may be 0, if it does
 * not run. 0 if it is dead, not real-time, or 2^32-1 sections deep. The other cores should then ask
 * for an update.
 */
SC_FN sc_u32 sc_bwlock_lock(struct sc_bwlock *l, struct sc_bwlock_core *c, struct sc_bwlock_task *t)
{
	if (!sc_bwlock_task_valid(c, t) || !t->realtime || t->depth == 0xffffffffu)
		return 0;
	t->depth++;
	if (t->core != SC_NONE)
		sc_bwlock_hold(l, c, 1);
	return 1;
}

/*
 * The task leaves a section. Returns 0 if it is dead or in no section. As for sc_bwlock_lock
 * otherwise.
 */
SC_FN sc_u32 sc_bwlock_unlock(struct sc_bwlock *l, struct sc_bwlock_core *c,
			      struct sc_bwlock_task *t)
{
	if (!sc_bwlock_task_valid(c, t) || t->depth == 0)
		return 0;
	t->depth--;
	if (t->depth == 0 && t->core != SC_NONE)
		sc_bwlock_hold(l, c, 0);
	return 1;
}

/*
 * Whether the running task may go on, by the present budget. Not sticky: a larger budget lets it go
 * on at once.
 */
SC_FN sc_u32 sc_bwlock_verdict(struct sc_bwlock_core *c)
{
	c->throttled = !c->realtime && c->budget != SC_UNLIMITED && c->used >= c->budget;
	return c->throttled ? SC_STOP : SC_GO;
}

/*
 * Rules 1 and 2, then the verdict: the update of a core after the lock was taken or released
 * elsewhere.
 */
SC_FN sc_u32 sc_bwlock_update(const struct sc_bwlock *l, struct sc_bwlock_core *c)
{
	if (c->realtime)
		c->budget = SC_UNLIMITED;
	else
		c->budget = sc_load(&l->holders) > 0 ? l->min_budget : l->max_budget;
	return sc_bwlock_verdict(c);
}

/* The running task made `accesses` accesses since the last call. The verdict. */
SC_FN sc_u32 sc_bwlock_account(struct sc_bwlock_core *c, sc_u64 accesses)
{
	if (!c->realtime)
		c->used = sc_add(c->used, accesses);
	return sc_bwlock_verdict(c);
}

/* Number of accesses after which the counter should interrupt. */
SC_FN sc_u64 sc_bwlock_sample(const struct sc_bwlock_core *c)
{
	return c->budget == SC_UNLIMITED ? SC_MAX_SAMPLE : sc_sample(sc_sub(c->budget, c->used));
}

/* The timer of the period; 1 if a new period has begun. A late timer skips the periods that passed.
 * */
SC_FN sc_u32 sc_bwlock_tick(const struct sc_bwlock *l, struct sc_bwlock_core *c, sc_u64 now_ns)
{
	sc_u64 now = sc_time(now_ns);
	sc_u32 began = 0;

	if (now >= c->next_ns && l->period_ns != 0) {
		c->next_ns += l->period_ns * ((now - c->next_ns) / l->period_ns + 1);
		c->used = 0;
		began = 1;
	}
	sc_bwlock_update(l, c);
	return began;
}

/*
 * The core switches from `prev` to `next` (0: idle); prev made `accesses` since the last call.
 * Returns 0 if prev does not run, or next is dead or runs elsewhere. The verdict is in
 * c->throttled. If the core held the lock before or holds it now, the other cores should ask for an
 * update.
 */
SC_FN sc_u32 sc_bwlock_switch(struct sc_bwlock *l, struct sc_bwlock_core *c,
			      struct sc_bwlock_task *prev, struct sc_bwlock_task *next,
			      sc_u64 accesses)
{
	if (prev ? !c->busy || !prev->alive || prev->core != c->id : c->busy)
		return 0;
	if (next && !sc_bwlock_task_valid(c, next))
		return 0;
	sc_bwlock_account(c, accesses);
	if (prev)
		prev->core = SC_NONE;
	c->busy = next ? 1 : 0;
	c->realtime = next ? next->realtime : 0;
	if (next)
		next->core = c->id;
	sc_bwlock_hold(l, c, next && next->depth > 0 ? 1 : 0);
	sc_bwlock_update(l, c);
	return 1;
}

/*
 * The task has exited, which ends its sections. `c` is the core on which it runs, which is idle
 * from then on; `c` is ignored, and may be 0, if the task does not run. Returns 0 if the task is
 * dead.
 */
SC_FN sc_u32 sc_bwlock_exit(struct sc_bwlock *l, struct sc_bwlock_core *c, struct sc_bwlock_task *t)
{
	if (!sc_bwlock_task_valid(c, t))
		return 0;
	if (t->core != SC_NONE) {
		sc_bwlock_hold(l, c, 0);
		c->busy = 0;
		c->realtime = 0;
	}
	t->alive = 0;
	t->depth = 0;
	t->core = SC_NONE;
	return 1;
}

#endif
