/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls the functions that the driver does not call. */
static void call_also(struct sc_world_levels *world, const struct sc_event *event)
{
	if (event->id < SC_WORLD_CPUS)
		sc_level_core_init(&world->core[event->id], event->id, event->now);
}
