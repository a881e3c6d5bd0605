/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The helper engine: for kernels without sched_ext.
 *
 * Problem: without a scheduler of its own, a BPF program cannot keep tasks off a CPU.
 * Rule: the overflow program wakes a SCHED_FIFO thread of solocore that is bound to the CPU and
 * occupies it until the tick gives the budget back: ordinary tasks wait behind it, real-time tasks
 * of higher priority pass by. This is how MemGuard does it with a kernel thread.
 *
 * The hole: the kernel's fair server runs ordinary tasks for 50 ms of each second in which they
 * would get less, before real-time tasks, the helper among them. crates/linux turns it off where
 * the kernel allows that. Elsewhere, an ordinary task that overflows a second time in a throttled
 * period is held in the overflow program itself, until the period ends. That delays no real-time
 * task longer than the fair server does. Hardware counters have no such hold: their programs run in
 * interrupts that cannot be interrupted, and the kernel lowers the rate of long ones.
 *
 * Does not cover: waking takes tens of microseconds, in which the task goes on; kernel threads
 * wait, too, for at most one period.
 */
#include "engine.h"
#include "kfuncs.h"
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

/* Clock readings at 20 ns and more each: at least as long as any hold. */
#define HOLD_STEPS (1u << 20)

struct hold {
	__u64 until_ns;
};

static long hold_step(__u32 step, struct hold *h)
{
	__u64 now = bpf_ktime_get_ns();

	/* No tick gets in while this program runs. */
	if (lock_settings.policy == RUN_BWLOCK && step % 64 == 63 && lock_holders(now) == 0)
		return 1;
	return now >= h->until_ns;
}

/* Holds the running task until its period ends, if it is an ordinary one. */
static void hold_task(struct run_core *c)
{
	struct task_struct *p = bpf_get_current_task_btf();
	__u64 now = bpf_ktime_get_ns();
	struct hold h = {.until_ns = c->guard.next_ns + settings.period_ns / 2};

	if (p->prio < MAX_RT_PRIO || (p->flags & PF_KTHREAD) != 0)
		return;
	h.until_ns = sc_min(h.until_ns, now + settings.hold_ns);
	bpf_loop(HOLD_STEPS, hold_step, &h, 0);
	c->held++;
}

static void cpu_stop_soon(__u32 cpu, struct run_core *c)
{
	void *ring = bpf_map_lookup_elem(&wakeups, &cpu);
	__u32 message = cpu;

	c->stop_seen = 1;
	/* A message that was not taken has woken the helper already. */
	if (ring && bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) == 0)
		bpf_ringbuf_output(ring, &message, sizeof(message), BPF_RB_FORCE_WAKEUP);
}

static void cpu_stop(__u32 cpu, struct run_core *c)
{
	__u32 again = c->stop_seen;

	cpu_stop_soon(cpu, c);
	if (again && settings.hold_ns != 0)
		hold_task(c);
}

/* The helper watches `throttled` while it occupies the CPU. */
static void cpu_go(__u32 cpu)
{
}

static void cpu_go_all(void)
{
}

static void cpu_ticked(__u64 now)
{
}

static void counted_begins(__u32 cpu)
{
}

static int counted_ends(__u32 cpu)
{
	return 0;
}

/* Called by the helper on its own CPU, while it occupies it: has a shared round begun? */
SEC("syscall")
int ask_again(void *ctx)
{
	return core_ask_again(bpf_get_smp_processor_id());
}

char LICENSE[] SEC("license") = "GPL";
