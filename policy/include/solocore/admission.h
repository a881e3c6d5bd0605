/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Admission: tests whether all tasks, or VCPUs, of a core meet their deadlines under fixed
 * priorities.
 *
 * Problem: a task or VCPU may enter a core only if everything on it keeps its guarantee (maracas,
 * section V: each VCPU that is created or migrated must pass a schedulability test on its core).
 * Rules, from cheap to exact, for budgets C and periods T:
 *   RMS bound: sum of C/T <= n (2^(1/n) - 1) (Liu and Layland, 1973);
 *   hyperbolic bound: product of (C/T + 1) <= 2 (Bini, Buttazzo and Buttazzo, 2003); response
 *   times: R = C_i + sum over higher priorities of ceil(R / T_j) C_j, from the sum of the C_j on
 *   until it stays the same (Joseph and Pandya, 1986). A deadline D <= T is met if R <= D.
 * Utilisations have 32 bits after the point and are rounded up, bounds are rounded down: the exact
 * bound admits every admitted set, too. Invariants: RMS admits => hyperbolic admits (up to
 * rounding) => response times fit when priorities follow periods and D = T.
 * Known limits: the two bounds hold for rate-monotonic priorities and D = T, for any order of the
 * tasks; a set that just reaches a bound may be refused because of rounding. The search for
 * response times takes at most SC_MAX_RTA_STEPS additions; after that the answer is "unknown",
 * which does not admit. No blocking, no jitter. At most SC_MAX_ADMITTED tasks in a set.
 * Cost: O(n) for the bounds, pseudo-polynomial but bounded for the response times.
 */
#ifndef SOLOCORE_ADMISSION_H
#define SOLOCORE_ADMISSION_H

#include "types.h"

#ifndef SC_MAX_ADMITTED
#define SC_MAX_ADMITTED 64u /* tasks of a set */
#endif
#if SC_MAX_ADMITTED < 1 || (SC_MAX_ADMITTED & (SC_MAX_ADMITTED - 1)) != 0 || SC_MAX_ADMITTED > 4096
#error "SC_MAX_ADMITTED is a power of two, 1 to 4096"
#endif
#ifndef SC_MAX_RTA_STEPS
#define SC_MAX_RTA_STEPS 4096u /* maximum number of additions for one response time */
#endif
#define SC_ADMITTED(i) SC_MASKED(i, SC_MAX_ADMITTED)

#define SC_FULL_UTILIZATION 0x100000000ull /* a whole core */

/* Results of a response time. */
#define SC_RTA_LATE 0u
#define SC_RTA_FITS 1u
#define SC_RTA_UNKNOWN 2u

struct sc_admission_task {
	sc_u64 wcet_ns;	    /* C: worst case, or a VCPU's budget; 1 <= C <= T */
	sc_u64 period_ns;   /* T */
	sc_u64 deadline_ns; /* D, from the release; 1 <= D <= T */
	sc_u64 utilization; /* C/T, 32 bits after the point, rounded up */
};

struct sc_admission {
	sc_u32 count;
	sc_u32 zero; /* always 0: the BPF verifier no longer knows a value that is or-ed with it */
	struct sc_admission_task task[SC_MAX_ADMITTED]; /* index = priority, 0 is the highest */
};

struct sc_response {
	sc_u64 response_ns; /* worst-case response time; 0 unless it fits */
	sc_u32 verdict;	    /* SC_RTA_* */
	sc_u32 reserved;
};

SC_FN void sc_admission_init(struct sc_admission *a)
{
	a->count = 0;
	a->zero = 0;
}

/*
 * C/T with 32 bits after the point, rounded up; 0 if not 1 <= C <= T <= SC_MAX_SPAN. T is shortened
 * to 31 bits so that nothing overflows; with C = T the rounding may pass 2^32 by a few units.
 */
SC_FN sc_u64 sc_utilization(sc_u64 wcet_ns, sc_u64 period_ns)
{
	sc_u64 long_part = period_ns >> 31, wcet, period;
	sc_u32 shift = 0, bit;

	if (!sc_span_valid(period_ns) || wcet_ns == 0 || wcet_ns > period_ns)
		return 0;
	/*
	 * A span has at most 43 bits: 12 too many. Each remaining bit in long_part is one to drop.
	 */
	for (bit = 0; bit < 12; bit++)
		shift += (long_part >> bit) != 0;
	wcet = (wcet_ns + ((1ull << shift) - 1)) >> shift;
	period = period_ns >> shift;
	if (period == 0)
		return 0;
	return ((wcet << 32) + (period - 1)) / period;
}

/*
 * All ones if a >= b, otherwise 0, for a and b below 2^63. It uses arithmetic, so that it has no
 * branch.
 */
SC_FN sc_u64 sc_mask_reached(sc_u64 a, sc_u64 b)
{
	return ((a - b) >> 63) - 1;
}

/* floor(n (2^(1/n) - 1) 2^32); above 16 tasks its limit, ln 2. */
SC_FN sc_u64 sc_rms_bound(sc_u32 count)
{
	static const sc_u64 bound[16] = {
		4294967296ull, 3558067407ull, 3349057226ull, 3250553484ull,
		3193272858ull, 3155822954ull, 3129427399ull, 3109822014ull,
		3094685642ull, 3082646743ull, 3072842872ull, 3064704547ull,
		3057840596ull, 3051973442ull, 3046900662ull, 3042471161ull,
	};
	sc_u64 listed = sc_mask_reached(16, count);

	/* A choice without a branch; a set without tasks may be compared with any bound. */
	return (bound[(count - 1) & 15] & listed) | (2977044471ull & ~listed);
}

/* Do `count` tasks of this total utilisation pass the RMS bound? An empty set does. */
SC_FN sc_u32 sc_rms_fits(sc_u64 utilization, sc_u32 count)
{
	return utilization <= sc_rms_bound(count);
}

/*
 * One factor of the hyperbolic bound: the product times (1 + utilization), rounded up. A product
 * has 30 bits after the point: 2^30 is 1, and above 2^31 the set is refused; then and later the
 * answer is SC_UNLIMITED.
 */
SC_FN sc_u64 sc_hyperbolic_step(sc_u64 product, sc_u64 utilization)
{
	/* More than a whole core at least doubles a product that starts at 1. */
	if (product > 1ull << 31 || utilization > SC_FULL_UTILIZATION)
		return SC_UNLIMITED;
	product += (product * utilization + 0xffffffffull) >> 32;
	return product > 1ull << 31 ? SC_UNLIMITED : product;
}

/*
 * Appends a task below all present ones. Deadline 0 means the period. Returns its index, or SC_NONE
 * if the set is full or the times are not 1 <= C <= T, D <= T <= SC_MAX_SPAN. This tests nothing:
 * the caller asks below.
 */
SC_FN sc_u32 sc_admission_add(struct sc_admission *a, sc_u64 wcet_ns, sc_u64 period_ns,
			      sc_u64 deadline_ns)
{
	sc_u64 utilization = sc_utilization(wcet_ns, period_ns);
	sc_u32 n = a->count;

	if (utilization == 0 || deadline_ns > period_ns || n >= SC_MAX_ADMITTED)
		return SC_NONE;
	a->task[SC_ADMITTED(n)].wcet_ns = wcet_ns;
	a->task[SC_ADMITTED(n)].period_ns = period_ns;
	a->task[SC_ADMITTED(n)].deadline_ns = deadline_ns != 0 ? deadline_ns : period_ns;
	a->task[SC_ADMITTED(n)].utilization = utilization;
	a->count = n + 1;
	return n;
}

/* The sum of all utilisations, 32 bits after the point. */
SC_FN sc_u64 sc_admission_utilization(const struct sc_admission *a)
{
	sc_u64 sum = 0;
	sc_u32 i;

	for (i = 0; i < SC_MAX_ADMITTED && i < a->count; i++)
		sum += a->task[SC_ADMITTED(i)].utilization;
	return sum;
}

/* 1 if the set passes the RMS bound. */
SC_FN sc_u32 sc_admission_rms(const struct sc_admission *a)
{
	return sc_rms_fits(sc_admission_utilization(a), a->count);
}

/* 1 if the set passes the hyperbolic bound. */
SC_FN sc_u32 sc_admission_hyperbolic(const struct sc_admission *a)
{
	sc_u64 product = 1ull << 30;
	sc_u32 i;

	for (i = 0; i < SC_MAX_ADMITTED && i < a->count; i++) {
		product = sc_hyperbolic_step(product, a->task[SC_ADMITTED(i)].utilization);
		if (product == SC_UNLIMITED)
			return 0;
	}
	return 1;
}

/* Start of the iteration for a task's response time: the sum of all budgets down to its own. */
SC_FN sc_u64 sc_response_start(const struct sc_admission *a, sc_u32 index)
{
	sc_u64 sum = 0;
	sc_u32 i;

	for (i = 0; i < SC_MAX_ADMITTED && i <= index; i++)
		sum += a->task[SC_ADMITTED(i)].wcet_ns;
	return sum;
}

/*
 * The response time of task `index`; the tasks before it are its interference. 0 if there is no
 * such task.
 *
 * The loops over R and over j are one, with a single branch in a step: with two the BPF verifier
 * would store more paths than it allows. A step first looks at a finished sum (j == index): it is
 * the answer if it equals R or passes the deadline, and the next R otherwise; as sums never fall,
 * one comparison tells. Then it adds a term. R <= 2^42 and a term is below R + T_j, so that sums
 * stay below 2^56.
 */
SC_FN sc_u32 sc_admission_response(const struct sc_admission *a, sc_u32 index,
				   struct sc_response *out)
{
	sc_u64 response, sum, deadline, wcet, period, done, j = a->zero;
	sc_u32 step;

	out->response_ns = 0;
	out->verdict = SC_RTA_LATE;
	out->reserved = 0;
	if (index >= a->count || index >= SC_MAX_ADMITTED)
		return 0;
	deadline = a->task[SC_ADMITTED(index)].deadline_ns;
	wcet = a->task[SC_ADMITTED(index)].wcet_ns;
	response = sc_response_start(a, index);
	index |= a->zero; /* the verifier learnt it from that loop */
	if (response > deadline)
		return 1;
	sum = wcet;
	for (step = 0; step <= SC_MAX_RTA_STEPS; step++) {
		done = sc_mask_reached(j, index);
		if (((sum - response - 1) & done) >= ((deadline - response) | ~done)) {
			out->response_ns = sum == response ? response : 0;
			out->verdict = sum == response ? SC_RTA_FITS : SC_RTA_LATE;
			return 1;
		}
		response = (sum & done) | (response & ~done);
		sum = (wcet & done) | (sum & ~done);
		j &= ~done;
		period = a->task[SC_ADMITTED(j % SC_MAX_ADMITTED)].period_ns;
		period |= (period - 1) >> 63; /* never 0: a guard without a branch */
		sum += (response + (period - 1)) / period *
		       a->task[SC_ADMITTED(j % SC_MAX_ADMITTED)].wcet_ns;
		j = (j + 1) | a->zero;
	}
	out->verdict = SC_RTA_UNKNOWN;
	return 1;
}

#endif
