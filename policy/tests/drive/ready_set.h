/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Operations: 0 init, 1 add (id), 2 remove (id), 3 look. Answers of all: done, first rank or
 * SC_NONE, count; zeros for an id out of range. */
#ifndef SOLOCORE_TESTS_DRIVE_READY_SET_H
#define SOLOCORE_TESTS_DRIVE_READY_SET_H

#include "../driver.h"
#include <solocore/ready_set.h>

struct sc_world_ready_set {
	sc_u64 ready; /* init has been done; it is refused from then on */
	struct sc_ready_set set;
};

SC_FN void sc_drive_ready_set(struct sc_world_ready_set *w, const struct sc_event *e,
			      struct sc_answer *out)
{
	sc_answer_clear(out);
	if ((e->op == 0) == (w->ready != 0))
		return;
	if ((e->op == 1 || e->op == 2) && e->id >= SC_MAX_TASKS)
		return;
	switch (e->op) {
	case 0:
		out->word[0] = w->ready = 1;
		break;
	case 1:
		out->word[0] = sc_ready_add(&w->set, e->id);
		break;
	case 2:
		out->word[0] = sc_ready_remove(&w->set, e->id);
		break;
	case 3:
		out->word[0] = 1;
		break;
	default:
		return;
	}
	out->word[1] = sc_ready_first(&w->set);
	out->word[2] = w->set.count;
}

#endif
