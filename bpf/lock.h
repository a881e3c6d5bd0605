/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bandwidth lock on the kernel's performance counters, for both engines.
 *
 * Problem: solocore/bwlock.h decides, but a client takes the lock with a store to its page, which
 * causes no event. Rule: each limited CPU checks the lock itself. It counts the holders at every
 * overflow of its counter, at every tick, and when it changes tasks. A holder is a CPU with a
 * running thread whose page (`run_lock.slot`) says that it is in a section. So a lock reaches a CPU
 * with its next sample of accesses, before it can do more harm than that. A release reaches it with
 * its next tick, which comes some ten times per period while there are clients (crates/linux
 * changes the timer then). The holders are counted again, as in the paper (bwlock, Algorithm 1);
 * the policy's own count serves schedulers that see every change. A thread that does not run holds
 * nothing: one that is preempted, stopped, or dead releases by that.
 *
 * Tasks of the real-time policies and the threads of clients count as real-time. They are never
 * throttled. An overflow reports the whole sample, as in core.h: the error is one-sided.
 *
 * The budget beside a lock is that of the CPU (`reservation`). The loader can ask for another one,
 * which the CPU takes between two periods, also while the lock is held.
 *
 * Without the hook at the change of tasks (a kernel may refuse it), the running thread is known as
 * of the last tick.
 * Does not cover: a CPU without accesses notices the lock only with its tick; before that, it has
 * no reason to stop.
 */
#ifndef SOLOCORE_LOCK_H
#define SOLOCORE_LOCK_H

#include "clients.h"
#include "core.h"
#include "engine.h"
#include "kfuncs.h"
#include "lock_intf.h"

const volatile struct lock_settings lock_settings SEC(".rodata.lock");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SC_MAX_CPUS);
	__type(key, __u32);
	__type(value, struct run_lock);
} lock_cores SEC(".maps");

static __always_inline struct run_lock *lock_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&lock_cores, &cpu);
}

/*
 * The overflow of a hardware counter interrupts everything, also `switched` in the middle of a
 * change. So a change of the CPU's state is marked. 0: a change is under way, and the mark tells it
 * of this call.
 */
static __always_inline __u32 lock_enter(struct run_lock *l)
{
	__u32 free = l->inside == 0;

	if (free)
		l->inside = 1;
	else
		l->missed = 1;
	barrier();
	return free;
}

/*
 * 1: a program was turned away meanwhile. A program that comes after the reset of `inside` is let
 * in.
 */
static __always_inline __u32 lock_leave(struct run_lock *l)
{
	__u32 missed;

	barrier();
	l->inside = 0;
	barrier();
	missed = l->missed != 0;
	l->missed = 0;
	return missed;
}

/* Is the owner of this page in a section that still counts? */
static __noinline __u32 slot_holds(__u32 slot, __u64 now)
{
	struct run_slot *s = bpf_map_lookup_elem(&lock_slots, &slot);
	struct sc_page *page = page_at(&lock_pages, slot);
	__u64 word;

	if (!s || !page)
		return 0;
	word = sc_load(&page->sections);
	if ((__u32)word == 0) {
		s->since_ns = 0;
		return 0;
	}
	if (s->since_ns == 0 || s->section != word >> 32) {
		s->section = word >> 32;
		s->since_ns = now;
	}
	if (lock_settings.max_hold_ns == 0 || s->endless ||
	    sc_sub(now, s->since_ns) <= lock_settings.max_hold_ns)
		return 1;
	s->cut = s->section + 1;
	return 0;
}

/* The number of CPUs that run a holder of the lock. */
static __noinline __u32 lock_holders(__u64 now)
{
	struct run_clients *clients = clients_of();
	__u32 cpu, holders = 0;

	if (!clients || (clients->threads | clients->programs) == 0)
		return 0;
	for (cpu = 0; cpu < SC_MAX_CPUS; cpu++) {
		struct run_lock *l;
		__u64 slot;

		if (cpu >= settings.cpus)
			break;
		l = lock_of(cpu);
		if (!l)
			break;
		slot = sc_load(&l->slot);
		if (slot != 0)
			holders += slot_holds(slot - 1, now);
	}
	return holders;
}

/* Accesses in this period of tasks that are not real-time. */
static __always_inline __u64 limited_made(const struct run_core *c, const struct run_lock *l,
					  __u64 count)
{
	return sc_sub(count - c->at_start, l->exempt);
}

/* Charges the accesses since the last look to the running task. */
static __always_inline void lock_charge(struct run_lock *l, __u64 count)
{
	if (l->core.realtime)
		l->exempt += count - l->counted;
	if (l->unlimited && l->lock.holders != 0)
		l->beside += count - l->counted;
	l->counted = count;
}

/* Notes the page of the running thread, on a CPU that is not regulated. */
static __always_inline void lock_runs(struct run_lock *l, struct task_struct *p, __u32 slot)
{
	if (settings.loader_pid == 0 || p->tgid != settings.loader_pid)
		l->slot = slot;
}

/* This task, with this page, runs here, if that is news. */
static __always_inline void lock_switch(struct run_core *c, struct run_lock *l,
					struct task_struct *p, __u32 slot, __u64 count)
{
	__u32 realtime;
	__u64 missing;

	lock_charge(l, count);
	/* The helper runs in place of the stopped tasks. */
	if (settings.loader_pid != 0 && p->tgid == settings.loader_pid)
		return;
	realtime = slot != 0 || (p->prio < MAX_RT_PRIO && p->pid != 0);
	if (l->pid == p->pid && l->slot == slot && l->core.realtime == realtime)
		return;
	l->pid = p->pid;
	l->slot = slot;
	l->unlimited = realtime && !(p->flags & PF_KTHREAD);
	missing = sc_sub(limited_made(c, l, count), l->core.used);
	sc_bwlock_switch(&l->lock, &l->core, l->core.busy ? &l->task : 0, 0, missing);
	if (p->pid == 0)
		return;
	l->task.alive = 0;
	sc_bwlock_task_init(&l->task, realtime);
	sc_bwlock_switch(&l->lock, &l->core, 0, &l->task, 0);
}

/* Gets the present verdict, and obeys it. 1 if the CPU must stop now and did not have to before. */
static __always_inline __u32 lock_decide(struct run_core *c, struct run_lock *l, __u32 cpu,
					 __u64 now)
{
	__u32 was = c->guard.throttled;

	l->lock.holders = lock_holders(now);
	sc_bwlock_update(&l->lock, &l->core);
	if (l->lock.holders == 0)
		l->whole = 0;
	c->guard.throttled = l->core.throttled;
	if (!was && l->core.throttled) {
		c->stopped_ns = now;
		l->stops++;
		return 1;
	}
	if (was && !l->core.throttled) {
		core_resumed(c, now);
		if (l->lock.holders == 0)
			l->frees++;
		cpu_go(cpu);
	}
	return 0;
}

static __always_inline void lock_start(struct run_core *c, struct run_lock *l, __u32 cpu, __u64 now,
				       __u64 count)
{
	core_reserve(c);
	if (!sc_bwlock_init(&l->lock, settings.period_ns, lock_settings.max_budget, c->reservation))
		return;
	sc_bwlock_core_init(&l->lock, &l->core, cpu, now - settings.period_ns / 2);
	c->guard.next_ns = l->core.next_ns;
	c->guard.budget[SC_READ] = SC_UNLIMITED;
	c->at_start = count;
	l->counted = count;
	c->ticked_ns = now;
	c->started = 1;
}

/* A period is over: keeps count of it. Another budget holds from its end on. */
static __always_inline void lock_turn(struct run_core *c, struct run_lock *l, __u32 cpu, __u64 now,
				      __u64 count)
{
	__u64 asked;

	if (l->whole)
		c->guard.budget[SC_READ] = l->lock.min_budget + l->exempt;
	if (l->lock.holders != 0)
		l->held++;
	core_tally(c, cpu, now, count);
	if (settings.period_ns != 0)
		c->skipped += sc_sub(now, l->core.next_ns) / settings.period_ns;
	c->guard.budget[SC_READ] = SC_UNLIMITED;
	asked = core_asked(c);
	if (asked != 0)
		sc_bwlock_limit(&l->lock, asked);
	l->exempt = 0;
	l->counted = count;
	/* It counts as a whole period under the lock if it begins under it. */
	l->whole = l->lock.holders != 0;
}

/*
 * The timer, or an overflow that finds it late; `slot` is the page of the running thread. 1 if the
 * CPU must stop now and did not have to before.
 */
static __always_inline __u32 lock_look(struct run_core *c, struct run_lock *l, __u32 cpu,
				       __u32 slot, __u64 now, __u64 count)
{
	if (!c->started) {
		lock_start(c, l, cpu, now, count);
		return 0;
	}
	lock_switch(c, l, bpf_get_current_task_btf(), slot, count);
	/*
	 * Accesses that no overflow has reported yet: a kernel that finds a counter too busy skips
	 * overflows.
	 */
	if (!l->core.realtime)
		sc_bwlock_account(&l->core, sc_sub(limited_made(c, l, count), l->core.used));
	l->lock.holders = lock_holders(now);
	if (now >= l->core.next_ns)
		lock_turn(c, l, cpu, now, count);
	sc_bwlock_tick(&l->lock, &l->core, now);
	c->guard.next_ns = l->core.next_ns;
	return lock_decide(c, l, cpu, now);
}

/* A sample of accesses was made. 1 if the CPU must stop. */
static __always_inline __u32 lock_account(struct run_core *c, struct run_lock *l, __u32 cpu,
					  __u32 slot, __u64 now, __u64 count)
{
	__u64 made, reported;

	lock_switch(c, l, bpf_get_current_task_btf(), slot, count);
	if (!l->core.realtime) {
		made = limited_made(c, l, count);
		reported = l->core.used + c->sample;
		sc_bwlock_account(&l->core, c->sample + sc_sub(made, reported));
	}
	lock_decide(c, l, cpu, now);
	return l->core.throttled;
}

/* The timer. 1 if the CPU must stop now and did not have to before. */
static __always_inline __u32 lock_tick(struct run_core *c, __u32 cpu, __u64 now, __u64 count)
{
	__u32 slot = client_slot(bpf_get_current_task_btf());
	struct run_lock *l = lock_of(cpu);

	return l && lock_look(c, l, cpu, slot, now, count);
}

/* The counter overflowed at this count. 1 if the CPU must stop. */
static __always_inline __u32 lock_overflow(struct run_core *c, __u32 cpu, __u64 count)
{
	__u32 slot = client_slot(bpf_get_current_task_btf()), stop;
	struct run_lock *l = lock_of(cpu);
	__u64 now = bpf_ktime_get_ns();

	if (!l || !lock_enter(l))
		return 0;
	if (tick_lost(c, now))
		lock_look(c, l, cpu, slot, now, count);
	stop = lock_account(c, l, cpu, slot, now, count);
	lock_leave(l);
	return stop;
}

/*
 * An overflow was turned away: all accesses by now count. 1 if the CPU must stop. An overflow that
 * is turned away in here waits for the next one, which finds its accesses as well.
 */
static __always_inline __u32 lock_catch_up(struct run_core *c, struct run_lock *l, __u32 cpu)
{
	struct bpf_perf_event_value value = {};

	if (!lock_enter(l))
		return 0;
	if (!l->core.realtime &&
	    !bpf_perf_event_read_value(&counters, BPF_F_CURRENT_CPU, &value, sizeof(value)))
		sc_bwlock_account(&l->core,
				  sc_sub(limited_made(c, l, value.counter), l->core.used));
	lock_decide(c, l, cpu, bpf_ktime_get_ns());
	lock_leave(l);
	return l->core.throttled;
}

/* The CPU changes to this task. 1 if it must stop now and did not have to before. */
static __always_inline __u32 lock_switched(struct run_core *c, __u32 cpu, struct task_struct *next)
{
	struct bpf_perf_event_value value = {};
	struct run_lock *l = lock_of(cpu);
	__u32 slot, stop;

	if (!l)
		return 0;
	slot = client_slot(next);
	if (!c->started) {
		lock_runs(l, next, slot);
		return 0;
	}
	if (bpf_perf_event_read_value(&counters, BPF_F_CURRENT_CPU, &value, sizeof(value)) ||
	    !lock_enter(l))
		return 0;
	lock_switch(c, l, next, slot, value.counter);
	stop = lock_decide(c, l, cpu, bpf_ktime_get_ns());
	return lock_leave(l) ? lock_catch_up(c, l, cpu) : stop;
}

#endif
