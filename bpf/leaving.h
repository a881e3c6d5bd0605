/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that go offline, before the kernel says so.
 *
 * Problem: the kernel makes such a CPU inactive, and from then on does not ask which task it gives
 * to it. It then waits for the end of all sections that read by RCU, and only after that calls
 * `cpu_offline`. A task that was preempted in such a section, and may run on that CPU only, would
 * never end it: the CPU stayed for 20 s, until the kernel unloaded the scheduler.
 * Rule: a look, every few milliseconds, finds a CPU whose state is above the one that the kernel
 * wants. The engine of budgets sends the tasks that wait for this CPU to its local queue, from
 * where the kernel takes them to other CPUs. The schedulers of VCPUs and levels end.
 *
 * Source: Linux, kernel/cpu.c (cpuhp_set_state), kernel/sched/core.c (sched_cpu_deactivate).
 * Does not cover: looks need a timer of a regulated CPU, or a choice of a task; a kernel that does
 * not name `cpuhp_state` in its types.
 */
#ifndef SOLOCORE_LEAVING_H
#define SOLOCORE_LEAVING_H

#include "kfuncs.h"
#include <solocore/types.h>

#define NO_CPU 0xffffffffu

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
enum cpuhp_state {
	CPUHP_OFFLINE = 0,
};

/* A CPU's state: the higher, the more of it works. */
struct cpuhp_cpu_state {
	enum cpuhp_state state;
	enum cpuhp_state target;
};
#pragma clang attribute pop

extern const struct cpuhp_cpu_state cpuhp_state __ksym __weak;

/* A CPU that goes offline, or NO_CPU. */
static __u32 leaving = NO_CPU;

/* The time between two looks, and that of the next one: where two CPUs write it at once, the later
 * time may stay. */
#define LOOK_NS 4000000ull
static __u64 next_look;

static long leaving_step(__u32 cpu, __u32 *found)
{
	const struct cpuhp_cpu_state *of = bpf_per_cpu_ptr(&cpuhp_state, cpu);

	if (!of || of->state <= of->target)
		return 0;
	*found = cpu;
	return 1;
}

/* Looks for such a CPU among the first `cpus`. */
static __always_inline void leaving_look(__u32 cpus)
{
	__u32 found = NO_CPU;

	if (!&cpuhp_state)
		return;
	bpf_loop(cpus, leaving_step, &found, 0);
	if (found != leaving)
		leaving = found;
}

/* The same, if it is time for a look; 1: it was. */
static __always_inline __u32 leaving_looked(__u32 cpus, __u64 now)
{
	if (now < next_look)
		return 0;
	next_look = now + LOOK_NS;
	leaving_look(cpus);
	return 1;
}

/*
 * Ends a scheduler that has no callback for such a CPU. The kernel does so too, but after its wait.
 * For each choice of a task.
 */
static __always_inline void leaving_ends(__u32 cpus, __u64 now)
{
	static char text[] = "cpu %d going offline";
	unsigned long long cpu;

	if (!leaving_looked(cpus, now) || leaving == NO_CPU)
		return;
	cpu = leaving;
	scx_bpf_error_bstr(text, &cpu, sizeof(cpu));
}

#endif
