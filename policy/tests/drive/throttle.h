/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Operations: 0 init (a: cpus, b: rule, c: threshold, d: idle per mille) -> ok, 1 requests (id:
 * cpu, a: m) -> ok, 2 monitor (a: occupancy, b: requests) -> num_throttle, r_cur, r_high,
 * contended, 3 ran (id, a: ns) -> vtime, 4 allowed (id) -> 0/1, allowed in all. */
#ifndef SOLOCORE_TESTS_DRIVE_THROTTLE_H
#define SOLOCORE_TESTS_DRIVE_THROTTLE_H

#include "../driver.h"
#include <solocore/throttle.h>

#ifndef SC_WORLD_CPUS
#define SC_WORLD_CPUS 8u
#endif

struct sc_world_throttle {
	sc_u64 ready; /* init has been done; it is refused from then on */
	struct sc_throttle throttle;
};

SC_FN void sc_drive_throttle_init(struct sc_world_throttle *w, const struct sc_event *e,
				  struct sc_answer *out)
{
	if (w->ready || e->a > SC_WORLD_CPUS || e->b > SC_THROTTLE_RATE || e->d > 1000)
		return;
	w->ready = sc_throttle_init(&w->throttle, (sc_u32)e->a, (sc_u32)e->b, e->c, (sc_u32)e->d);
	out->word[0] = w->ready;
}

SC_FN void sc_drive_throttle_allowed(const struct sc_throttle *t, sc_u32 cpu, struct sc_answer *out)
{
	sc_u64 sum = t->zero;
	sc_u32 i;

	if (cpu >= t->cpus)
		return;
	out->word[0] = sc_throttle_allowed(t, cpu);
	for (i = 0; i < SC_WORLD_CPUS; i++)
		sum = (sum + sc_throttle_allowed(t, i)) | t->zero;
	out->word[1] = sum;
}

SC_FN void sc_drive_throttle(struct sc_world_throttle *w, const struct sc_event *e,
			     struct sc_answer *out)
{
	struct sc_throttle *t = &w->throttle;

	sc_answer_clear(out);
	if (e->op == 0)
		sc_drive_throttle_init(w, e, out);
	if (e->op == 0 || !w->ready)
		return;
	switch (e->op) {
	case 1:
		out->word[0] = sc_throttle_report(t, e->id, e->a);
		break;
	case 2:
		out->word[3] = sc_throttle_monitor(t, e->a, e->b);
		out->word[0] = t->num_throttle;
		out->word[1] = t->r_cur;
		out->word[2] = t->r_high;
		break;
	case 3:
		out->word[0] = sc_throttle_ran(t, e->id, e->a);
		break;
	case 4:
		sc_drive_throttle_allowed(t, e->id, out);
		break;
	}
}

#endif
