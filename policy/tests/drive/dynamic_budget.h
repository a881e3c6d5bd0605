/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Operations: 0 init (now), 1 task (id, a: hard core, b: budget, c: length), 2 started (id, now, a:
 * accesses), 3 finished (id, now, a: accesses), 4 event (now, a: accesses), 5 entry (id). Answers:
 * 0 and 1 ok; 2, 3 and 4 verdict, limit, sample, timeout; 5 active, left, left ns, finished (all 0
 * unless active).
 */
#ifndef SOLOCORE_TESTS_DRIVE_DYNAMIC_BUDGET_H
#define SOLOCORE_TESTS_DRIVE_DYNAMIC_BUDGET_H

#include "../driver.h"
#include <solocore/dynamic_budget.h>

struct sc_world_dynamic_budget {
	sc_u64 ready;
	struct sc_dynamic dynamic;
};

SC_FN void sc_world_dynamic_budget_entry(const struct sc_dynamic *d, sc_u32 id,
					 struct sc_answer *out)
{
	const struct sc_dynamic_task *t;

	if (id >= SC_MAX_TASKS)
		return;
	t = &d->task[SC_TASK(id)];
	if (!t->active)
		return;
	out->word[0] = 1;
	out->word[1] = t->left;
	out->word[2] = t->left_ns;
	out->word[3] = t->finished;
}

/* 2 started, 3 finished, 4 event: the same answer. */
SC_FN void sc_world_dynamic_budget_event(struct sc_dynamic *d, const struct sc_event *e,
					 struct sc_answer *out)
{
	struct sc_dynamic_decision decision;

	if (!sc_dynamic_apply(d, e->op - 2, e->id, e->now, e->a))
		return;
	sc_dynamic_decide(d, &decision);
	out->word[0] = decision.verdict;
	out->word[1] = decision.limit;
	out->word[2] = decision.sample;
	out->word[3] = decision.timeout_ns;
}

SC_FN void sc_drive_dynamic_budget(struct sc_world_dynamic_budget *w, const struct sc_event *e,
				   struct sc_answer *out)
{
	struct sc_dynamic *d = &w->dynamic;

	sc_answer_clear(out);
	if (e->op == 0) {
		if (w->ready)
			return;
		sc_dynamic_init(d, e->now);
		out->word[0] = w->ready = 1;
		return;
	}
	if (!w->ready)
		return;
	if (e->op == 1)
		out->word[0] = e->a < SC_MAX_CPUS
				       ? sc_dynamic_define(d, e->id, (sc_u32)e->a, e->b, e->c)
				       : 0;
	else if (e->op <= 4)
		sc_world_dynamic_budget_event(d, e, out);
	else if (e->op == 5)
		sc_world_dynamic_budget_entry(d, e->id, out);
}

#endif
