/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The helper engine: for kernels without sched_ext.
 *
 * Problem: without a scheduler of its own, a BPF program cannot keep tasks off a CPU.
 * Rule: the overflow program wakes a SCHED_FIFO thread of solocore that is bound to the CPU and occupies it until the tick
 * gives the budget back: ordinary tasks wait behind it, real-time tasks of higher priority pass by. This is how MemGuard
 * does it with a kernel thread.
 * Does not cover: waking takes tens of microseconds, in which the task goes on; kernel threads wait, too, for at
 * most one period; the kernel's fair server gives ordinary tasks 5 % of a starved CPU all the same, unless it
 * is turned off (crates/linux/src/engine/helper.rs).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "regulate.h"

/* By CPU: the way to wake its helper. */
struct wakeup_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, SC_MAX_CPUS);
	__type(key, __u32);
	__array(values, struct wakeup_ring);
} wakeups SEC(".maps");

static void cpu_stop(__u32 cpu, struct run_core *c)
{
	void *ring = bpf_map_lookup_elem(&wakeups, &cpu);
	__u32 message = cpu;

	if (ring && bpf_ringbuf_output(ring, &message, sizeof(message), BPF_RB_FORCE_WAKEUP))
		c->refused_wakeups++;
}

/* The helper watches `throttled` while it occupies the CPU. */
static void cpu_go(__u32 cpu)
{
}

static void cpu_go_all(void)
{
}

/* Called by the helper on its own CPU, while it occupies it: has a shared round begun? */
SEC("syscall")
int ask_again(void *ctx)
{
	return core_ask_again(bpf_get_smp_processor_id());
}
