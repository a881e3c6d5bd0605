/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The contract between bpf/vcpu.bpf.c and crates/linux. Rule: as in intf.h.
 *
 * VCPUs are numbered. Number c, below the number of CPUs, is the best-effort VCPU of CPU c: it runs
 * whatever is bound to no VCPU.
 */
#ifndef SOLOCORE_VCPU_INTF_H
#define SOLOCORE_VCPU_INTF_H

#include <solocore/balance.h>
#include <solocore/throttle.h>
#include <solocore/vcpu.h>

#define VCPU_WORDS (SC_MAX_TASKS / 64)

/* What the loader decides once (read-only data). */
struct vcpu_settings {
	sc_u64 slice_ns; /* a thread's turn among those of its VCPU */
	sc_u64 check_ns; /* how often a core in background mode asks whether it may go on; 0: it is
			    not throttled */
	sc_u64 balance_ns;  /* from a change to the rebalancing that it causes; 0: VCPUs stay where
			       they are */
	sc_u64 overhead_ns; /* what a switch costs: balancing adds it to each capacity, as admission
			       does */
	sc_u32 cpus;	    /* CPUs of the machine, numbered from 0 */
	sc_u32 background;  /* SC_BACKGROUND_* */
	sc_u32 allowed;	    /* 0: no background time at all */
	sc_u32 loader_pid;  /* thread group that no VCPU holds; 0: none */
	sc_u32 moves;	    /* VCPUs that one rebalancing moves at most */
	sc_u32 colours;	    /* 1: a VCPU goes only where its page colours are free */
};

/* A CPU. Written under its runqueue's lock, but for the mail. */
struct vcpu_cpu {
	struct sc_vcpu_core core;
	/* Mail: sets of VCPUs, by any CPU. `mail` is 1 if there may be some. */
	sc_u64 mail;
	sc_u64 woken[VCPU_WORDS];    /* have work, and are on this core */
	sc_u64 arriving[VCPU_WORDS]; /* in `transit` */
	sc_u64 leaving[VCPU_WORDS];  /* for vcpu_info.to */
	sc_u64 running_ns;	     /* since when its thread runs */
	sc_u64 running_id;	     /* and for which VCPU */
	sc_u64 direct;		     /* 1: a thread of the VCPU that runs is next, past its queue */
	sc_u64 stopped_ns;	     /* when the last one blocked, until somebody has asked; 0 */
	sc_u64 intruding_ns;	     /* since when a real-time thread runs; 0 */
	/* Counts. */
	sc_u64 switches; /* threads that were let in */
	sc_u64 late;	 /* how often a budget was exceeded, as the timer came late */
	sc_u64 late_ns;	 /* by how much in all */
	sc_u64 most_late_ns;
	sc_u64 strays;	    /* threads that ran although another VCPU was picked */
	sc_u64 moves;	    /* VCPUs that left */
	sc_u64 told_ns;	    /* background time that the throttling has been told */
	sc_u64 errors;	    /* mail that could not be done */
	sc_u64 intrusions;  /* how often a real-time thread ran */
	sc_u64 intruder_ns; /* and for how long */
};

/* A VCPU, wherever it is. */
struct vcpu_info {
	sc_u64 virtual_ns; /* virtual time of its threads */
	sc_u64 capacity_ns;
	sc_u64 period_ns;
	sc_u64 moves;	/* how often it has moved */
	sc_u64 move_ns; /* how long a move took at most, from taken to put */
	sc_u64 taken_ns;
	sc_u64 colours;	   /* page colours that it needs */
	sc_u32 core;	   /* the CPU that it is on or goes to; SC_NONE: there is no such VCPU */
	sc_u32 to;	   /* where it is to go; SC_NONE: it is destroyed */
	sc_u32 flags;	   /* VCPU_* */
	sc_u32 generation; /* how often this number has been given away: threads of a former owner
			      are not this one's */
};

/* What a thread is bound to: a number plus 1, and its generation. */
#define VCPU_BOUND(id, generation) ((id) + 1 + ((generation) << 12))

#define VCPU_FIXED 1u /* it stays on its core */

/* What solocore asks of the programs of type syscall. */
struct vcpu_request {
	sc_u64 capacity_ns;
	sc_u64 period_ns;
	sc_u64 colours;
	sc_u64 occupancy; /* monitor: see solocore/throttle.h; answer: r_high */
	sc_u64 requests;  /* answer: r_cur */
	sc_u32 id;
	sc_u32 cpu; /* create, move: where; SC_NONE: nowhere (destroy) */
	sc_u32 flags;
	sc_u32 server; /* SC_SERVER_* */
	sc_u32 limit;  /* replenishments; answer of the monitor: num_throttle */
	sc_u32 done;   /* answer: 1 */
};

_Static_assert(SC_MAX_TASKS < 1 << 12, "VCPU_BOUND has 12 bits for a number");

#endif
