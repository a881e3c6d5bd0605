/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Changes of VCPUs from outside: the balancing (maracas, section V, Algorithm 2), and solocore's
 * requests.
 *
 * Rule: sc_balance has one caller at a time, by a word that is taken and given back (`turn`); a
 * caller that finds it taken comes again. None of this runs under a runqueue's lock, so that no CPU
 * waits for it there; its decisions go into the cores' mail.
 */
#ifndef SOLOCORE_VCPU_CONTROL_H
#define SOLOCORE_VCPU_CONTROL_H

#include "vcpu_mail.h"

static __u64 balance_turn;

static __always_inline __u32 turn_taken(void)
{
	return __sync_lock_test_and_set(&balance_turn, 1) == 0;
}

static __always_inline void turn_given(void)
{
	__sync_lock_test_and_set(&balance_turn, 0);
}

/* Sends one VCPU to its place in sc_balance, if it is neither there nor on its way. */
static long send_one(__u32 id, void *context)
{
	struct sc_balance *b = *(struct sc_balance **)context;
	struct vcpu_info *v = info_of(id);
	__u32 to, from;

	if (!b || !v || v->core == SC_NONE || v->to != v->core)
		return 0;
	to = sc_balance_where(b, id);
	from = v->core;
	if (to == SC_NONE || to == from)
		return 0;
	v->to = to;
	post(from, id, TRACE_VCPU_LEAVE);
	return 0;
}

/*
 * Runs the migration thread of a core, or (SC_NONE) of the one with the least slack. Returns the
 * number of VCPUs that move.
 */
__attribute__((noinline)) int balance_core(__u32 from)
{
	__u32 zero = 0;
	struct sc_balance *b = bpf_map_lookup_elem(&balances, &zero);
	struct sc_balance_move m;

	if (!b)
		return 0;
	if (from == SC_NONE)
		from = sc_balance_trigger(b);
	return sc_balance_rebalance(b, from, settings.moves, &m) ? (int)m.moves : 0;
}

static long balance_woken(__u32 core, void *context)
{
	struct {
		__u64 woken;
		__u32 moves;
	} *c = context;

	if (c->woken >> (core % 64) & 1)
		c->moves += balance_core(core);
	return 0;
}

static int balance_fired(void *map, __u32 *key, struct cpu_timer *timer)
{
	__u32 zero = 0;
	struct sc_balance *b = bpf_map_lookup_elem(&balances, &zero);
	struct {
		__u64 woken;
		__u32 moves;
	} c = {0, 0};

	if (!b)
		return 0;
	if (!turn_taken()) {
		/* Still armed for the next look. */
		bpf_timer_start(&timer->timer, settings.balance_ns, 0);
		return 0;
	}
	__sync_lock_test_and_set(&timer->armed_ns, 0);
	c.woken = __sync_lock_test_and_set(&woken_cores, 0);
	c.moves = balance_core(SC_NONE);
	bpf_loop(settings.cpus, balance_woken, &c, 0);
	if (c.moves != 0)
		bpf_loop(SC_MAX_TASKS, send_one, &b, 0);
	turn_given();
	return 0;
}

/* Utilisation of a VCPU, its switches included. */
static __always_inline __u64 load_of(__u64 capacity_ns, __u64 period_ns)
{
	return sc_utilization(sc_min(sc_add(capacity_ns, settings.overhead_ns), period_ns),
			      period_ns);
}

/*
 * Creates a VCPU on a core. solocore decides admission; a request that the policy refuses is
 * refused here.
 */
SEC("syscall")
int vcpu_create(struct vcpu_request *r)
{
	struct sc_server_config config = {r->capacity_ns, r->period_ns, r->server, r->limit};
	struct sc_vcpu *fresh;
	struct sc_balance *b;
	struct vcpu_info *v;
	__u32 zero = 0, id = r->id;

	v = info_of(id);
	fresh = bpf_map_lookup_elem(&transit, &id);
	b = bpf_map_lookup_elem(&balances, &zero);
	if (!v || !fresh || !b || v->core != SC_NONE || r->cpu >= settings.cpus)
		return 0;
	if (!sc_server_init(&fresh->server, &config, bpf_ktime_get_ns()))
		return 0;
	if (!turn_taken())
		return 0;
	/* More than it can balance are not balanced. */
	if (sc_balance_add(b, id, load_of(r->capacity_ns, r->period_ns), r->cpu, r->colours))
		sc_balance_fix(b, id, (r->flags & VCPU_FIXED) != 0);
	turn_given();
	fresh->foreground_ns = 0;
	fresh->background_ns = 0;
	fresh->intensity = 0;
	fresh->state = SC_VCPU_BLOCKED;
	v->virtual_ns = 0;
	v->capacity_ns = r->capacity_ns;
	v->period_ns = r->period_ns;
	v->colours = r->colours;
	v->requests = 0;
	v->intensity = 0;
	v->moves = 0;
	v->move_ns = 0;
	v->taken_ns = 0;
	v->flags = r->flags;
	v->generation = (v->generation + 1) & VCPU_GENERATIONS;
	v->to = r->cpu;
	v->core = r->cpu;
	post(r->cpu, id, TRACE_VCPU_ARRIVE);
	r->done = 1;
	return 0;
}

/* Moves a VCPU to another core, or destroys it. */
SEC("syscall")
int vcpu_move(struct vcpu_request *r)
{
	struct sc_balance *b;
	struct vcpu_info *v;
	__u32 zero = 0, id = r->id, from;
	__u64 utilization;

	v = info_of(id);
	b = bpf_map_lookup_elem(&balances, &zero);
	if (!v || !b || v->core == SC_NONE || v->to != v->core)
		return 0;
	from = v->core;
	if (r->cpu == from || (r->cpu != SC_NONE && r->cpu >= settings.cpus))
		return 0;
	if (!turn_taken())
		return 0;
	utilization = load_of(v->capacity_ns, v->period_ns);
	sc_balance_remove(b, id);
	if (r->cpu != SC_NONE && sc_balance_add(b, id, utilization, r->cpu, v->colours))
		sc_balance_fix(b, id, (v->flags & VCPU_FIXED) != 0);
	v->to = r->cpu;
	turn_given();
	post(from, id, TRACE_VCPU_LEAVE);
	r->done = 1;
	return 0;
}

/* A monitor period of the throttling has ended. */
SEC("syscall")
int vcpu_monitor(struct vcpu_request *r)
{
	__u32 zero = 0, cpu;
	struct sc_throttle *t = bpf_map_lookup_elem(&throttles, &zero);

	if (!t)
		return 0;
	r->done = 1 + sc_throttle_monitor(t, r->occupancy, r->requests);
	r->requests = t->r_cur;
	r->occupancy = t->r_high;
	r->limit = t->num_throttle;
	for (cpu = 0; cpu < SC_MAX_CPUS; cpu++) {
		if (cpu >= settings.cpus)
			break;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	return 0;
}

/*
 * Called before the scheduler is installed, for the first time or again: sets the cores for
 * sc_balance and the rule of the throttling, and clears the state of a former scheduler.
 */
SEC("syscall")
int vcpu_begin(struct vcpu_request *r)
{
	__u32 zero = 0;
	struct sc_throttle *t = bpf_map_lookup_elem(&throttles, &zero);
	struct sc_balance *b = bpf_map_lookup_elem(&balances, &zero);

	live = 0;
	stuck = 0;
	woken_cores = 0;
	turn_given();
	if (!t || !b || !sc_balance_init(b, settings.cpus, settings.colours != 0))
		return 0;
	if (settings.check_ns != 0 &&
	    !sc_throttle_init(t, settings.cpus, r->server, r->occupancy, r->limit))
		return 0;
	r->done = 1;
	return 0;
}

/*
 * A drill: an error of the scheduler (0), or one that runs no thread any more (1). The kernel must
 * take over.
 */
SEC("syscall")
int vcpu_fail(struct vcpu_request *r)
{
	static char text[] = "a drill";
	unsigned long long data[1] = {0};

	r->done = 1;
	if (r->flags == 1)
		stuck = 1;
	else
		scx_bpf_error_bstr(text, data, 0);
	return 0;
}

/*
 * By `flags`: the requests of a core in the period that ends (0), the number of free page colours
 * of a core (1), or the intensity of a VCPU (2).
 */
SEC("syscall")
int vcpu_report(struct vcpu_request *r)
{
	__u32 zero = 0;
	struct sc_throttle *t = bpf_map_lookup_elem(&throttles, &zero);
	struct sc_balance *b = bpf_map_lookup_elem(&balances, &zero);
	struct vcpu_info *v;

	if (t && r->flags == 0)
		r->done = sc_throttle_report(t, r->cpu, r->requests);
	if (b && r->flags == 1)
		r->done = sc_balance_colours(b, r->cpu, r->colours);
	v = r->flags == 2 ? info_of(r->id) : NULL;
	if (v && v->core != SC_NONE) {
		v->intensity = r->requests;
		post(v->core, r->id, TRACE_VCPU_INTENSITY);
		r->done = 1;
	}
	return 0;
}

#endif
