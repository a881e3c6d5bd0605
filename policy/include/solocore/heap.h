/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An ordered queue of tasks: it gives the one with the smallest key.
 *
 * Problem: schedulers ask for the earliest deadline, the shortest period or the next replenishment,
 * and tasks enter and leave at any position.
 * Rule: a binary heap of (key, id), the lower id first among equals, that knows the position of
 * each id.
 * Invariants: an id is in the heap at most once; no entry is smaller than its parent; position[id]
 * is 0 for an absent id and its index plus 1 otherwise. Known limits: ids below SC_MAX_TASKS. A
 * heap must start zeroed (sc_heap_init does it for an old one). Cost: O(1) to look at the first,
 * O(log n) to push and to remove.
 */
#ifndef SOLOCORE_HEAP_H
#define SOLOCORE_HEAP_H

#include "types.h"

/* 2^13 > SC_MAX_TASKS: no path from root to leaf is longer. */
#define SC_HEAP_DEPTH 13u

struct sc_heap {
	sc_u32 count;
	sc_u32 zero; /* always 0: the BPF verifier no longer knows a value that is or-ed with it,
			and so stops enumerating */
	sc_u64 key[SC_MAX_TASKS];      /* by heap index */
	sc_u32 id[SC_MAX_TASKS];       /* by heap index */
	sc_u32 position[SC_MAX_TASKS]; /* by id: heap index + 1, 0 if absent */
};

SC_FN void sc_heap_init(struct sc_heap *h)
{
	sc_u32 i;

	h->count = 0;
	h->zero = 0;
	for (i = 0; i < SC_MAX_TASKS; i++)
		h->position[i] = 0;
}

/* Whether (key, id) comes before the entry at index `at`. */
SC_FN sc_u32 sc_heap_before(const struct sc_heap *h, sc_u64 key, sc_u32 id, sc_u32 at)
{
	if (at >= SC_MAX_TASKS)
		return 0;
	return key < h->key[SC_TASK(at)] || (key == h->key[SC_TASK(at)] && id < h->id[SC_TASK(at)]);
}

SC_FN void sc_heap_set(struct sc_heap *h, sc_u32 at, sc_u64 key, sc_u32 id)
{
	if (at >= SC_MAX_TASKS || id >= SC_MAX_TASKS)
		return;
	h->key[SC_TASK(at)] = key;
	h->id[SC_TASK(at)] = id;
	h->position[SC_TASK(id)] = at + 1;
}

/* Copies the entry at `from` to `to`. */
SC_FN void sc_heap_move(struct sc_heap *h, sc_u32 from, sc_u32 to)
{
	if (from >= SC_MAX_TASKS)
		return;
	sc_heap_set(h, to, h->key[SC_TASK(from)], h->id[SC_TASK(from)]);
}

/* Puts (key, id) at the free index `at`, or at its proper place above it. */
SC_FN void sc_heap_rise(struct sc_heap *h, sc_u32 at, sc_u64 key, sc_u32 id)
{
	sc_u32 level;

	for (level = 0; level < SC_HEAP_DEPTH; level++) {
		sc_u32 parent;

		if (at == 0 || at >= SC_MAX_TASKS)
			break;
		parent = (at - 1) / 2;
		if (!sc_heap_before(h, key, id, parent))
			break;
		sc_heap_move(h, parent, at);
		at = parent | h->zero;
	}
	sc_heap_set(h, at, key, id);
}

/* Index of the smaller entry below the one at index `at`; SC_NONE if there is none. */
SC_SUBPROGRAM sc_u32 sc_heap_child(const struct sc_heap *h, sc_u32 at)
{
	sc_u32 child = 2 * at + 1;

	if (!h || at >= SC_MAX_TASKS)
		return SC_NONE;
	if (child >= h->count || child >= SC_MAX_TASKS)
		return SC_NONE;
	if (child + 1 < h->count && child + 1 < SC_MAX_TASKS &&
	    sc_heap_before(h, h->key[SC_TASK(child + 1)], h->id[SC_TASK(child + 1)], child))
		child++;
	return child;
}

/* Puts (key, id) at the free index `at`, or at its proper place below it. */
SC_FN void sc_heap_sink(struct sc_heap *h, sc_u32 at, sc_u64 key, sc_u32 id)
{
	sc_u32 level;

	for (level = 0; level < SC_HEAP_DEPTH; level++) {
		sc_u32 child = sc_heap_child(h, at);

		if (child >= SC_MAX_TASKS || sc_heap_before(h, key, id, child))
			break;
		sc_heap_move(h, child, at);
		at = child;
	}
	sc_heap_set(h, at, key, id);
}

SC_FN sc_u32 sc_heap_contains(const struct sc_heap *h, sc_u32 id)
{
	return id < SC_MAX_TASKS && h->position[SC_TASK(id)] != 0;
}

/* The first id, or SC_NONE. */
SC_FN sc_u32 sc_heap_top(const struct sc_heap *h)
{
	return h->count != 0 ? h->id[0] : SC_NONE;
}

/* The smallest key, or SC_UNLIMITED. */
SC_FN sc_u64 sc_heap_top_key(const struct sc_heap *h)
{
	return h->count != 0 ? h->key[0] : SC_UNLIMITED;
}

/* 0 if the id is too large or already there. */
SC_SUBPROGRAM sc_u32 sc_heap_push(struct sc_heap *h, sc_u64 key, sc_u32 id)
{
	sc_u32 at;

	if (!h)
		return 0;
	at = h->count;
	if (id >= SC_MAX_TASKS || at >= SC_MAX_TASKS || h->position[SC_TASK(id)] != 0)
		return 0;
	h->count = at + 1;
	sc_heap_rise(h, at, key, id);
	return 1;
}

/* 0 if the id is not there. */
SC_SUBPROGRAM sc_u32 sc_heap_remove(struct sc_heap *h, sc_u32 id)
{
	sc_u32 at, last;

	if (!h || id >= SC_MAX_TASKS || h->position[SC_TASK(id)] == 0 || h->count == 0 ||
	    h->count > SC_MAX_TASKS)
		return 0;
	at = h->position[SC_TASK(id)] - 1;
	last = h->count - 1;
	h->count = last;
	h->position[SC_TASK(id)] = 0;
	if (at >= last || last >= SC_MAX_TASKS)
		return 1;
	/* The last entry fills the gap; it belongs above or below it, never both. */
	if (at > 0 && sc_heap_before(h, h->key[SC_TASK(last)], h->id[SC_TASK(last)], (at - 1) / 2))
		sc_heap_rise(h, at, h->key[SC_TASK(last)], h->id[SC_TASK(last)]);
	else
		sc_heap_sink(h, at, h->key[SC_TASK(last)], h->id[SC_TASK(last)]);
	return 1;
}

#endif
