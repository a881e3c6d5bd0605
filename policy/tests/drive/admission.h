/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Operations: 0 init -> 1, 1 add (a: C, b: T, c: D or 0) -> index or SC_NONE, 2 utilization -> sum,
 * 3 rms -> 0/1, 4 hyperbolic -> 0/1, 5 rta (id: index) -> verdict, response time, 6 clear -> 1. */
#ifndef SOLOCORE_TESTS_DRIVE_ADMISSION_H
#define SOLOCORE_TESTS_DRIVE_ADMISSION_H

#include "../driver.h"
#include <solocore/admission.h>

struct sc_world_admission {
	sc_u64 ready; /* init has been done; it is refused from then on */
	struct sc_admission set;
};

SC_FN void sc_drive_admission(struct sc_world_admission *w, const struct sc_event *e,
			      struct sc_answer *out)
{
	struct sc_response response;

	sc_answer_clear(out);
	if (e->op != 0 && !w->ready)
		return;
	switch (e->op) {
	case 0:
		out->word[0] = !w->ready;
		w->ready = 1;
		break;
	case 1:
		out->word[0] = sc_admission_add(&w->set, e->a, e->b, e->c);
		break;
	case 2:
		out->word[0] = sc_admission_utilization(&w->set);
		break;
	case 3:
		out->word[0] = sc_admission_rms(&w->set);
		break;
	case 4:
		out->word[0] = sc_admission_hyperbolic(&w->set);
		break;
	case 5:
		sc_admission_response(&w->set, e->id, &response);
		out->word[0] = response.verdict;
		out->word[1] = response.response_ns;
		break;
	case 6:
		sc_admission_init(&w->set);
		out->word[0] = 1;
		break;
	}
}

#endif
