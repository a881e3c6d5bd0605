/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the schedulers decided, event by event: what `solocore check-trace` replays and Perfetto shows.
 *
 * Problem: whoever relies on a scheduler wants to see every decision with its reason, and a checker must be
 * able to make them again. Rule: a ring by CPU in a mapped array, one entry of 32 bytes an event, in the
 * order in which the policy was called. Everything that concerns a core is written while its runqueue is
 * locked, so there is one writer at a time; the loader reads what is new some twenty times a second. Entries
 * that it did not read in time are overwritten, and it knows how many by the count.
 *
 * crates/linux/src/schedule/sched_trace.rs repeats the layout, crates/model/src/sched_trace.rs the numbers of the
 * events and what `id`, `a` and `b` mean with each; a test compares them with the objects.
 */
#ifndef SOLOCORE_SCHED_TRACE_H
#define SOLOCORE_SCHED_TRACE_H

#include <solocore/types.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define TRACE_EVENTS 16384u /* a power of two */

enum trace_kind {
	/* VCPUs (solocore/vcpu.h). */
	TRACE_VCPU_ADD = 1,
	TRACE_VCPU_REMOVE = 2,
	TRACE_VCPU_WAKE = 3,
	TRACE_VCPU_BLOCK = 4,
	TRACE_VCPU_TICK = 5,
	TRACE_VCPU_ALLOW = 6,
	TRACE_VCPU_PAUSE = 7,
	TRACE_VCPU_BUDGET = 8,
	TRACE_VCPU_ARRIVE = 9,
	TRACE_VCPU_INTENSITY = 10,
	TRACE_VCPU_LEAVE = 11,
	TRACE_VCPU_RESUME = 12,
	/* Criticality levels (solocore/criticality.h) and time tables. */
	TRACE_LEVEL_ADD = 32,
	TRACE_LEVEL_RELEASE = 33,
	TRACE_LEVEL_COMPLETE = 34,
	TRACE_LEVEL_PICK = 35,
	TRACE_LEVEL_OVERRUN = 36,
	TRACE_LEVEL_SLOT = 37,
	TRACE_LEVEL_TABLE = 38,
	/* What really ran. */
	TRACE_RUNS = 64,
	TRACE_STOPS = 65,
	TRACE_INTRUDER = 66,
};

struct trace_event {
	sc_u64 time_ns; /* CLOCK_MONOTONIC */
	sc_u32 kind;	/* TRACE_* */
	sc_u32 id;
	sc_u64 a;
	sc_u64 b;
};

struct trace_ring {
	sc_u64 written; /* events so far; the next one lies at this number modulo TRACE_EVENTS */
	struct trace_event events[TRACE_EVENTS];
};

_Static_assert(sizeof(struct trace_event) == 32, "shared with crates/linux/src/schedule/sched_trace.rs");
_Static_assert(sizeof(struct trace_ring) == 8 + 32 * TRACE_EVENTS,
	       "shared with crates/linux/src/schedule/sched_trace.rs");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the loader makes it the number of CPUs */
	__type(key, __u32);
	__type(value, struct trace_ring);
} trace_rings SEC(".maps");

/* 0: nobody wants the events. The loader decides before it loads. */
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
