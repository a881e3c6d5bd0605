/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * MemGuard on the kernel's performance counters: what both engines share.
 *
 * Problem: solocore/memguard.h decides, but it knows no counter, no clock and no CPU.
 * Rule: on each regulated CPU a counter interrupts every `sample` accesses, and the program there reports
 * them; a cpu-clock event of the period's length is the timer. An engine says what stopping a CPU means: it
 * defines `cpu_stop`, `cpu_go` and `cpu_go_all` after including this file.
 * Source: single-core-equivalence, section 2.2; Yun et al., RTAS 2013.
 *
 * One-sided error: `sample` divides the budget, and an overflow reports a whole sample, also the part of it
 * that was made before the period began. So a CPU is stopped at its budget or up to one sample before, never
 * after it, but for the time that stopping takes.
 *
 * Lost interrupts: a program of a perf event does not run while another one runs on the same CPU. Both read
 * the counter itself, and what was made but not reported is accounted with the next overflow (`unseen`). An
 * overflow program that finds a tick due starts the period in its place.
 *
 * The first period begins half a period before the first tick: ticks then fall in the middle of what the
 * policy takes for a period, and one that is a little late still starts the next period and not the one
 * after.
 *
 * Writes have a counter of their own where the plan gives them a budget (writes.h); this one is of kind
 * SC_READ.
 *
 * Does not cover: what is not stopped (kernel threads,
 * real-time tasks) is counted all the same.
 */
#ifndef SOLOCORE_REGULATE_H
#define SOLOCORE_REGULATE_H

#include "history.h"
#include "intf.h"
#include "writes.h"

/* A program of a perf event gets this; only helpers look inside. */
struct bpf_perf_event_data;

const volatile struct run_settings settings;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SC_MAX_CPUS);
	__type(key, __u32);
	__type(value, struct run_core);
} cores SEC(".maps");

/* What the cores share. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sc_memguard);
} shared SEC(".maps");

/* By CPU: the counter of accesses. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, SC_MAX_CPUS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} counters SEC(".maps");

static void cpu_stop(__u32 cpu, struct run_core *c);
/* As cpu_stop, where the program may not wait. */
static void cpu_stop_soon(__u32 cpu, struct run_core *c);
static void cpu_go(__u32 cpu);
static void cpu_go_all(void);

static __always_inline struct run_core *core_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&cores, &cpu);
}

static __always_inline struct sc_memguard *guard_of(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&shared, &zero);
}

/* Must what is regulated stay off this CPU? */
static __always_inline __u32 core_throttled(__u32 cpu)
{
	struct run_core *c = core_of(cpu);

	return c && c->started && c->guard.throttled;
}

/* The first tick of a CPU. */
static __always_inline void core_start(struct sc_memguard *g, struct run_core *c, __u64 now, __u64 count)
{
	sc_u64 reservation[SC_KINDS];

	if (settings.period_ns == 0)
		return;
	reservation[SC_READ] = c->reservation;
	reservation[SC_WRITE] = writes_reservation(c);
	if (g->period_ns == 0 &&
	    !sc_memguard_init(g, settings.period_ns, settings.chunk, settings.sharing, settings.regulated))
		return;
	if (!sc_memguard_core_init(g, &c->guard, reservation, c->flags, now - settings.period_ns / 2))
		return;
	/* CPUs start one after the other; what they share goes by the number of the period. */
	c->guard.epoch = (sc_u32)(now / settings.period_ns);
	c->at_start = count;
	writes_start(c);
	c->ticked_ns = now;
	c->stopped_ns = 0;
	c->started = 1;
}

/* The CPU is throttled no longer. */
static __always_inline void core_resumed(struct run_core *c, __u64 now)
{
	if (c->stopped_ns == 0)
		return;
	c->throttled_ns += sc_sub(now, c->stopped_ns);
	c->stopped_ns = 0;
	c->stop_seen = 0;
}

/* Keeps count of the period that has ended, before the policy forgets it. */
static __always_inline void core_tally(struct run_core *c, __u32 cpu, __u64 now, __u64 count)
{
	__u64 made = count - c->at_start, limit = c->guard.budget[SC_READ];

	history_add(cpu, c->ticked_ns, now, c->stopped_ns, made);
	c->periods++;
	c->accesses += made;
	if (made > c->most)
		c->most = made;
	if (!c->guard.spare && limit != SC_UNLIMITED && made > limit + c->sample)
		c->over++;
	if (c->stopped_ns != 0)
		c->throttled++;
	if (now - c->ticked_ns > c->longest_ns)
		c->longest_ns = now - c->ticked_ns;
	c->at_start = count;
	c->ticked_ns = now;
}

#include "lock.h"
#include "dynamic.h"

/* The period is over. */
static __always_inline void core_turn(struct sc_memguard *g, struct run_core *c, __u32 cpu, __u64 now,
				      __u64 count)
{
	__u32 epoch = c->guard.epoch, was = c->guard.throttled;

	core_tally(c, cpu, now, count);
	writes_tally(c);
	sc_memguard_replenish(g, &c->guard, now);
	c->skipped += c->guard.epoch - epoch - 1;
	core_resumed(c, now);
	if (was)
		cpu_go(cpu);
}

SEC("perf_event")
int tick(struct bpf_perf_event_data *ctx)
{
	struct bpf_perf_event_value value = {};
	__u32 cpu = bpf_get_smp_processor_id();
	struct run_core *c = core_of(cpu);
	struct sc_memguard *g = guard_of();
	__u64 now = bpf_ktime_get_ns();

	if (!c || !g || bpf_perf_event_read_value(&counters, BPF_F_CURRENT_CPU, &value, sizeof(value)))
		return 0;
	if (lock_settings.policy == RUN_BWLOCK) {
		__u32 slot = client_slot(bpf_get_current_task_btf());
		struct run_lock *l = lock_of(cpu);

		if (l && lock_tick(c, l, cpu, slot, now, value.counter))
			cpu_stop_soon(cpu, c);
		return 0;
	}
	if (lock_settings.policy == RUN_DYNAMIC) {
		if (dynamic_look(c, cpu, now, value.counter))
			cpu_stop_soon(cpu, c);
		return 0;
	}
	if (!c->started) {
		core_start(g, c, now, value.counter);
		return 0;
	}
	if (now >= c->guard.next_ns)
		core_turn(g, c, cpu, now, value.counter);
	return 0;
}

/* Does what the policy says. */
static __always_inline void core_obey(__u32 verdict, __u32 cpu, struct run_core *c)
{
	if (verdict == SC_GO_ALL) {
		cpu_go_all();
	} else if (verdict == SC_STOP) {
		if (c->stopped_ns == 0)
			c->stopped_ns = bpf_ktime_get_ns();
		cpu_stop(cpu, c);
	}
}

/* The counter of writes. Opened for plain MemGuard only. */
SEC("perf_event")
int write_overflow(struct bpf_perf_event_data *ctx)
{
	struct bpf_perf_event_value value = {};
	__u32 cpu = bpf_get_smp_processor_id();
	struct run_core *c = core_of(cpu);
	struct sc_memguard *g = guard_of();
	__u64 now;

	if (!c || !g || !c->started || lock_settings.policy != RUN_MEMGUARD ||
	    bpf_perf_prog_read_value(ctx, &value, sizeof(value)))
		return 0;
	core_obey(writes_account(g, c, value.counter), cpu, c);
	now = bpf_ktime_get_ns();
	if (now >= c->guard.next_ns + settings.period_ns / 2 &&
	    !bpf_perf_event_read_value(&counters, BPF_F_CURRENT_CPU, &value, sizeof(value)))
		core_turn(g, c, cpu, now, value.counter);
	return 0;
}

SEC("perf_event")
int overflow(struct bpf_perf_event_data *ctx)
{
	struct bpf_perf_event_value value = {};
	__u32 cpu = bpf_get_smp_processor_id(), verdict;
	struct run_core *c = core_of(cpu);
	struct sc_memguard *g = guard_of();
	__u64 made, reported, now;

	if (!c || !g || !c->started || bpf_perf_prog_read_value(ctx, &value, sizeof(value)))
		return 0;
	if (lock_settings.policy == RUN_BWLOCK) {
		__u32 slot = client_slot(bpf_get_current_task_btf());
		struct run_lock *l = lock_of(cpu);

		now = bpf_ktime_get_ns();
		if (!l)
			return 0;
		if (now >= c->guard.next_ns + settings.period_ns / 2)
			lock_tick(c, l, cpu, slot, now, value.counter);
		if (lock_overflow(c, l, cpu, slot, now, value.counter))
			cpu_stop(cpu, c);
		return 0;
	}
	if (lock_settings.policy == RUN_DYNAMIC) {
		dynamic_look(c, cpu, bpf_ktime_get_ns(), value.counter);
		if (c->guard.throttled)
			cpu_stop(cpu, c);
		return 0;
	}
	made = value.counter - c->at_start;
	reported = c->guard.used[SC_READ] + c->sample;
	if (made > reported)
		c->unseen += made - reported;
	verdict = sc_memguard_account(g, &c->guard, SC_READ, c->sample + sc_sub(made, reported));
	core_obey(verdict, cpu, c);
	/* Ticks come half a period after next_ns: this one was lost, or it comes at once and finds nothing to
	 * do. */
	now = bpf_ktime_get_ns();
	if (now >= c->guard.next_ns + settings.period_ns / 2)
		core_turn(g, c, cpu, now, value.counter);
	return 0;
}

/* The CPU changes tasks. Loaded for the bandwidth lock only. */
SEC("tp_btf/sched_switch")
int BPF_PROG(switched, _Bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct bpf_perf_event_value value = {};
	__u32 cpu = bpf_get_smp_processor_id();
	struct run_core *c = core_of(cpu);
	struct run_lock *l = lock_of(cpu);
	__u32 slot;

	if (lock_settings.policy != RUN_BWLOCK || !c || !l)
		return 0;
	slot = client_slot(next);
	if (!c->started) {
		lock_runs(l, next, slot);
		return 0;
	}
	if (bpf_perf_event_read_value(&counters, BPF_F_CURRENT_CPU, &value, sizeof(value)))
		return 0;
	lock_switch(c, l, next, slot, value.counter);
	if (lock_decide(c, l, cpu, bpf_ktime_get_ns()))
		cpu_stop_soon(cpu, c);
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
	if (settings.sharing == SC_SHARE_NONE || sc_memguard_resume(g, &c->guard) == SC_STOP)
		return 1;
	core_resumed(c, bpf_ktime_get_ns());
	return 0;
}

char LICENSE[] SEC("license") = "GPL";

#endif
