/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SOLOCORE_TESTS_INVARIANTS_DYNAMIC_BUDGET_H
#define SOLOCORE_TESTS_INVARIANTS_DYNAMIC_BUDGET_H

static inline const char *sc_check_dynamic_budget(const struct sc_world_dynamic_budget *w,
						  const struct sc_event *e,
						  const struct sc_answer *out)
{
	const struct sc_dynamic *d = &w->dynamic;
	sc_u32 head[SC_MAX_CPUS] = {0}, i;

	for (i = SC_MAX_TASKS; i-- > 0;) {
		const struct sc_dynamic_task *t = &d->task[i];

		if (!t->active)
			continue;
		/* Budget and length may be those of the next job. */
		if (!t->defined || t->core >= d->cores || t->left > SC_MAX_ACCESSES ||
		    !sc_span_valid(t->left_ns))
			return "an active budget";
		head[t->core] = i + 1;
	}
	for (i = 0; i < SC_MAX_CPUS; i++)
		if (d->head[i] != head[i])
			return "the budget in force";
	if (e->op >= 2 && e->op <= 4 && out->word[2] != 0) {
		if (out->word[2] > SC_MAX_SAMPLE ||
		    (out->word[0] == SC_STOP) != (out->word[1] == 0))
			return "a decision";
		if (out->word[3] <= sc_time(e->now))
			return "a timeout that has passed";
	}
	return 0;
}

#endif
