/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The VCPU scheduler of one core.
 *
 * Problem: every VCPU is to get its capacity in every period, and the remaining time is to be
 * shared well, or given up where it would disturb other cores.
 * Rule: a VCPU is a sporadic server. Among those that have budget (foreground) the one of the
 * shortest period runs, the lower id first among equals (rate monotonic; maracas, section II-A). If
 * none has, the core is in background mode, and one that waits for its replenishment may run
 * (maracas, section III):
 *   least time     the one with the least background time so far, until the core leaves background
 *                  mode;
 *   keep           the one that ran before, or else the one that is replenished first;
 *   least memory   the least memory-intensive one.
 * Where background time is not allowed (throttle.h), or no VCPU is runnable, the core idles.
 *
 * Every call with a time first settles: the time since the last one is charged to the VCPU that
 * ran, and due replenishments are made. Then it picks; the caller runs `current` until `until_ns`
 * at the latest, and then calls sc_vcpu_tick. All calls on a core must be serialised. Each call
 * with a time picks, sc_vcpu_add too, unless it is refused: then nothing changes. While a core is
 * paused (an interrupt thread, a real-time task or the switch to the pick has it) no VCPU is
 * charged; a strict server's budget then counts from the resumption.
 *
 * A VCPU that moves to another core is taken with its budget (sc_vcpu_take) and put there
 * (sc_vcpu_put): replenishments keep their times, so that it has at most its capacity in a period,
 * on any core.
 *
 * Invariants: a runnable VCPU is in the foreground heap if it has budget at last_ns, and otherwise
 * in the waiting heap (and in the background heap, if the policy orders it otherwise than by
 * replenishment). The field until_ns is after last_ns. Background time consumes no budget. Known
 * limits: a VCPU that arrives has no background time yet, and so gets all of it until it has caught
 * up with the others; a late tick takes budget in advance (sporadic_server.h). SC_SERVER_STRICT
 * servers wake whenever they come to the core. Cost: O(log n), and O(log n) for each replenishment
 * that has fallen due since the last call: each of them is owed to one depletion, but 4096 at once
 * take some 0.3 ms. In BPF they are made by bpf_loop (Linux 5.17). 368 bytes for each of
 * SC_MAX_TASKS.
 */
#ifndef SOLOCORE_VCPU_H
#define SOLOCORE_VCPU_H

#include "heap.h"
#include "sporadic_server.h"

/* Policies for background time. */
#define SC_BACKGROUND_LEAST_TIME 0u
#define SC_BACKGROUND_KEEP 1u
#define SC_BACKGROUND_LEAST_MEMORY 2u

/* States of a VCPU. */
#define SC_VCPU_ABSENT 0u
#define SC_VCPU_BLOCKED 1u
#define SC_VCPU_FOREGROUND 2u /* runnable, with budget */
#define SC_VCPU_BACKGROUND 3u /* runnable, waiting for its replenishment */

/* Modes of the core. */
#define SC_MODE_IDLE 0u
#define SC_MODE_FOREGROUND 1u
#define SC_MODE_BACKGROUND 2u

struct sc_vcpu {
	struct sc_server server;
	sc_u64 foreground_ns; /* time it ran with budget */
	sc_u64 background_ns; /* time it ran without (BGT) */
	sc_u64 intensity;     /* its use of memory, in any unit */
	sc_u32 state;	      /* SC_VCPU_... */
	sc_u32 reserved;
};

struct sc_vcpu_core {
	sc_u64 last_ns;	      /* time of the last call */
	sc_u64 until_ns;      /* end of the pick; SC_UNLIMITED if nothing is due */
	sc_u64 background_ns; /* background time of all its VCPUs, also of those that have left */
	sc_u32 policy;	      /* SC_BACKGROUND_... */
	sc_u32 allowed;	      /* 1: background time may be used */
	sc_u32 current;	      /* the pick: SC_NONE when idle */
	sc_u32 mode;	      /* SC_MODE_... */
	sc_u32 paused;	      /* 1: the picked VCPU does not run */
	sc_u32 reserved;
	struct sc_heap foreground; /* key: period */
	struct sc_heap waiting;	   /* key: time of the replenishment */
	struct sc_heap background; /* of the waiting ones; key: background time or intensity */
	struct sc_vcpu vcpu[SC_MAX_TASKS];
};

/* A core without VCPUs, in zeroed memory. 0 if the policy is unknown. */
SC_FN sc_u32 sc_vcpu_init(struct sc_vcpu_core *c, sc_u32 policy, sc_u64 now_ns)
{
	if (policy > SC_BACKGROUND_LEAST_MEMORY)
		return 0;
	c->last_ns = sc_time(now_ns);
	c->until_ns = SC_UNLIMITED;
	c->background_ns = 0;
	c->policy = policy;
	c->allowed = 1;
	c->current = SC_NONE;
	c->mode = SC_MODE_IDLE;
	c->paused = 0;
	return 1;
}

/* SC_VCPU_ABSENT if there is no such VCPU. */
SC_FN sc_u32 sc_vcpu_state(const struct sc_vcpu_core *c, sc_u32 id)
{
	return id < SC_MAX_TASKS ? c->vcpu[SC_TASK(id)].state : SC_VCPU_ABSENT;
}

/* Takes a VCPU out of the heaps. */
SC_FN void sc_vcpu_dequeue(struct sc_vcpu_core *c, sc_u32 id)
{
	if (id >= SC_MAX_TASKS)
		return;
	sc_heap_remove(&c->foreground, id);
	sc_heap_remove(&c->waiting, id);
	sc_heap_remove(&c->background, id);
}

/* Puts a runnable VCPU that is in no heap into the heaps for its state at last_ns. */
SC_FN void sc_vcpu_enqueue(struct sc_vcpu_core *c, sc_u32 id)
{
	struct sc_vcpu *v;

	if (id >= SC_MAX_TASKS)
		return;
	v = &c->vcpu[SC_TASK(id)];
	if (sc_server_available(&v->server, c->last_ns) != 0) {
		v->state = SC_VCPU_FOREGROUND;
		sc_heap_push(&c->foreground, v->server.period_ns, id);
		return;
	}
	v->state = SC_VCPU_BACKGROUND;
	sc_heap_push(&c->waiting, sc_server_next(&v->server), id);
	if (c->policy != SC_BACKGROUND_KEEP)
		sc_heap_push(&c->background,
			     c->policy == SC_BACKGROUND_LEAST_TIME ? v->background_ns
								   : v->intensity,
			     id);
}

/* Charges the VCPU that ran for ran_ns, and queues it again if that moves it. */
SC_FN void sc_vcpu_charge(struct sc_vcpu_core *c, sc_u64 ran_ns)
{
	sc_u32 id = c->current;
	struct sc_vcpu *v;

	if (ran_ns == 0 || id >= SC_MAX_TASKS)
		return;
	v = &c->vcpu[SC_TASK(id)];
	if (c->mode == SC_MODE_FOREGROUND) {
		sc_server_charge(&v->server, ran_ns);
		v->foreground_ns = sc_add(v->foreground_ns, ran_ns);
		if (sc_server_available(&v->server, c->last_ns) != 0)
			return;
	} else {
		v->background_ns = sc_add(v->background_ns, ran_ns);
		c->background_ns = sc_add(c->background_ns, ran_ns);
	}
	sc_vcpu_dequeue(c, id);
	sc_vcpu_enqueue(c, id);
}

/* Makes the first replenishment, if it is due. 0 if it is not. */
SC_FN sc_u32 sc_vcpu_replenish_one(struct sc_vcpu_core *c)
{
	sc_u32 id = sc_heap_top(&c->waiting);

	if (id >= SC_MAX_TASKS || sc_heap_top_key(&c->waiting) > c->last_ns)
		return 0;
	sc_vcpu_dequeue(c, id);
	sc_vcpu_enqueue(c, id);
	return 1;
}

/* Makes all replenishments that are due. */
#ifdef __BPF__
/*
 * The verifier follows a loop turn by turn, which is too much for heaps; it walks the body of
 * bpf_loop once.
 */
static long (*const sc_vcpu_loop)(sc_u32 turns, void *body, void *context,
				  sc_u64 flags) = (void *)181;

static long sc_vcpu_replenish_turn(sc_u32 turn, void *context)
{
	struct sc_vcpu_core **c = context;

	(void)turn;
	return !sc_vcpu_replenish_one(*c);
}

SC_FN void sc_vcpu_replenish(struct sc_vcpu_core *c)
{
	sc_vcpu_loop(SC_MAX_TASKS, sc_vcpu_replenish_turn, &c, 0);
}
#else
SC_FN void sc_vcpu_replenish(struct sc_vcpu_core *c)
{
	sc_u32 turn;

	for (turn = 0; turn < SC_MAX_TASKS; turn++)
		if (!sc_vcpu_replenish_one(c))
			break;
}
#endif

/* Brings the core to now_ns. */
SC_SUBPROGRAM sc_u32 sc_vcpu_settle(struct sc_vcpu_core *c, sc_u64 now_ns)
{
	sc_u64 now, ran;

	if (!c)
		return 0;
	now = sc_max(sc_time(now_ns), c->last_ns);
	ran = now - c->last_ns;
	c->last_ns = now;
	if (!c->paused)
		sc_vcpu_charge(c, ran);
	if (sc_heap_top_key(&c->waiting) <= now)
		sc_vcpu_replenish(c);
	return 1;
}

/* The waiting VCPU that gets background time, or SC_NONE. */
SC_FN sc_u32 sc_vcpu_pick_background(const struct sc_vcpu_core *c)
{
	sc_u32 stays = c->policy == SC_BACKGROUND_KEEP ||
		       (c->policy == SC_BACKGROUND_LEAST_TIME && c->mode == SC_MODE_BACKGROUND);

	if (!c->allowed)
		return SC_NONE;
	if (stays && sc_heap_contains(&c->waiting, c->current))
		return c->current;
	return c->policy == SC_BACKGROUND_KEEP ? sc_heap_top(&c->waiting)
					       : sc_heap_top(&c->background);
}

/* Lets a VCPU with budget run; returns the time at which it has to stop. */
SC_FN sc_u64 sc_vcpu_dispatch(struct sc_vcpu_core *c, sc_u32 id)
{
	struct sc_server *s;

	if (id >= SC_MAX_TASKS)
		return c->last_ns;
	s = &c->vcpu[SC_TASK(id)].server;
	if ((s->flags & SC_SERVER_STRICT) != 0 &&
	    (c->mode != SC_MODE_FOREGROUND || c->current != id))
		sc_server_wake(s, c->last_ns);
	return c->last_ns + sc_server_available(s, c->last_ns);
}

/* Decides the running VCPU from last_ns on. */
SC_SUBPROGRAM sc_u32 sc_vcpu_pick(struct sc_vcpu_core *c)
{
	sc_u64 replenished;
	sc_u32 id;

	if (!c)
		return 0;
	id = sc_heap_top(&c->foreground);
	replenished = sc_heap_top_key(&c->waiting);
	if (id != SC_NONE) {
		c->until_ns = sc_min(sc_vcpu_dispatch(c, id), replenished);
		c->mode = SC_MODE_FOREGROUND;
	} else {
		c->until_ns = replenished;
		id = sc_vcpu_pick_background(c);
		c->mode = id != SC_NONE ? SC_MODE_BACKGROUND : SC_MODE_IDLE;
	}
	c->current = id;
	return 1;
}

/* The time is until_ns, or any other. */
SC_FN void sc_vcpu_tick(struct sc_vcpu_core *c, sc_u64 now_ns)
{
	sc_vcpu_settle(c, now_ns);
	sc_vcpu_pick(c);
}

/* The picked VCPU does not run from now on, until sc_vcpu_resume. Does not pick. */
SC_FN void sc_vcpu_pause(struct sc_vcpu_core *c, sc_u64 now_ns)
{
	sc_vcpu_settle(c, now_ns);
	c->paused = 1;
}

/* The picked VCPU runs from now on. */
SC_FN void sc_vcpu_resume(struct sc_vcpu_core *c, sc_u64 now_ns)
{
	sc_u32 id = c->current;

	sc_vcpu_settle(c, now_ns);
	if (c->paused && c->mode == SC_MODE_FOREGROUND && id < SC_MAX_TASKS &&
	    (c->vcpu[SC_TASK(id)].server.flags & SC_SERVER_STRICT) != 0)
		sc_server_wake(&c->vcpu[SC_TASK(id)].server, c->last_ns);
	c->paused = 0;
	sc_vcpu_pick(c);
}

/* A blocked VCPU with its whole capacity. 0 if the id is too large or taken, or the server invalid.
 * */
SC_FN sc_u32 sc_vcpu_add(struct sc_vcpu_core *c, sc_u32 id, const struct sc_server_config *config,
			 sc_u64 now_ns)
{
	struct sc_vcpu *v;

	if (id >= SC_MAX_TASKS)
		return 0;
	v = &c->vcpu[SC_TASK(id)];
	if (v->state != SC_VCPU_ABSENT ||
	    !sc_server_init(&v->server, config, sc_max(sc_time(now_ns), c->last_ns)))
		return 0;
	v->foreground_ns = 0;
	v->background_ns = 0;
	v->intensity = 0;
	v->state = SC_VCPU_BLOCKED;
	sc_vcpu_tick(c, now_ns);
	return 1;
}

/* The VCPU leaves the core. 0 if it is absent. */
SC_FN sc_u32 sc_vcpu_remove(struct sc_vcpu_core *c, sc_u32 id, sc_u64 now_ns)
{
	if (id >= SC_MAX_TASKS || sc_vcpu_state(c, id) == SC_VCPU_ABSENT)
		return 0;
	sc_vcpu_settle(c, now_ns);
	sc_vcpu_dequeue(c, id);
	c->vcpu[SC_TASK(id)].state = SC_VCPU_ABSENT;
	sc_vcpu_pick(c);
	return 1;
}

/* As sc_vcpu_remove, for a VCPU that moves; `out` is the argument for sc_vcpu_put. */
SC_FN sc_u32 sc_vcpu_take(struct sc_vcpu_core *c, sc_u32 id, struct sc_vcpu *out, sc_u64 now_ns)
{
	if (id >= SC_MAX_TASKS || sc_vcpu_state(c, id) == SC_VCPU_ABSENT)
		return 0;
	sc_vcpu_settle(c, now_ns);
	sc_vcpu_dequeue(c, id);
	*out = c->vcpu[SC_TASK(id)];
	c->vcpu[SC_TASK(id)].state = SC_VCPU_ABSENT;
	sc_vcpu_pick(c);
	return 1;
}

/* A VCPU that was taken off another core, blocked, with the budget that it had. 0 if the id is too
 * large or taken, or it never was a VCPU. */
SC_FN sc_u32 sc_vcpu_put(struct sc_vcpu_core *c, sc_u32 id, const struct sc_vcpu *in, sc_u64 now_ns)
{
	struct sc_vcpu *v;

	if (id >= SC_MAX_TASKS || in->state == SC_VCPU_ABSENT)
		return 0;
	v = &c->vcpu[SC_TASK(id)];
	if (v->state != SC_VCPU_ABSENT)
		return 0;
	*v = *in;
	v->state = SC_VCPU_BLOCKED;
	sc_vcpu_tick(c, now_ns);
	return 1;
}

/* The VCPU has work; no change if it had some. 0 if it is absent. */
SC_FN sc_u32 sc_vcpu_wake(struct sc_vcpu_core *c, sc_u32 id, sc_u64 now_ns)
{
	if (id >= SC_MAX_TASKS || sc_vcpu_state(c, id) == SC_VCPU_ABSENT)
		return 0;
	sc_vcpu_settle(c, now_ns);
	if (sc_vcpu_state(c, id) == SC_VCPU_BLOCKED) {
		sc_server_wake(&c->vcpu[SC_TASK(id)].server, c->last_ns);
		sc_vcpu_enqueue(c, id);
	}
	sc_vcpu_pick(c);
	return 1;
}

/* The VCPU has no more work. 0 if it is absent. */
SC_FN sc_u32 sc_vcpu_block(struct sc_vcpu_core *c, sc_u32 id, sc_u64 now_ns)
{
	if (id >= SC_MAX_TASKS || sc_vcpu_state(c, id) == SC_VCPU_ABSENT)
		return 0;
	sc_vcpu_settle(c, now_ns);
	sc_vcpu_dequeue(c, id);
	c->vcpu[SC_TASK(id)].state = SC_VCPU_BLOCKED;
	sc_vcpu_pick(c);
	return 1;
}

/* Whether background time may be used from now on. */
SC_FN void sc_vcpu_allow(struct sc_vcpu_core *c, sc_u32 allowed, sc_u64 now_ns)
{
	sc_vcpu_settle(c, now_ns);
	c->allowed = allowed != 0;
	sc_vcpu_pick(c);
}

/* Sets the memory intensity of a VCPU; it counts from the next pick on. 0 if it is absent. */
SC_FN sc_u32 sc_vcpu_intensity(struct sc_vcpu_core *c, sc_u32 id, sc_u64 value)
{
	if (id >= SC_MAX_TASKS || sc_vcpu_state(c, id) == SC_VCPU_ABSENT)
		return 0;
	c->vcpu[SC_TASK(id)].intensity = value;
	if (c->policy == SC_BACKGROUND_LEAST_MEMORY && sc_heap_remove(&c->background, id))
		sc_heap_push(&c->background, value, id);
	return 1;
}

#endif
