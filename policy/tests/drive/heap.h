/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Operations: 0 init, 1 push (id, a: key), 2 remove (id), 3 pop, 4 look (id). Answers: done, top
 * id, top key, count, is `id` there. */
#ifndef SOLOCORE_TESTS_DRIVE_HEAP_H
#define SOLOCORE_TESTS_DRIVE_HEAP_H

#include "../driver.h"
#include <solocore/heap.h>

struct sc_world_heap {
	sc_u64 ready;
	struct sc_heap heap;
};

SC_FN void sc_drive_heap(struct sc_world_heap *w, const struct sc_event *e, struct sc_answer *out)
{
	struct sc_heap *h = &w->heap;

	sc_answer_clear(out);
	if (e->op == 0 && !w->ready) {
		w->ready = 1;
		out->word[0] = 1;
		return;
	}
	if (!w->ready)
		return;
	switch (e->op) {
	case 1:
		out->word[0] = sc_heap_push(h, e->a, e->id);
		break;
	case 2:
		out->word[0] = sc_heap_remove(h, e->id);
		break;
	case 3:
		out->word[0] = sc_heap_remove(h, sc_heap_top(h));
		break;
	case 4:
		break;
	default:
		return;
	}
	out->word[1] = sc_heap_top(h);
	out->word[2] = sc_heap_top_key(h);
	out->word[3] = h->count;
	out->word[4] = sc_heap_contains(h, e->id);
}

#endif
