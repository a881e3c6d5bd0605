/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The sched_ext engine: a scheduler that gives no task to a throttled CPU.
 *
 * Problem: a CPU that has used its budget up must run no regulated task until its next period. This
 * must hold at once, and without a busy loop.
 * Rule: each CPU has a queue (DSQ) of its own, ordered by weighted virtual time. The overflow
 * program kicks the CPU, which ends the running task's turn; `dispatch` then moves nothing to a
 * throttled CPU, which idles. The tick kicks it again. A CPU with budget left takes tasks from the
 * queues of others. Kernel threads and the loader go straight to the CPU's local queue; SCHED_FIFO,
 * SCHED_RR and SCHED_DEADLINE tasks never come here. When the loader ends in any way, the kernel
 * unloads the scheduler and its own goes on.
 *
 * Clients of the bandwidth lock have a second queue per CPU. A throttled CPU takes from that queue
 * only; other CPUs take from the two by turns, so that neither starves.
 *
 * Analysed tasks of the plan have a rank and a third queue per CPU, ordered by it: fixed
 * priorities, before all ordinary tasks, and stopped like these. Children inherit the rank.
 *
 * Tasks of a control group that has no time left (groups.h) wait in a fourth kind of queue, one for
 * all CPUs, ordered by the time at which they may run again. The timers of regulated CPUs see that
 * it has come and wake idle CPUs. Ranked tasks are not limited, as real-time ones are not.
 *
 * Does not cover: a task that was preempted by a real-time task returns without `dispatch`;
 * `running` sends it away at once. A throttled task may hold a kernel mutex until the next period,
 * also in a section in which it may not leave its CPU.
 * Caches and NUMA nodes are not looked at beyond the kernel's own choice of an idle CPU.
 */
#include "ended.h"
#include "engine.h"
#include "groups.h"
#include "kfuncs.h"
#include "leaving.h"
#include "regulate.h"

static __u64 virtual_now;

/* Number of a CPU's queue of clients. */
#define CLIENTS_OF(cpu) ((cpu) + SC_MAX_CPUS)

/* Number of a CPU's queue of ranked tasks. */
#define RANKED_OF(cpu) ((cpu) + 2 * SC_MAX_CPUS)
/* Number of the queue of tasks that wait for their control group. */
#define PARKED (3 * SC_MAX_CPUS)
/* Added to the time in place of the virtual time of such a task. */
#define PARKED_MARK (1ull << 63)

/* Rank of ordinary tasks. */
#define UNRANKED 0xffffffffu

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct run_rank);
} ranks SEC(".maps");

/* By CPU: the rank of the running task; 0: a task that no other preempts, or none. */
static __u32 running_rank[SC_MAX_CPUS];

/* Rank of a task, or UNRANKED. */
static __always_inline __u32 rank_of(struct task_struct *p)
{
	struct run_rank *r = bpf_task_storage_get(&ranks, p, 0, 0);

	return r && r->rank != 0 && r->children == 0 ? r->rank : UNRANKED;
}

/*
 * A hardware counter of an x86 CPU interrupts all else (NMI), and since Linux 7.3 the kernel ends a
 * scheduler that kicks a CPU from there. So the counters' programs note what is to be done. They
 * then let perf tell the owner of the event, who is nobody; for that the kernel raises an ordinary
 * interrupt on this CPU, and the programs at its entry and its end do the rest.
 */
#define PUT_OFF_STOP 1u
#define PUT_OFF_GO 2u
#define PUT_OFF_GO_ALL 4u
static __u32 in_counted[SC_MAX_CPUS], put_off[SC_MAX_CPUS];

static void counted_begins(__u32 cpu)
{
	in_counted[cpu % SC_MAX_CPUS] = 1;
}

static int counted_ends(__u32 cpu)
{
	in_counted[cpu % SC_MAX_CPUS] = 0;
	return put_off[cpu % SC_MAX_CPUS] != 0;
}

/* 1: it will be done later. */
static __always_inline __u32 puts_off(__u32 what)
{
	__u32 cpu = bpf_get_smp_processor_id() % SC_MAX_CPUS;

	if (!settings.puts_off || !in_counted[cpu])
		return 0;
	__sync_fetch_and_or(&put_off[cpu], what);
	return 1;
}

static void cpu_stop(__u32 cpu, struct run_core *c)
{
	if (!puts_off(PUT_OFF_STOP))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

static void cpu_stop_soon(__u32 cpu, struct run_core *c)
{
	cpu_stop(cpu, c);
}

static void cpu_go(__u32 cpu)
{
	if (!puts_off(PUT_OFF_GO))
		scx_bpf_kick_cpu(cpu, 0);
}

static __always_inline void go_all(void)
{
	__u32 cpu;

	for (cpu = 0; cpu < SC_MAX_CPUS; cpu++) {
		if (cpu >= settings.cpus)
			break;
		if (core_throttled(cpu))
			scx_bpf_kick_cpu(cpu, 0);
	}
}

static void cpu_go_all(void)
{
	if (!puts_off(PUT_OFF_GO_ALL))
		go_all();
}

/* Does what the counters' programs of this CPU have put off. */
static __always_inline void catch_up(void)
{
	__u32 cpu = bpf_get_smp_processor_id() % SC_MAX_CPUS, what;

	if (!put_off[cpu])
		return;
	what = __sync_lock_test_and_set(&put_off[cpu], 0);
	if ((what & PUT_OFF_STOP) != 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	if ((what & PUT_OFF_GO) != 0)
		scx_bpf_kick_cpu(cpu, 0);
	if ((what & PUT_OFF_GO_ALL) != 0)
		go_all();
}

/*
 * The interrupt after a counter's program, loaded where these put kicks off. At its entry, so that
 * the kick is done in the same interrupt; and at its end, as a counter may interrupt it after that
 * and raise no other one.
 */
SEC("tp_btf/irq_work_entry")
int BPF_PROG(catch_up_first, int vector)
{
	catch_up();
	return 0;
}

SEC("tp_btf/irq_work_exit")
int BPF_PROG(catch_up_last, int vector)
{
	catch_up();
	return 0;
}

/* A group may have time again, or a CPU goes offline: idle CPUs look for tasks of theirs. */
static void cpu_ticked(__u64 now)
{
	__u32 cpu;

	catch_up();
	if (!leaving_looked(settings.cpus, now))
		return;
	if (leaving == NO_CPU && scx_bpf_dsq_nr_queued(PARKED) <= 0)
		return;
	for (cpu = 0; cpu < SC_MAX_CPUS; cpu++) {
		if (cpu >= settings.cpus)
			break;
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
}

static __always_inline __u32 exempt(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) != 0 ||
	       (settings.loader_pid != 0 && p->tgid == settings.loader_pid);
}

/* Whether it may run where others are throttled. */
static __always_inline __u32 is_client(struct task_struct *p)
{
	return lock_settings.policy == RUN_BWLOCK && client_slot(p) != 0;
}

/* A search for a CPU. */
struct cpu_search {
	struct task_struct *p;
	__s32 found;
};

static long idle_step(__u32 cpu, struct cpu_search *s)
{
	if (core_throttled(cpu) || !bpf_cpumask_test_cpu(cpu, s->p->cpus_ptr) ||
	    !scx_bpf_test_and_clear_cpu_idle(cpu))
		return 0;
	s->found = cpu;
	return 1;
}

/* An idle CPU with budget left, or -1. Claims it. The loop is a call, so the verifier
 * takes no longer for more CPUs. */
static __always_inline __s32 idle_cpu(struct task_struct *p)
{
	struct cpu_search s = {.p = p, .found = -1};

	bpf_loop(settings.cpus, idle_step, &s, 0);
	return s.found;
}

SEC("struct_ops/solocore_select_cpu")
__s32 BPF_PROG(solocore_select_cpu, struct task_struct *p, __s32 prev_cpu, __u64 wake_flags)
{
	_Bool is_idle = 0;
	__s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (exempt(p) || !core_throttled(cpu) || is_client(p))
		return cpu;
	cpu = idle_cpu(p);
	return cpu >= 0 ? cpu : prev_cpu;
}

/* Does a task wait here that comes before this rank? */
static __always_inline __u32 better_waits(__u32 cpu, __u32 rank)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *head;
	__u32 better = 0;

	if (!bpf_iter_scx_dsq_new(&it, RANKED_OF(cpu), 0)) {
		head = bpf_iter_scx_dsq_next(&it);
		if (head)
			better = rank_of(head) < rank;
	}
	bpf_iter_scx_dsq_destroy(&it);
	return better;
}

/* A task of lower priority makes room at once; a throttled CPU is asked when its period ends. */
static __always_inline void enqueue_ranked(struct task_struct *p, __u32 cpu, __u32 rank,
					   __u64 enq_flags)
{
	__u32 runs = running_rank[cpu % SC_MAX_CPUS];

	scx_bpf_dsq_insert_vtime(p, RANKED_OF(cpu), settings.slice_ns, rank, enq_flags);
	if (!core_throttled(cpu))
		scx_bpf_kick_cpu(cpu, rank < runs ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
}

/* The virtual time of a task. One that waited for its group begins anew. */
static __always_inline __u64 virtual_of(const struct task_struct *p)
{
	__u64 own = p->scx.dsq_vtime;

	/* Loaded here: the verifier wants one load for each of the two. */
	asm volatile("" : "+r"(own));
	return (own & PARKED_MARK) != 0 ? virtual_now : own;
}

/* The first of the parked tasks may go on at this time. */
static __always_inline void parked_until(__u64 due)
{
	if (due < next_look)
		next_look = due;
}

/*
 * Lets the task wait if a control group of it has no time left. 1: it waits. In a section that
 * reads by RCU it does not, as others might wait for its end: it gets up to the next tick
 * (`running`).
 */
static __always_inline __u32 parked(struct task_struct *p, __u64 enq_flags)
{
	struct group_walk w = groups_ask(p, 0);

	if (w.left_ns != 0 || reads_by_rcu(p))
		return 0;
	scx_bpf_dsq_insert_vtime(p, PARKED, settings.slice_ns, w.due_ns | PARKED_MARK, enq_flags);
	parked_until(w.due_ns);
	return 1;
}

SEC("struct_ops/solocore_enqueue")
void BPF_PROG(solocore_enqueue, struct task_struct *p, __u64 enq_flags)
{
	__u64 virtual = virtual_of(p);
	__s32 cpu = scx_bpf_task_cpu(p), other;
	__u32 rank;

	if (exempt(p)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, settings.slice_ns,
				   enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	rank = rank_of(p);
	if (rank != UNRANKED) {
		enqueue_ranked(p, cpu, rank, enq_flags);
		return;
	}
	if (parked(p, enq_flags))
		return;
	/* A task that slept saves up at most one time slice. */
	if ((__s64)(virtual - (virtual_now - settings.slice_ns)) < 0)
		virtual = virtual_now - settings.slice_ns;
	if (is_client(p)) {
		scx_bpf_dsq_insert_vtime(p, CLIENTS_OF(cpu), settings.slice_ns, virtual, enq_flags);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	scx_bpf_dsq_insert_vtime(p, cpu, settings.slice_ns, virtual, enq_flags);
	if (!core_throttled(cpu)) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	other = idle_cpu(p);
	if (other >= 0)
		scx_bpf_kick_cpu(other, SCX_KICK_IDLE);
}

/* Clients come first every other time, and always on a throttled CPU. 1 if one was found. */
static __always_inline __u32 dispatch_client(__u32 cpu, __u32 throttled)
{
	struct run_lock *l = lock_of(cpu);

	if (lock_settings.policy != RUN_BWLOCK || !l)
		return 0;
	l->turn ^= 1;
	return (throttled || l->turn) && scx_bpf_dsq_move_to_local(CLIENTS_OF(cpu));
}

/* Takes the first of the ranked tasks; 1 if one runs on or was found. */
static __always_inline __u32 dispatch_ranked(__u32 cpu, struct task_struct *prev)
{
	__u32 rank;

	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) != 0) {
		rank = rank_of(prev);
		if (rank != UNRANKED && !better_waits(cpu, rank)) {
			prev->scx.slice = settings.slice_ns;
			return 1;
		}
	}
	return scx_bpf_dsq_move_to_local(RANKED_OF(cpu));
}

/* May the CPU take this task, and will the kernel let it? */
static __always_inline __u32 can_run_on(__s32 cpu, struct task_struct *p)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
	       (!stays_here(p) || scx_bpf_task_cpu(p) == cpu);
}

/*
 * Takes a task whose control group has time again; 1 if one was found. Others that may go on as
 * well get idle CPUs that are not throttled.
 */
static __always_inline __u32 dispatch_parked(__s32 cpu)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	__u32 found = 0;
	__u64 now, due;
	__s32 other;

	if (scx_bpf_dsq_nr_queued(PARKED) <= 0)
		return 0;
	now = bpf_ktime_get_ns();
	if (!bpf_iter_scx_dsq_new(&it, PARKED, 0)) {
		while ((p = bpf_iter_scx_dsq_next(&it))) {
			due = p->scx.dsq_vtime & ~PARKED_MARK;
			if (due > now) {
				parked_until(due);
				break;
			}
			if (!found && can_run_on(cpu, p)) {
				found = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0);
				continue;
			}
			other = idle_cpu(p);
			if (other >= 0)
				scx_bpf_kick_cpu(other, SCX_KICK_IDLE);
			else if (found)
				break;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return found;
}

/* Charges the run of a task up to now. Returns what its control groups have left. */
static __always_inline __u64 settle(struct run_core *c, struct task_struct *p)
{
	__u64 now = bpf_ktime_get_ns(), ran = sc_sub(now, c->running_ns);

	/* By the clock, not by the rest of the time slice: a kick takes all of that. */
	if (p->scx.weight != 0)
		p->scx.dsq_vtime += ran * 100 / p->scx.weight;
	c->running_ns = now;
	return groups_ask(p, ran).left_ns;
}

/* No other task wants the CPU: another time slice, if its control groups have time left. */
static __always_inline void goes_on(struct task_struct *prev, __u32 cpu)
{
	struct run_core *c = core_of(cpu);

	if (c && !exempt(prev) && rank_of(prev) == UNRANKED)
		prev->scx.slice = sc_min(settings.slice_ns, settle(c, prev));
	else
		prev->scx.slice = settings.slice_ns;
}

/* Sends the tasks of a queue that wait for a CPU to its local queue, throttled or not. Returns how
 * many. */
static __always_inline __u32 leave(__u64 queue, __u32 cpu)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	__u32 moved = 0;

	if (!bpf_iter_scx_dsq_new(&it, queue, 0)) {
		while ((p = bpf_iter_scx_dsq_next(&it))) {
			if (scx_bpf_task_cpu(p) == (__s32)cpu)
				moved += scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON | cpu, 0);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return moved;
}

/*
 * A CPU goes offline: the kernel asks no more which task it gives to it, and waits until its tasks
 * have left. It takes them to other CPUs from the local queue only.
 */
static __noinline __u32 leave_all(__u32 cpu)
{
	if (cpu >= settings.cpus)
		return 0;
	return leave(cpu, cpu) + leave(CLIENTS_OF(cpu), cpu) + leave(RANKED_OF(cpu), cpu) +
	       leave(PARKED, cpu);
}

/* The kernel has not said yet that this CPU goes offline, and may wait for these tasks. */
static __noinline void leave_early(__u32 cpu)
{
	/* Its timer may be gone. */
	leaving_look(settings.cpus);
	if (leaving == cpu && leave_all(cpu) > 0)
		scx_bpf_kick_cpu(cpu, 0);
}

SEC("struct_ops/solocore_dispatch")
void BPF_PROG(solocore_dispatch, __s32 cpu, struct task_struct *prev)
{
	__u32 step, from = cpu, throttled = core_ask_again(cpu), left = leaving;

	if (left != NO_CPU)
		leave_early(left);
	if (dispatch_client(cpu, throttled) || throttled)
		return;
	if (dispatch_ranked(cpu, prev) || dispatch_parked(cpu))
		return;
	for (step = 0; step < SC_MAX_CPUS; step++) {
		if (step >= settings.cpus)
			break;
		if (scx_bpf_dsq_move_to_local(from))
			return;
		if (lock_settings.policy == RUN_BWLOCK &&
		    scx_bpf_dsq_move_to_local(CLIENTS_OF(from)))
			return;
		from = from + 1 < settings.cpus ? from + 1 : 0;
	}
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) != 0)
		goes_on(prev, cpu);
}

SEC("struct_ops/solocore_running")
void BPF_PROG(solocore_running, struct task_struct *p)
{
	__s32 cpu = scx_bpf_task_cpu(p);
	struct run_core *c = core_of(cpu);
	__u64 left;
	__u32 rank;

	if ((p->scx.dsq_vtime & PARKED_MARK) != 0)
		p->scx.dsq_vtime = virtual_now;
	if ((__s64)(virtual_now - p->scx.dsq_vtime) < 0)
		virtual_now = p->scx.dsq_vtime;
	rank = exempt(p) ? 0 : rank_of(p);
	running_rank[cpu % SC_MAX_CPUS] = rank;
	/* A better task may have come while this one was chosen. */
	if (rank != 0 && !core_throttled(cpu) && better_waits(cpu, rank))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	if (!c)
		return;
	c->running_ns = bpf_ktime_get_ns();
	/* One that leaves the CPU with it goes on, up to the next tick. */
	if (c->started && c->guard.throttled && !exempt(p) && !is_client(p) &&
	    leaving != (__u32)cpu)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	if (rank != UNRANKED)
		return;
	/*
	 * Others of its group may have used the rest up while it waited. It then goes at the next
	 * tick, as an excess: where the kernel itself puts it back (a CPU that goes offline), to
	 * send it away at once would never end.
	 */
	left = sc_max(groups_ask(p, 0).left_ns, 1);
	if (left < p->scx.slice)
		p->scx.slice = left;
}

SEC("struct_ops/solocore_stopping")
void BPF_PROG(solocore_stopping, struct task_struct *p, _Bool runnable)
{
	__u32 cpu = scx_bpf_task_cpu(p);
	struct run_core *c = core_of(cpu);

	/* The next task is chosen now; a task that is put back must not send it away. */
	running_rank[cpu % SC_MAX_CPUS] = 0;
	if (c && rank_of(p) == UNRANKED && !exempt(p))
		settle(c, p);
}

SEC("struct_ops/solocore_cpu_offline")
void BPF_PROG(solocore_cpu_offline, __s32 cpu)
{
	leave_all(cpu);
}

/* Without it the kernel would end the scheduler when a CPU comes or goes. */
SEC("struct_ops/solocore_cpu_online")
void BPF_PROG(solocore_cpu_online, __s32 cpu)
{
	running_rank[(__u32)cpu % SC_MAX_CPUS] = 0;
}

SEC("struct_ops/solocore_enable")
void BPF_PROG(solocore_enable, struct task_struct *p)
{
	p->scx.dsq_vtime = virtual_now;
}

/* A child has its parent's rank. */
SEC("struct_ops.s/solocore_init_task")
__s32 BPF_PROG(solocore_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct run_rank *parent, *r;

	if (!args->fork)
		return 0;
	parent = bpf_task_storage_get(&ranks, bpf_get_current_task_btf(), 0, 0);
	if (!parent || parent->rank == 0)
		return 0;
	r = bpf_task_storage_get(&ranks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!r)
		return -12; /* ENOMEM */
	r->rank = parent->rank;
	r->children = 0;
	return 0;
}

SEC("struct_ops.s/solocore_init")
__s32 BPF_PROG(solocore_init)
{
	__u32 cpu;
	__s32 error;

	if (!bpf_core_type_exists(struct cpumask))
		return -22; /* EINVAL */
	error = scx_bpf_create_dsq(PARKED, -1);
	if (error)
		return error;
	for (cpu = 0; cpu < SC_MAX_CPUS; cpu++) {
		if (cpu >= settings.cpus)
			break;
		error = scx_bpf_create_dsq(cpu, -1);
		if (!error)
			error = scx_bpf_create_dsq(CLIENTS_OF(cpu), -1);
		if (!error)
			error = scx_bpf_create_dsq(RANKED_OF(cpu), -1);
		if (error)
			return error;
	}
	return 0;
}

SEC("struct_ops/solocore_exit")
void BPF_PROG(solocore_exit, struct scx_exit_info *info)
{
	exit_written(info);
}

SEC(".struct_ops.link")
struct sched_ext_ops solocore_ops = {
	.select_cpu = (void *)solocore_select_cpu,
	.enqueue = (void *)solocore_enqueue,
	.dispatch = (void *)solocore_dispatch,
	.running = (void *)solocore_running,
	.stopping = (void *)solocore_stopping,
	.enable = (void *)solocore_enable,
	.cpu_online = (void *)solocore_cpu_online,
	.cpu_offline = (void *)solocore_cpu_offline,
	.init_task = (void *)solocore_init_task,
	.init = (void *)solocore_init,
	.exit = (void *)solocore_exit,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 20000,
	.name = "solocore",
};

char LICENSE[] SEC("license") = "GPL";
