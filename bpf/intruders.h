/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Real-time threads that run beside a sched_ext scheduler.
 *
 * Problem: SCHED_FIFO, SCHED_RR and SCHED_DEADLINE threads are scheduled before every sched_ext
 * thread, so they take time that was promised to others, and the scheduler is not asked. Rule: this
 * program sees them at the change of threads (tp_btf/sched_switch), and records by thread the time
 * of the run and the owner of that time. It distinguishes 256 threads; the scheduler's own counts
 * have all of them. Priorities are those that the threads asked for: a holder of a lock for a
 * real-time thread is not an intruder. crates/linux/src/schedule/intruders.rs reads the records.
 */
#ifndef SOLOCORE_INTRUDERS_H
#define SOLOCORE_INTRUDERS_H

#include "kfuncs.h"
#include "sched_trace.h"
#include <solocore/types.h>

#define SCHED_FIFO 1u
#define SCHED_RR 2u
#define SCHED_DEADLINE 6u

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct sched_intruder);
} sched_intruders SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___intruder {
	unsigned int policy;
	unsigned int rt_priority;
	char comm[16];
};

#pragma clang attribute pop

static __always_inline __u32 is_real_time(struct task_struct *p)
{
	__u32 policy = ((struct task_struct___intruder *)p)->policy;

	return policy == SCHED_FIFO || policy == SCHED_RR || policy == SCHED_DEADLINE;
}

/* Records a run of this time; `whose`: the owner of the time, below INTRUDER_WHOSE. */
static __always_inline void intruder_ran(struct task_struct *p, __u64 ns, __u32 whose)
{
	struct task_struct___intruder *t = (void *)p;
	struct sched_intruder fresh = {}, *i;
	__u32 pid = p->pid;

	i = bpf_map_lookup_elem(&sched_intruders, &pid);
	if (!i) {
		fresh.pid = pid;
		fresh.tgid = p->tgid;
		bpf_probe_read_kernel_str(fresh.name, sizeof(fresh.name), t->comm);
		bpf_map_update_elem(&sched_intruders, &pid, &fresh, BPF_NOEXIST);
		i = bpf_map_lookup_elem(&sched_intruders, &pid);
		if (!i)
			return;
	}
	i->policy = t->policy;
	i->priority = t->rt_priority;
	i->ns += ns;
	i->times++;
	i->longest_ns = sc_max(i->longest_ns, ns);
	if (whose < INTRUDER_WHOSE)
		i->lost_ns[whose] += ns;
}

static __always_inline void intruder_traced(__u32 cpu, __u64 now, struct task_struct *p,
					    __u64 beside)
{
	struct task_struct___intruder *t = (void *)p;

	trace(cpu, now, TRACE_INTRUDER, p->pid,
	      t->policy == SCHED_DEADLINE ? SC_UNLIMITED : t->rt_priority, beside);
}

#endif
