/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Latency-based throttling of background time (MARACAS).
 *
 * Problem: time that no reservation covers (background time) helps progress, but when the memory
 * bus is contended it slows the other cores' reserved work. Rates do not show contention: requests
 * to one DRAM bank are slower than to many, and devices make requests, too (maracas, section IV).
 * Rule: once per monitor period the latency, occupancy / requests of the memory controller's queue,
 * is compared with a threshold. At or above it one core more is refused background time
 * (num_throttle); once the cores' requests R_cur fall to idle_per_mille of R_high, the most seen
 * since throttling began, one fewer. Background time is allowed to the n - num_throttle cores with
 * the smallest virtual time, that is background time in this period times requests in the last one
 * (m_i) (Algorithm 1).
 * The paper's weights are m_i / R_cur; R_cur is common and cancels in comparisons. Its test counts
 * cores with virtual times "at most" that of the asking core, so that equal ones refuse each other;
 * here the lower index goes first. For comparison the rate rule takes all requests of a period in
 * place of the latency.
 * Invariants: exactly n - num_throttle cores are allowed at any time; 0 <= num_throttle <= n;
 * r_high is 0 while nothing is throttled.
 * Known limits: reserved time is never throttled, so without background time the throttling has no
 * effect (section VI of the paper). Background time counts up to 2^32-1 ns in a period, and so do
 * requests as weights. A period without requests has no latency and is not contended. Words of
 * other cores are read without a lock: a decision may be one update late. Cost: O(n) in the cores.
 */
#ifndef SOLOCORE_THROTTLE_H
#define SOLOCORE_THROTTLE_H

#include "types.h"

/* Rules. */
#define SC_THROTTLE_LATENCY 0u
#define SC_THROTTLE_RATE 1u

#define SC_THROTTLE_CLAMP 0xffffffffull /* of the factors of a virtual time */
#define SC_THROTTLE_REQUESTS                                                                       \
	0x20000000000000ull /* 2^53: limit of the numbers that are multiplied by 1000 */

struct sc_throttle {
	sc_u64 threshold; /* latency rule: cycles per request; rate rule: requests per period */
	sc_u64 r_cur;	  /* requests of all cores in the last period */
	sc_u64 r_high;	  /* the most r_cur since throttling began */
	sc_u32 cpus;	  /* 0: not initialised */
	sc_u32 rule;	  /* SC_THROTTLE_* */
	sc_u32 idle_per_mille; /* of r_high: at or below, throttling is reduced */
	sc_u32 num_throttle;   /* cores that get no background time */
	sc_u64 zero; /* always 0: compiler and BPF verifier no longer know a value that is or-ed
			with it */
	sc_u64 reported[SC_MAX_CPUS]; /* requests that each core reported for the coming monitor */
	sc_u64 weight[SC_MAX_CPUS];   /* m_i: requests in the last period, at most 2^32-1 */
	sc_u64 background[SC_MAX_CPUS]; /* ns of background time in this period, at most 2^32-1 */
};

/*
 * 0 if there are no cores or too many, the rule is unknown, the threshold is 0, or idle_per_mille
 * above 1000.
 */
SC_FN sc_u32 sc_throttle_init(struct sc_throttle *t, sc_u32 cpus, sc_u32 rule, sc_u64 threshold,
			      sc_u32 idle_per_mille)
{
	sc_u32 i;

	if (cpus == 0 || cpus > SC_MAX_CPUS || rule > SC_THROTTLE_RATE || threshold == 0 ||
	    idle_per_mille > 1000)
		return 0;
	t->threshold = threshold;
	t->r_cur = 0;
	t->r_high = 0;
	t->cpus = cpus;
	t->rule = rule;
	t->idle_per_mille = idle_per_mille;
	t->num_throttle = 0;
	t->zero = 0;
	for (i = 0; i < SC_MAX_CPUS; i++) {
		t->reported[i] = 0;
		t->weight[i] = 0;
		t->background[i] = 0;
	}
	return 1;
}

/* A core's requests in the period that ends; the last report before the monitor counts. 0: no such
 * core. */
SC_FN sc_u32 sc_throttle_report(struct sc_throttle *t, sc_u32 cpu, sc_u64 requests)
{
	if (cpu >= t->cpus || cpu >= SC_MAX_CPUS)
		return 0;
	t->reported[SC_CPU(cpu)] = requests;
	return 1;
}

/* Starts a period: takes the reports as m_i, clears the background times, and leaves the sum in
 * r_cur. */
SC_FN void sc_throttle_collect(struct sc_throttle *t)
{
	sc_u64 sum = 0, m, over;
	sc_u32 i;

	for (i = 0; i < SC_MAX_CPUS; i++) {
		m = t->reported[i];
		/* Saturating, without a branch: `over` is the carry out of the sum, as a mask. */
		over = 0 - (((sum & m) | ((sum | m) & ~(sum + m))) >> 63);
		sum = (sum + m) | over;
		t->weight[i] = sc_min(m, SC_THROTTLE_CLAMP);
		t->reported[i] = 0;
		t->background[i] = 0;
	}
	t->r_cur = sum;
}

/* Has the bus been contended, by the rule? */
SC_FN sc_u32 sc_throttle_contended(const struct sc_throttle *t, sc_u64 occupancy, sc_u64 requests)
{
	if (t->rule == SC_THROTTLE_RATE)
		return requests >= t->threshold;
	if (requests == 0)
		return 0;
	/* The same as occupancy >= threshold * requests with a product that saturates. */
	return occupancy == SC_UNLIMITED || occupancy / requests >= t->threshold;
}

/* Whether requests have fallen so far that throttling is to be reduced. */
SC_FN sc_u32 sc_throttle_relaxed(const struct sc_throttle *t)
{
	return sc_min(t->r_cur, SC_THROTTLE_REQUESTS) * 1000 <=
	       sc_min(t->r_high, SC_THROTTLE_REQUESTS) * t->idle_per_mille;
}

/*
 * Ends the monitor period. `occupancy` is the sum over cycles of the requests in the controller's
 * queue, `requests` the number that entered it. Returns 1 if the bus was contended.
 */
SC_FN sc_u32 sc_throttle_monitor(struct sc_throttle *t, sc_u64 occupancy, sc_u64 requests)
{
	sc_u32 contended;

	if (t->cpus == 0)
		return 0;
	contended = sc_throttle_contended(t, occupancy, requests);
	sc_throttle_collect(t);
	if (t->num_throttle > 0)
		t->r_high = sc_max(t->r_high, t->r_cur);
	if (contended && t->num_throttle < t->cpus) {
		if (t->num_throttle == 0)
			t->r_high = t->r_cur;
		t->num_throttle++;
	} else if (t->num_throttle > 0 && sc_throttle_relaxed(t)) {
		t->num_throttle--;
		if (t->num_throttle == 0)
			t->r_high = 0;
	}
	return contended;
}

/* Background time of a core so far, weighted: ns * requests; below 2^64. */
SC_FN sc_u64 sc_throttle_vtime(const struct sc_throttle *t, sc_u32 cpu)
{
	if (cpu >= SC_MAX_CPUS)
		return 0;
	return t->background[SC_CPU(cpu)] * t->weight[SC_CPU(cpu)];
}

/* A core ran for `ran_ns` in the background. Its virtual time; 0 if there is no such core. */
SC_FN sc_u64 sc_throttle_ran(struct sc_throttle *t, sc_u32 cpu, sc_u64 ran_ns)
{
	if (cpu >= t->cpus || cpu >= SC_MAX_CPUS)
		return 0;
	t->background[SC_CPU(cpu)] =
		sc_min(sc_add(t->background[SC_CPU(cpu)], ran_ns), SC_THROTTLE_CLAMP);
	return sc_throttle_vtime(t, cpu);
}

/* 1 if a < b. It has no branches, so that the BPF verifier has one path through the loop below. */
SC_FN sc_u64 sc_throttle_less(sc_u64 a, sc_u64 b)
{
	return ((~a & b) | ((~a | b) & (a - b))) >> 63;
}

/* Number of other cores that come before this one in the order of (virtual time, index). */
SC_FN sc_u64 sc_throttle_before(const struct sc_throttle *t, sc_u32 cpu)
{
	sc_u64 own = sc_throttle_vtime(t, cpu), count = t->zero, index = cpu | t->zero;
	sc_u32 i;

	/* A core of lower index, (i - index) >> 63, comes first with the same time, too: it is
	 * compared with one more, which cannot overflow, because a virtual time is at most (2^32 -
	 * 1)^2.
	 * */
	for (i = 0; i < SC_MAX_CPUS && i < t->cpus; i++)
		count += sc_throttle_less(sc_throttle_vtime(t, i), own + ((i - index) >> 63));
	return count;
}

/* May this core use background time now? 0 if not, or if there is no such core. */
SC_FN sc_u32 sc_throttle_allowed(const struct sc_throttle *t, sc_u32 cpu)
{
	if (cpu >= t->cpus || cpu >= SC_MAX_CPUS)
		return 0;
	if (t->num_throttle == 0)
		return 1;
	if (t->num_throttle >= t->cpus)
		return 0;
	return sc_throttle_before(t, cpu) < t->cpus - t->num_throttle;
}

#endif
