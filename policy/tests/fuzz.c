/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libFuzzer's way into a policy: bytes become events (events.h), the driver applies them to a world
 * that starts zeroed, and after each one the world must be consistent (invariants/<mechanism>.h). A
 * first byte of 0xff says that the rest are events as they are, 48 bytes each.
 *
 * MECHANISM, DRIVER and INVARIANTS come from fuzz.sh. A crash is replayed by the program with the
 * file that libFuzzer left.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include DRIVER
#include "events.h"
#include "invariants.h"

static struct JOIN(sc_world_, MECHANISM) world;

struct input {
	const unsigned char *data;
	size_t left;
};

static sc_u32 input_byte(void *source)
{
	struct input *in = source;

	if (in->left == 0)
		return SC_NONE;
	in->left--;
	return *in->data++;
}

static sc_u32 apply(const struct sc_event *event)
{
	struct sc_answer answer;
	const char *broken;

	memset(&answer, 0xff, sizeof(answer));
	JOIN(sc_drive_, MECHANISM)(&world, event, &answer);
	broken = CHECK(&world, event, &answer);
	if (broken) {
		fprintf(stderr, "%s: broken after op %u of %u: %s\n", MECHANISM_NAME, event->op,
			event->id, broken);
		abort();
	}
	return answer.word[0] != 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct input input = {data, size};
	struct sc_stream stream = {.next = input_byte, .source = &input};
	struct sc_event event;
	sc_u32 ready = 0, tries;

	memset(&world, 0, sizeof(world));
	if (size > 0 && data[0] == 0xff) {
		for (data++, size--; size >= sizeof(event);
		     data += sizeof(event), size -= sizeof(event)) {
			memcpy(&event, data, sizeof(event));
			apply(&event);
		}
		return 0;
	}
	sc_stream_start(&stream);
	for (tries = 0; !stream.ended; tries++) {
		sc_stream_event(&stream, !ready && tries < 4, &event);
		if (!stream.ended)
			ready |= apply(&event);
	}
	return 0;
}
