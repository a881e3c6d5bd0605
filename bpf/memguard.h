/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * MemGuard on the kernel's performance counters, for both engines.
 *
 * Problem: solocore/memguard.h decides, but it must hear of accesses and of periods.
 * Rule: as in core.h. Writes have a counter of their own where the plan gives them a budget
 * (writes.h); the other one is of kind SC_READ.
 * Source: single-core-equivalence, section 2.2; Yun et al., RTAS 2013.
 *
 * Lost interrupts: a program of a perf event does not run while another one runs on the same CPU.
 * Both read the counter itself, and unreported accesses are accounted with the next overflow
 * (`unseen`). An overflow program that finds a tick due starts the period in its place.
 *
 * The first period begins half a period before the first tick. Ticks then fall in the middle of the
 * policy's periods. A tick that is a little late still starts the next period and not the one
 * after.
 */
#ifndef SOLOCORE_BPF_MEMGUARD_H
#define SOLOCORE_BPF_MEMGUARD_H

#include "core.h"
#include "engine.h"
#include "writes.h"

/* State that the cores share. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sc_memguard);
} shared SEC(".maps");

static __always_inline struct sc_memguard *guard_of(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&shared, &zero);
}

/* The first tick of a CPU. */
static __always_inline void memguard_start(struct sc_memguard *g, struct run_core *c, __u64 now,
					   __u64 count)
{
	sc_u64 reservation[SC_KINDS];

	if (settings.period_ns == 0)
		return;
	reservation[SC_READ] = c->reservation;
	reservation[SC_WRITE] = writes_reservation(c);
	if (g->period_ns == 0 && !sc_memguard_init(g, settings.period_ns, settings.chunk,
						   settings.sharing, settings.regulated))
		return;
	if (!sc_memguard_core_init(g, &c->guard, reservation, c->flags,
				   now - settings.period_ns / 2))
		return;
	/* CPUs start one after the other; their shared state goes by the number of the period. */
	c->guard.epoch = (sc_u32)(now / settings.period_ns);
	if (writes_start(c))
		return;
	c->at_start = count;
	c->exempt_at_start = exempt_so_far(c, count);
	c->stopped_at = 0;
	c->ticked_ns = now;
	c->stopped_ns = 0;
	c->started = 1;
}

/* The period is over. */
static __always_inline void memguard_turn(struct sc_memguard *g, struct run_core *c, __u32 cpu,
					  __u64 now, __u64 count)
{
	__u32 epoch = c->guard.epoch, was = c->guard.throttled;

	if (writes_tally(c))
		return;
	core_tally(c, cpu, now, count);
	sc_memguard_replenish(g, &c->guard, now);
	c->skipped += c->guard.epoch - epoch - 1;
	core_resumed(c, now);
	if (was)
		cpu_go(cpu);
}

/* The timer. */
static __always_inline void memguard_tick(struct sc_memguard *g, struct run_core *c, __u32 cpu,
					  __u64 now, __u64 count)
{
	if (!c->started) {
		memguard_start(g, c, now, count);
		return;
	}
	if (now >= c->guard.next_ns)
		memguard_turn(g, c, cpu, now, count);
}

/* Obeys the policy's verdict. 1 if the CPU must stop now and did not have to before. */
static __always_inline __u32 memguard_obey(__u32 verdict, __u32 cpu, struct run_core *c)
{
	__u32 stops = verdict == SC_STOP && c->stopped_ns == 0;

	if (stops)
		c->stopped_ns = bpf_ktime_get_ns();
	if (verdict == SC_STOP)
		cpu_stop(cpu, c);
	else if (verdict == SC_GO_ALL)
		cpu_go_all();
	return stops;
}

/* The counter of accesses overflowed at this count. */
static __always_inline void memguard_overflow(struct sc_memguard *g, struct run_core *c, __u32 cpu,
					      __u64 count)
{
	__u64 made = count - c->at_start, reported = c->guard.used[SC_READ] + c->sample, now;
	__u32 verdict;

	if (made > reported)
		c->unseen += made - reported;
	verdict = sc_memguard_account(g, &c->guard, SC_READ, c->sample + sc_sub(made, reported));
	if (memguard_obey(verdict, cpu, c))
		exempt_stopped(c, count);
	now = bpf_ktime_get_ns();
	if (tick_lost(c, now))
		memguard_turn(g, c, cpu, now, count);
}

/* The counter of writes overflowed at this count. */
static __always_inline void memguard_write_overflow(struct sc_memguard *g, struct run_core *c,
						    __u32 cpu, __u64 writes)
{
	struct bpf_perf_event_value value = {};
	__u32 stops = memguard_obey(writes_account(g, c, writes), cpu, c), lost;
	__u64 now = bpf_ktime_get_ns();

	lost = tick_lost(c, now);
	if ((!stops && !lost) ||
	    bpf_perf_event_read_value(&counters, BPF_F_CURRENT_CPU, &value, sizeof(value)))
		return;
	if (stops)
		exempt_stopped(c, value.counter);
	if (lost)
		memguard_turn(g, c, cpu, now, value.counter);
}

/* A shared round has begun, and this CPU takes part. 1: it stays throttled. */
static __always_inline __u32 memguard_ask_again(struct sc_memguard *g, struct run_core *c)
{
	if (settings.sharing == SC_SHARE_NONE || sc_memguard_resume(g, &c->guard) == SC_STOP)
		return 1;
	core_resumed(c, bpf_ktime_get_ns());
	return 0;
}

#endif
