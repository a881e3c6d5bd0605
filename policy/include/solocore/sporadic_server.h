/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A sporadic server: a budget that comes back one period after it was used.
 *
 * Problem: a VCPU is to get a capacity C in every period T. It must load the core no more than a
 * periodic task (C, T) would, although it may wake, block and be preempted at any time. POSIX's
 * sporadic server breaks that: it replenishes too early, and overruns and full lists enlarge its
 * budget.
 * Rule: the capacity is a list of replenishments (time, amount). The first is used from its time
 * on. The used part comes back one period after that time (Stanovich, Baker, Wang, Harbour,
 * "Defects of the POSIX Sporadic Server and How to Correct Them", RTAS 2010, section 5; maracas,
 * section II-A). A server that wakes late counts from then, and takes along the replenishments that
 * fall due while it runs. A full list postpones its last entry. An overrun is taken from the
 * following replenishments.
 *
 *   C 4, T 10: ((0, 4))   charge 3 ((3, 1), (10, 3)) wake at 9 ((9, 4)) charge 4 ((19, 4))
 *
 * Invariants: the amounts add up to the capacity and none is 0; 1 <= count <= limit. The entries
 * are sorted, and each ends (time + amount) before the next one's time, so that only sc_server_wake
 * has anything to merge. Known limits: if the caller calls sc_server_wake only when the server
 * unblocks, C is supplied in each T like to a periodic task. But a server that was preempted may
 * run for up to 2C in some window of length T. If the caller calls it at every dispatch
 * (SC_SERVER_STRICT, which vcpu.h does), no window of length T has more than C, and preemption
 * postpones replenishments. Both at once are impossible. A low limit costs budget (it comes later),
 * never gains any. One charge takes at most C. Cost: O(1), and O(replenishments that a charge or a
 * wake passes), at most SC_MAX_REPLENISHMENTS + 1.
 */
#ifndef SOLOCORE_SPORADIC_SERVER_H
#define SOLOCORE_SPORADIC_SERVER_H

#include "types.h"

/* The server wakes at every dispatch. Only kept here: the scheduler (vcpu.h) makes the calls. */
#define SC_SERVER_STRICT 1u

struct sc_server_config {
	sc_u64 capacity_ns; /* 1 to the period */
	sc_u64 period_ns;   /* 1 to SC_MAX_SPAN */
	sc_u32 flags;	    /* SC_SERVER_STRICT or 0 */
	sc_u32 limit;	    /* entries of the list, 1 to SC_MAX_REPLENISHMENTS */
};

struct sc_replenishment {
	sc_u64 time_ns;	  /* time at which the amount is available */
	sc_u64 amount_ns; /* budget */
};

struct sc_server {
	sc_u64 capacity_ns;
	sc_u64 period_ns;
	sc_u32 flags;
	sc_u32 limit; /* entries that the list may have */
	sc_u32 first; /* index of the first entry: the list is a ring */
	sc_u32 count; /* entries that it has */
	struct sc_replenishment entry[SC_MAX_REPLENISHMENTS];
};

/* Index of the k-th entry of the list. */
#define SC_SERVER_AT(s, k)                                                                         \
	SC_MASKED(((s)->first + (k)) % SC_MAX_REPLENISHMENTS, SC_MAX_REPLENISHMENTS)

/* A server with its whole capacity at now_ns. 0 if the configuration is invalid. */
SC_FN sc_u32 sc_server_init(struct sc_server *s, const struct sc_server_config *config,
			    sc_u64 now_ns)
{
	if (!sc_span_valid(config->period_ns) || config->capacity_ns == 0 ||
	    config->capacity_ns > config->period_ns)
		return 0;
	if (config->flags > SC_SERVER_STRICT || config->limit == 0 ||
	    config->limit > SC_MAX_REPLENISHMENTS)
		return 0;
	s->capacity_ns = config->capacity_ns;
	s->period_ns = config->period_ns;
	s->flags = config->flags;
	s->limit = config->limit;
	s->first = 0;
	s->count = 1;
	s->entry[0].time_ns = sc_time(now_ns);
	s->entry[0].amount_ns = config->capacity_ns;
	return 1;
}

/* Time of the first budget: in the past if there is some. */
SC_FN sc_u64 sc_server_next(const struct sc_server *s)
{
	return s->entry[SC_SERVER_AT(s, 0)].time_ns;
}

/*
 * Time for which it may run from now_ns on, in ns; 0 if it has to wait. More may be due when this
 * is used up.
 */
SC_FN sc_u64 sc_server_available(const struct sc_server *s, sc_u64 now_ns)
{
	const struct sc_replenishment *head = &s->entry[SC_SERVER_AT(s, 0)];

	return head->time_ns <= sc_time(now_ns) ? head->amount_ns : 0;
}

/* Drops the first entry. */
SC_FN void sc_server_pop(struct sc_server *s)
{
	s->first = (s->first + 1) % SC_MAX_REPLENISHMENTS;
	s->count -= 1;
}

/*
 * The server became runnable, or (SC_SERVER_STRICT) is dispatched, at now_ns: it uses its budget
 * from now on, together with replenishments that fall due before that budget is used up.
 */
SC_FN void sc_server_wake(struct sc_server *s, sc_u64 now_ns)
{
	sc_u64 now = sc_time(now_ns), amount = s->entry[SC_SERVER_AT(s, 0)].amount_ns;
	sc_u32 turn;

	if (sc_server_next(s) >= now)
		return;
	for (turn = 1; turn < SC_MAX_REPLENISHMENTS; turn++) {
		struct sc_replenishment *next = &s->entry[SC_SERVER_AT(s, 1)];

		if (s->count <= 1 || next->time_ns > now + amount)
			break;
		amount += next->amount_ns;
		sc_server_pop(s);
	}
	s->entry[SC_SERVER_AT(s, 0)].time_ns = now;
	s->entry[SC_SERVER_AT(s, 0)].amount_ns = amount;
}

/*
 * Appends a replenishment, or adds it to the last one if the last one reaches it or the list is
 * full.
 */
SC_FN void sc_server_append(struct sc_server *s, sc_u64 time_ns, sc_u64 amount_ns)
{
	sc_u32 count = s->count;
	struct sc_replenishment *last = &s->entry[SC_SERVER_AT(s, count - 1)];

	if (count == 0 || (count < s->limit && sc_add(last->time_ns, last->amount_ns) < time_ns)) {
		last = &s->entry[SC_SERVER_AT(s, count)];
		last->time_ns = time_ns;
		last->amount_ns = amount_ns;
		s->count = count + 1;
		return;
	}
	/* In a full list it is the earlier budget that waits for the later: the other way round,
	 * there would be more than the capacity in a period. */
	if (sc_add(last->time_ns, last->amount_ns) < time_ns)
		last->time_ns = time_ns;
	last->amount_ns += amount_ns;
}

/*
 * Takes up to used_ns from the first entry, to come back a period later; returns the rest to be
 * taken.
 */
SC_FN sc_u64 sc_server_consume(struct sc_server *s, sc_u64 used_ns)
{
	struct sc_replenishment *head = &s->entry[SC_SERVER_AT(s, 0)];
	sc_u64 time = head->time_ns, part = sc_min(used_ns, head->amount_ns);

	if (part == head->amount_ns) {
		sc_server_pop(s);
	} else {
		head->time_ns = sc_add(time, part);
		head->amount_ns -= part;
	}
	sc_server_append(s, sc_add(time, s->period_ns), part);
	return used_ns - part;
}

/* The server ran for used_ns, perhaps longer than it was allowed to. */
SC_FN void sc_server_charge(struct sc_server *s, sc_u64 used_ns)
{
	sc_u64 used = sc_min(used_ns, s->capacity_ns);
	sc_u32 turn;

	for (turn = 0; turn <= SC_MAX_REPLENISHMENTS; turn++) {
		if (used == 0 || s->count == 0)
			break;
		used = sc_server_consume(s, used);
	}
}

#endif
