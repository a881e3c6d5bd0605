/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A mechanism with a mutated header, for replay.c. MECHANISM and DRIVER come from mutate.py. */
#include DRIVER

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

const sc_u64 replay_world_size = sizeof(struct JOIN(sc_world_, MECHANISM));

void replay_drive(void *world, const struct sc_event *event, struct sc_answer *answer)
{
	JOIN(sc_drive_, MECHANISM)(world, event, answer);
}
