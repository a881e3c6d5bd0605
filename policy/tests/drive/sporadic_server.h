/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Operations: 0 init (now, a: capacity, b: period, c: flags, d: limit), 1 wake (now), 2 charge
 * (now, a: used), 3 available (now), 4 entry (id: which). Answers: done (0); time, amount, sum of
 * the amounts (4); otherwise available, time of the first entry, count, amount of the first entry
 * (not after wake). */
#ifndef SOLOCORE_TESTS_DRIVE_SPORADIC_SERVER_H
#define SOLOCORE_TESTS_DRIVE_SPORADIC_SERVER_H

#include "../driver.h"
#include <solocore/sporadic_server.h>

struct sc_world_sporadic_server {
	sc_u64 ready; /* init has been done; it is refused from then on */
	struct sc_server server;
};

SC_FN sc_u32 sc_drive_sporadic_server_init(struct sc_server *s, const struct sc_event *e)
{
	struct sc_server_config config;

	if (e->c > SC_NONE || e->d > SC_NONE)
		return 0;
	config.capacity_ns = e->a;
	config.period_ns = e->b;
	config.flags = (sc_u32)e->c;
	config.limit = (sc_u32)e->d;
	return sc_server_init(s, &config, e->now);
}

SC_FN void sc_drive_sporadic_server_entry(const struct sc_server *s, sc_u32 k,
					  struct sc_answer *out)
{
	sc_u64 sum = 0;
	sc_u32 i;

	if (k >= s->count)
		return;
	for (i = 0; i < SC_MAX_REPLENISHMENTS; i++)
		if (i < s->count)
			sum += s->entry[SC_SERVER_AT(s, i)].amount_ns;
	out->word[0] = s->entry[SC_SERVER_AT(s, k)].time_ns;
	out->word[1] = s->entry[SC_SERVER_AT(s, k)].amount_ns;
	out->word[2] = sum;
}

SC_FN void sc_drive_sporadic_server(struct sc_world_sporadic_server *w, const struct sc_event *e,
				    struct sc_answer *out)
{
	struct sc_server *s = &w->server;

	sc_answer_clear(out);
	if (e->op == 0 && !w->ready)
		out->word[0] = w->ready = sc_drive_sporadic_server_init(s, e);
	if (e->op == 0 || e->op > 4 || !w->ready)
		return;
	if (e->op == 4) {
		sc_drive_sporadic_server_entry(s, e->id, out);
		return;
	}
	if (e->op == 1)
		sc_server_wake(s, e->now);
	if (e->op == 2)
		sc_server_charge(s, e->a);
	out->word[0] = sc_server_available(s, e->now);
	out->word[1] = sc_server_next(s);
	out->word[2] = s->count;
	out->word[3] = e->op == 1 ? 0 : s->entry[SC_SERVER_AT(s, 0)].amount_ns;
}

#endif
