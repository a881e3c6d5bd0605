/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * VCPUs: the maps, and the calls of the policy for a core.
 *
 * Rule: every call of the policy goes through core_call, which writes its record. Before the call
 * the core is settled (core_settle): a VCPU that used its budget up since then is charged to that
 * instant, not to the later one of the call. All of this happens under the lock of the core's
 * runqueue (for the reason in vcpu.bpf.c).
 */
#ifndef SOLOCORE_VCPU_CORE_H
#define SOLOCORE_VCPU_CORE_H

#include "kfuncs.h"
#include "sched_trace.h"
#include "vcpu_intf.h"

#define CLOCK_MONOTONIC 1
#define BPF_F_TIMER_ABS 1ull
#define BPF_F_TIMER_CPU_PIN 2ull

const volatile struct vcpu_settings settings SEC(".rodata.vcpu");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the loader makes it the number of CPUs */
	__type(key, __u32);
	__type(value, struct vcpu_cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SC_MAX_TASKS);
	__type(key, __u32);
	__type(value, struct vcpu_info);
} vcpus SEC(".maps");

/* A VCPU on its way from one core to another, or to its first. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SC_MAX_TASKS);
	__type(key, __u32);
	__type(value, struct sc_vcpu);
} transit SEC(".maps");

/* The VCPU that a thread is bound to (VCPU_BOUND, VCPU_HELD). solocore writes it, and children
 * inherit it. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} bound SEC(".maps");

struct cpu_timer {
	struct bpf_timer timer;
	__u64 armed_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SC_MAX_CPUS + 1); /* the last is the balancing's */
	__type(key, __u32);
	__type(value, struct cpu_timer);
} timers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sc_throttle);
} throttles SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sc_balance);
} balances SEC(".maps");

static __always_inline struct vcpu_cpu *cpu_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline struct vcpu_info *info_of(__u32 id)
{
	return bpf_map_lookup_elem(&vcpus, &id);
}

/*
 * A kernel thread, or one of solocore, unless its VCPU holds it as it holds other threads: the
 * memory's monitor, and the one that moves pages. A thread that starts the jobs of a VCPU is only
 * bound to it: each job is in the VCPU from its fork on. The VCPU's budget must not keep the thread
 * itself from a CPU.
 */
static __always_inline __u32 exempt(struct task_struct *p)
{
	__u32 *to;

	if ((p->flags & PF_KTHREAD) != 0)
		return 1;
	if (settings.loader_pid == 0 || p->tgid != settings.loader_pid)
		return 0;
	to = bpf_task_storage_get(&bound, p, 0, 0);
	return !to || (*to & VCPU_HELD) == 0;
}

/* The VCPU that a thread on this CPU belongs to. */
static __always_inline __u32 vcpu_of(struct task_struct *p, __u32 cpu)
{
	__u32 *to = bpf_task_storage_get(&bound, p, 0, 0), id, own;
	struct vcpu_info *v;

	if (!to || *to == 0)
		return cpu;
	own = *to & ~VCPU_HELD;
	id = (own & 0xfff) - 1;
	v = info_of(id);
	if (!v || v->core == SC_NONE || own != VCPU_BOUND(id, v->generation))
		return cpu;
	if ((__u32)p->nr_cpus_allowed < settings.cpus &&
	    !bpf_cpumask_test_cpu(v->core, p->cpus_ptr))
		return cpu;
	return id;
}

static __always_inline void set_bit(sc_u64 *words, __u32 id)
{
	__sync_fetch_and_or(&words[(id / 64) & (VCPU_WORDS - 1)], 1ull << (id % 64));
}

static __always_inline __u64 answer_of(const struct vcpu_cpu *c)
{
	return c->core.current | (__u64)c->core.mode << 32;
}

/* Brings a core to now_ns. A VCPU that has used its budget up before then is charged only until
 * that instant. */
__attribute__((noinline)) int core_settle(__u32 cpu, __u64 now_ns)
{
	struct vcpu_cpu *c = cpu_of(cpu);
	__u32 turn;

	if (!c)
		return 0;
	for (turn = 0; turn < 3; turn++) {
		__u32 id = c->core.current;
		__u64 end;

		if (c->core.paused || c->core.mode != SC_MODE_FOREGROUND || id >= SC_MAX_TASKS)
			return 1;
		end = c->core.last_ns +
		      sc_server_available(&c->core.vcpu[SC_TASK(id)].server, c->core.last_ns);
		if (now_ns <= end)
			return 1;
		sc_vcpu_tick(&c->core, end);
		trace(cpu, end, TRACE_VCPU_TICK, 0, answer_of(c), c->core.until_ns);
		if (c->core.mode == SC_MODE_FOREGROUND && c->core.current == id)
			continue;
		sc_vcpu_pause(&c->core, end);
		trace(cpu, end, TRACE_VCPU_PAUSE, 0, answer_of(c), c->core.until_ns);
		c->late++;
		c->late_ns += now_ns - end;
		if (now_ns - end > c->most_late_ns)
			c->most_late_ns = now_ns - end;
		return 1;
	}
	return 1;
}

/* One call of the policy, and its record. */
__attribute__((noinline)) int core_call(__u32 cpu, __u32 kind, __u32 id, __u64 now_ns)
{
	struct vcpu_cpu *c = cpu_of(cpu);

	if (!c)
		return 0;
	switch (kind) {
	case TRACE_VCPU_TICK:
		sc_vcpu_tick(&c->core, now_ns);
		break;
	case TRACE_VCPU_WAKE:
		if (!sc_vcpu_wake(&c->core, id, now_ns))
			return 0;
		break;
	case TRACE_VCPU_BLOCK:
		if (!sc_vcpu_block(&c->core, id, now_ns))
			return 0;
		break;
	case TRACE_VCPU_RESUME:
		sc_vcpu_resume(&c->core, now_ns);
		break;
	case TRACE_VCPU_ALLOW:
		sc_vcpu_allow(&c->core, id, now_ns);
		break;
	default:
		sc_vcpu_pause(&c->core, now_ns);
		break;
	}
	trace(cpu, now_ns, kind, id, answer_of(c), c->core.until_ns);
	return 1;
}

/* As core_call, now. */
static __always_inline int core_now(__u32 cpu, __u32 kind, __u32 id)
{
	__u64 now = bpf_ktime_get_ns();

	core_settle(cpu, now);
	return core_call(cpu, kind, id, now);
}

static int timer_fired(void *map, __u32 *key, struct cpu_timer *timer)
{
	timer->armed_ns = 0;
	scx_bpf_kick_cpu(*key, SCX_KICK_PREEMPT);
	return 0;
}

/*
 * Asks the CPU again at until_ns. A timer that goes off somewhat earlier stays: it is then armed
 * again, at most once for each halving of the remaining time, so that short-lived threads do not
 * program the clock each time.
 */
static __always_inline void arm(__u32 cpu, __u64 until_ns, __u64 now_ns)
{
	struct cpu_timer *timer = bpf_map_lookup_elem(&timers, &cpu);

	if (!timer || until_ns >= SC_MAX_TIME)
		return;
	if (timer->armed_ns <= until_ns &&
	    timer->armed_ns >= now_ns + sc_sub(until_ns, now_ns) / 2 && timer->armed_ns > now_ns)
		return;
	timer->armed_ns = until_ns;
	bpf_timer_start(&timer->timer, until_ns, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN);
}

/* Time at which a core must be asked again: in background mode also for the throttling. */
static __always_inline __u64 until_of(const struct vcpu_cpu *c)
{
	if (settings.check_ns != 0 && c->core.mode != SC_MODE_FOREGROUND)
		return sc_min(c->core.until_ns, c->core.last_ns + settings.check_ns);
	return c->core.until_ns;
}

/* A thread of this picked VCPU runs from now on, unless another VCPU has got budget just now. */
static __always_inline void core_resumes(struct vcpu_cpu *c, __u32 cpu, __u32 id)
{
	__u64 now = bpf_ktime_get_ns();

	core_call(cpu, TRACE_VCPU_RESUME, 0, now);
	if (c->core.current == id) {
		arm(cpu, until_of(c), now);
		return;
	}
	core_call(cpu, TRACE_VCPU_PAUSE, 0, now);
	c->strays++;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

#endif
