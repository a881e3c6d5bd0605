/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Operations: 0 init -> 1, 1 events (a: bytes/s, b: line, c: period) -> events, 2 bandwidth (a:
 * events, b: line, c: period) -> bytes/s, MB/s. */
#ifndef SOLOCORE_TESTS_DRIVE_UNITS_H
#define SOLOCORE_TESTS_DRIVE_UNITS_H

#include "../driver.h"
#include <solocore/units.h>

struct sc_world_units {
	sc_u64 ready; /* init has been done; it is refused from then on */
};

SC_FN void sc_drive_units(struct sc_world_units *w, const struct sc_event *e, struct sc_answer *out)
{
	sc_answer_clear(out);
	if (e->op != 0 && !w->ready)
		return;
	switch (e->op) {
	case 0:
		out->word[0] = !w->ready;
		w->ready = 1;
		break;
	case 1:
		out->word[0] = sc_units_events(e->a, e->b, e->c);
		break;
	case 2:
		out->word[0] = sc_units_bandwidth(e->a, e->b, e->c);
		out->word[1] = sc_units_megabytes(e->a, e->b, e->c);
		break;
	}
}

#endif
