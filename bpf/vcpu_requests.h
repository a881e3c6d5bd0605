/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * VCPUs: the requests to memory of each.
 *
 * Problem: background time is to go to the least memory-intensive VCPU (maracas, section III), and
 * a counter counts a CPU, for any thread there. Rule: at each change of threads, the counter's
 * growth since the last one is that of the VCPU of the thread that leaves. solocore divides the
 * sums by the time that the VCPU ran, once a period, and reports the quotient (vcpu_report). Before
 * that it runs on each CPU for a moment, so that a thread that has run all the time is counted as
 * well.
 * Does not cover: requests of the kernel's own threads, of real-time threads, and of solocore's
 * threads that no VCPU holds, which are nobody's. Loaded only where the policy for background time
 * asks for it.
 */
#ifndef SOLOCORE_VCPU_REQUESTS_H
#define SOLOCORE_VCPU_REQUESTS_H

#include "intruders.h"
#include "vcpu_core.h"

/* By CPU: the counter of requests. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, SC_MAX_CPUS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} requests SEC(".maps");

SEC("tp_btf/sched_switch")
int BPF_PROG(requested, _Bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct bpf_perf_event_value value = {};
	__u32 cpu = bpf_get_smp_processor_id();
	struct vcpu_cpu *c = cpu_of(cpu);
	struct vcpu_info *v;
	__u64 made;

	if (!c || bpf_perf_event_read_value(&requests, BPF_F_CURRENT_CPU, &value, sizeof(value)))
		return 0;
	made = sc_sub(value.counter, c->counted);
	c->counted = value.counter;
	if (made == 0 || exempt(prev) || is_real_time(prev))
		return 0;
	v = info_of(vcpu_of(prev, cpu));
	if (v)
		__sync_fetch_and_add(&v->requests, made);
	return 0;
}

#endif
