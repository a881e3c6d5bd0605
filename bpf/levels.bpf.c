/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler of criticality levels (MC2) and of IMA partitions.
 *
 * Problem: on a stock kernel, tasks of four levels share cores as in mc2-os-isolation, section 2,
 * and partitions run in the windows of their tables (single-core-equivalence, section 2.4). Rule:
 * each task of the plan has a queue (DSQ), in which its threads wait; a CPU is given threads of the
 * task that policy/ chooses for it (levels.h), and keeps them until it decides again: when its
 * timer fires (the end of a slot or of a budget, a release), or when an event elsewhere concerns
 * it, by a kick. Timers do no more than kick, so every decision is made in `dispatch`. Threads that
 * belong to no task share the remaining time with level D: there is a queue per CPU, from which
 * other CPUs take, too. Kernel threads run at once; the loader runs where neither level A nor B is
 * at work. Children belong to the task of their parent. The time of real-time threads of the
 * kernel's own classes is not controlled here; it is seen at the change of threads, charged to the
 * job that had to wait, and reported. If the loader ends, or an error is found, the kernel unloads
 * the scheduler and its own goes on.
 *
 * Does not cover: a yield of one thread ends the job of all. Time of the kernel (interrupts, its
 * threads) counts as time of the interrupted job. Threads that belong to no task wait for as long
 * as levels A to C take every CPU; after `timeout_ms` of that, or of a period that long, the kernel
 * unloads the scheduler.
 */
#include "levels.h"
#include "ended.h"
#include "intruders.h"
#include "leaving.h"

/* Time slice of one thread among several of a task, and of level D and others. */
#define TURN_NS 3000000ull
#define WHOLE_NS 1000000000ull
/* Time after which a CPU looks again for a thread that is on its way to its queue. */
#define AGAIN_NS 50000ull
/* Queue of the loader's threads, and the longest time that levels A and B may keep them waiting. */
#define QUEUE_OF_LOADER (2 * SC_MAX_CPUS + SC_MAX_TASKS)
#define LOADER_WAITS_NS 100000000ull
#define LOADER_TURN_NS 500000ull
/* Queue of a task. */
#define QUEUE_OF(task) ((task) + SC_MAX_CPUS)

#define CLOCK_MONOTONIC 1
#define BPF_F_TIMER_ABS 1ull
#define BPF_F_TIMER_CPU_PIN 2ull
#define SCX_DEQ_SLEEP 1ull
#define SCX_DSQ_LOCAL_ON 0xc000000000000000ull

/* As in kfuncs.h, with the members needed here. */
struct sched_ext_ops___levels {
	__s32 (*select_cpu)(struct task_struct *p, __s32 prev_cpu, __u64 wake_flags);
	void (*enqueue)(struct task_struct *p, __u64 enq_flags);
	void (*dispatch)(__s32 cpu, struct task_struct *prev);
	void (*runnable)(struct task_struct *p, __u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, _Bool runnable);
	void (*quiescent)(struct task_struct *p, __u64 deq_flags);
	_Bool (*yield)(struct task_struct *from, struct task_struct *to);
	void (*enable)(struct task_struct *p);
	__s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	__s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	__u64 flags;
	__u32 timeout_ms;
	char name[128];
};

struct level_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the number of CPUs */
	__type(key, __u32);
	__type(value, struct level_timer);
} level_timers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct level_member);
} level_members SEC(".maps");

static __u64 virtual_now;

extern __s32 scx_bpf_dsq_nr_queued(__u64 dsq) __ksym __weak;

/* Time since which a thread of the loader waits, if one does. */
static __u64 loader_since;

static __always_inline __u32 is_loader(const struct task_struct *p)
{
	return p->tgid == levels_settings.loader_pid;
}

static __always_inline __u32 exempt(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) != 0 || is_loader(p);
}

static __always_inline struct level_member *member_of(struct task_struct *p)
{
	struct level_member *m = bpf_task_storage_get(&level_members, p, 0, 0);

	return m && m->task != 0 && (m->flags & LEVEL_PARENT) == 0 ? m : 0;
}

/* The thread wants to run. */
static __always_inline void member_counts(struct level_member *m, __u32 cpu)
{
	struct level_world *w = world_of();
	struct level_task *r = level_task_of(m->task - 1);

	if (!w || !r || m->counted || !world_lock(w))
		return;
	m->counted = 1;
	r->runnable++;
	level_admit(m->task - 1, cpu);
	world_unlock(w);
}

SEC("struct_ops/levels_select_cpu")
__s32 BPF_PROG(levels_select_cpu, struct task_struct *p, __s32 prev_cpu, __u64 wake_flags)
{
	_Bool is_idle = 0;
	struct level_member *m = member_of(p);
	struct level_task *r;

	if (m && !exempt(p)) {
		r = level_task_of(m->task - 1);
		if (r && r->level != SC_LEVEL_C && r->cpu < levels_settings.cpus)
			return r->cpu;
		return prev_cpu;
	}
	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

SEC("struct_ops/levels_runnable")
void BPF_PROG(levels_runnable, struct task_struct *p, __u64 enq_flags)
{
	struct level_member *m = member_of(p);

	if (m && !exempt(p))
		member_counts(m, scx_bpf_task_cpu(p));
}

SEC("struct_ops/levels_quiescent")
void BPF_PROG(levels_quiescent, struct task_struct *p, __u64 deq_flags)
{
	struct level_member *m = member_of(p);
	struct level_world *w = world_of();
	struct level_task *r;

	if (!m || exempt(p) || !w)
		return;
	r = level_task_of(m->task - 1);
	if (!r || !m->counted || !world_lock(w))
		return;
	m->counted = 0;
	if (r->runnable != 0)
		r->runnable--;
	if (r->runnable == 0 && (deq_flags & SCX_DEQ_SLEEP) != 0)
		level_done(m->task - 1, 1, scx_bpf_task_cpu(p));
	world_unlock(w);
}

/* The job is done, and the next one has not been released yet. */
SEC("struct_ops/levels_yield")
_Bool BPF_PROG(levels_yield, struct task_struct *from, struct task_struct *to)
{
	struct level_member *m;
	struct level_world *w = world_of();
	struct level_task *r;

	if (to)
		return 0;
	from->scx.slice = 0;
	m = member_of(from);
	if (!m || exempt(from) || !w)
		return 0;
	r = level_task_of(m->task - 1);
	if (!r || r->period_ns == 0 || !world_lock(w))
		return 0;
	level_done(m->task - 1, 0, scx_bpf_task_cpu(from));
	world_unlock(w);
	return 0;
}

/* Whether the loader may run where this was decided. */
static __always_inline __u32 has_room(const struct level_core *c)
{
	return c->level >= SC_LEVEL_C && c->level != LEVEL_WINDOW;
}

/*
 * A CPU is told of the loader when the loader wakes, and when its last CPU has no room for it any
 * more. It is not told at each end of a time slice: two of its threads would displace each other.
 */
static __always_inline void enqueue_loader(struct task_struct *p, __u32 cpu, __u64 enq_flags)
{
	struct level_core *c = level_core_of(cpu);
	__s32 idle;

	if (scx_bpf_dsq_nr_queued(QUEUE_OF_LOADER) == 0)
		loader_since = bpf_ktime_get_ns();
	scx_bpf_dsq_insert(p, QUEUE_OF_LOADER, LOADER_TURN_NS, enq_flags);
	if ((enq_flags & SCX_ENQ_WAKEUP) == 0 && c && has_room(c))
		return;
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	c = idle >= 0 ? level_core_of(idle) : 0;
	if (c && has_room(c))
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	else
		level_offer(0);
}

SEC("struct_ops/levels_enqueue")
void BPF_PROG(levels_enqueue, struct task_struct *p, __u64 enq_flags)
{
	__u64 virtual = p->scx.dsq_vtime;
	__s32 cpu = scx_bpf_task_cpu(p);
	struct level_member *m;
	struct level_world *w = world_of();
	struct level_task *r;
	struct level_core *c;
	__u32 id, where;

	if (is_loader(p)) {
		enqueue_loader(p, cpu, enq_flags);
		return;
	}
	if (exempt(p)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, TURN_NS, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	m = member_of(p);
	if (m && w) {
		id = m->task - 1;
		member_counts(m, cpu);
		r = level_task_of(id);
		/* Another CPU may be chosen for it: it ends its section first, here. */
		if (r && r->level == SC_LEVEL_C && stays_here(p)) {
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, TURN_NS, enq_flags);
			return;
		}
		scx_bpf_dsq_insert(p, QUEUE_OF(id), TURN_NS, enq_flags);
		if (id >= SC_MAX_TASKS)
			return;
		/*
		 * The CPU that decided for the task may wait for this thread, which was on its way
		 * here.
		 */
		where = w->levels.task[SC_TASK(id)].running;
		c = level_core_of(where);
		if (c && c->waits)
			kick(where);
		return;
	}
	/* A thread that slept saves up at most one time slice. */
	if ((__s64)(virtual - (virtual_now - TURN_NS)) < 0)
		virtual = virtual_now - TURN_NS;
	scx_bpf_dsq_insert_vtime(p, cpu, TURN_NS, virtual, enq_flags);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

static int levels_timer(void *map, int *cpu, struct level_timer *timer)
{
	struct level_cpu_run *seen = level_cpu_of(*cpu);

	if (seen)
		seen->timers++;
	kick(*cpu);
	return 0;
}

/* Has the timer kick this CPU then. */
static __always_inline void arm(struct level_core *c, __u32 cpu, __u64 at)
{
	struct level_timer *timer = bpf_map_lookup_elem(&level_timers, &cpu);

	if (!timer || at == SC_UNLIMITED)
		return;
	c->armed_ns = at;
	bpf_timer_start(&timer->timer, at, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN);
}

/* Threads that belong to no task: those of this CPU, then those of others. */
static __always_inline __u32 dispatch_others(__u32 cpu)
{
	__u32 step, from = cpu;

	for (step = 0; step < SC_MAX_CPUS; step++) {
		if (step >= levels_settings.cpus)
			break;
		if (scx_bpf_dsq_move_to_local(from))
			return 1;
		from = from + 1 < levels_settings.cpus ? from + 1 : 0;
	}
	return 0;
}

/* The loader runs where neither level A nor B nor a window is at work, or has waited for long. */
static __always_inline __u32 dispatch_loader(const struct level_core *c, __u64 now)
{
	if (!has_room(c) && sc_sub(now, loader_since) < LOADER_WAITS_NS)
		return 0;
	return scx_bpf_dsq_move_to_local(QUEUE_OF_LOADER);
}

/* 1: a thread of the chosen task runs. */
static __always_inline __u32 dispatch_task(struct level_core *c, struct task_struct *prev,
					   __u64 now)
{
	__u32 id = c->task;
	struct level_task *r;
	struct level_member *m = 0;
	_Bool stays = prev && (prev->scx.flags & SCX_TASK_QUEUED) != 0;

	if (id >= SC_MAX_TASKS)
		return 0;
	r = level_task_of(id);
	if (!r)
		return 0;
	if (stays)
		m = member_of(prev);
	stays = m && m->task == id + 1;
	c->waits = 0;
	if (stays && r->runnable <= 1) {
		/* Should the timer be lost, the kernel's own tick asks again. */
		prev->scx.slice = sc_min(WHOLE_NS, sc_sub(c->until_ns, now) + 1);
		return 1;
	}
	/* Set first, so that a thread that comes meanwhile sees it. */
	c->waits = !stays;
	if (scx_bpf_dsq_move_to_local(QUEUE_OF(id))) {
		c->waits = 0;
		return 1;
	}
	if (stays)
		prev->scx.slice = TURN_NS;
	return stays;
}

SEC("struct_ops/levels_dispatch")
void BPF_PROG(levels_dispatch, __s32 cpu, struct task_struct *prev)
{
	struct level_world *w = world_of();
	struct level_core *c = level_core_of(cpu);
	struct level_cpu_run *seen = level_cpu_of(cpu);
	__u64 begun = bpf_ktime_get_ns(), locked, at;
	__u32 found = 0;

	if (!w || !c || !seen)
		return;
	leaving_ends(levels_settings.cpus, begun);
	locked = world_lock(w);
	if (!locked)
		return;
	level_decide(cpu);
	world_unlock(w);
	seen->dispatches++;
	seen->max_lock_ns = sc_max(seen->max_lock_ns, sc_sub(locked, begun));
	if (c->armed_ns != 0 && locked >= c->armed_ns) {
		seen->max_timer_ns = sc_max(seen->max_timer_ns, locked - c->armed_ns);
		c->armed_ns = 0;
	}
	begun = sc_sub(bpf_ktime_get_ns(), begun);
	seen->max_decide_ns = sc_max(seen->max_decide_ns, begun);
	seen->decide_ns += begun;
	at = c->until_ns;
	c->waits = 0;
	if (dispatch_loader(c, locked)) {
		arm(c, cpu, at);
		return;
	}
	c->turn ^= 1;
	/* Level D and those without a task take turns. */
	if (c->level == SC_LEVEL_D && c->turn && dispatch_others(cpu)) {
		arm(c, cpu, at);
		return;
	}
	found = dispatch_task(c, prev, locked);
	if (!found && c->task < SC_MAX_TASKS)
		at = sc_min(at, locked + AGAIN_NS);
	arm(c, cpu, at);
	if (found || c->level == LEVEL_WINDOW)
		return;
	if (dispatch_others(cpu))
		return;
	/* No other thread wants the CPU: a thread without a task gets another time slice. */
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) != 0 && !member_of(prev))
		prev->scx.slice = TURN_NS;
}

/* The first instruction of a job. */
static __always_inline void started(struct level_core *c, struct level_task *r, __u64 now)
{
	__u64 since = r->release_ns;

	if (!r->unstarted)
		return;
	r->unstarted = 0;
	if (r->level == SC_LEVEL_A || r->level == LEVEL_WINDOW)
		since = sc_max(since, c->slot_ns);
	r->max_start_ns = sc_max(r->max_start_ns, sc_sub(now, since));
}

SEC("struct_ops/levels_running")
void BPF_PROG(levels_running, struct task_struct *p)
{
	__s32 cpu = scx_bpf_task_cpu(p);
	struct level_core *c = level_core_of(cpu);
	struct level_member *m = member_of(p);
	struct level_task *r = m ? level_task_of(m->task - 1) : 0;
	__u64 now = bpf_ktime_get_ns();

	if ((__s64)(virtual_now - p->scx.dsq_vtime) < 0)
		virtual_now = p->scx.dsq_vtime;
	if (!c)
		return;
	c->ran_ns = now;
	trace(cpu, now, TRACE_RUNS, p->pid, m ? m->task : 0, exempt(p));
	if (exempt(p))
		return;
	/* It returns from a real-time thread without `dispatch`: its time may be over. */
	if (now >= c->until_ns || (m && m->task - 1 != c->task))
		kick(cpu);
	if (r && m->task - 1 == c->task)
		started(c, r, now);
}

SEC("struct_ops/levels_stopping")
void BPF_PROG(levels_stopping, struct task_struct *p, _Bool runnable)
{
	__s32 cpu = scx_bpf_task_cpu(p);
	struct level_core *c = level_core_of(cpu);
	struct level_member *m = member_of(p);
	struct level_task *r = m ? level_task_of(m->task - 1) : 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 weight = p->scx.weight;

	if (!c)
		return;
	trace(cpu, now, TRACE_STOPS, p->pid, runnable, 0);
	if (r)
		r->ran_ns += sc_sub(now, c->ran_ns);
	if (weight != 0)
		p->scx.dsq_vtime += sc_sub(now, c->ran_ns) * 100 / weight;
}

SEC("struct_ops/levels_enable")
void BPF_PROG(levels_enable, struct task_struct *p)
{
	p->scx.dsq_vtime = virtual_now;
}

/* A child belongs to its parent's task. */
SEC("struct_ops.s/levels_init_task")
__s32 BPF_PROG(levels_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct level_member *parent, *m;

	if (!args->fork)
		return 0;
	parent = bpf_task_storage_get(&level_members, bpf_get_current_task_btf(), 0, 0);
	if (!parent || parent->task == 0)
		return 0;
	m = bpf_task_storage_get(&level_members, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!m)
		return -12; /* ENOMEM */
	m->task = parent->task;
	m->flags = 0;
	m->counted = 0;
	return 0;
}

/* A CPU's queue and timer. */
static long init_cpu(__u32 cpu, __s32 *error)
{
	struct level_timer *timer = bpf_map_lookup_elem(&level_timers, &cpu);

	*error = timer ? scx_bpf_create_dsq(cpu, -1) : -22; /* EINVAL */
	if (*error || !timer)
		return 1;
	bpf_timer_init(&timer->timer, &level_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, levels_timer);
	return 0;
}

/* A task's queue. */
static long init_queue(__u32 task, __s32 *error)
{
	*error = scx_bpf_create_dsq(QUEUE_OF(task), -1);
	return *error != 0;
}

SEC("struct_ops.s/levels_init")
__s32 BPF_PROG(levels_init)
{
	__s32 error = 0;

	if (!bpf_core_type_exists(struct cpumask))
		return -22; /* EINVAL */
	bpf_loop(levels_settings.cpus, init_cpu, &error, 0);
	if (!error)
		error = scx_bpf_create_dsq(QUEUE_OF_LOADER, -1);
	if (!error)
		bpf_loop(levels_settings.tasks, init_queue, &error, 0);
	return error < 0 ? error : 0;
}

SEC("struct_ops/levels_exit")
void BPF_PROG(levels_exit, struct scx_exit_info *info)
{
	exit_written(info);
}

/* Is it a real-time thread of a program? */
static __always_inline __u32 intrudes(struct task_struct *p)
{
	return !exempt(p) && is_real_time(p);
}

static __always_inline void intruder_ends(struct task_struct *p, struct level_core *c,
					  struct level_cpu_run *seen, __u64 now)
{
	__u64 ns = sc_sub(now, c->intruder_ns);
	__u32 level = c->level < 6 ? c->level : SC_LEVEL_IDLE;

	seen->intruder_ns += ns;
	seen->lost_ns[level] += ns;
	intruder_ran(p, ns, level);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(intruders, _Bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct level_core *c = level_core_of(cpu);
	struct level_cpu_run *seen = level_cpu_of(cpu);
	__u64 now;

	if (!c || !seen)
		return 0;
	if (c->intruder_ns == 0 && !intrudes(next))
		return 0;
	now = bpf_ktime_get_ns();
	if (c->intruder_ns != 0)
		intruder_ends(prev, c, seen, now);
	c->intruder_ns = 0;
	if (intrudes(next)) {
		c->intruder_ns = now;
		seen->intrusions++;
		intruder_traced(cpu, now, next, c->level);
	}
	return 0;
}

static __always_inline int setup_task(struct level_setup *s)
{
	__u32 id = s->a, level = s->b >> 32, core = s->b, partition = s->f >> 32, rank = s->f;
	sc_u64 period_and_pet[2] = {s->c ? s->c : 1000000000ull, s->d};
	struct level_world *w = world_of();
	struct level_task *r = level_task_of(id);
	struct level_core *c = level_core_of(core);

	if (!w || !r || !c || id >= SC_MAX_TASKS)
		return 0;
	r->period_ns = s->c;
	r->next_ns = s->e;
	r->cpu = core;
	r->level = level;
	r->partition = partition;
	r->rank = rank;
	if (level == LEVEL_WINDOW) {
		if (partition >= LEVEL_PARTITIONS || rank >= SC_MAX_TASKS)
			return 0;
		w->order[SC_TASK(rank)] = id;
		w->levels.task[SC_TASK(id)].running = SC_NONE;
	} else if (!sc_level_add(&w->levels, id, level, level == SC_LEVEL_C ? 0 : core,
				 period_and_pet)) {
		return 0;
	}
	return s->c == 0 || sc_heap_push(&c->releases, s->e, id);
}

/* Tells of a task, a CPU, a table or a slot, before the scheduler is attached. 1: it fits. */
SEC("syscall")
int setup(struct level_setup *s)
{
	__u32 cpu = s->a;
	struct level_core *c;
	struct level_world *w = world_of();

	if (s->what == LEVEL_SETUP_TASK)
		return setup_task(s);
	c = level_core_of(cpu);
	if (!c || !w)
		return 0;
	if (s->what == LEVEL_SETUP_CORE) {
		c->core.last_ns = sc_time(s->b);
		c->core.current = SC_NONE;
		c->core.number = cpu;
		c->task = SC_NONE;
		c->level = SC_LEVEL_IDLE;
		c->window = SC_NONE;
		w->room[SC_CPU(cpu)] = SC_UNLIMITED;
		return 1;
	}
	if (s->what == LEVEL_SETUP_TABLE)
		return sc_table_init(&c->core.table, s->b, s->c);
	if (s->what == LEVEL_SETUP_SLOT)
		return sc_table_append(&c->core.table, s->b, s->c, s->d);
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops___levels levels_ops = {
	.select_cpu = (void *)levels_select_cpu,
	.enqueue = (void *)levels_enqueue,
	.dispatch = (void *)levels_dispatch,
	.runnable = (void *)levels_runnable,
	.running = (void *)levels_running,
	.stopping = (void *)levels_stopping,
	.quiescent = (void *)levels_quiescent,
	.yield = (void *)levels_yield,
	.enable = (void *)levels_enable,
	.init_task = (void *)levels_init_task,
	.init = (void *)levels_init,
	.exit = (void *)levels_exit,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.name = "solocore_levels",
};

char LICENSE[] SEC("license") = "GPL";
