/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The contract between bpf/vcpu.bpf.c and crates/linux. Rule: as in intf.h.
 *
 * VCPUs are numbered. Number c, below the number of CPUs, is the best-effort VCPU of CPU c: it runs
 * all threads that are bound to no VCPU.
 */
#ifndef SOLOCORE_VCPU_INTF_H
#define SOLOCORE_VCPU_INTF_H

#include <solocore/balance.h>
#include <solocore/throttle.h>
#include <solocore/vcpu.h>

#define VCPU_WORDS (SC_MAX_TASKS / 64)

/* Settings that the loader fixes once (read-only data). */
struct vcpu_settings {
	sc_u64 slice_ns; /* a thread's turn among those of its VCPU */
	sc_u64 check_ns; /* interval between two checks of a core in background mode whether it may
			    go on; 0: it is not throttled */
	sc_u64 balance_ns; /* time from a change to its rebalancing; 0: VCPUs stay where they are */
	sc_u64 overhead_ns; /* cost of a switch: balancing adds it to each capacity, as admission
			       does */
	sc_u32 cpus;	    /* CPUs of the machine, numbered from 0 */
	sc_u32 background;  /* SC_BACKGROUND_* */
	sc_u32 allowed;	    /* 0: no background time at all */
	sc_u32 loader_pid;  /* thread group that no VCPU holds, but for VCPU_HELD; 0: none */
	sc_u32 moves;	    /* maximum number of VCPUs that one rebalancing moves */
	sc_u32 colours;	    /* VCPU_COLOURS_* */
};

/* A CPU. Written under its runqueue's lock, but for the mail. */
struct vcpu_cpu {
	struct sc_vcpu_core core;
	/* Mail: sets of VCPUs, by any CPU. `mail` is 1 if there may be some. */
	sc_u64 mail;
	sc_u64 woken[VCPU_WORDS];    /* have work, and are on this core */
	sc_u64 arriving[VCPU_WORDS]; /* in `transit` */
	sc_u64 leaving[VCPU_WORDS];  /* for vcpu_info.to */
	sc_u64 measured[VCPU_WORDS]; /* have another intensity (vcpu_info.intensity) */
	sc_u64 counted;	     /* requests that the counter had at the last change of threads */
	sc_u64 running_ns;   /* start of its thread's run */
	sc_u64 running_id;   /* and the thread's VCPU */
	sc_u64 direct;	     /* 1: a thread of the VCPU that runs is next, past its queue */
	sc_u64 stopped_ns;   /* time at which the last one blocked, until it is read; 0 */
	sc_u64 intruding_ns; /* start of a real-time thread's run; 0 */
	/* Counts. */
	sc_u64 switches; /* threads that were let in */
	sc_u64 late;	 /* number of exceeded budgets, as the timer came late */
	sc_u64 late_ns;	 /* total time of the excess */
	sc_u64 most_late_ns;
	sc_u64 strays;	    /* threads that ran although another VCPU was picked */
	sc_u64 moves;	    /* VCPUs that left */
	sc_u64 told_ns;	    /* background time that the throttling has been told */
	sc_u64 errors;	    /* mail that could not be done */
	sc_u64 intrusions;  /* number of runs of real-time threads */
	sc_u64 intruder_ns; /* and their time */
};

/* A VCPU, wherever it is. */
struct vcpu_info {
	sc_u64 virtual_ns; /* virtual time of its threads */
	sc_u64 capacity_ns;
	sc_u64 period_ns;
	sc_u64 moves;	/* number of its moves */
	sc_u64 move_ns; /* longest time of a move, from taken to put */
	sc_u64 taken_ns;
	sc_u64 colours;	   /* page colours that it needs */
	sc_u64 requests;   /* requests to memory that its threads made, where they are counted */
	sc_u64 intensity;  /* its use of memory, for the policy */
	sc_u32 core;	   /* its present or future CPU; SC_NONE: there is no such VCPU */
	sc_u32 to;	   /* its destination; SC_NONE: it is destroyed */
	sc_u32 flags;	   /* VCPU_* */
	sc_u32 generation; /* number of owners of this number so far: threads of a former owner are
			      not those of the present one */
};

/* The VCPU of a thread: a number plus 1, and its generation. */
#define VCPU_BOUND(id, generation) ((id) + 1 + ((generation) << 12))
#define VCPU_GENERATIONS 0x7ffffu /* the highest one; the next is 0 again */
/* Added to it: the VCPU holds the thread, although it is one of solocore's. Children lack it. */
#define VCPU_HELD 0x80000000u

#define VCPU_COLOURS_NONE 0u
#define VCPU_COLOURS_FREE 1u /* a VCPU only goes where its page colours are free */
#define VCPU_COLOURS_MOVE 2u /* also, it waits until solocore has moved its pages there */

#define VCPU_FIXED 1u /* it stays on its core */
#define VCPU_RESTS 4u /* it stays there for now, as its pages cannot move */
#define VCPU_WAITS 2u /* it waits for its pages, before it goes to vcpu_info.to */

/* Requests of solocore to the programs of type syscall. */
struct vcpu_request {
	sc_u64 capacity_ns;
	sc_u64 period_ns;
	sc_u64 colours;
	sc_u64 occupancy; /* monitor: see solocore/throttle.h; answer: r_high */
	sc_u64 requests;  /* answer: r_cur; report: requests of a core, or a VCPU's intensity */
	sc_u32 id;
	sc_u32 cpu; /* create, move, go: the CPU; SC_NONE: none (destroy), or it stays (go) */
	sc_u32 flags;
	sc_u32 server; /* SC_SERVER_* */
	sc_u32 limit;  /* replenishments; answer of the monitor: num_throttle */
	sc_u32 done;   /* answer: 1; go: 2, try again */
};

_Static_assert(SC_MAX_TASKS < 1 << 12, "VCPU_BOUND has 12 bits for a number");
_Static_assert((VCPU_GENERATIONS << 12 & VCPU_HELD) == 0, "no generation looks like VCPU_HELD");

#endif
