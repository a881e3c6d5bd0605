/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * VCPUs: messages of others for a core.
 *
 * Rule: a CPU that does not hold the lock of a core's runqueue leaves its message for the core in
 * the core's mail, a set of VCPUs for each kind (woken, arriving, leaving, measured). It kicks the
 * CPU, and the core's `dispatch` reads it. A VCPU that moves lies in `transit` between the two.
 */
#ifndef SOLOCORE_VCPU_MAIL_H
#define SOLOCORE_VCPU_MAIL_H

#include "vcpu_core.h"

/* Pieces of mail that one dispatch reads at most. */
#define MAIL 256

/* 1: a drill, no thread runs. */
static volatile __u64 stuck;

/* 1: the kernel calls us. */
static volatile __u64 live;

static __always_inline void post(__u32 cpu, __u32 id, __u32 kind)
{
	struct vcpu_cpu *c = cpu_of(cpu);

	if (!c)
		return;
	if (kind == TRACE_VCPU_WAKE)
		set_bit(c->woken, id);
	else if (kind == TRACE_VCPU_ARRIVE)
		set_bit(c->arriving, id);
	else if (kind == TRACE_VCPU_INTENSITY)
		set_bit(c->measured, id);
	else
		set_bit(c->leaving, id);
	__sync_fetch_and_or(&c->mail, 1);
	if (live)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Cores on which VCPUs have woken since they were balanced; those above 63 share bits. */
static volatile __u64 woken_cores;

/* A VCPU of this core has woken, or (SC_NONE) one has blocked, was created or destroyed. */
static __always_inline void balance_soon(__u32 core)
{
	__u32 key = SC_MAX_CPUS;
	struct cpu_timer *timer;

	if (settings.balance_ns == 0)
		return;
	if (core != SC_NONE)
		__sync_fetch_and_or(&woken_cores, 1ull << (core % 64));
	timer = bpf_map_lookup_elem(&timers, &key);
	if (timer && __sync_lock_test_and_set(&timer->armed_ns, 1) == 0)
		bpf_timer_start(&timer->timer, settings.balance_ns, 0);
}

/*
 * A thread of a VCPU that no longer exists goes to the local queue; when it has run, it is best
 * effort.
 */
static long drain_one(__u32 step, void *context)
{
	__u64 moved = scx_bpf_dsq_move_to_local(*(__u32 *)context);

	/* The verifier must see that the answer is 0 or 1; the compiler believes the type. */
	__asm__ volatile("" : "+r"(moved));
	return (moved & 1) ^ 1;
}

/* Takes a VCPU off its core. */
__attribute__((noinline)) int core_takes(__u32 cpu, __u32 id)
{
	struct vcpu_cpu *c = cpu_of(cpu);
	struct sc_vcpu *moved = bpf_map_lookup_elem(&transit, &id);
	struct vcpu_info *v = info_of(id);
	__u64 now = bpf_ktime_get_ns();

	if (!c || !v || !moved)
		return 0;
	core_settle(cpu, now);
	if (!sc_vcpu_take(&c->core, id, moved, now)) {
		c->errors++;
		return 0;
	}
	trace(cpu, now, v->to == SC_NONE ? TRACE_VCPU_REMOVE : TRACE_VCPU_LEAVE, id, answer_of(c),
	      c->core.until_ns);
	c->moves++;
	v->taken_ns = now;
	v->core = v->to;
	if (v->to != SC_NONE)
		post(v->to, id, TRACE_VCPU_ARRIVE);
	else
		bpf_loop(1 << 20, drain_one, &id, 0);
	return 1;
}

/* Puts a VCPU that is in transit on its core. */
__attribute__((noinline)) int core_puts(__u32 cpu, __u32 id)
{
	struct vcpu_cpu *c = cpu_of(cpu);
	struct sc_vcpu *moved = bpf_map_lookup_elem(&transit, &id);
	struct vcpu_info *v = info_of(id);
	__u64 now = bpf_ktime_get_ns();
	__u32 k;

	if (!c || !v || !moved)
		return 0;
	core_settle(cpu, now);
	now = sc_max(now, c->core.last_ns);
	trace(cpu, now, TRACE_VCPU_ADD, id, moved->server.capacity_ns, moved->server.period_ns);
	for (k = 0; k < SC_MAX_REPLENISHMENTS; k++) {
		struct sc_replenishment *r = &moved->server.entry[SC_SERVER_AT(&moved->server, k)];

		if (k < moved->server.count)
			trace(cpu, now, TRACE_VCPU_BUDGET, id, r->time_ns, r->amount_ns);
	}
	trace(cpu, now, TRACE_VCPU_ARRIVE, id, moved->foreground_ns, moved->background_ns);
	if (moved->intensity != 0)
		trace(cpu, now, TRACE_VCPU_INTENSITY, id, moved->intensity, 0);
	if (!sc_vcpu_put(&c->core, id, moved, now)) {
		c->errors++;
		return 0;
	}
	if (v->taken_ns != 0) {
		v->moves++;
		v->move_ns = sc_max(v->move_ns, sc_sub(now, v->taken_ns));
	}
	if (scx_bpf_dsq_nr_queued(id) > 0)
		core_call(cpu, TRACE_VCPU_WAKE, id, now);
	return 1;
}

/* Tells the policy the intensity of a VCPU. One that is elsewhere by now is measured again soon. */
__attribute__((noinline)) int core_measured(__u32 cpu, __u32 id)
{
	struct vcpu_cpu *c = cpu_of(cpu);
	struct vcpu_info *v = info_of(id);

	if (!c || !v || v->core != cpu || !sc_vcpu_intensity(&c->core, id, v->intensity))
		return 0;
	trace(cpu, bpf_ktime_get_ns(), TRACE_VCPU_INTENSITY, id, v->intensity, 0);
	return 1;
}

struct mail {
	__u32 cpu;
	__u32 word;
};

static __always_inline __u32 take_bit(sc_u64 *words, __u32 word)
{
	sc_u64 *w = &words[word & (VCPU_WORDS - 1)], found = *w;
	__u32 bit = 0, step;

	if (found == 0)
		return SC_NONE;
	/* The lowest bit, by halving. */
	for (step = 32; step > 0; step /= 2)
		if ((found & ((1ull << step) - 1)) == 0) {
			found >>= step;
			bit += step;
		}
	__sync_fetch_and_and(w, ~(1ull << bit));
	return word * 64 + bit;
}

/* Reads one piece of mail, or the next word. Arrivals come first: other mail may concern them. */
static long read_mail(__u32 step, void *context)
{
	struct mail *m = context;
	struct vcpu_cpu *c = cpu_of(m->cpu);
	struct vcpu_info *v;
	__u32 id;

	if (!c || m->word >= VCPU_WORDS)
		return 1;
	id = take_bit(c->arriving, m->word);
	if (id != SC_NONE) {
		core_puts(m->cpu, id);
		return 0;
	}
	id = take_bit(c->leaving, m->word);
	if (id != SC_NONE) {
		core_takes(m->cpu, id);
		return 0;
	}
	id = take_bit(c->woken, m->word);
	if (id != SC_NONE) {
		v = info_of(id);
		if (v && v->core == m->cpu && id < SC_MAX_TASKS &&
		    c->core.vcpu[SC_TASK(id)].state == SC_VCPU_BLOCKED &&
		    scx_bpf_dsq_nr_queued(id) > 0)
			core_now(m->cpu, TRACE_VCPU_WAKE, id);
		else if (v && v->core != SC_NONE && v->core != m->cpu)
			post(v->core, id, TRACE_VCPU_WAKE);
		return 0;
	}
	id = take_bit(c->measured, m->word);
	if (id != SC_NONE) {
		core_measured(m->cpu, id);
		return 0;
	}
	m->word++;
	return 0;
}

static __always_inline void mail_read(struct vcpu_cpu *c, __u32 cpu)
{
	struct mail m = {cpu, 0};

	if (c->mail == 0)
		return;
	__sync_lock_test_and_set(&c->mail, 0);
	bpf_loop(MAIL, read_mail, &m, 0);
	if (m.word < VCPU_WORDS) {
		__sync_fetch_and_or(&c->mail, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	balance_soon(SC_NONE);
}

#endif
