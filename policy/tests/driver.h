/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The protocol of the policy tests: an event goes in, an answer comes out.
 *
 * Each mechanism has a world (drive/<mechanism>.h) that starts zeroed, and one function that
 * applies an event to it. The same functions are built for the host and for BPF, so that a vector
 * or a random sequence of events can be replayed through both, through the Rust binding and through
 * the reference models; the answers must be the same, word for word. Unused words are 0; so is the
 * answer to what is refused.
 */
#ifndef SOLOCORE_TESTS_DRIVER_H
#define SOLOCORE_TESTS_DRIVER_H

#include <solocore/types.h>

struct sc_event {
	sc_u32 op;
	sc_u32 id;
	sc_u64 now;
	sc_u64 a, b, c, d;
};

struct sc_answer {
	sc_u64 word[6];
};

#define SC_WORDS 6u

static inline __attribute__((unused)) void sc_answer_clear(struct sc_answer *out)
{
	sc_u32 i;

	for (i = 0; i < SC_WORDS; i++)
		out->word[i] = 0;
}

#endif
