/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Operations: 0 init (a: period, b: chunk, c: sharing, d: cores), 1 core (id, now, a: reads, b:
 * writes, c: flags), 2 account (id, a: kind, b: accesses), 3 replenish (id, now), 4 resume (id), 5
 * request (id, a: kind, b: reservation), 6 state (id).
 */
#ifndef SOLOCORE_TESTS_DRIVE_MEMGUARD_H
#define SOLOCORE_TESTS_DRIVE_MEMGUARD_H

#include "../driver.h"
#include <solocore/memguard.h>

#ifndef SC_WORLD_CPUS
#define SC_WORLD_CPUS 8u
#endif

struct sc_world_memguard {
	sc_u64 ready;
	struct sc_memguard shared;
	sc_u64 present[SC_WORLD_CPUS];
	struct sc_memguard_core core[SC_WORLD_CPUS];
};

SC_FN void sc_drive_memguard_init(struct sc_world_memguard *w, const struct sc_event *e,
				  struct sc_answer *out)
{
	if (w->ready || e->c > SC_SHARE_PROPORTIONAL || e->d > SC_WORLD_CPUS)
		return;
	w->ready = sc_memguard_init(&w->shared, e->a, e->b, (sc_u32)e->c, (sc_u32)e->d);
	out->word[0] = w->ready;
}

SC_FN void sc_drive_memguard_core(struct sc_world_memguard *w, const struct sc_event *e,
				  struct sc_answer *out)
{
	sc_u64 reservation[SC_KINDS];

	if (w->present[SC_MASKED(e->id, SC_WORLD_CPUS)] || e->c > SC_NONE)
		return;
	reservation[SC_READ] = e->a;
	reservation[SC_WRITE] = e->b;
	out->word[0] = sc_memguard_core_init(&w->shared, &w->core[SC_MASKED(e->id, SC_WORLD_CPUS)],
					     reservation, (sc_u32)e->c, e->now);
	w->present[SC_MASKED(e->id, SC_WORLD_CPUS)] = out->word[0];
}

SC_FN void sc_drive_memguard_account(struct sc_memguard *g, struct sc_memguard_core *c,
				     const struct sc_event *e, struct sc_answer *out)
{
	sc_u32 kind = (sc_u32)(e->a & 1u);

	if (e->a >= SC_KINDS)
		return;
	out->word[0] = sc_memguard_account(g, c, kind, e->b);
	out->word[1] = sc_memguard_sample(c, kind);
	out->word[2] = c->used[kind];
	out->word[3] = c->budget[kind];
	out->word[4] = c->throttled;
}

SC_FN void sc_drive_memguard_replenish(struct sc_memguard *g, struct sc_memguard_core *c,
				       const struct sc_event *e, struct sc_answer *out)
{
	sc_u32 throttled = c->throttled;

	out->word[0] = sc_memguard_replenish(g, c, e->now);
	out->word[1] = throttled && !c->throttled;
	out->word[2] = c->budget[SC_READ];
	out->word[3] = c->budget[SC_WRITE];
	out->word[4] = c->next_ns;
	out->word[5] =
		(g->pool[SC_READ] & SC_MAX_ACCESSES) << 32 | (g->pool[SC_WRITE] & SC_MAX_ACCESSES);
}

SC_FN void sc_drive_memguard(struct sc_world_memguard *w, const struct sc_event *e,
			     struct sc_answer *out)
{
	struct sc_memguard *g = &w->shared;
	struct sc_memguard_core *c;

	sc_answer_clear(out);
	if (e->op == 0) {
		sc_drive_memguard_init(w, e, out);
		return;
	}
	if (!w->ready || e->id >= SC_WORLD_CPUS || e->id >= g->cores)
		return;
	if (e->op == 1) {
		sc_drive_memguard_core(w, e, out);
		return;
	}
	if (!w->present[SC_MASKED(e->id, SC_WORLD_CPUS)])
		return;
	c = &w->core[SC_MASKED(e->id, SC_WORLD_CPUS)];
	switch (e->op) {
	case 2:
		sc_drive_memguard_account(g, c, e, out);
		break;
	case 3:
		sc_drive_memguard_replenish(g, c, e, out);
		break;
	case 4:
		out->word[0] = sc_memguard_resume(g, c);
		out->word[1] = sc_memguard_sample(c, SC_READ);
		out->word[2] = sc_memguard_sample(c, SC_WRITE);
		out->word[3] = c->round;
		break;
	case 5:
		out->word[0] = e->a < SC_KINDS ? sc_memguard_request(c, (sc_u32)e->a, e->b) : 0;
		break;
	case 6:
		out->word[0] = c->used[SC_READ];
		out->word[1] = c->used[SC_WRITE];
		out->word[2] = c->budget[SC_READ];
		out->word[3] = c->budget[SC_WRITE];
		out->word[4] = c->predicted[SC_READ];
		out->word[5] = c->predicted[SC_WRITE];
		break;
	}
}

#endif
