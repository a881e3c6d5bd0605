/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The latest periods of each CPU, for pictures: the accesses, and the start of the throttling.
 *
 * Problem: counts give the number of throttlings of a CPU, not their times.
 * Rule: a ring by CPU in a mapped array. Only the CPU's own programs write, one entry a period, and
 * count it afterwards; the loader reads the new entries some twenty times a second. Entries that it
 * did not read in time are overwritten; the count gives their number.
 *
 * Does not cover: a throttling that ended within its period (a shared round): only a throttling
 * that lasts until the period's end is kept.
 *
 * crates/linux/build.rs makes the Rust of this layout; a test compares it with the objects.
 */
#ifndef SOLOCORE_HISTORY_H
#define SOLOCORE_HISTORY_H

#include "intf.h"

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the loader makes it the number of CPUs */
	__type(key, __u32);
	__type(value, struct run_history);
} history SEC(".maps");

static __always_inline void history_add(__u32 cpu, __u64 start, __u64 end, __u64 stopped,
					__u64 accesses)
{
	struct run_history *h = bpf_map_lookup_elem(&history, &cpu);
	struct run_period *p;

	if (!h)
		return;
	p = &h->periods[h->written & (HISTORY_PERIODS - 1)];
	p->start_ns = start;
	p->end_ns = end;
	p->stopped_ns = stopped;
	p->accesses = accesses;
	h->written++;
}

#endif
