/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The programs of a regulated CPU: they pass ticks, overflows and changes of tasks to the
 * regulator.
 *
 * Rule: one regulator acts per run, by `lock_settings.policy`: MemGuard (memguard.h), the bandwidth
 * lock (lock.h) or dynamic budgets (dynamic.h). Both engines include this; each defines what
 * engine.h declares.
 */
#ifndef SOLOCORE_REGULATE_H
#define SOLOCORE_REGULATE_H

#include "core.h"
#include "dynamic.h"
#include "engine.h"
#include "exempt.h"
#include "kfuncs.h"
#include "lock.h"
#include "memguard.h"

/* A program of a perf event gets this; only helpers look inside. */
struct bpf_perf_event_data;

/*
 * The events of this CPU were opened again: it begins as at the first tick, and a throttling from
 * before is over.
 */
static __always_inline void core_begin_again(struct run_core *c, __u32 cpu, __u64 now)
{
	if (!c->guard.throttled)
		return;
	c->guard.throttled = 0;
	core_resumed(c, now);
	cpu_go(cpu);
}

/* The timer of this CPU. */
SEC("perf_event")
int tick(struct bpf_perf_event_data *ctx)
{
	struct bpf_perf_event_value value = {};
	__u32 cpu = bpf_get_smp_processor_id();
	struct run_core *c = core_of(cpu);
	struct sc_memguard *g = guard_of();
	__u64 now = bpf_ktime_get_ns();

	cpu_ticked(now);
	if (!c || !g)
		return 0;
	if (bpf_perf_event_read_value(&counters, BPF_F_CURRENT_CPU, &value, sizeof(value))) {
		c->unread++;
		return 0;
	}
	if (!c->started)
		core_begin_again(c, cpu, now);
	if (lock_settings.policy == RUN_BWLOCK) {
		if (lock_tick(c, cpu, now, value.counter))
			cpu_stop_soon(cpu, c);
		return 0;
	}
	if (lock_settings.policy == RUN_DYNAMIC) {
		if (dynamic_look(c, cpu, now, value.counter))
			cpu_stop_soon(cpu, c);
		return 0;
	}
	memguard_tick(g, c, cpu, now, value.counter);
	return 0;
}

/* Accesses overflowed at this count. */
static __always_inline void accesses_counted(struct sc_memguard *g, struct run_core *c, __u32 cpu,
					     __u64 count)
{
	if (lock_settings.policy == RUN_BWLOCK) {
		if (lock_overflow(c, cpu, count))
			cpu_stop(cpu, c);
		return;
	}
	if (lock_settings.policy == RUN_DYNAMIC) {
		if (dynamic_overflow(c, cpu, count))
			cpu_stop(cpu, c);
		return;
	}
	memguard_overflow(g, c, cpu, count);
}

/* A counter of this CPU overflowed: that of accesses or of writes. */
static __always_inline int counted(struct bpf_perf_event_data *ctx, __u32 writes)
{
	struct bpf_perf_event_value value = {};
	__u32 cpu = bpf_get_smp_processor_id();
	struct run_core *c = core_of(cpu);
	struct sc_memguard *g = guard_of();

	if (!c || !g || !c->started || bpf_perf_prog_read_value(ctx, &value, sizeof(value)))
		return 0;
	counted_begins(cpu);
	if (!writes)
		accesses_counted(g, c, cpu, value.counter);
	else if (lock_settings.policy == RUN_MEMGUARD)
		memguard_write_overflow(g, c, cpu, value.counter);
	return counted_ends(cpu);
}

/* The counter of writes. Opened for plain MemGuard only. */
SEC("perf_event")
int write_overflow(struct bpf_perf_event_data *ctx)
{
	return counted(ctx, 1);
}

/* The counter of accesses of this CPU. */
SEC("perf_event")
int overflow(struct bpf_perf_event_data *ctx)
{
	return counted(ctx, 0);
}

/* The CPU changes tasks. Loaded for the bandwidth lock and for plain MemGuard. */
SEC("tp_btf/sched_switch")
int BPF_PROG(switched, _Bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct bpf_perf_event_value value = {};
	__u32 cpu = bpf_get_smp_processor_id();
	struct run_core *c = core_of(cpu);

	if (!c)
		return 0;
	if (lock_settings.policy == RUN_BWLOCK) {
		if (lock_switched(c, cpu, next))
			cpu_stop_soon(cpu, c);
		return 0;
	}
	if (lock_settings.policy != RUN_MEMGUARD || exempt_neither(c, next))
		return 0;
	if (bpf_perf_event_read_value(&counters, BPF_F_CURRENT_CPU, &value, sizeof(value)))
		exempt_unread(c);
	else
		exempt_switched(c, next, value.counter);
	return 0;
}

/* Another CPU began a shared round (cpu_go_all): takes part in it. Runs on the CPU itself. */
static __always_inline __u32 core_ask_again(__u32 cpu)
{
	struct run_core *c = core_of(cpu);
	struct sc_memguard *g = guard_of();

	if (!c || !g || !c->started || !c->guard.throttled)
		return 0;
	if (lock_settings.policy != RUN_MEMGUARD)
		return 1;
	return memguard_ask_again(g, c);
}

#endif
