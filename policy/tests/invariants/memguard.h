/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SOLOCORE_TESTS_INVARIANTS_MEMGUARD_H
#define SOLOCORE_TESTS_INVARIANTS_MEMGUARD_H

static inline const char *sc_memguard_core_broken(const struct sc_memguard_core *c)
{
	sc_u32 kind;

	if (c->throttled > 1 || c->counted > 1 || c->spare > 1)
		return "a flag of a core";
	if (c->throttled && !sc_memguard_exhausted(c))
		return "a core stopped with budget left";
	for (kind = SC_READ; kind < SC_KINDS; kind++) {
		sc_u64 sample = sc_memguard_sample(c, kind);

		if (sample == 0 || sample > SC_MAX_SAMPLE)
			return "range of a sample";
		if (c->budget[kind] == 0 || c->predicted[kind] == 0)
			return "a budget of 0";
		if ((c->flags & SC_HARD) != 0 && c->budget[kind] < c->reservation[kind])
			return "a hard core without its reservation";
	}
	return 0;
}

/* Budgets, less what shared rounds added, and the pool: at most the reservations, if all are in one
 * period. Less where a core came late. */
static inline const char *sc_memguard_sum_broken(const struct sc_world_memguard *w, sc_u32 kind)
{
	sc_u64 reserved = 0, granted = 0, pool = w->shared.pool[kind];
	sc_u32 i, present = 0, epoch = 0;

	for (i = 0; i < SC_WORLD_CPUS; i++) {
		const struct sc_memguard_core *c = &w->core[i];

		if (!w->present[i] || c->reservation[kind] == SC_UNLIMITED)
			continue;
		/* Where numbers of periods may have wrapped, the sum is undefined. */
		if ((present++ && c->epoch != epoch) ||
		    c->next_ns / w->shared.period_ns >= 1u << 31)
			return 0;
		epoch = c->epoch;
		reserved += c->reservation[kind];
		granted += c->budget[kind];
		if (!c->spare)
			granted -= c->round * c->reservation[kind];
	}
	if (present && (sc_u32)(pool >> 32) == epoch)
		granted += pool & SC_MAX_ACCESSES;
	return granted <= reserved ? 0 : "sum of the budgets";
}

static inline const char *sc_check_memguard(const struct sc_world_memguard *w,
					    const struct sc_event *e, const struct sc_answer *out)
{
	const char *broken = 0;
	sc_u32 i;

	(void)e;
	(void)out;
	for (i = 0; i < SC_WORLD_CPUS && !broken; i++)
		if (w->present[i])
			broken = sc_memguard_core_broken(&w->core[i]);
	for (i = 0; i < SC_KINDS && !broken; i++)
		broken = sc_memguard_sum_broken(w, i);
	return broken;
}

#endif
