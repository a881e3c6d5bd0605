/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Criticality levels and partitions: the scheduler's state, and the decisions on it.
 *
 * Problem: solocore/levels.h decides for one core at a time and knows neither threads nor
 * timers. Rule: all state lies behind one lock (level C is global), a word that is taken by compare
 * and swap, and only under a runqueue's lock. So interrupts are off, and no CPU that wants it can
 * interrupt its holder. A CPU that waits too long for it ends the scheduler. Times read under it
 * are distinct, so a trace has one order.
 *
 * Jobs: a task is released at its times by its CPU's timer. A release makes a job if a thread of
 * the task wants to run then. If all sleep, the release is skipped, and a thread that wakes later
 * waits for the next one (as under a polling server: a task that wakes late takes no promised time
 * from others). At level A, whose slots are its own, it may begin late. A job is done when all
 * threads of its task block, or one yields. Tardy jobs as in
 * crates/sim/src/kernel/scheduler/levels.rs: at C each keeps its own deadline, at B they follow
 * each other within the budget of the latest release, at A the job before is given up. Other than
 * there, a job of C whose budget is used up while releases wait goes on at once with that of the
 * oldest. Does not cover: jobs that sleep before they are done (the rest belongs to the next job).
 */
#ifndef SOLOCORE_BPF_LEVELS_H
#define SOLOCORE_BPF_LEVELS_H

#include "kfuncs.h"
#include "levels_intf.h"
#include "sched_trace.h"

/*
 * Number of releases that one decision makes; the others follow at once. Few, as the verifier walks
 * through each.
 */
#define LEVEL_RELEASES 4u
/*
 * Number of tries to take the lock: a tenth of a second, where holding it takes microseconds. A
 * virtual machine may stop the holder's CPU meanwhile. bpf_loop allows no more.
 */
#define LEVEL_TRIES (1u << 23)
/* Tardy jobs that are remembered. */
#define LEVEL_BACKLOG 1000u

const volatile struct levels_settings levels_settings SEC(".rodata.levels");

struct level_world {
	sc_u64 lock;
	sc_u64 last_ns;
	sc_u64 room[SC_MAX_CPUS]; /* by CPU: order in which its job would make way; the largest
				     first */
	struct sc_levels levels;
	struct sc_ready_set ready[LEVEL_PARTITIONS];
	sc_u32 order[SC_MAX_TASKS]; /* by rank: the task */
};

struct level_core {
	struct sc_level_core core;
	struct sc_heap releases; /* tasks by their next release */
	sc_u64 until_ns;	 /* time of its next decision */
	sc_u64 armed_ns;	 /* time at which its timer fires */
	sc_u64 slot_ns;		 /* begin of the slot of level A, or of the window */
	sc_u64 ran_ns;		 /* start of its thread's run */
	sc_u64 intruder_ns;	 /* start of an intruder's run; 0: there is none */
	sc_u32 task;		 /* its last task; SC_NONE */
	sc_u32 level;
	sc_u32 turn;
	sc_u32 window; /* that was open at the last decision */
	sc_u32 waits;  /* 1: for a thread of the task, which is on its way to its queue */
	sc_u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct level_world);
} level_worlds SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the loader makes it the number of CPUs */
	__type(key, __u32);
	__type(value, struct level_core);
} level_cores SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the number of CPUs */
	__type(key, __u32);
	__type(value, struct level_cpu_run);
} level_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SC_MAX_TASKS);
	__type(key, __u32);
	__type(value, struct level_task);
} level_tasks SEC(".maps");

static __always_inline struct level_world *world_of(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&level_worlds, &zero);
}

static __always_inline struct level_core *level_core_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&level_cores, &cpu);
}

static __always_inline struct level_task *level_task_of(__u32 id)
{
	return bpf_map_lookup_elem(&level_tasks, &id);
}

static __always_inline struct level_cpu_run *level_cpu_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&level_cpus, &cpu);
}

static long lock_try(__u32 step, struct level_world **w)
{
	return (*w)->lock == 0 && sc_cas(&(*w)->lock, 0, 1);
}

/* Takes the lock; a time that is unique, or 0 if the lock cannot be taken. */
static __always_inline __u64 world_lock(struct level_world *w)
{
	static char stuck[] = "the lock of the levels is stuck";
	unsigned long long none = 0;
	__u64 now;

	if (!sc_cas(&w->lock, 0, 1)) {
		long tries = bpf_loop(LEVEL_TRIES, lock_try, &w, 0);

		if (tries >= LEVEL_TRIES) {
			scx_bpf_error_bstr(stuck, &none, 0);
			return 0;
		}
	}
	now = sc_max(bpf_ktime_get_ns(), w->last_ns + 1);
	w->last_ns = now;
	return now;
}

static __always_inline void world_unlock(struct level_world *w)
{
	sc_exchange(&w->lock, 0);
}

static __always_inline void kick(__u32 cpu)
{
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/*
 * Makes the CPU with the most room for a job of level C with this deadline decide again, if one has
 * room.
 */
__noinline int level_offer(__u64 deadline)
{
	struct level_world *w = world_of();
	__u64 most = deadline;
	__u32 cpu, best = SC_NONE;

	if (!w)
		return 0;
	for (cpu = 0; cpu < SC_MAX_CPUS; cpu++) {
		if (cpu >= levels_settings.cpus)
			break;
		if (w->room[SC_CPU(cpu)] > most) {
			most = w->room[SC_CPU(cpu)];
			best = cpu;
		}
	}
	if (best != SC_NONE)
		kick(best);
	return 0;
}

/* The CPUs that may now have to run the task decide again. */
static __always_inline void level_touch(const struct level_world *w, const struct level_task *r,
					__u32 id)
{
	const struct sc_level_task *t = &w->levels.task[SC_TASK(id)];

	if (r->level != SC_LEVEL_C)
		kick(r->cpu);
	else if (t->running != SC_NONE)
		kick(t->running);
	else
		level_offer(t->deadline_ns);
}

static __always_inline __u32 level_state(const struct level_world *w, const struct level_task *r,
					 __u32 id)
{
	if (r->level != LEVEL_WINDOW)
		return w->levels.task[SC_TASK(id)].state;
	if (r->partition >= LEVEL_PARTITIONS)
		return SC_TASK_NONE;
	return sc_ready_contains(&w->ready[SC_MASKED(r->partition, LEVEL_PARTITIONS)], r->rank)
		       ? SC_TASK_READY
		       : SC_TASK_IDLE;
}

/* Tells the policy of a job that was released at `at`. */
__noinline int level_release(__u32 id, __u64 at, __u32 cpu)
{
	struct level_world *w = world_of();
	struct level_task *r = level_task_of(id);
	struct level_core *c;
	struct sc_level_task *t;

	if (!w || !r || id >= SC_MAX_TASKS)
		return 0;
	r->job++;
	r->release_ns = at;
	/* While jobs before it are unfinished, the first of them is the next to be done. */
	if (r->inside == 0)
		r->oldest_ns = at;
	r->unstarted = 1;
	trace(cpu, w->last_ns, TRACE_LEVEL_RELEASE, id, r->job, at);
	if (r->level == LEVEL_WINDOW) {
		if (r->partition < LEVEL_PARTITIONS)
			sc_ready_add(&w->ready[SC_MASKED(r->partition, LEVEL_PARTITIONS)], r->rank);
		kick(r->cpu);
		return 1;
	}
	t = &w->levels.task[SC_TASK(id)];
	c = level_core_of(t->running < SC_MAX_CPUS ? t->running : t->core);
	if (!c)
		return 0;
	sc_level_release(&w->levels, &c->core, id, at);
	r->overruns = t->overruns;
	level_touch(w, r, id);
	return 1;
}

/* Makes a job of a release, if its time has come. */
__noinline int level_admit(__u32 id, __u32 cpu)
{
	struct level_world *w = world_of();
	struct level_task *r = level_task_of(id);
	__u64 at;
	__u32 state;

	if (!w || !r || id >= SC_MAX_TASKS)
		return 0;
	state = level_state(w, r, id);
	if (r->period_ns == 0) {
		if (state == SC_TASK_IDLE && r->runnable != 0)
			level_release(id, w->last_ns, cpu);
		return 0;
	}
	if (r->backlog == 0)
		return 0;
	/* The oldest release that waits. */
	at = r->next_ns - r->backlog * r->period_ns;
	if (r->level == SC_LEVEL_C || r->level == LEVEL_WINDOW) {
		if (state == SC_TASK_READY)
			return 0;
	} else {
		at = r->next_ns - r->period_ns;
	}
	if (state == SC_TASK_IDLE && r->runnable == 0)
		return 0;
	/*
	 * A job without budget goes on with that of a release, and the job of that release with the
	 * rest.
	 */
	if (state == SC_TASK_SUSPENDED && r->level == SC_LEVEL_C)
		r->inside++;
	else if (state == SC_TASK_SUSPENDED || (state == SC_TASK_READY && r->level == SC_LEVEL_B))
		r->inside += r->backlog;
	r->backlog = r->level == SC_LEVEL_C || r->level == LEVEL_WINDOW ? r->backlog - 1 : 0;
	level_release(id, at, cpu);
	return 1;
}

/* It is time for the next job. */
__noinline int level_due(__u32 id, __u32 cpu)
{
	struct level_world *w = world_of();
	struct level_task *r = level_task_of(id);

	if (!w || !r || id >= SC_MAX_TASKS)
		return 0;
	r->next_ns = sc_add(r->next_ns, r->period_ns);
	if (r->backlog < LEVEL_BACKLOG)
		r->backlog++;
	if (level_state(w, r, id) == SC_TASK_IDLE && r->runnable == 0) {
		/*
		 * At level A the job may begin later in its slots; at the other levels a lost
		 * release is not made up for.
		 */
		if (r->level != SC_LEVEL_A || r->backlog > 1)
			r->skipped++;
		r->backlog = r->level == SC_LEVEL_A;
		return 0;
	}
	level_admit(id, cpu);
	return 1;
}

/* Records a job that is done. */
static __always_inline void level_record(const struct level_world *w, struct level_task *r,
					 __u32 id, __u64 now)
{
	__u64 response = sc_sub(now, r->oldest_ns);

	r->done++;
	r->sum_response_ns += response;
	r->max_response_ns = sc_max(r->max_response_ns, response);
	if (r->period_ns != 0 && response > r->period_ns) {
		r->late++;
		r->max_tardy_ns = sc_max(r->max_tardy_ns, response - r->period_ns);
	}
	if (r->level != LEVEL_WINDOW)
		r->max_used_ns = sc_max(r->max_used_ns, w->levels.task[SC_TASK(id)].used_ns);
}

/* The task's job is done; `blocked`: no thread of it wants to run. */
__noinline int level_done(__u32 id, __u32 blocked, __u32 cpu)
{
	struct level_world *w = world_of();
	struct level_task *r = level_task_of(id);
	struct sc_level_task *t;
	struct level_core *c;

	if (!w || !r || id >= SC_MAX_TASKS || level_state(w, r, id) != SC_TASK_READY)
		return 0;
	if (r->inside != 0 && !blocked) {
		r->inside--;
		level_record(w, r, id, w->last_ns);
		r->oldest_ns += r->period_ns;
		return 0;
	}
	r->inside = 0;
	trace(cpu, w->last_ns, TRACE_LEVEL_COMPLETE, id, r->job, 0);
	if (r->level == LEVEL_WINDOW) {
		if (r->partition < LEVEL_PARTITIONS)
			sc_ready_remove(&w->ready[SC_MASKED(r->partition, LEVEL_PARTITIONS)],
					r->rank);
		level_record(w, r, id, w->last_ns);
		kick(r->cpu);
	} else {
		t = &w->levels.task[SC_TASK(id)];
		c = level_core_of(t->running < SC_MAX_CPUS ? t->running : t->core);
		if (!c)
			return 0;
		if (t->running != SC_NONE)
			kick(t->running);
		sc_level_complete(&w->levels, &c->core, id, w->last_ns);
		level_record(w, r, id, w->last_ns);
	}
	if (!blocked)
		level_admit(id, cpu);
	return 1;
}

/* The releases of this CPU that are due. */
static __always_inline void level_releases(struct level_core *c, __u64 now, __u32 cpu)
{
	__u32 step;

	for (step = 0; step < LEVEL_RELEASES; step++) {
		__u32 id = sc_heap_top(&c->releases);
		struct level_task *r;

		if (id >= SC_MAX_TASKS || c->releases.key[0] > now)
			break;
		r = level_task_of(id);
		if (!r)
			break;
		sc_heap_remove(&c->releases, id);
		level_due(id, cpu);
		sc_heap_push(&c->releases, r->next_ns, id);
	}
}

/*
 * Chooses the running task among the levels, and reports on the job before. Returns the task that
 * used its budget up.
 */
static __always_inline __u32 level_pick(struct level_world *w, struct level_core *c, __u64 now,
					__u32 cpu, struct sc_level_choice *choice)
{
	__u32 old = c->core.current, top;
	struct sc_table_slot slot;
	__u32 spent = SC_NONE;
	__u64 overruns = 0;
	struct level_task *r;

	if (old < SC_MAX_TASKS)
		overruns = w->levels.task[SC_TASK(old)].overruns;
	sc_level_pick(&w->levels, &c->core, now, choice);
	if (old < SC_MAX_TASKS && w->levels.task[SC_TASK(old)].overruns != overruns) {
		r = level_task_of(old);
		if (r) {
			trace(cpu, now, TRACE_LEVEL_OVERRUN, old, r->job, 0);
			r->overruns = w->levels.task[SC_TASK(old)].overruns;
			r->max_used_ns =
				sc_max(r->max_used_ns, w->levels.task[SC_TASK(old)].used_ns);
			spent = old;
		}
	}
	if (choice->level == SC_LEVEL_A) {
		sc_table_lookup(&c->core.table, now, &slot);
		c->slot_ns = slot.start_ns;
	}
	if (choice->level == SC_LEVEL_IDLE)
		w->room[SC_CPU(cpu)] = SC_UNLIMITED;
	else if (choice->level == SC_LEVEL_D)
		w->room[SC_CPU(cpu)] = SC_UNLIMITED - 1;
	else if (choice->level == SC_LEVEL_C && choice->task < SC_MAX_TASKS)
		w->room[SC_CPU(cpu)] =
			sc_min(w->levels.task[SC_TASK(choice->task)].deadline_ns, SC_UNLIMITED - 2);
	else
		w->room[SC_CPU(cpu)] = 0;
	top = sc_heap_top(&w->levels.ready_c);
	if (top < SC_MAX_TASKS)
		level_offer(w->levels.task[SC_TASK(top)].deadline_ns);
	return spent;
}

/* Chooses the running task in the open window. */
static __always_inline void level_pick_window(struct level_world *w, struct level_core *c,
					      __u64 now, __u32 cpu, struct sc_level_choice *choice)
{
	struct level_cpu_run *seen = level_cpu_of(cpu);
	struct sc_table_slot slot;
	__u32 rank;

	sc_table_lookup(&c->core.table, now, &slot);
	choice->task = SC_NONE;
	choice->level = SC_LEVEL_IDLE;
	choice->until_ns = slot.edge_ns;
	if (seen && c->window != SC_NONE && (slot.id != c->window || slot.start_ns != c->slot_ns))
		seen->slots++;
	c->window = slot.id;
	c->slot_ns = slot.start_ns;
	/* Where no window is open, the loader may run. */
	w->room[SC_CPU(cpu)] = slot.id >= LEVEL_PARTITIONS ? SC_UNLIMITED : 0;
	if (slot.id >= LEVEL_PARTITIONS)
		return;
	/* No other task may have the rest of a partition's window. */
	choice->level = LEVEL_WINDOW;
	rank = sc_ready_first(&w->ready[SC_MASKED(slot.id, LEVEL_PARTITIONS)]);
	if (rank < SC_MAX_TASKS)
		choice->task = w->order[SC_TASK(rank)];
}

/* Decides the task of this CPU from now on: in c->task, c->level, c->until_ns. Under the lock. */
__noinline int level_decide(__u32 cpu)
{
	struct level_world *w = world_of();
	struct level_core *c = level_core_of(cpu);
	struct sc_level_choice choice = {};
	__u32 spent = SC_NONE;
	__u64 now;

	if (!w || !c)
		return 0;
	now = w->last_ns;
	level_releases(c, now, cpu);
	if (levels_settings.windows)
		level_pick_window(w, c, now, cpu, &choice);
	else
		spent = level_pick(w, c, now, cpu, &choice);
	trace(cpu, now, TRACE_LEVEL_PICK, choice.task, choice.until_ns, choice.level);
	c->task = choice.task;
	c->level = choice.level;
	c->until_ns = sc_min(choice.until_ns, sc_heap_top_key(&c->releases));
	/*
	 * A tardy job of level C: a release has come already, and the job goes on with its budget.
	 */
	if (spent != SC_NONE)
		level_admit(spent, cpu);
	return 1;
}

#endif
