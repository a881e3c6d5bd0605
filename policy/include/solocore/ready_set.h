/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A set of ranks: it gives the ready task with the highest priority.
 *
 * Problem: a core with fixed, distinct priorities asks at every scheduling point for the first
 * ready task.
 * Rule: rank 0 is the highest priority. A bit per rank says "ready", and a bit per word of them
 * says "this word is not empty". The first rank is the lowest bit of the lowest such word (rate
 * monotonic when ranks follow periods; Liu and Layland, 1973).
 * Invariants: bit w of `summary` is set exactly if word[w] is not 0; count is the number of ranks.
 * Known limits: ranks below SC_MAX_TASKS; the set belongs to one core, and no operation is atomic.
 * A set must start zeroed (sc_ready_init does it for an old one). Cost: O(1), also for the next
 * rank after a given one.
 */
#ifndef SOLOCORE_READY_SET_H
#define SOLOCORE_READY_SET_H

#include "types.h"

#define SC_READY_WORDS ((SC_MAX_TASKS + 63u) / 64u)
#define SC_READY_WORD(i) SC_MASKED(i, SC_READY_WORDS)

struct sc_ready_set {
	sc_u64 summary;		     /* bit w: word[w] is not 0 */
	sc_u64 word[SC_READY_WORDS]; /* bit b of word w: rank 64 w + b is in the set */
	sc_u32 count;		     /* ranks in the set */
	sc_u32 reserved;
};

SC_FN void sc_ready_init(struct sc_ready_set *s)
{
	sc_u32 i;

	s->summary = 0;
	s->count = 0;
	s->reserved = 0;
	for (i = 0; i < SC_READY_WORDS; i++)
		s->word[i] = 0;
}

/* Number of the lowest bit of `x` that is set; x is not 0. Without branches, for the BPF verifier.
 * */
SC_FN sc_u32 sc_bit_lowest(sc_u64 x)
{
	sc_u64 below = (x & (0 - x)) - 1; /* ones below the lowest bit: count them */

	below -= (below >> 1) & 0x5555555555555555ull;
	below = (below & 0x3333333333333333ull) + ((below >> 2) & 0x3333333333333333ull);
	below = (below + (below >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return (sc_u32)((below * 0x0101010101010101ull) >> 56) & 127u;
}

SC_FN sc_u32 sc_ready_contains(const struct sc_ready_set *s, sc_u32 rank)
{
	if (rank >= SC_MAX_TASKS)
		return 0;
	return (sc_u32)(s->word[SC_READY_WORD(rank / 64)] >> (rank % 64)) & 1u;
}

/* 0 if the rank is too large or already there. */
SC_FN sc_u32 sc_ready_add(struct sc_ready_set *s, sc_u32 rank)
{
	if (rank >= SC_MAX_TASKS || sc_ready_contains(s, rank))
		return 0;
	s->word[SC_READY_WORD(rank / 64)] |= 1ull << (rank % 64);
	s->summary |= 1ull << (rank / 64);
	s->count++;
	return 1;
}

/* 0 if the rank is not there. */
SC_FN sc_u32 sc_ready_remove(struct sc_ready_set *s, sc_u32 rank)
{
	if (!sc_ready_contains(s, rank))
		return 0;
	s->word[SC_READY_WORD(rank / 64)] &= ~(1ull << (rank % 64));
	if (s->word[SC_READY_WORD(rank / 64)] == 0)
		s->summary &= ~(1ull << (rank / 64));
	s->count--;
	return 1;
}

/* The first rank, or SC_NONE. */
SC_FN sc_u32 sc_ready_first(const struct sc_ready_set *s)
{
	sc_u32 at;

	if (s->summary == 0)
		return SC_NONE;
	at = sc_bit_lowest(s->summary);
	if (at >= SC_READY_WORDS)
		return SC_NONE;
	return at * 64 + sc_bit_lowest(s->word[SC_READY_WORD(at)]);
}

/* The first rank from `from` on, or SC_NONE. To walk a set, ask again from the answer plus 1. */
SC_FN sc_u32 sc_ready_next(const struct sc_ready_set *s, sc_u32 from)
{
	sc_u64 word, summary;
	sc_u32 at = from / 64;

	if (from >= SC_MAX_TASKS || at >= SC_READY_WORDS)
		return SC_NONE;
	word = s->word[SC_READY_WORD(at)] & (~0ull << (from % 64));
	if (word == 0) {
		/* The words above this one. Two shifts: a shift by 64 is undefined. */
		summary = s->summary & (~0ull << at << 1);
		if (summary == 0)
			return SC_NONE;
		at = sc_bit_lowest(summary);
		if (at >= SC_READY_WORDS)
			return SC_NONE;
		word = s->word[SC_READY_WORD(at)];
	}
	return at * 64 + sc_bit_lowest(word);
}

#endif
