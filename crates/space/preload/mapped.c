/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: threads use System V queues by their numbers while others open and remove queues, and
 * fork may copy this process at any time, so that a lock would stay held. Rule: a place of the
 * table changes hands by one swap of its number; it is not unmapped while a call uses it. A call
 * that a fork or a kill cuts off keeps its place for good.
 */
#define _GNU_SOURCE
#include "queue.h"

#include <errno.h>

#define MAPPED 512

enum { UNUSED = 0, TAKEN = -1, GONE = -2 };
static struct mapped mapped[MAPPED];

static int swap(struct mapped *place, int from, int to)
{
	return __atomic_compare_exchange_n(&place->id, &from, to, 0, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static int use(struct mapped *place, int id)
{
	__atomic_fetch_add(&place->users, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&place->id, __ATOMIC_SEQ_CST) == id)
		return 1;
	mapped_let_go(place);
	return 0;
}

void mapped_let_go(struct mapped *place)
{
	__atomic_fetch_sub(&place->users, 1, __ATOMIC_SEQ_CST);
}

/* The place of a queue that this process has mapped, for mapped_let_go(); null: it has not. */
struct mapped *mapped_use(int id)
{
	for (int i = 0; i < MAPPED; i++)
		if (__atomic_load_n(&mapped[i].id, __ATOMIC_ACQUIRE) == id && use(&mapped[i], id))
			return &mapped[i];
	return 0;
}

/* Makes a place whose queue was removed free for another one. */
static void clear(struct mapped *place)
{
	int id = __atomic_load_n(&place->id, __ATOMIC_SEQ_CST);
	if (id > 0 && use(place, id)) {
		if (place->view.queue->removed)
			swap(place, id, GONE);
		mapped_let_go(place);
	}
	/* A call that comes now sees that its number is no longer there. */
	if (__atomic_load_n(&place->id, __ATOMIC_SEQ_CST) != GONE ||
	    __atomic_load_n(&place->users, __ATOMIC_SEQ_CST) || !swap(place, GONE, TAKEN))
		return;
	raw(SYS_munmap, place->view.queue, place->view.size);
	__atomic_store_n(&place->id, UNUSED, __ATOMIC_SEQ_CST);
}

/* Keeps a queue that was mapped; -errno: it is no longer mapped. */
long mapped_keep(int id, const struct view *view)
{
	for (int i = 0; i < MAPPED; i++) {
		struct mapped *place = &mapped[i];
		clear(place);
		if (!swap(place, UNUSED, TAKEN))
			continue;
		copy_bytes(&place->view, view, sizeof *view);
		__atomic_store_n(&place->id, id, __ATOMIC_SEQ_CST);
		return 0;
	}
	raw(SYS_munmap, view->queue, view->size);
	return -ENOMEM;
}
