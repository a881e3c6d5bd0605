/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SOLOCORE_TESTS_INVARIANTS_TIME_TABLE_H
#define SOLOCORE_TESTS_INVARIANTS_TIME_TABLE_H

#include "../driver.h"
#include <solocore/time_table.h>

/* The broken invariant of a table, or 0. */
static inline const char *sc_table_broken(const struct sc_table *t)
{
	sc_u64 end = 0;
	sc_u32 i;

	if (t->count > SC_MAX_TASKS)
		return "count of a table";
	for (i = 0; i < t->count; i++) {
		if (t->entry[i].start_ns < end || t->entry[i].end_ns <= t->entry[i].start_ns)
			return "order of a table";
		end = t->entry[i].end_ns;
	}
	return end <= t->frame_ns ? 0 : "frame of a table";
}

/* The index of the active entry at an offset in the frame, by looking at every entry; SC_NONE. */
static inline sc_u32 sc_table_active(const struct sc_table *t, sc_u64 offset_ns)
{
	sc_u32 i;

	for (i = 0; i < t->count; i++)
		if (t->entry[i].start_ns <= offset_ns && offset_ns < t->entry[i].end_ns)
			return i;
	return SC_NONE;
}

#ifdef SOLOCORE_TESTS_DRIVE_TIME_TABLE_H
static inline const char *sc_lookup_broken(const struct sc_table *t, const struct sc_event *e,
					   const struct sc_answer *out)
{
	sc_u64 now = sc_time(e->now), edge = out->word[1];
	sc_u32 active;

	if (edge <= now)
		return "an edge that has passed";
	if (now < t->origin_ns)
		return out->word[0] == SC_NONE ? 0 : "something is active before the origin";
	active = sc_table_active(t, (now - t->origin_ns) % t->frame_ns);
	if (out->word[0] != (active == SC_NONE ? SC_NONE : t->entry[active].id))
		return "what is active";
	if (out->word[2] > now || (active == SC_NONE && out->word[2] != 0))
		return "start of what is active";
	if (t->count != 0 && sc_table_active(t, (edge - 1 - t->origin_ns) % t->frame_ns) != active)
		return "an edge that comes too late";
	return 0;
}

static inline const char *sc_check_time_table(const struct sc_world_time_table *w,
					      const struct sc_event *e, const struct sc_answer *out)
{
	if (w->ready && e->op == 2 && sc_lookup_broken(&w->table, e, out))
		return sc_lookup_broken(&w->table, e, out);
	return sc_table_broken(&w->table);
}
#endif

#endif
