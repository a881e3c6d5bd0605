/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SOLOCORE_TESTS_INVARIANTS_THROTTLE_H
#define SOLOCORE_TESTS_INVARIANTS_THROTTLE_H

static inline const char *sc_check_throttle(const struct sc_world_throttle *w,
					    const struct sc_event *e, const struct sc_answer *out)
{
	const struct sc_throttle *t = &w->throttle;

	if (t->zero != 0 || t->num_throttle > t->cpus)
		return "number of throttled cores";
	if (t->num_throttle == 0 ? t->r_high != 0 : t->r_high < t->r_cur)
		return "highest rate";
	/* Exactly n - num_throttle cores get background time: no tie stops all of them. */
	if (w->ready && e->op == 4 && e->id < t->cpus && out->word[1] != t->cpus - t->num_throttle)
		return "number of cores with background time";
	return 0;
}

#endif
