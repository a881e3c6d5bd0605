/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Decisions of the schedulers, event by event: `solocore check-trace` replays them, and Perfetto
 * shows them.
 *
 * Problem: a user who relies on a scheduler wants to see every decision with its reason, and a
 * checker must be able to make them again. Rule: a ring by CPU in a mapped array, one entry of 32
 * bytes an event, in the order in which the policy was called. Everything that concerns a core is
 * written while its runqueue is locked, so there is one writer at a time; the loader reads the new
 * entries some twenty times a second. Entries that it did not read in time are overwritten; the
 * count gives their number.
 *
 * crates/linux/build.rs makes the Rust of this layout. crates/model/src/sched_trace.rs has the
 * numbers of the events, and the meaning of `id`, `a` and `b` with each; a test compares them with
 * the objects.
 */
#ifndef SOLOCORE_SCHED_TRACE_H
#define SOLOCORE_SCHED_TRACE_H

#include "sched_intf.h"

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the loader makes it the number of CPUs */
	__type(key, __u32);
	__type(value, struct trace_ring);
} trace_rings SEC(".maps");

/* 0: no option asks for events. The loader decides before it loads. */
const volatile __u32 traced SEC(".rodata.trace");

static __always_inline void trace(__u32 cpu, __u64 time_ns, __u32 kind, __u32 id, __u64 a, __u64 b)
{
	struct trace_ring *ring;
	struct trace_event *e;

	if (!traced)
		return;
	ring = bpf_map_lookup_elem(&trace_rings, &cpu);
	if (!ring)
		return;
	e = &ring->events[ring->written & (TRACE_EVENTS - 1)];
	e->time_ns = time_ns;
	e->kind = kind;
	e->id = id;
	e->a = a;
	e->b = b;
	ring->written++;
}

#endif
