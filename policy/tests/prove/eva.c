/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Input of Frama-C's Eva (prove.sh): a world that starts zeroed, as the protocol says, and then any
 * events in any order, for ever. Eva reports every operation that it cannot prove to be defined in
 * C: an access outside an object, a division by zero, a shift too far, a signed overflow, the use
 * of an uninitialised value.
 *
 * MECHANISM, DRIVER (the file drive/<mechanism>.h) and, for a mechanism with functions that its
 * driver does not call, ALSO (prove/<mechanism>.h) come from prove.sh.
 */
#include DRIVER
#ifdef ALSO
#include ALSO
#else
#define call_also(world, event) (void)0
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

/* Eva takes each read of a volatile object for any value of its type. */
static volatile sc_u64 any;

static struct JOIN(sc_world_, MECHANISM) world;

int main(void)
{
	for (;;) {
		struct sc_event event;
		struct sc_answer answer;

		event.op = (sc_u32)any;
		event.id = (sc_u32)any;
		event.now = any;
		event.a = any;
		event.b = any;
		event.c = any;
		event.d = any;
		JOIN(sc_drive_, MECHANISM)(&world, &event, &answer);
		/* Nothing in an answer is left over from the stack. */
		/*@ assert \initialized(&answer); */
		if (any)
			call_also(&world, &event);
	}
}
