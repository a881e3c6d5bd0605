/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Random events for one mechanism on the host, under AddressSanitizer and
 * UndefinedBehaviorSanitizer (sanitize.sh). After each event the world must be consistent
 * (invariants/<mechanism>.h, where there is one).
 *
 * Arguments: events, seed. MECHANISM, DRIVER and INVARIANTS come from sanitize.sh.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include DRIVER
#include "events.h"
#include "invariants.h"

#define SEQUENCE 400 /* events of a world */

static struct JOIN(sc_world_, MECHANISM) world;

struct random_source {
	sc_u64 state;
	sc_u64 bits;
	sc_u32 left;
};

static sc_u32 random_byte(void *source)
{
	struct random_source *r = source;
	sc_u32 byte;

	if (r->left == 0) {
		/* Knuth's; the low half of its numbers is the worse one. */
		r->state = r->state * 6364136223846793005ull + 1442695040888963407ull;
		r->bits = r->state >> 32;
		r->left = 4;
	}
	byte = (sc_u32)(r->bits & 255u);
	r->bits >>= 8;
	r->left--;
	return byte;
}

/* Runs one world; returns the number of events with a non-zero answer. */
static unsigned long run_world(struct sc_stream *s, sc_u64 events)
{
	struct sc_event event;
	struct sc_answer answer;
	unsigned long answered = 0;
	sc_u32 ready = 0;

	memset(&world, 0, sizeof(world));
	sc_stream_start(s);
	for (sc_u64 i = 0; i < events; i++) {
		sc_stream_event(s, !ready && i % 16 != 15, &event);
		JOIN(sc_drive_, MECHANISM)(&world, &event, &answer);
		for (sc_u32 w = 0; w < SC_WORDS; w++)
			if (answer.word[w] != 0) {
				answered++;
				ready = 1;
				break;
			}
		const char *broken = CHECK(&world, &event, &answer);
		if (broken) {
			fprintf(stderr, "%s: broken after event %llu (op %u, id %u): %s\n",
				MECHANISM_NAME, (unsigned long long)i, event.op, event.id, broken);
			exit(1);
		}
	}
	return answered;
}

int main(int argc, char **argv)
{
	sc_u64 events = argc > 1 ? strtoull(argv[1], 0, 10) : 100000;
	struct random_source source = {
		argc > 2 ? strtoull(argv[2], 0, 10) * 0x9e3779b97f4a7c15ull + 1 : 1, 0, 0};
	struct sc_stream stream = {.next = random_byte, .source = &source};
	unsigned long answered = 0;
	sc_u64 done;

	for (done = 0; done < events; done += SEQUENCE)
		answered += run_world(&stream, SEQUENCE);
	printf("%s: %llu events, %lu answered, no error\n", MECHANISM_NAME,
	       (unsigned long long)done, answered);
	return 0;
}
