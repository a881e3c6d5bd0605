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

/* The VCPU that waits until solocore has moved its pages, plus 1; 0: none. In the turn. */
static __u32 waits;

static __always_inline __u32 turn_taken(void)
{
	return __sync_lock_test_and_set(&balance_turn, 1) == 0;
}

static __always_inline void turn_given(void)
{
	__sync_lock_test_and_set(&balance_turn, 0);
}

/* A VCPU leaves for `to`, now or when its pages are there. */
static __always_inline void send_off(struct vcpu_info *v, __u32 id, __u32 to)
{
	v->to = to;
	if (settings.colours == VCPU_COLOURS_MOVE && to != SC_NONE) {
		v->flags |= VCPU_WAITS;
		waits = id + 1;
		return;
	}
	v->flags &= ~VCPU_WAITS;
	if (waits == id + 1)
		waits = 0;
	post(v->core, id, TRACE_VCPU_LEAVE);
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
	send_off(v, id, to);
	/* The pages of one at a time. */
	return waits != 0;
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

	if (c->moves != 0 && settings.colours == VCPU_COLOURS_MOVE)
		return 1;
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
	/* Still armed for the next look. */
	if (!turn_taken()) {
		bpf_timer_start(&timer->timer, settings.balance_ns, 0);
		return 0;
	}
	/* One after the other, also those that could not be sent when they got another place. */
	if (settings.colours == VCPU_COLOURS_MOVE && waits == 0)
		bpf_loop(SC_MAX_TASKS, send_one, &b, 0);
	if (waits != 0) {
		turn_given();
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
	/* The other cores that have woken are looked at when its pages have moved. */
	if (c.moves != 0 && settings.colours == VCPU_COLOURS_MOVE) {
		__sync_fetch_and_or(&woken_cores, c.woken);
		balance_soon(SC_NONE);
	}
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

/* Puts a VCPU on another core of sc_balance, or (SC_NONE) on none. */
static __always_inline void place_anew(struct sc_balance *b, struct vcpu_info *v, __u32 id,
				       __u32 cpu)
{
	__u64 utilization = load_of(v->capacity_ns, v->period_ns);

	sc_balance_remove(b, id);
	if (cpu == SC_NONE)
		return;
	/* On the core that it did not leave, others may have its colours by now. */
	if (sc_balance_add(b, id, utilization, cpu, v->colours) ||
	    (cpu == v->core && sc_balance_add(b, id, utilization, cpu, 0)))
		sc_balance_fix(b, id, (v->flags & (VCPU_FIXED | VCPU_RESTS)) != 0);
}

/* Moves a VCPU to another core, or destroys it. */
SEC("syscall")
int vcpu_move(struct vcpu_request *r)
{
	struct sc_balance *b;
	struct vcpu_info *v;
	__u32 zero = 0, id = r->id;

	v = info_of(id);
	b = bpf_map_lookup_elem(&balances, &zero);
	if (!v || !b || v->core == SC_NONE)
		return 0;
	if (r->cpu == v->core || (r->cpu != SC_NONE && r->cpu >= settings.cpus))
		return 0;
	if (!turn_taken())
		return 0;
	/* One that waits for its pages can be destroyed; no other may wait with it. */
	if (r->cpu == SC_NONE ? v->to == v->core || (v->flags & VCPU_WAITS)
			      : v->to == v->core && waits == 0) {
		place_anew(b, v, id, r->cpu);
		send_off(v, id, r->cpu);
		r->done = 1;
	}
	turn_given();
	return 0;
}

/*
 * The VCPU that waits for its pages: its number and destination, with r->id = SC_NONE. Else the
 * VCPU r->id goes there (r->cpu), as they have moved; or (SC_NONE) it stays where it is, and the
 * balancing leaves it there until it is released (r->limit = 1).
 */
SEC("syscall")
int vcpu_go(struct vcpu_request *r)
{
	struct sc_balance *b;
	struct vcpu_info *v;
	__u32 zero = 0, id;

	b = bpf_map_lookup_elem(&balances, &zero);
	if (!b)
		return 0;
	if (!turn_taken()) {
		r->done = 2;
		return 0;
	}
	id = r->limit ? r->id : waits - 1;
	v = r->limit || waits != 0 ? info_of(id) : NULL;
	if (v && r->limit) {
		v->flags &= ~VCPU_RESTS;
		sc_balance_fix(b, id, (v->flags & VCPU_FIXED) != 0);
		r->done = 1;
	} else if (v && r->id == SC_NONE) {
		r->id = id;
		r->cpu = v->to;
		r->done = 1;
	} else if (v && r->id == id && (r->cpu == v->to || r->cpu == SC_NONE)) {
		waits = 0;
		v->flags &= ~VCPU_WAITS;
		if (r->cpu == SC_NONE) {
			v->flags |= VCPU_RESTS;
			v->to = v->core;
			place_anew(b, v, id, v->core);
		} else {
			post(v->core, id, TRACE_VCPU_LEAVE);
		}
		r->done = 1;
	}
	turn_given();
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
	waits = 0;
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
