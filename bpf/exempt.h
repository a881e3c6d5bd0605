/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whose accesses a period has: those of programs with a budget, and those of threads without one.
 *
 * Problem: a counter of a CPU counts all that runs there. Kernel threads, solocore and real-time
 * threads above the engine are not stopped, and a stopped CPU still takes interrupts. A period that
 * is over its budget does not say which of them were the cause.
 * Rule: at each change of tasks the accesses since the last one are those of the task that leaves.
 * The idle task and interrupts count with the programs that have a budget. The accesses after the
 * moment of a stop are counted again by themselves: they are the way to the stop, and what
 * interrupts and the idle task do on a stopped CPU.
 *
 * One-sided error: an overflow in the middle of a change finds the accesses of the task that leaves
 * with the programs, never the other way round. So does a change at which the counter cannot be
 * read. One exception: if that overflow also ends a period, in place of a lost tick, a thread
 * without a budget has its accesses of this period in the next one.
 * Does not cover: the bandwidth lock, which keeps its own count (lock.h), and dynamic budgets;
 * stops that a shared round ends before the period does.
 */
#ifndef SOLOCORE_BPF_EXEMPT_H
#define SOLOCORE_BPF_EXEMPT_H

#include "core.h"
#include "kfuncs.h"

/* A thread that no budget stops. The idle task is none. */
static __always_inline __u32 has_no_budget(const struct task_struct *p)
{
	return p->pid != 0 &&
	       ((p->flags & PF_KTHREAD) != 0 || p->prio < (int)settings.exempt_prio ||
		(settings.loader_pid != 0 && p->tgid == settings.loader_pid));
}

/* Does the CPU change between two tasks with a budget? Then no account begins or ends, and the
 * counter, whose reading takes long, need not be asked. */
static __always_inline __u32 exempt_neither(const struct run_core *c,
					    const struct task_struct *next)
{
	return c->runs == RUNS_LIMITED && !has_no_budget(next);
}

/* The CPU changes to this task, at this count. */
static __always_inline void exempt_switched(struct run_core *c, const struct task_struct *next,
					    __u64 count)
{
	__u64 so_far = exempt_so_far(c, count);

	/* In this order: between the two, the accesses are the programs'. */
	c->switched_at = count;
	barrier();
	c->exempt = so_far;
	c->runs = has_no_budget(next) ? RUNS_EXEMPT : RUNS_LIMITED;
}

/* The CPU changes to another task, and its counter cannot be read: the accesses are the programs'.
 */
static __always_inline void exempt_unread(struct run_core *c)
{
	if (c->runs != 0)
		c->runs = RUNS_LIMITED;
}

#endif
