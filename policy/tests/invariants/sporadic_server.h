/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SOLOCORE_TESTS_INVARIANTS_SPORADIC_SERVER_H
#define SOLOCORE_TESTS_INVARIANTS_SPORADIC_SERVER_H

#include "../driver.h"
#include <solocore/sporadic_server.h>

/* The broken invariant of a server, or 0. */
static inline const char *sc_server_broken(const struct sc_server *s)
{
	sc_u64 sum = 0, end = 0;
	sc_u32 i;

	if (s->count == 0 || s->count > s->limit || s->first >= SC_MAX_REPLENISHMENTS)
		return "count of replenishments";
	for (i = 0; i < s->count; i++) {
		const struct sc_replenishment *r =
			&s->entry[(s->first + i) % SC_MAX_REPLENISHMENTS];

		if (r->amount_ns == 0 || (i > 0 && r->time_ns <= end))
			return "order of replenishments";
		sum += r->amount_ns;
		end = r->time_ns + r->amount_ns;
	}
	return sum == s->capacity_ns ? 0 : "sum of replenishments";
}

#ifdef SOLOCORE_TESTS_DRIVE_SPORADIC_SERVER_H
static inline const char *sc_check_sporadic_server(const struct sc_world_sporadic_server *w,
						   const struct sc_event *e,
						   const struct sc_answer *out)
{
	(void)e;
	(void)out;
	return w->ready ? sc_server_broken(&w->server) : 0;
}
#endif

#endif
