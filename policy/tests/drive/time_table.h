/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Operations: 0 init (now: origin, a: frame), 1 entry (a: start, b: end, c: id), 2 lookup (now). */
#ifndef SOLOCORE_TESTS_DRIVE_TIME_TABLE_H
#define SOLOCORE_TESTS_DRIVE_TIME_TABLE_H

#include "../driver.h"
#include <solocore/time_table.h>

struct sc_world_time_table {
	sc_u64 ready; /* init has been done; it is refused from then on */
	struct sc_table table;
};

SC_FN void sc_drive_time_table(struct sc_world_time_table *w, const struct sc_event *e,
			       struct sc_answer *out)
{
	struct sc_table_slot slot;

	sc_answer_clear(out);
	if (e->op != 0 && !w->ready)
		return;
	switch (e->op) {
	case 0:
		if (!w->ready)
			out->word[0] = w->ready = sc_table_init(&w->table, e->now, e->a);
		break;
	case 1:
		out->word[0] =
			e->c < SC_NONE ? sc_table_append(&w->table, e->a, e->b, (sc_u32)e->c) : 0;
		break;
	case 2:
		sc_table_lookup(&w->table, e->now, &slot);
		out->word[0] = slot.id;
		out->word[1] = slot.edge_ns;
		out->word[2] = slot.start_ns;
		out->word[3] = slot.frame;
		break;
	}
}

#endif
