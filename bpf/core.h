/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A regulated CPU: its state, its counter, and the operations that all regulators share.
 *
 * Problem: the policies know no counter, no clock and no CPU.
 * Rule: on each regulated CPU a counter interrupts every `sample` accesses, and the program there
 * reports them; a cpu-clock event of the period's length is the timer (regulate.h). A regulator
 * (memguard.h, lock.h, dynamic.h) sets `guard.throttled` of its CPU, and keeps count of each period
 * here.
 *
 * One-sided error: `sample` divides the budget, and an overflow reports a whole sample, also the
 * part of it that was made before the period began. So a CPU is stopped at its budget or up to one
 * sample before. It never stops later, except for the time that stopping takes.
 *
 * Does not cover: tasks that are not stopped (kernel threads, real-time tasks); their accesses are
 * counted all the same.
 */
#ifndef SOLOCORE_CORE_H
#define SOLOCORE_CORE_H

#include "history.h"
#include "intf.h"

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

const volatile struct run_settings settings;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SC_MAX_CPUS);
	__type(key, __u32);
	__type(value, struct run_core);
} cores SEC(".maps");

/* By CPU: the counter of accesses. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, SC_MAX_CPUS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} counters SEC(".maps");

static __always_inline struct run_core *core_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&cores, &cpu);
}

/*
 * The budget that the loader has asked for since the last call, which the CPU has from now on; 0:
 * none. For regulators that know one kind of accesses; MemGuard takes its wishes by itself. The
 * loader writes its wish for writes first, so it is there once that for reads is.
 */
static __always_inline __u64 core_asked(struct run_core *c)
{
	__u64 asked = sc_exchange(&c->guard.asked[SC_READ], 0);

	sc_exchange(&c->guard.asked[SC_WRITE], 0);
	if (asked != 0)
		c->guard.reservation[SC_READ] = asked;
	return asked;
}

/* The CPU begins with the loader's budget of accesses, and without one of writes. */
static __always_inline void core_reserve(struct run_core *c)
{
	core_asked(c);
	c->guard.reservation[SC_READ] = c->reservation;
	c->guard.reservation[SC_WRITE] = SC_UNLIMITED;
}

/* Whether regulated tasks must stay off this CPU. */
static __always_inline __u32 core_throttled(__u32 cpu)
{
	struct run_core *c = core_of(cpu);

	return c && c->started && c->guard.throttled;
}

/* The CPU is throttled no longer. */
static __always_inline void core_resumed(struct run_core *c, __u64 now)
{
	if (c->stopped_ns == 0)
		return;
	c->throttled_ns += sc_sub(now, c->stopped_ns);
	c->stopped_ns = 0;
	c->stopped_at = 0;
	c->stop_seen = 0;
}

/* Accesses of threads that no budget stops (exempt.h). A counter opened again begins at 0. */
static __always_inline __u64 exempt_so_far(const struct run_core *c, __u64 count)
{
	return c->exempt + (c->runs == RUNS_EXEMPT ? sc_sub(count, c->switched_at) : 0);
}

/* The CPU is stopped at this count. */
static __always_inline void exempt_stopped(struct run_core *c, __u64 count)
{
	c->stopped_at = count;
	c->exempt_at_stop = exempt_so_far(c, count);
}

/* Keeps count of the accesses in the period that has ended, by whose they were. */
static __always_inline void exempt_tally(struct run_core *c, __u64 made, __u64 count, __u64 most)
{
	__u64 so_far = exempt_so_far(c, count), exempt = sc_sub(so_far, c->exempt_at_start);
	__u64 limited = sc_sub(made, exempt), after = 0;

	c->exempt_at_start = so_far;
	if (exempt > c->most_exempt)
		c->most_exempt = exempt;
	if (limited > c->most_limited)
		c->most_limited = limited;
	if (limited > most)
		c->over_limited++;
	if (c->stopped_at != 0)
		after = sc_sub(sc_sub(count, c->stopped_at), sc_sub(so_far, c->exempt_at_stop));
	if (after > c->most_after)
		c->most_after = after;
	if (sc_sub(limited, after) > most)
		c->over_before++;
	c->stopped_at = 0;
}

/* Keeps count of the period that has ended, before the policy forgets it. */
static __always_inline void core_tally(struct run_core *c, __u32 cpu, __u64 now, __u64 count)
{
	__u64 made = count - c->at_start, limit = c->guard.budget[SC_READ];
	__u64 most = c->guard.spare || limit == SC_UNLIMITED ? SC_UNLIMITED : limit + c->tolerance;

	history_add(cpu, c->ticked_ns, now, c->stopped_ns, made);
	c->periods++;
	c->accesses += made;
	if (made > c->most)
		c->most = made;
	if (made > most)
		c->over++;
	if (c->runs != 0)
		exempt_tally(c, made, count, most);
	if (c->stopped_ns != 0)
		c->throttled++;
	if (now - c->ticked_ns > c->longest_ns)
		c->longest_ns = now - c->ticked_ns;
	c->at_start = count;
	c->ticked_ns = now;
}

/*
 * Ticks come half a period after next_ns: this one was lost, or it comes soon and finds nothing to
 * do.
 */
static __always_inline __u32 tick_lost(const struct run_core *c, __u64 now)
{
	return now >= c->guard.next_ns + settings.period_ns / 2;
}

#endif
