/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * VCPUs on a stock kernel (MARACAS): a sched_ext scheduler whose decisions are those of
 * solocore/vcpu.h.
 *
 * Problem: threads belong to VCPUs, a VCPU has C in T on its core, and the remaining time is
 * background time. The policy decides for one core at a time, and every call on a core must be
 * serialised. Rule: all work on a core is done while its runqueue is locked. The kernel's callbacks
 * for a thread on a CPU come that way: `enqueue` (its VCPU has work), `stopping` (no VCPU is
 * charged from here on), `dispatch` (the choice of the next thread) and `running` (the picked VCPU
 * is charged from here on). Other sources of work for a core are a thread that wakes on another
 * CPU, the balancing, and solocore's own programs of type syscall. They leave a message in the
 * core's mail and kick the CPU; its `dispatch` reads the mail. A timer of each CPU only kicks, when
 * the policy wants to be asked again.
 *
 * Each VCPU has a queue (DSQ) of its threads, in the order of weighted virtual time, wherever the
 * VCPU is. A thread that is bound to no VCPU belongs to the best-effort VCPU of the CPU it is on,
 * and an idle CPU takes such threads from others. Kernel threads and solocore itself go straight to
 * the local queue, but for those that a VCPU holds (VCPU_HELD). Real-time threads never come here:
 * the core is paused meanwhile, no VCPU is charged, and they are reported.
 *
 * A timer that comes late does not enlarge a budget: a run beyond the budget is settled at the
 * instant at which it was used up, and the rest is counted (`late_ns`) but charged to no VCPU.
 * Admission allows for it.
 *
 * Source: maracas, sections II to V. Does not cover: time of interrupts, which counts as the
 * running VCPU's; the kernel's own threads, which have no limit; the rest of a section in which a
 * thread may not leave its CPU, if its VCPU is stopped in it. A thread with an affinity that
 * excludes its VCPU's core is best effort meanwhile.
 */
#include "ended.h"
#include "intruders.h"
#include "leaving.h"
#include "vcpu_control.h"
#include "vcpu_mail.h"
#include "vcpu_requests.h"

/* Number of tries of a dispatch to find a VCPU with waiting threads. */
#define TRIES 8

/*
 * The VCPU has a thread that wants to run. `cpu`: the CPU with the locked runqueue. 1: that CPU
 * must pick again.
 */
static __always_inline __u32 vcpu_wakes(__u32 cpu, __u32 id, __u32 core)
{
	struct vcpu_cpu *c;
	__u32 before;
	__u64 now;

	if (core != cpu) {
		post(core, id, TRACE_VCPU_WAKE);
		return 0;
	}
	c = cpu_of(cpu);
	if (!c || id >= SC_MAX_TASKS)
		return 0;
	/* It is in the mail: the CPU must read it. */
	if (c->core.vcpu[SC_TASK(id)].state == SC_VCPU_ABSENT)
		return 1;
	if (c->core.vcpu[SC_TASK(id)].state != SC_VCPU_BLOCKED)
		return 0;
	before = c->core.current;
	now = bpf_ktime_get_ns();
	core_settle(cpu, now);
	if (!core_call(cpu, TRACE_VCPU_WAKE, id, now))
		return 0;
	/* Only the running VCPU may be charged. */
	if (!c->core.paused && c->core.current != before)
		core_call(cpu, TRACE_VCPU_PAUSE, 0, now);
	balance_soon(cpu);
	return c->core.current != before || c->core.mode == SC_MODE_IDLE;
}

SEC("struct_ops/vcpu_select_cpu")
__s32 BPF_PROG(vcpu_select_cpu, struct task_struct *p, __s32 prev_cpu, __u64 wake_flags)
{
	_Bool is_idle = 0;
	__u32 id = exempt(p) ? SC_NONE : vcpu_of(p, SC_NONE);
	struct vcpu_info *v = info_of(id);

	if (v && v->core != SC_NONE)
		return v->core;
	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

/*
 * A thread that wakes while another thread of its VCPU runs and the VCPU's queue is empty is next:
 * it need not pass through queue and `dispatch`. If another VCPU is picked meanwhile, the thread is
 * sent away as it begins (`running`).
 */
static __always_inline __u32 goes_next(__u32 cpu, __u32 id, const struct vcpu_info *v,
				       __u64 enq_flags)
{
	struct vcpu_cpu *c = cpu_of(cpu);

	if (!c || (enq_flags & SCX_ENQ_WAKEUP) == 0 || v->core != cpu || c->core.paused ||
	    c->core.current != id || c->direct != 0 || c->mail != 0 ||
	    scx_bpf_dsq_nr_queued(id) > 0)
		return 0;
	c->direct = 1;
	return 1;
}

SEC("struct_ops/vcpu_enqueue")
void BPF_PROG(vcpu_enqueue, struct task_struct *p, __u64 enq_flags)
{
	__s32 cpu = scx_bpf_task_cpu(p), other;
	__u64 virtual = p->scx.dsq_vtime, now;
	struct vcpu_info *v;
	__u32 id;

	if (exempt(p)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, settings.slice_ns,
				   enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	id = vcpu_of(p, cpu);
	v = info_of(id);
	/* Its VCPU may move, and the thread may not follow: it ends its section first, here. */
	if (!v || (id != (__u32)cpu && stays_here(p))) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, settings.slice_ns, enq_flags);
		return;
	}
	/* A thread that slept saves up at most one time slice. */
	now = v->virtual_ns;
	if ((__s64)(virtual - (now - settings.slice_ns)) < 0)
		virtual = now - settings.slice_ns;
	if (goes_next(cpu, id, v, enq_flags)) {
		p->scx.dsq_vtime = virtual;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, settings.slice_ns, enq_flags);
		return;
	}
	scx_bpf_dsq_insert_vtime(p, id, settings.slice_ns, virtual, enq_flags);
	if (vcpu_wakes(cpu, id, v->core)) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	/*
	 * Best effort: perhaps another CPU idles. For a thread that wakes, the kernel has looked
	 * already.
	 */
	if (id != (__u32)cpu || (enq_flags & SCX_ENQ_WAKEUP) != 0 || p->nr_cpus_allowed == 1)
		return;
	other = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (other >= 0)
		scx_bpf_kick_cpu(other, SCX_KICK_IDLE);
}

/* Tells the throttling of a core's background time, and asks it whether there may be more. */
static __always_inline void ask_throttling(struct vcpu_cpu *c, __u32 cpu)
{
	__u32 zero = 0, allowed;
	struct sc_throttle *t = bpf_map_lookup_elem(&throttles, &zero);

	if (settings.check_ns == 0 || !t)
		return;
	sc_throttle_ran(t, cpu, c->core.background_ns - c->told_ns);
	c->told_ns = c->core.background_ns;
	allowed = settings.allowed && sc_throttle_allowed(t, cpu);
	if (allowed != c->core.allowed)
		core_now(cpu, TRACE_VCPU_ALLOW, allowed);
}

/* An idle CPU looks for threads of best effort that wait elsewhere. 1: one is in the local queue.
 * */
static __always_inline __u32 steal(struct vcpu_cpu *c, __u32 cpu)
{
	__u32 step, from = cpu;

	for (step = 1; step < SC_MAX_CPUS; step++) {
		if (step >= settings.cpus)
			return 0;
		from = from + 1 < settings.cpus ? from + 1 : 0;
		if (scx_bpf_dsq_nr_queued(from) > 0 && scx_bpf_dsq_move_to_local(from)) {
			core_now(cpu, TRACE_VCPU_WAKE, cpu);
			return 1;
		}
	}
	return 0;
}

/* Has `prev` the right to go on, as its VCPU is picked again? */
static __always_inline __u32 goes_on(struct task_struct *prev, __u32 id)
{
	return scx_bpf_dsq_nr_queued(id) <= 0 || prev->scx.slice > 0;
}

/* `prev` goes on, perhaps for a VCPU that it was bound to meanwhile. */
static __always_inline void goes_on_as(struct vcpu_cpu *c, __u32 cpu, struct task_struct *prev,
				       __u32 id)
{
	if (c->running_id != id)
		trace(cpu, bpf_ktime_get_ns(), TRACE_RUNS, prev->pid, id + 1, 0);
	c->running_id = id;
	core_resumes(c, cpu, id);
}

/*
 * Most switches are between threads of one VCPU, while nothing is due: the policy is not asked, and
 * the VCPU is charged for them. 1 if that is done.
 */
static __always_inline __u32 same_vcpu(struct vcpu_cpu *c, __u32 cpu, struct task_struct *prev,
				       __u32 queued, __u64 now)
{
	__u32 id = c->core.current;

	if (c->core.paused || c->mail != 0 || id >= SC_MAX_TASKS || now >= until_of(c))
		return 0;
	if (queued && (vcpu_of(prev, cpu) != id || c->running_id != id))
		return 0;
	if (queued && goes_on(prev, id)) {
		if (prev->scx.slice == 0)
			prev->scx.slice = settings.slice_ns;
		return 1;
	}
	if (!scx_bpf_dsq_move_to_local(id))
		return 0;
	c->running_ns = now;
	return 1;
}

SEC("struct_ops/vcpu_dispatch")
void BPF_PROG(vcpu_dispatch, __s32 cpu, struct task_struct *prev)
{
	__u32 queued = prev && (prev->scx.flags & SCX_TASK_QUEUED) != 0, own = SC_NONE, id, try;
	struct vcpu_cpu *c = cpu_of(cpu);
	__u64 now;

	if (!c || stuck)
		return;
	/* The thread that just blocked has read the clock. */
	now = c->stopped_ns;
	c->stopped_ns = 0;
	if (queued || now == 0)
		now = bpf_ktime_get_ns();
	leaving_ends(settings.cpus, now);
	if (queued && exempt(prev)) {
		mail_read(c, cpu);
		prev->scx.slice = settings.slice_ns;
		return;
	}
	if (same_vcpu(c, cpu, prev, queued, now))
		return;
	if (!c->core.paused) {
		core_settle(cpu, now);
		core_call(cpu, TRACE_VCPU_PAUSE, 0, now);
	}
	mail_read(c, cpu);
	if (queued) {
		own = vcpu_of(prev, cpu);
		/* It was bound to this VCPU while it ran. */
		if (own < SC_MAX_TASKS && c->core.vcpu[SC_TASK(own)].state == SC_VCPU_BLOCKED)
			core_now(cpu, TRACE_VCPU_WAKE, own);
	}
	/* The pick is still valid if nothing is due. */
	if (now >= c->core.until_ns)
		core_now(cpu, TRACE_VCPU_TICK, 0);
	ask_throttling(c, cpu);
	for (try = 0; try < TRIES; try++) {
		id = c->core.current;
		if (id >= SC_MAX_TASKS)
			break;
		if (queued && own == id && goes_on(prev, id)) {
			if (prev->scx.slice == 0)
				prev->scx.slice = settings.slice_ns;
			goes_on_as(c, cpu, prev, id);
			return;
		}
		if (scx_bpf_dsq_move_to_local(id))
			return;
		if (queued && own == id) {
			prev->scx.slice = settings.slice_ns;
			goes_on_as(c, cpu, prev, id);
			return;
		}
		/* Its last thread has gone. */
		core_now(cpu, TRACE_VCPU_BLOCK, id);
		balance_soon(SC_NONE);
	}
	if (c->core.current == SC_NONE && c->core.allowed && !queued && steal(c, cpu))
		return;
	arm(cpu, until_of(c), bpf_ktime_get_ns());
}

SEC("struct_ops/vcpu_running")
void BPF_PROG(vcpu_running, struct task_struct *p)
{
	__s32 cpu = scx_bpf_task_cpu(p);
	struct vcpu_cpu *c = cpu_of(cpu);
	struct vcpu_info *v;
	__u64 stopped;
	__u32 id;

	if (!c)
		return;
	stopped = c->stopped_ns;
	c->stopped_ns = 0;
	if (exempt(p)) {
		/* It came between two threads of a VCPU. */
		if (!c->core.paused)
			core_now(cpu, TRACE_VCPU_PAUSE, 0);
		return;
	}
	id = vcpu_of(p, cpu);
	v = info_of(id);
	if (v && (__s64)(v->virtual_ns - p->scx.dsq_vtime) < 0)
		v->virtual_ns = p->scx.dsq_vtime;
	c->switches++;
	c->direct = 0;
	if (stopped != 0)
		c->running_ns = stopped;
	else if (c->core.paused)
		c->running_ns = bpf_ktime_get_ns();
	c->running_id = id;
	/* Another VCPU than its own was picked meanwhile, or it was bound to another: it must not
	 * be charged.
	 */
	if (c->core.current != id && !c->core.paused) {
		core_settle(cpu, c->running_ns);
		core_call(cpu, TRACE_VCPU_PAUSE, 0, c->running_ns);
	}
	trace(cpu, c->running_ns, TRACE_RUNS, p->pid, id + 1, 0);
	if (c->core.current == id) {
		if (c->core.paused)
			core_resumes(c, cpu, id);
		return;
	}
	c->strays++;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

SEC("struct_ops/vcpu_stopping")
void BPF_PROG(vcpu_stopping, struct task_struct *p, _Bool runnable)
{
	__s32 cpu = scx_bpf_task_cpu(p);
	struct vcpu_cpu *c = cpu_of(cpu);
	__u64 now = bpf_ktime_get_ns();

	if (!c || exempt(p))
		return;
	/* By the clock, not by the rest of the time slice: a kick takes all of that. */
	p->scx.dsq_vtime += sc_sub(now, c->running_ns) * 100 / sc_max(p->scx.weight, 1);
	trace(cpu, now, TRACE_STOPS, p->pid, runnable, c->running_id + 1);
	if (!runnable) {
		/* Whether its VCPU has another thread, `dispatch` will see, at once: the switch is
		 * the VCPU's. */
		c->stopped_ns = now;
		return;
	}
	if (!c->core.paused) {
		core_settle(cpu, now);
		core_call(cpu, TRACE_VCPU_PAUSE, 0, now);
	}
}

/* A real-time thread takes the CPU: no VCPU is charged. */
SEC("struct_ops/vcpu_cpu_release")
void BPF_PROG(vcpu_cpu_release, __s32 cpu, struct scx_cpu_release_args *args)
{
	struct vcpu_cpu *c = cpu_of(cpu);

	if (!c)
		return;
	c->stopped_ns = 0;
	if (!c->core.paused)
		core_now(cpu, TRACE_VCPU_PAUSE, 0);
}

static __always_inline __u32 intrudes(struct task_struct *p)
{
	/* The idle thread has a lower priority than all, and most threads are not real-time. */
	return p->prio < MAX_RT_PRIO && !exempt(p) && is_real_time(p);
}

/* Real-time threads, seen at each change of threads: theirs is the time of whoever was picked. */
SEC("tp_btf/sched_switch")
int BPF_PROG(intruders, _Bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct vcpu_cpu *c = cpu_of(cpu);
	__u64 now, ns;

	if (!c || (c->intruding_ns == 0 && !intrudes(next)))
		return 0;
	now = bpf_ktime_get_ns();
	if (c->intruding_ns != 0) {
		ns = sc_sub(now, c->intruding_ns);
		c->intruder_ns += ns;
		intruder_ran(prev, ns, c->core.mode);
		c->intruding_ns = 0;
	}
	if (intrudes(next)) {
		c->intruding_ns = now;
		c->intrusions++;
		intruder_traced(cpu, now, next, c->core.mode);
	}
	return 0;
}

SEC("struct_ops/vcpu_enable")
void BPF_PROG(vcpu_enable, struct task_struct *p)
{
	p->scx.dsq_vtime = 0;
}

/* A child belongs to its parent's VCPU. */
SEC("struct_ops.s/vcpu_init_task")
__s32 BPF_PROG(vcpu_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	__u32 *parents, *own;

	if (!args->fork)
		return 0;
	parents = bpf_task_storage_get(&bound, bpf_get_current_task_btf(), 0, 0);
	if (!parents || *parents == 0)
		return 0;
	own = bpf_task_storage_get(&bound, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!own)
		return -12; /* ENOMEM */
	*own = *parents & ~VCPU_HELD;
	return 0;
}

/* Queues and timers. The loader has put the best-effort VCPUs in transit. */
SEC("struct_ops.s/vcpu_init")
__s32 BPF_PROG(vcpu_init)
{
	__u64 now = bpf_ktime_get_ns();
	struct cpu_timer *timer;
	struct vcpu_cpu *c;
	__u32 i, key;
	__s32 error;

	if (!bpf_core_type_exists(struct cpumask))
		return -22; /* EINVAL */
	for (i = 0; i < SC_MAX_TASKS; i++) {
		error = scx_bpf_create_dsq(i, -1);
		if (error)
			return error;
	}
	for (i = 0; i < SC_MAX_CPUS; i++) {
		if (i >= settings.cpus)
			break;
		key = i;
		c = cpu_of(key);
		timer = bpf_map_lookup_elem(&timers, &key);
		if (!c || !timer || !sc_vcpu_init(&c->core, settings.background, now))
			return -22;
		c->core.allowed = settings.allowed != 0;
		c->core.paused = 1;
		/* It exists already if the scheduler is installed again. */
		bpf_timer_init(&timer->timer, &timers, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&timer->timer, timer_fired);
		timer->armed_ns = 0;
		trace(key, now, TRACE_VCPU_PAUSE, 0, answer_of(c), c->core.until_ns);
		if (!settings.allowed)
			trace(key, now, TRACE_VCPU_ALLOW, 0, answer_of(c), c->core.until_ns);
	}
	live = 1;
	/* The verifier knows the settings: it only looks at the balancing where it is wanted. */
	key = SC_MAX_CPUS;
	timer = bpf_map_lookup_elem(&timers, &key);
	if (settings.balance_ns == 0 || !timer)
		return 0;
	bpf_timer_init(&timer->timer, &timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, balance_fired);
	timer->armed_ns = 0;
	return 0;
}

SEC("struct_ops/vcpu_exit")
void BPF_PROG(vcpu_exit, struct scx_exit_info *info)
{
	exit_written(info);
}

SEC(".struct_ops.link")
struct sched_ext_ops vcpu_ops = {
	.select_cpu = (void *)vcpu_select_cpu,
	.enqueue = (void *)vcpu_enqueue,
	.dispatch = (void *)vcpu_dispatch,
	.running = (void *)vcpu_running,
	.stopping = (void *)vcpu_stopping,
	.cpu_release = (void *)vcpu_cpu_release,
	.enable = (void *)vcpu_enable,
	.init_task = (void *)vcpu_init_task,
	.init = (void *)vcpu_init,
	.exit = (void *)vcpu_exit,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 20000,
	.name = "solocore_vcpu",
};

char LICENSE[] SEC("license") = "GPL";
