/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SOLOCORE_TESTS_INVARIANTS_VCPU_H
#define SOLOCORE_TESTS_INVARIANTS_VCPU_H

#include "heap.h"
#include "sporadic_server.h"

static inline const char *sc_vcpu_broken(const struct sc_vcpu_core *c, sc_u32 id)
{
	const struct sc_vcpu *v = &c->vcpu[id];
	sc_u32 waiting = v->state == SC_VCPU_BACKGROUND;

	if (v->state > SC_VCPU_BACKGROUND)
		return "state of a VCPU";
	if (sc_heap_contains(&c->foreground, id) != (v->state == SC_VCPU_FOREGROUND))
		return "members of the foreground";
	if (sc_heap_contains(&c->waiting, id) != waiting ||
	    sc_heap_contains(&c->background, id) != (waiting && c->policy != SC_BACKGROUND_KEEP))
		return "members of the background";
	return v->state != SC_VCPU_ABSENT ? sc_server_broken(&v->server) : 0;
}

static inline const char *sc_check_vcpu(const struct sc_world_vcpu *w, const struct sc_event *e,
					const struct sc_answer *out)
{
	const struct sc_vcpu_core *c = &w->core;
	const char *broken = sc_heap_broken(&c->foreground);
	sc_u64 background = 0;
	sc_u32 id;

	(void)e;
	(void)out;
	broken = broken ? broken : sc_heap_broken(&c->waiting);
	broken = broken ? broken : sc_heap_broken(&c->background);
	for (id = 0; id < SC_MAX_TASKS && !broken; id++) {
		broken = sc_vcpu_broken(c, id);
		if (c->vcpu[id].state != SC_VCPU_ABSENT)
			background = sc_add(background, c->vcpu[id].background_ns);
	}
	if (!broken && background > c->background_ns)
		broken = "sum of the background time";
	if (broken || !w->ready)
		return broken;
	if (!c->paused && c->until_ns <= c->last_ns)
		return "a pick that has ended";
	if (c->mode == SC_MODE_IDLE)
		return c->current == SC_NONE ? 0 : "an idle core that runs something";
	/* A VCPU that has left, or was not queried since, may still be named. */
	return c->current < SC_MAX_TASKS ? 0 : "nothing runs though the core is not idle";
}

#endif
