/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Operations: 0 init (now, a: policy), 1 add (id, now, a: capacity, b: period, c: flags, d: limit),
 * 2 remove (id, now), 3 wake (id, now), 4 block (id, now), 5 tick (now), 6 allow (now, a: 0 or 1),
 * 7 intensity (id, a: value), 8 state (id), 9 pause (now), 10 resume (now), 11 take (id, now), 12
 * put (id, now; what was taken last). Answers: done (0, 1, 7, 12); state, background time,
 * available, time of the first replenishment, foreground time (8); otherwise current, mode, until,
 * how many in the foreground, how many waiting. */
#ifndef SOLOCORE_TESTS_DRIVE_VCPU_H
#define SOLOCORE_TESTS_DRIVE_VCPU_H

#include "../driver.h"
#include <solocore/vcpu.h>

struct sc_world_vcpu {
	sc_u64 ready; /* init has been done; it is refused from then on */
	struct sc_vcpu taken;
	struct sc_vcpu_core core;
};

SC_FN sc_u32 sc_drive_vcpu_add(struct sc_vcpu_core *core, const struct sc_event *e)
{
	struct sc_server_config config;

	if (e->c > SC_NONE || e->d > SC_NONE)
		return 0;
	config.capacity_ns = e->a;
	config.period_ns = e->b;
	config.flags = (sc_u32)e->c;
	config.limit = (sc_u32)e->d;
	return sc_vcpu_add(core, e->id, &config, e->now);
}

SC_FN void sc_drive_vcpu_state(const struct sc_vcpu_core *core, sc_u32 id, struct sc_answer *out)
{
	const struct sc_vcpu *v;

	if (id >= SC_MAX_TASKS || sc_vcpu_state(core, id) == SC_VCPU_ABSENT)
		return;
	v = &core->vcpu[SC_TASK(id)];
	out->word[0] = v->state;
	out->word[1] = v->background_ns;
	out->word[2] = sc_server_available(&v->server, core->last_ns);
	out->word[3] = sc_server_next(&v->server);
	out->word[4] = v->foreground_ns;
}

/* Operations 2 to 6 and 9 to 11. 0 if refused. */
SC_FN sc_u32 sc_drive_vcpu_change(struct sc_world_vcpu *w, const struct sc_event *e)
{
	struct sc_vcpu_core *core = &w->core;

	switch (e->op) {
	case 2:
		return sc_vcpu_remove(core, e->id, e->now);
	case 3:
		return sc_vcpu_wake(core, e->id, e->now);
	case 4:
		return sc_vcpu_block(core, e->id, e->now);
	case 5:
		sc_vcpu_tick(core, e->now);
		return 1;
	case 9:
		sc_vcpu_pause(core, e->now);
		return 1;
	case 10:
		sc_vcpu_resume(core, e->now);
		return 1;
	case 11:
		return sc_vcpu_take(core, e->id, &w->taken, e->now);
	default:
		sc_vcpu_allow(core, e->a != 0, e->now);
		return 1;
	}
}

SC_FN void sc_drive_vcpu(struct sc_world_vcpu *w, const struct sc_event *e, struct sc_answer *out)
{
	struct sc_vcpu_core *core = &w->core;

	sc_answer_clear(out);
	if (e->op == 0 && !w->ready && e->a <= SC_BACKGROUND_LEAST_MEMORY)
		out->word[0] = w->ready = sc_vcpu_init(core, (sc_u32)e->a, e->now);
	if (e->op == 0 || e->op > 12 || !w->ready)
		return;
	if (e->op == 1) {
		out->word[0] = sc_drive_vcpu_add(core, e);
	} else if (e->op == 7) {
		out->word[0] = sc_vcpu_intensity(core, e->id, e->a);
	} else if (e->op == 8) {
		sc_drive_vcpu_state(core, e->id, out);
	} else if (e->op == 12) {
		out->word[0] = sc_vcpu_put(core, e->id, &w->taken, e->now);
	} else if (sc_drive_vcpu_change(w, e)) {
		out->word[0] = core->current;
		out->word[1] = core->mode;
		out->word[2] = core->until_ns;
		out->word[3] = core->foreground.count;
		out->word[4] = core->waiting.count;
	}
}

#endif
