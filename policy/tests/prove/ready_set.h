/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls the functions that the driver does not call. */
static void call_also(struct sc_world_ready_set *world, const struct sc_event *event)
{
	if (event->a)
		sc_ready_next(&world->set, event->id);
	else
		sc_ready_init(&world->set);
}
