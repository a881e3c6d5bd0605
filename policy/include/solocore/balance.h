/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Load balancing of VCPUs (MARACAS).
 *
 * Problem: each VCPU keeps its reserved share wherever it runs, but its background time depends on
 * the remaining time of its core, and on the number of VCPUs that share it (maracas, section V-A).
 * Rule: the slack per VCPU (SPV) of a core is (1 - sum of U) / number of VCPUs. A VCPU is moved
 * from a loaded core to the one with the largest SPV that can schedule it (RMS bound; with colours,
 * section V-B, also enough free page colours). This goes on while the difference shrinks (Algorithm
 * 2). A VCPU that blocks wakes the migration thread of the core with the smallest SPV; one that
 * wakes, that of its own core.
 * Corrected: the paper's host is undefined when no core passes, and a core with SPV 0 is never a
 * host; here the source counts as passing, and wins ties. An empty core has infinite slack.
 * Invariants: sum, count and set of a core are those of its VCPUs. Only a VCPU that passes the test
 * of the destination moves. The source keeps at least one. With colours, free colours plus those of
 * the core's VCPUs stay the same. A fixed VCPU stays.
 * Known limits: at most SC_MAX_CORE_VCPUS VCPUs on a core, so that a migration has a bounded cost.
 * Sums are those of rounded-up utilisations, so that slack is never overstated. Adding tests no
 * schedulability (the caller asks admission.h). Without the colour test colours are not looked at
 * nor changed. One caller at a time. The structure must start zeroed.
 * Cost: O(cores + VCPUs of the source) to rebalance, O(cores) to trigger, O(1) to add and remove.
 */
#ifndef SOLOCORE_BALANCE_H
#define SOLOCORE_BALANCE_H

#include "types.h"
#include "admission.h"
#include "ready_set.h"

#ifndef SC_MAX_CORE_VCPUS
#define SC_MAX_CORE_VCPUS 64u /* maximum number of VCPUs on one core */
#endif

struct sc_balance_vcpu {
	sc_u64 utilization; /* 32 bits after the point, rounded up */
	sc_u64 colours;	    /* page colours it needs; 0 unless they are looked at */
	sc_u32 core_plus_1; /* 0: there is no such VCPU */
	sc_u32 fixed;	    /* 1: it stays on its core */
};

struct sc_balance_core {
	sc_u64 utilization;	   /* sum over its VCPUs */
	sc_u64 slack;		   /* SPV, 32 bits after the point; SC_UNLIMITED without VCPUs */
	sc_u64 room;		   /* utilisation of a further VCPU that the RMS bound admits */
	sc_u64 colours;		   /* free page colours */
	struct sc_ready_set vcpus; /* ids, and their number */
};

struct sc_balance {
	sc_u64 zero;  /* always 0: after adding it, the BPF verifier knows nothing of a number, and
			 so finds that all paths through a loop's body end alike */
	sc_u32 cores; /* 0: not initialised */
	sc_u32 cache_aware; /* 1: a VCPU only moves to a core with enough free colours */
	struct sc_balance_core core[SC_MAX_CPUS];
	struct sc_balance_vcpu vcpu[SC_MAX_TASKS];
};

/* Moves of a rebalance. */
struct sc_balance_move {
	sc_u64 imbalance; /* SPV(destination) - SPV(source); SC_UNLIMITED: the destination is empty
			   */
	sc_u64 moves;	  /* VCPUs that moved */
	sc_u64 vcpu;	  /* the last one, or SC_NONE */
	sc_u32 from;
	sc_u32 to; /* the host that was found; `from` if there is none */
};

/* Slack per VCPU, 32 bits after the point, rounded down; SC_UNLIMITED without VCPUs. */
SC_FN sc_u64 sc_slack(sc_u64 utilization, sc_u32 count)
{
	sc_u64 divisor = count,
	       empty = (divisor - 1) >> 63; /* 1 without VCPUs; without a branch, as below */

	divisor |= (divisor - 1) >> 63; /* never 0 */
	return (((SC_FULL_UTILIZATION - utilization) &
		 sc_mask_reached(SC_FULL_UTILIZATION, utilization)) /
		divisor) |
	       (0 - empty);
}

/* After a change of the VCPUs of a core. */
SC_FN void sc_balance_refresh(struct sc_balance_core *c)
{
	sc_u64 bound = sc_rms_bound(c->vcpus.count + 1);

	c->slack = sc_slack(c->utilization, c->vcpus.count);
	c->room = (bound - c->utilization) & sc_mask_reached(bound, c->utilization) &
		  sc_mask_reached(SC_MAX_CORE_VCPUS - 1, c->vcpus.count);
}

/* 0 if there are no cores or too many, cache_aware is not 0 or 1, or it is initialised already. */
SC_FN sc_u32 sc_balance_init(struct sc_balance *b, sc_u32 cores, sc_u32 cache_aware)
{
	sc_u32 i;

	if (b->cores != 0 || cores == 0 || cores > SC_MAX_CPUS || cache_aware > 1)
		return 0;
	b->cores = cores;
	b->cache_aware = cache_aware;
	for (i = 0; i < SC_MAX_CPUS; i++) {
		b->core[i].slack = SC_UNLIMITED;
		b->core[i].room = SC_FULL_UTILIZATION;
	}
	return 1;
}

/* Slack per VCPU of a core; 0 if there is no such core. */
SC_FN sc_u64 sc_balance_slack(const struct sc_balance *b, sc_u32 core)
{
	if (core >= b->cores || core >= SC_MAX_CPUS)
		return 0;
	return b->core[SC_CPU(core)].slack;
}

/* The core of a VCPU, or SC_NONE. */
SC_FN sc_u32 sc_balance_where(const struct sc_balance *b, sc_u32 id)
{
	if (id >= SC_MAX_TASKS || b->vcpu[SC_TASK(id)].core_plus_1 == 0)
		return SC_NONE;
	return b->vcpu[SC_TASK(id)].core_plus_1 - 1;
}

/* Sets the number of free page colours of a core. 0: no such core. */
SC_FN sc_u32 sc_balance_colours(struct sc_balance *b, sc_u32 core, sc_u64 free)
{
	if (core >= b->cores || core >= SC_MAX_CPUS)
		return 0;
	b->core[SC_CPU(core)].colours = free;
	return 1;
}

/* Puts a VCPU that is nowhere on a core. Everything has been checked. */
SC_FN void sc_balance_enter(struct sc_balance *b, sc_u32 id, sc_u32 core)
{
	struct sc_balance_core *c;

	if (id >= SC_MAX_TASKS || core >= SC_MAX_CPUS)
		return;
	c = &b->core[SC_CPU(core)];
	c->utilization += b->vcpu[SC_TASK(id)].utilization;
	c->colours -= b->vcpu[SC_TASK(id)].colours;
	sc_ready_add(&c->vcpus, id);
	sc_balance_refresh(c);
	b->vcpu[SC_TASK(id)].core_plus_1 = core + 1;
}

/* Takes a VCPU off its core. */
SC_FN void sc_balance_leave(struct sc_balance *b, sc_u32 id)
{
	sc_u32 core = sc_balance_where(b, id);
	struct sc_balance_core *c;

	if (id >= SC_MAX_TASKS || core >= SC_MAX_CPUS)
		return;
	c = &b->core[SC_CPU(core)];
	c->utilization -= b->vcpu[SC_TASK(id)].utilization;
	c->colours = sc_add(c->colours, b->vcpu[SC_TASK(id)].colours);
	sc_ready_remove(&c->vcpus, id);
	sc_balance_refresh(c);
	b->vcpu[SC_TASK(id)].core_plus_1 = 0;
}

/*
 * Adds a VCPU to a core; `utilization` from sc_utilization(). Returns 0 if the VCPU is there
 * already, or if `utilization` is 0 (refused by sc_utilization) or above one core. It also returns
 * 0 if there is no such id or core, if the core is full, or if it (cache-aware) has too few free
 * colours. Schedulability is not tested.
 */
SC_FN sc_u32 sc_balance_add(struct sc_balance *b, sc_u32 id, sc_u64 utilization, sc_u32 core,
			    sc_u64 colours)
{
	if (id >= SC_MAX_TASKS || b->vcpu[SC_TASK(id)].core_plus_1 != 0 || core >= b->cores ||
	    core >= SC_MAX_CPUS || utilization == 0 || utilization > 2 * SC_FULL_UTILIZATION)
		return 0;
	if (b->core[SC_CPU(core)].vcpus.count >= SC_MAX_CORE_VCPUS ||
	    (b->cache_aware && b->core[SC_CPU(core)].colours < colours))
		return 0;
	b->vcpu[SC_TASK(id)].utilization = utilization;
	b->vcpu[SC_TASK(id)].colours = b->cache_aware ? colours : 0;
	b->vcpu[SC_TASK(id)].fixed = 0;
	sc_balance_enter(b, id, core);
	return 1;
}

/* 0 if there is no such VCPU. */
SC_FN sc_u32 sc_balance_remove(struct sc_balance *b, sc_u32 id)
{
	if (sc_balance_where(b, id) == SC_NONE)
		return 0;
	sc_balance_leave(b, id);
	return 1;
}

/* Sets whether a VCPU stays on its core; at first it does not. 0 if there is no such VCPU. */
SC_FN sc_u32 sc_balance_fix(struct sc_balance *b, sc_u32 id, sc_u32 fixed)
{
	if (id >= SC_MAX_TASKS || b->vcpu[SC_TASK(id)].core_plus_1 == 0)
		return 0;
	b->vcpu[SC_TASK(id)].fixed = fixed != 0;
	return 1;
}

/* Would the core meet its deadlines with a VCPU of this utilisation, too, and has it the colours?
 * */
SC_FN sc_u32 sc_balance_schedulable(const struct sc_balance_core *c, sc_u64 utilization,
				    sc_u64 colours)
{
	return utilization <= c->room && colours <= c->colours;
}

/*
 * The core with the largest slack per VCPU among those that can schedule this VCPU; its own core
 * always can, and wins ties, then the lowest index. SC_NONE if there is no such VCPU.
 */
SC_FN sc_u32 sc_balance_host(const struct sc_balance *b, sc_u32 id)
{
	sc_u32 source = sc_balance_where(b, id), i;
	sc_u64 most, utilization, colours, host = source;

	if (source >= SC_MAX_CPUS || id >= SC_MAX_TASKS)
		return SC_NONE;
	utilization = b->vcpu[SC_TASK(id)].utilization;
	colours = b->vcpu[SC_TASK(id)].colours;
	most = b->core[SC_CPU(source)].slack;
	for (i = 0; i < SC_MAX_CPUS && i < b->cores; i++) {
		if (b->core[i].slack > most &&
		    sc_balance_schedulable(&b->core[i], utilization, colours)) {
			most = b->core[i].slack;
			host = i;
		}
		most += b->zero;
		host += b->zero;
	}
	return (sc_u32)host;
}

/* The core with the smallest slack per VCPU, ties to the lowest index; SC_NONE if all are empty. */
SC_FN sc_u32 sc_balance_trigger(const struct sc_balance *b)
{
	sc_u64 least = SC_UNLIMITED, core = SC_NONE;
	sc_u32 i;

	for (i = 0; i < SC_MAX_CPUS && i < b->cores; i++) {
		if (b->core[i].slack < least) {
			least = b->core[i].slack;
			core = i;
		}
		least += b->zero;
		core += b->zero;
	}
	return (sc_u32)core;
}

/* The VCPU of smallest utilisation on a core, ties to the lowest id; SC_NONE if all stay or there
 * is none. */
SC_FN sc_u32 sc_balance_smallest(const struct sc_balance *b, sc_u32 core)
{
	sc_u64 least = SC_UNLIMITED, best = SC_NONE, next = 0, utilization;
	sc_u32 id, step;

	if (core >= SC_MAX_CPUS)
		return SC_NONE;
	for (step = 0; step < SC_MAX_CORE_VCPUS; step++) {
		id = sc_ready_next(&b->core[SC_CPU(core)].vcpus, (sc_u32)next);
		if (id >= SC_MAX_TASKS)
			break;
		/* Without a branch: a VCPU that stays has the largest. */
		utilization =
			b->vcpu[SC_TASK(id)].utilization | (0 - (sc_u64)b->vcpu[SC_TASK(id)].fixed);
		if (utilization < least) {
			least = utilization;
			best = id;
		}
		least += b->zero;
		best += b->zero;
		next = id + 1 + b->zero;
	}
	return (sc_u32)best;
}

/*
 * Tries to move one VCPU of m->from to m->to. Returns 0 if that ends the rebalancing: the
 * destination is no longer less loaded.
 */
SC_FN sc_u32 sc_balance_try(struct sc_balance *b, struct sc_balance_move *m, sc_u32 id)
{
	const struct sc_balance_core *from, *to;
	sc_u64 utilization, source, destination;

	if (id >= SC_MAX_TASKS || m->from >= SC_MAX_CPUS || m->to >= SC_MAX_CPUS)
		return 0;
	from = &b->core[SC_CPU(m->from)];
	to = &b->core[SC_CPU(m->to)];
	utilization = b->vcpu[SC_TASK(id)].utilization;
	/* As if it had moved. */
	destination = sc_slack(to->utilization + utilization, to->vcpus.count + 1);
	source = sc_slack(from->utilization - utilization, from->vcpus.count - 1);
	if (b->vcpu[SC_TASK(id)].fixed ||
	    (destination < source && source - destination >= m->imbalance))
		return 1;
	if (!sc_balance_schedulable(to, utilization, b->vcpu[SC_TASK(id)].colours))
		return 1;
	sc_balance_leave(b, id);
	sc_balance_enter(b, id, m->to);
	m->moves++;
	m->vcpu = id;
	m->imbalance = sc_sub(destination, source);
	return destination > source;
}

/*
 * The migration thread of core `from` runs: moves at most `limit` VCPUs to a less loaded core (the
 * paper's thread: one in each of its periods). Their number and the last one are left in `m`.
 * Returns 0 if there is no such core.
 */
SC_FN sc_u32 sc_balance_rebalance(struct sc_balance *b, sc_u32 from, sc_u32 limit,
				  struct sc_balance_move *m)
{
	sc_u64 slack, next = 0;
	sc_u32 id, step;

	m->imbalance = 0;
	m->moves = 0;
	m->vcpu = SC_NONE;
	m->from = from;
	m->to = from;
	if (from >= b->cores || from >= SC_MAX_CPUS)
		return 0;
	m->to = sc_balance_host(b, sc_balance_smallest(b, from));
	if (m->to >= SC_MAX_CPUS)
		m->to = from;
	if (m->to == from)
		return 1;
	slack = sc_balance_slack(b, m->to);
	m->imbalance = slack == SC_UNLIMITED ? slack : slack - sc_balance_slack(b, from);
	for (step = 0; step < SC_MAX_CORE_VCPUS; step++) {
		if (b->core[SC_CPU(from)].vcpus.count <= 1 || m->moves >= limit)
			break;
		id = sc_ready_next(&b->core[SC_CPU(from)].vcpus, (sc_u32)next);
		if (id >= SC_MAX_TASKS || !sc_balance_try(b, m, id))
			break;
		m->imbalance += b->zero;
		m->moves += b->zero;
		m->vcpu += b->zero;
		next = id + 1 + b->zero;
	}
	return 1;
}

#endif
