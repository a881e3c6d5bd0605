/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that go offline, before the kernel says so.
 *
 * Problem: the kernel makes such a CPU inactive, and from then on does not ask which task it gives
 * to it. It then waits for all sections that read by RCU, and only after them calls `cpu_offline`.
 * A task that was preempted in such a section and may run on that CPU only would never end it. All
 * stood still for 20 s, until the kernel unloaded the scheduler.
 * Rule: a timer looks every few milliseconds for a CPU that is online and not active. Any CPU that
 * then chooses a task first sends those that wait for the leaving CPU to its local queue. The
 * kernel takes them from there to other CPUs.
 *
 * Source: Linux, kernel/sched/core.c (sched_cpu_deactivate), kernel/sched/ext.c (scx_rq_online).
 * Does not cover: a kernel without the addresses of its data (CONFIG_KALLSYMS_ALL).
 */
#ifndef SOLOCORE_LEAVING_H
#define SOLOCORE_LEAVING_H

#include "kfuncs.h"
#include <solocore/types.h>

#define NO_CPU 0xffffffffu
#define CPU_WORDS (SC_MAX_CPUS / 64)

extern const void __cpu_active_mask __ksym __weak;
extern const void __cpu_online_mask __ksym __weak;

/* A CPU that goes offline, or NO_CPU. */
static __u32 leaving = NO_CPU;

/* The time between two looks, and that of the next one: where two CPUs write it at once, the later
 * time may stay. */
#define LOOK_NS 4000000ull
static __u64 next_look;

/* Looks for such a CPU among the first `cpus`. */
static __always_inline void leaving_look(__u32 cpus)
{
	__u64 active[CPU_WORDS] = {}, online[CPU_WORDS] = {}, found = 0;
	__u32 word, bit, first = 0;

	if (!&__cpu_active_mask || !&__cpu_online_mask ||
	    bpf_probe_read_kernel(active, sizeof(active), &__cpu_active_mask) ||
	    bpf_probe_read_kernel(online, sizeof(online), &__cpu_online_mask))
		return;
	for (word = 0; word < CPU_WORDS && !found; word++) {
		found = online[word] & ~active[word];
		first = word * 64;
	}
	for (bit = 0; found && bit < 64 && (found & 1) == 0; bit++) {
		found >>= 1;
		first++;
	}
	leaving = found && first < cpus ? first : NO_CPU;
}

/*
 * Ends a scheduler that has no callback for such a CPU. The kernel does so too, but after its wait.
 * For each choice of a task.
 */
static __always_inline void leaving_ends(__u32 cpus, __u64 now)
{
	static char text[] = "cpu %d going offline";
	unsigned long long cpu;

	if (now < next_look)
		return;
	next_look = now + LOOK_NS;
	leaving_look(cpus);
	if (leaving == NO_CPU)
		return;
	cpu = leaving;
	scx_bpf_error_bstr(text, &cpu, sizeof(cpu));
}

/*
 * Is the task in a section that reads by RCU? The kernel waits for its end wherever it changes. The
 * running task is in one while it runs a program of BPF: that does not count.
 */
static __always_inline __u32 reads_by_rcu(const struct task_struct *p)
{
	int sections;

	if (!bpf_core_field_exists(p->rcu_read_lock_nesting))
		return 0;
	sections = p->rcu_read_lock_nesting;
	return sections > (p->pid == bpf_get_current_task_btf()->pid);
}

#endif
