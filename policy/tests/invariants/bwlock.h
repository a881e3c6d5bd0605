/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SOLOCORE_TESTS_INVARIANTS_BWLOCK_H
#define SOLOCORE_TESTS_INVARIANTS_BWLOCK_H

static inline const char *sc_bwlock_core_broken(const struct sc_world_bwlock *w, sc_u32 i)
{
	const struct sc_bwlock_core *c = &w->core[i];
	const struct sc_bwlock_task *t = w->current[i] ? &w->task[w->current[i] - 1] : 0;
	sc_u64 sample = sc_bwlock_sample(c);

	if (c->busy != (t != 0) || (t && (!t->alive || t->core != i || t->realtime != c->realtime)))
		return "the task that runs";
	if (c->holding != (t && t->depth > 0))
		return "holding without the lock, or the reverse";
	if (c->realtime && c->throttled)
		return "a real-time core is stopped";
	return sample != 0 && sample <= SC_MAX_SAMPLE ? 0 : "range of a sample";
}

static inline const char *sc_check_bwlock(const struct sc_world_bwlock *w, const struct sc_event *e,
					  const struct sc_answer *out)
{
	const char *broken = 0;
	sc_u64 holders = 0;
	sc_u32 i, running = 0, current = 0;

	(void)e;
	(void)out;
	for (i = 0; i < SC_WORLD_CPUS && w->ready && !broken; i++) {
		broken = sc_bwlock_core_broken(w, i);
		holders += w->core[i].holding;
		current += w->current[i] != 0;
	}
	for (i = 0; i < SC_MAX_TASKS && !broken; i++) {
		running += w->task[i].alive && w->task[i].core != SC_NONE;
		if (w->task[i].depth > 0 && !(w->task[i].alive && w->task[i].realtime))
			broken = "a lock of a task that may not have it";
	}
	if (!broken && (holders != w->lock.holders || running != current))
		broken = "number of holders or of tasks that run";
	return broken;
}

#endif
