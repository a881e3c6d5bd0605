/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Bandwidth regulation of the cores (MemGuard).
 *
 * Problem: a core that misses its caches at full speed slows every other core's memory accesses.
 * Rule: in each period, core i may make Q_i accesses (its reservation), reads and writes counted
 * apart. The access that uses the budget up stops the core until the next period gives the budget
 * back (single-core-equivalence, section 2.2; Yun et al., RTAS 2013). On top of that, for cores
 * that ask for it:
 *   prediction  a core starts the period with its expected use and gives the rest to a pool;
 *   reclaiming  a core that runs out takes from the pool: back to its reservation at once, then in
 *               chunks;
 *   sharing     when every core has used its reservation up, all go on: without limit until the
 *               period ends (spare), or with another reservation each (proportional).
 * Worked values: Q = 100 on two cores, core 0 predicted to use 30. It starts with 30 and 70 are in
 * the pool. Core 1 uses its 100 and takes chunks of 20, three times. Then 10 are left. Core 0 runs
 * out at 30 and asks for the 70 that are missing to its reservation: it gets 10, and stops at 40.
 * Invariants: a core that is told to stop has used at least its budget, and it has exceeded it by
 * less than the accesses reported last. Budgets and pool together make the sum of the reservations,
 * exactly, in every period and round. A hard core starts each period with its whole reservation,
 * independent of the others. Nothing is carried from one period to the next.
 * Concurrency: a core's state is changed by that core only. Others leave a wish in `asked`, taken
 * up at the next period. All cores share only single words that carry the number of their period,
 * changed by compare and swap. So a core with a late timer can neither take from nor give to a
 * period that is over.
 * Known limits: accesses that a counter reports late (skid) are counted when reported and not
 * carried over. A core that gave away too much stops before its reservation is used (never a hard
 * core). So bounds hold where the cores with analysed tasks are hard
 * (crates/analysis/src/interference/mod.rs). Between cores that are 2^31 periods apart, or after a
 * sleep of that length, budget that was given away is lost; reservations are not.
 * Cost: O(1).
 */
#ifndef SOLOCORE_MEMGUARD_H
#define SOLOCORE_MEMGUARD_H

#include "types.h"

/* Kinds of accesses. */
#define SC_READ 0u
#define SC_WRITE 1u
#define SC_KINDS 2u

/* Flags of a core. */
#define SC_HARD 1u    /* never gives anything away */
#define SC_PREDICT 2u /* gives away the part of its budget that it is not predicted to use */
#define SC_RECLAIM 4u /* takes budget that others gave away */

/* Use of the rest of a period when every core has used its reservation. */
#define SC_SHARE_NONE 0u
#define SC_SHARE_SPARE 1u
#define SC_SHARE_PROPORTIONAL 2u

/* State that the cores share. */
struct sc_memguard {
	sc_u64 period_ns;
	sc_u64 chunk;	       /* accesses taken from the pool at a time, >= 1 */
	sc_u32 sharing;	       /* SC_SHARE_* */
	sc_u32 cores;	       /* number of cores that must be done before the rest is shared */
	sc_u64 pool[SC_KINDS]; /* period << 32 | accesses given away in it */
	sc_u64 done; /* period << 32 | round << 16 | cores that have used their reservation in it */
};

struct sc_memguard_core {
	sc_u64 reservation[SC_KINDS]; /* Q, accesses per period; SC_UNLIMITED: not regulated */
	sc_u64 budget[SC_KINDS];      /* accesses granted in this period so far */
	sc_u64 used[SC_KINDS];	      /* accesses made in this period */
	sc_u64 predicted[SC_KINDS];   /* accesses expected per period */
	sc_u64 asked[SC_KINDS]; /* new reservation from the next period on; 0: none. Any core may
				   write it */
	sc_u64 next_ns;		/* start of the next period */
	sc_u32 epoch;		/* number of the period, wrapping */
	sc_u32 round;		/* number of shared rounds in this period */
	sc_u32 flags;
	sc_u32 throttled; /* 1: the core must not run */
	sc_u32 counted;	  /* 1: counted in `done` for this round */
	sc_u32 spare;	  /* 1: no limit until the period ends */
};

/* 0 if a value is out of range: period 1..SC_MAX_SPAN, chunk 1..SC_MAX_ACCESSES, cores
 * 1..SC_MAX_CPUS. */
SC_FN sc_u32 sc_memguard_init(struct sc_memguard *g, sc_u64 period_ns, sc_u64 chunk, sc_u32 sharing,
			      sc_u32 cores)
{
	if (!sc_span_valid(period_ns) || chunk == 0 || chunk > SC_MAX_ACCESSES ||
	    sharing > SC_SHARE_PROPORTIONAL || cores == 0 || cores > SC_MAX_CPUS)
		return 0;
	g->period_ns = period_ns;
	g->chunk = chunk;
	g->sharing = sharing;
	g->cores = cores;
	g->pool[SC_READ] = 0;
	g->pool[SC_WRITE] = 0;
	g->done = 0;
	return 1;
}

/* Whether period `mine` is after the one that the word belongs to. */
SC_FN sc_u32 sc_memguard_newer(sc_u32 mine, sc_u64 word)
{
	sc_u32 ahead = mine - (sc_u32)(word >> 32);

	return ahead != 0 && ahead < 0x80000000u;
}

/*
 * Gives accesses to the pool of this period; 0 also marks the pool as this period's. Accesses that
 * come after the period's end, or find no room, are lost.
 */
SC_FN void sc_memguard_donate(struct sc_memguard *g, sc_u32 kind, sc_u32 epoch, sc_u64 accesses)
{
	sc_u64 *word = &g->pool[kind & 1u];
	sc_u32 attempt;

	for (attempt = 0; attempt < SC_CAS_TRIES; attempt++) {
		sc_u64 old = sc_load(word), amount;

		if (sc_memguard_newer(epoch, old))
			amount = accesses;
		else if ((sc_u32)(old >> 32) == epoch)
			amount = sc_min(sc_add(old & SC_MAX_ACCESSES, accesses), SC_MAX_ACCESSES);
		else
			return;
		if (sc_cas(word, old, (sc_u64)epoch << 32 | amount))
			return;
	}
}

/* Takes up to `wanted` accesses from the pool of this period; returns the number taken. */
SC_FN sc_u64 sc_memguard_take(struct sc_memguard *g, sc_u32 kind, sc_u32 epoch, sc_u64 wanted)
{
	sc_u64 *word = &g->pool[kind & 1u];
	sc_u32 attempt;

	for (attempt = 0; attempt < SC_CAS_TRIES; attempt++) {
		sc_u64 old = sc_load(word), got = sc_min(wanted, old & SC_MAX_ACCESSES);

		if ((sc_u32)(old >> 32) != epoch || got == 0)
			return 0;
		if (sc_cas(word, old, old - got))
			return got;
	}
	return 0;
}

/* The budget with which a period starts; the rest of the reservation goes to the pool. */
SC_FN void sc_memguard_grant(struct sc_memguard *g, struct sc_memguard_core *c, sc_u32 kind)
{
	sc_u64 reservation = c->reservation[kind & 1u], budget = reservation;

	c->used[kind & 1u] = 0;
	if (reservation != SC_UNLIMITED) {
		/* Never 0: hardware reads a counter of 0 as a full turn. */
		if ((c->flags & SC_PREDICT) != 0 && (c->flags & SC_HARD) == 0)
			budget = sc_min(sc_max(c->predicted[kind & 1u], 1), reservation);
		sc_memguard_donate(g, kind, c->epoch, reservation - budget);
	}
	c->budget[kind & 1u] = budget;
}

SC_FN void sc_memguard_begin(struct sc_memguard *g, struct sc_memguard_core *c)
{
	c->throttled = 0;
	c->round = 0;
	c->counted = 0;
	c->spare = 0;
	sc_memguard_grant(g, c, SC_READ);
	sc_memguard_grant(g, c, SC_WRITE);
}

SC_FN sc_u32 sc_memguard_reservation_valid(sc_u64 accesses)
{
	return accesses == SC_UNLIMITED || (accesses >= 1 && accesses <= SC_MAX_ACCESSES);
}

/*
 * Starts the first period of a core at now_ns. Start all cores at the same time. Returns 0, without
 * any change, if a reservation or a flag is out of range.
 */
SC_FN sc_u32 sc_memguard_core_init(struct sc_memguard *g, struct sc_memguard_core *c,
				   const sc_u64 reservation[2], sc_u32 flags, sc_u64 now_ns)
{
	sc_u64 reads = reservation[SC_READ], writes = reservation[SC_WRITE];

	if (!sc_memguard_reservation_valid(reads) || !sc_memguard_reservation_valid(writes) ||
	    flags > (SC_HARD | SC_PREDICT | SC_RECLAIM))
		return 0;
	c->reservation[SC_READ] = reads;
	c->reservation[SC_WRITE] = writes;
	c->predicted[SC_READ] = reads;
	c->predicted[SC_WRITE] = writes;
	c->asked[SC_READ] = 0;
	c->asked[SC_WRITE] = 0;
	c->next_ns = sc_time(now_ns) + g->period_ns;
	c->epoch = 0;
	c->flags = flags;
	sc_memguard_begin(g, c);
	return 1;
}

/*
 * Requests another reservation from the core's next period on. It is the only function that one
 * core may call for another. Returns 0 if it is out of range.
 */
SC_FN sc_u32 sc_memguard_request(struct sc_memguard_core *c, sc_u32 kind, sc_u64 reservation)
{
	if (kind >= SC_KINDS || !sc_memguard_reservation_valid(reservation))
		return 0;
	sc_exchange(&c->asked[kind & 1u], reservation);
	return 1;
}

/* Predicted use of the core: three parts of the last prediction, one of its use, rounded up. */
SC_FN void sc_memguard_learn(struct sc_memguard_core *c, sc_u32 kind)
{
	sc_u64 asked = sc_exchange(&c->asked[kind & 1u], 0);

	if (c->reservation[kind & 1u] != SC_UNLIMITED)
		c->predicted[kind & 1u] = (c->predicted[kind & 1u] * 3 +
					   sc_min(c->used[kind & 1u], SC_MAX_ACCESSES) + 3) >>
					  2;
	if (asked == 0)
		return;
	c->reservation[kind & 1u] = asked;
	if (asked != SC_UNLIMITED)
		c->predicted[kind & 1u] = asked;
}

/* The timer of the period fired at now_ns; 1 if a new period has begun. A late timer skips the
 * periods that passed: their budgets are lost, not saved. */
SC_FN sc_u32 sc_memguard_replenish(struct sc_memguard *g, struct sc_memguard_core *c, sc_u64 now_ns)
{
	sc_u64 now = sc_time(now_ns), begun;

	if (now < c->next_ns || g->period_ns == 0)
		return 0;
	begun = (now - c->next_ns) / g->period_ns + 1;
	c->next_ns += begun * g->period_ns;
	c->epoch += (sc_u32)begun;
	sc_memguard_learn(c, SC_READ);
	sc_memguard_learn(c, SC_WRITE);
	sc_memguard_begin(g, c);
	return 1;
}

/*
 * Reservation of this period for the core so far: one reservation, and one for each shared round.
 */
SC_FN sc_u64 sc_memguard_reserved(const struct sc_memguard_core *c, sc_u32 kind)
{
	return c->reservation[kind & 1u] * (c->spare ? 1u : (sc_u64)c->round + 1);
}

/* Has a limited kind been used up? */
SC_FN sc_u32 sc_memguard_exhausted(const struct sc_memguard_core *c)
{
	if (c->spare)
		return 0;
	return (c->reservation[SC_READ] != SC_UNLIMITED &&
		c->used[SC_READ] >= c->budget[SC_READ]) ||
	       (c->reservation[SC_WRITE] != SC_UNLIMITED &&
		c->used[SC_WRITE] >= c->budget[SC_WRITE]);
}

/* Takes part in a shared round. */
SC_FN void sc_memguard_join(const struct sc_memguard *g, struct sc_memguard_core *c, sc_u32 round)
{
	sc_u64 rounds = round - c->round;
	sc_u32 kind;

	c->round = round;
	c->counted = 0;
	if (g->sharing == SC_SHARE_SPARE)
		c->spare = 1;
	else
		for (kind = SC_READ; kind < SC_KINDS; kind++)
			if (c->reservation[kind] != SC_UNLIMITED)
				c->budget[kind] =
					sc_add(c->budget[kind], rounds * c->reservation[kind]);
	c->throttled = sc_memguard_exhausted(c);
}

/*
 * This core has used its reservation up. Returns 1 if it was the last one, and a shared round
 * begins.
 */
SC_FN sc_u32 sc_memguard_finish(struct sc_memguard *g, struct sc_memguard_core *c)
{
	sc_u32 attempt;

	for (attempt = 0; attempt < SC_CAS_TRIES; attempt++) {
		sc_u64 old = sc_load(&g->done), next;
		sc_u32 count = 1, round = c->round, last;

		if ((sc_u32)(old >> 32) == c->epoch && (sc_u32)(old >> 16 & 0xffffu) == round)
			count = (sc_u32)(old & 0xffffu) + 1;
		else if (!sc_memguard_newer(c->epoch, old) || round != 0)
			return 0;
		last = count >= g->cores && g->sharing != SC_SHARE_NONE &&
		       (g->sharing == SC_SHARE_SPARE ? round == 0 : round < 0xffffu);
		next = (sc_u64)c->epoch << 32 | (sc_u64)(last ? round + 1 : round) << 16 |
		       (last ? 0 : count);
		if (sc_cas(&g->done, old, next)) {
			c->counted = 1;
			return last;
		}
	}
	return 0;
}

/* Tries to enlarge an exhausted budget from the pool: 1 if the core may go on. */
SC_FN sc_u32 sc_memguard_reclaim(struct sc_memguard *g, struct sc_memguard_core *c, sc_u32 kind)
{
	sc_u64 used = c->used[kind & 1u], reserved = sc_memguard_reserved(c, kind);
	sc_u64 target = used < reserved ? reserved : sc_add(used, g->chunk);

	/* The amount asked, never a whole budget. */
	c->budget[kind & 1u] += sc_memguard_take(
		g, kind, c->epoch, sc_min(target - c->budget[kind & 1u], SC_MAX_ACCESSES));
	return used < c->budget[kind & 1u];
}

/* The core made accesses (its counter overflowed, or the core is about to change tasks): SC_GO;
 * SC_STOP until the next period or round; SC_GO_ALL: a shared round begins, and every core must
 * call sc_memguard_resume. */
SC_FN sc_u32 sc_memguard_account(struct sc_memguard *g, struct sc_memguard_core *c, sc_u32 kind,
				 sc_u64 accesses)
{
	if (kind >= SC_KINDS)
		return SC_STOP;
	c->used[kind & 1u] = sc_add(c->used[kind & 1u], accesses);
	if (c->throttled)
		return SC_STOP;
	if (c->spare || c->reservation[kind & 1u] == SC_UNLIMITED ||
	    c->used[kind & 1u] < c->budget[kind & 1u])
		return SC_GO;
	if ((c->flags & SC_RECLAIM) != 0 && sc_memguard_reclaim(g, c, kind))
		return SC_GO;
	c->throttled = 1;
	if (c->counted || c->used[kind & 1u] < sc_memguard_reserved(c, kind) ||
	    !sc_memguard_finish(g, c))
		return SC_STOP;
	sc_memguard_join(g, c, c->round + 1);
	return SC_GO_ALL;
}

/* Some core got SC_GO_ALL: takes part in the shared round if there is one. Harmless at any time. */
SC_FN sc_u32 sc_memguard_resume(struct sc_memguard *g, struct sc_memguard_core *c)
{
	sc_u64 done = sc_load(&g->done);
	sc_u32 round = (sc_u32)(done >> 16 & 0xffffu);

	if ((sc_u32)(done >> 32) == c->epoch && round > c->round)
		sc_memguard_join(g, c, round);
	return c->throttled ? SC_STOP : SC_GO;
}

/* Number of accesses after which the counter must interrupt: 1 to SC_MAX_SAMPLE, never 0. */
SC_FN sc_u64 sc_memguard_sample(const struct sc_memguard_core *c, sc_u32 kind)
{
	if (c->throttled)
		return 1;
	if (c->spare || kind >= SC_KINDS || c->reservation[kind & 1u] == SC_UNLIMITED)
		return SC_MAX_SAMPLE;
	return sc_sample(sc_sub(c->budget[kind & 1u], c->used[kind & 1u]));
}

#endif
