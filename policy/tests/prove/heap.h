/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls the functions that the driver does not call. */
static void call_also(struct sc_world_heap *world, const struct sc_event *event)
{
	(void)event;
	sc_heap_init(&world->heap);
}
