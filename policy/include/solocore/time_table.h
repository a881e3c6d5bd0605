/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Time tables: they give the active partition, task or transfer at a given time.
 *
 * Problem: IMA partitions, the transfers of the I/O core and Level-A tasks run at fixed times,
 * so that no event at run time can move them (single-core-equivalence, sections 2.4 and 4;
 * mc2-os-isolation, section 2). Rule: a table repeats every major frame from its origin on. In a
 * frame, entry k is active in [start, end). Each core, and the I/O core, has a table with a frame
 * of its own length. Invariants: entries are sorted, do not overlap and lie in the frame (an entry
 * that would break this is refused); the edge that lookup returns is after `now`, and the answer
 * cannot change before it. Known limits: the table does not change while it runs; switch tables by
 * another origin. Cost: O(log n) in the entries.
 */
#ifndef SOLOCORE_TIME_TABLE_H
#define SOLOCORE_TIME_TABLE_H

#include "types.h"

struct sc_table_entry {
	sc_u64 start_ns; /* from the frame's start */
	sc_u64 end_ns;	 /* first instant at which it is no longer active */
	sc_u32 id;
	sc_u32 reserved;
};

struct sc_table {
	sc_u64 origin_ns; /* start of frame 0 */
	sc_u64 frame_ns;
	sc_u32 count;
	sc_u32 zero; /* always 0: as in struct sc_heap */
	struct sc_table_entry entry[SC_MAX_TASKS];
};

struct sc_table_slot {
	sc_u64 edge_ns;	 /* time of the next change of the answer; SC_UNLIMITED if never */
	sc_u64 start_ns; /* start of the active entry; 0 if there is none */
	sc_u64 frame;	 /* number of the frame */
	sc_u32 id;	 /* SC_NONE: no entry is active */
	sc_u32 reserved;
};

/* An empty table. 0 if the frame is not a valid span. */
SC_FN sc_u32 sc_table_init(struct sc_table *t, sc_u64 origin_ns, sc_u64 frame_ns)
{
	if (!sc_span_valid(frame_ns))
		return 0;
	t->origin_ns = sc_time(origin_ns);
	t->frame_ns = frame_ns;
	t->count = 0;
	t->zero = 0;
	return 1;
}

/* Appends an entry. 0 if it is empty, leaves the frame, or does not follow the last one. */
SC_FN sc_u32 sc_table_append(struct sc_table *t, sc_u64 start_ns, sc_u64 end_ns, sc_u32 id)
{
	sc_u32 n = t->count;

	if (start_ns >= end_ns || end_ns > t->frame_ns || id == SC_NONE || n >= SC_MAX_TASKS)
		return 0;
	if (n > 0 && t->entry[SC_TASK(n - 1)].end_ns > start_ns)
		return 0;
	t->entry[SC_TASK(n)].start_ns = start_ns;
	t->entry[SC_TASK(n)].end_ns = end_ns;
	t->entry[SC_TASK(n)].id = id;
	t->entry[SC_TASK(n)].reserved = 0;
	t->count = n + 1;
	return 1;
}

/* Number of entries that start at or before `offset_ns`. */
SC_SUBPROGRAM sc_u32 sc_table_started(const struct sc_table *t, sc_u64 offset_ns)
{
	sc_u32 low = 0, high, step;

	if (!t)
		return 0;
	high = t->count;
	/* Refused, not clamped: a number that the BPF verifier knows makes it walk every path of
	 * the search.
	 */
	if (high > SC_MAX_TASKS)
		return 0;
	/* 2^13 > SC_MAX_TASKS: thirteen halvings are enough. */
	for (step = 0; step < 13; step++) {
		sc_u32 middle = low + (high - low) / 2;

		if (low >= high || middle >= SC_MAX_TASKS)
			break;
		if (t->entry[SC_TASK(middle)].start_ns <= offset_ns)
			low = (middle + 1) | t->zero;
		else
			high = middle | t->zero;
	}
	return low;
}

/* The active entry at now_ns. Before the origin none is active. */
SC_FN void sc_table_lookup(const struct sc_table *t, sc_u64 now_ns, struct sc_table_slot *slot)
{
	sc_u64 now = sc_time(now_ns), base, offset, edge;
	sc_u32 next;

	slot->edge_ns = SC_UNLIMITED;
	slot->start_ns = 0;
	slot->frame = 0;
	slot->id = SC_NONE;
	slot->reserved = 0;
	if (t->frame_ns == 0)
		return;
	if (now < t->origin_ns) {
		if (t->count != 0)
			slot->edge_ns = t->origin_ns + t->entry[0].start_ns;
		return;
	}
	offset = (now - t->origin_ns) % t->frame_ns;
	base = now - offset;
	slot->frame = (now - t->origin_ns) / t->frame_ns;
	if (t->count == 0)
		return;
	next = sc_table_started(t, offset);
	edge = next < t->count && next < SC_MAX_TASKS ? t->entry[SC_TASK(next)].start_ns
						      : t->frame_ns + t->entry[0].start_ns;
	if (next > 0 && next <= SC_MAX_TASKS && t->entry[SC_TASK(next - 1)].end_ns > offset) {
		slot->id = t->entry[SC_TASK(next - 1)].id;
		slot->start_ns = base + t->entry[SC_TASK(next - 1)].start_ns;
		edge = t->entry[SC_TASK(next - 1)].end_ns;
	}
	slot->edge_ns = base + edge;
}

#endif
