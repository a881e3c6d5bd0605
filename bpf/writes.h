/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Budgets of writes: a second counter on each CPU, for both engines.
 *
 * Problem: lines read and lines written back are different events, and MemGuard counts them apart
 * (solocore/memguard.h, SC_WRITE).
 * Rule: as in core.h, with a counter, a sample and an overflow program of their own; the CPU stops
 * when either budget is spent, and the tick gives back both. A CPU whose `write_sample` is 0 counts
 * no writes and pays one comparison a tick for it. A counter that cannot be read ends no period:
 * solocore sees that none ends (regulate/liveness.rs), and opens the events again.
 * Source: single-core-equivalence, section 2.2; Yun et al., RTAS 2013.
 *
 * Does not cover: the bandwidth lock and dynamic budgets, which have one kind; writes in the
 * history of periods.
 */
#ifndef SOLOCORE_WRITES_H
#define SOLOCORE_WRITES_H

#include "intf.h"

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* By CPU: the counter of writes. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, SC_MAX_CPUS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} write_counters SEC(".maps");

/* The counter of this CPU as it is now; 1 if it cannot be read. */
static __always_inline __u32 writes_read(__u64 *count)
{
	struct bpf_perf_event_value value = {};

	if (bpf_perf_event_read_value(&write_counters, BPF_F_CURRENT_CPU, &value, sizeof(value)))
		return 1;
	*count = value.counter;
	return 0;
}

/* Accesses per period: no limit where writes are not counted. */
static __always_inline __u64 writes_reservation(const struct run_core *c)
{
	return c->write_sample != 0 ? c->write_reservation : SC_UNLIMITED;
}

/* The first tick of a CPU. 1 if the counter cannot be read: the CPU does not begin. */
static __always_inline __u32 writes_start(struct run_core *c)
{
	__u64 count;

	if (c->write_sample == 0)
		return 0;
	if (writes_read(&count)) {
		c->unread++;
		return 1;
	}
	c->write_at_start = count;
	return 0;
}

/* Keeps count of the period that has ended. 1 if the counter cannot be read: the period goes on. */
static __always_inline __u32 writes_tally(struct run_core *c)
{
	__u64 count, made, limit = c->guard.budget[SC_WRITE];

	if (c->write_sample == 0)
		return 0;
	if (writes_read(&count)) {
		c->unread++;
		return 1;
	}
	made = count - c->write_at_start;
	c->writes += made;
	if (made > c->most_writes)
		c->most_writes = made;
	if (!c->guard.spare && limit != SC_UNLIMITED && made > limit + c->write_sample)
		c->over_writes++;
	c->write_at_start = count;
	return 0;
}

/* The counter of writes overflowed at this count. Returns the policy's verdict. */
static __always_inline __u32 writes_account(struct sc_memguard *g, struct run_core *c, __u64 count)
{
	__u64 made = count - c->write_at_start,
	      reported = c->guard.used[SC_WRITE] + c->write_sample;

	if (made > reported)
		c->unseen_writes += made - reported;
	return sc_memguard_account(g, &c->guard, SC_WRITE,
				   c->write_sample + sc_sub(made, reported));
}

#endif
