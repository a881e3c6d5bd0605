/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SOLOCORE_TESTS_INVARIANTS_ADMISSION_H
#define SOLOCORE_TESTS_INVARIANTS_ADMISSION_H

/* x^n */
static inline long double sc_power(long double x, sc_u32 n)
{
	long double power = 1;

	while (n-- > 0)
		power *= x;
	return power;
}

/* The table against its definition, floor(n (2^(1/n) - 1) 2^32): 64 bits of a long double are
 * enough to tell two neighbours apart. Above 16 tasks it is ln 2. */
static inline const char *sc_rms_bound_broken(void)
{
	const long double one = 4294967296.0L;
	long double logarithm = 0;
	sc_u32 n;

	for (n = 64; n > 0; n--)
		logarithm = (logarithm + 1.0L / n) / 2;
	for (n = 1; n <= 16; n++)
		if (sc_power(1 + (long double)sc_rms_bound(n) / (n * one), n) > 2 ||
		    sc_power(1 + (long double)(sc_rms_bound(n) + 1) / (n * one), n) <= 2)
			return "the utilisation bound of up to 16 tasks";
	for (; n <= 70; n++)
		if (sc_rms_bound(n) != (sc_u64)(logarithm * one))
			return "the utilisation bound of many tasks";
	return 0;
}

static inline const char *sc_check_admission(const struct sc_world_admission *w,
					     const struct sc_event *e, const struct sc_answer *out)
{
	const struct sc_admission *a = &w->set;
	sc_u32 i;

	if (e->op == 0 && sc_rms_bound_broken())
		return sc_rms_bound_broken();
	if (a->zero != 0 || a->count > SC_MAX_ADMITTED)
		return "count of tasks";
	for (i = 0; i < a->count; i++)
		if (a->task[i].wcet_ns == 0 || a->task[i].wcet_ns > a->task[i].period_ns ||
		    a->task[i].deadline_ns > a->task[i].period_ns)
			return "a task";
	/*
	 * The hyperbolic bound admits every set that the utilisation bound admits, and so does the
	 * exact test where D = T.
	 */
	if (sc_admission_rms(a) && !sc_admission_hyperbolic(a))
		return "the hyperbolic bound is below the utilisation bound";
	if (w->ready && e->op == 5 && out->word[0] == SC_RTA_FITS &&
	    (out->word[1] < a->task[e->id].wcet_ns || out->word[1] > a->task[e->id].deadline_ns))
		return "a response time";
	return 0;
}

#endif
