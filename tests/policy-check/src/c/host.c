/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The drivers of the policy tests on the host. All policies are static here, so that no symbol
 * meets those of policy/rust. A mechanism goes by its place in src/mechanisms.rs.
 */
#include <stddef.h>

/* Made by build.rs: includes the drivers, and lists them in SC_HOST_MECHANISMS. */
#include "drivers.h"

/* Bytes of a world; 0: there is no such driver. */
sc_u64 sc_host_world_size(sc_u32 mechanism)
{
	switch (mechanism) {
#define SC_SIZE(index, name)                                                                       \
	case index:                                                                                \
		return sizeof(struct sc_world_##name);
		SC_HOST_MECHANISMS(SC_SIZE)
	default:
		return 0;
	}
}

/* Applies an event to a world, which starts zeroed. */
void sc_host_drive(sc_u32 mechanism, void *world, const struct sc_event *event,
		   struct sc_answer *answer)
{
	switch (mechanism) {
#define SC_DRIVE(index, name)                                                                      \
	case index:                                                                                \
		sc_drive_##name(world, event, answer);                                             \
		break;
		SC_HOST_MECHANISMS(SC_DRIVE)
	default:
		sc_answer_clear(answer);
	}
}

/*
 * For measuring: applies all events to each of `world_count` worlds, which lie `stride` bytes
 * apart, and sums the answers' first words. The empty statement keeps the compiler from dropping
 * what nobody reads.
 */
#define SC_REPEAT(index, name)                                                                     \
	static sc_u64 repeat_##name(unsigned char *worlds, sc_u64 stride, sc_u32 world_count,      \
				    const struct sc_event *events, sc_u32 event_count)             \
	{                                                                                          \
		struct sc_answer answer;                                                           \
		sc_u64 sum = 0;                                                                    \
		sc_u32 w, e;                                                                       \
                                                                                                   \
		for (w = 0; w < world_count; w++) {                                                \
			struct sc_world_##name *world = (void *)(worlds + w * stride);             \
                                                                                                   \
			for (e = 0; e < event_count; e++) {                                        \
				sc_drive_##name(world, &events[e], &answer);                       \
				__asm__ volatile("" : : "r"(&answer) : "memory");                  \
				sum += answer.word[0];                                             \
			}                                                                          \
		}                                                                                  \
		return sum;                                                                        \
	}
SC_HOST_MECHANISMS(SC_REPEAT)

sc_u64 sc_host_repeat(sc_u32 mechanism, unsigned char *worlds, sc_u64 stride, sc_u32 world_count,
		      const struct sc_event *events, sc_u32 event_count)
{
	switch (mechanism) {
#define SC_REPEAT_CASE(index, name)                                                                \
	case index:                                                                                \
		return repeat_##name(worlds, stride, world_count, events, event_count);
		SC_HOST_MECHANISMS(SC_REPEAT_CASE)
	default:
		return 0;
	}
}
