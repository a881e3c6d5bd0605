/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The contract between bpf/levels.bpf.c and crates/linux/src/levels.
 *
 * Rule: as in intf.h. The loader tells the programs tasks and tables through the program `setup`.
 */
#ifndef SOLOCORE_LEVELS_INTF_H
#define SOLOCORE_LEVELS_INTF_H

#include <solocore/levels.h>
#include <solocore/ready_set.h>

/* Partitions, and transfers of the I/O core, that there is room for. */
#define LEVEL_PARTITIONS 128u
/* Level of tasks in the windows of a partition; after SC_LEVEL_IDLE. */
#define LEVEL_WINDOW 5u

/* Settings that the loader fixes before the programs are loaded. */
struct levels_settings {
	sc_u32 cpus;	   /* of the machine, numbered from 0 */
	sc_u32 loader_pid; /* thread group that always runs */
	sc_u32 windows;	   /* 1: partitions and their windows; 0: levels */
	sc_u32 tasks;	   /* numbered from 0 */
};

/* Requests of the loader to `setup`. */
#define LEVEL_SETUP_CORE 0u /* a: CPU, b: now */
#define LEVEL_SETUP_TASK                                                                           \
	1u /* a: task, b: level << 32 | core, c: period, d: PET, e: first release; f: partition    \
	      << 32 | rank */
#define LEVEL_SETUP_TABLE 2u /* a: CPU, b: origin, c: frame */
#define LEVEL_SETUP_SLOT 3u  /* a: CPU, b: start, c: end, d: task or partition */

struct level_setup {
	sc_u64 what;
	sc_u64 a;
	sc_u64 b;
	sc_u64 c;
	sc_u64 d;
	sc_u64 e;
	sc_u64 f;
};

/* The task of a thread (task storage). */
#define LEVEL_PARENT 1u /* its children are the task's, not itself */

struct level_member {
	sc_u32 task;	/* plus 1; 0: no task */
	sc_u32 flags;	/* LEVEL_* */
	sc_u32 counted; /* 1: it counts as runnable */
	sc_u32 reserved;
};

/* A task of the plan, and its counts. */
struct level_task {
	sc_u64 period_ns;  /* 0: released when it wakes */
	sc_u64 next_ns;	   /* its next release */
	sc_u64 release_ns; /* of the present job */
	sc_u64 job;	   /* number of the present job, from 1 */
	sc_u64 backlog;	   /* releases that no job was made of yet */
	sc_u64 inside;	   /* releases with jobs that go on within the budget of the present one */
	sc_u64 done;	   /* jobs that were completed */
	sc_u64 skipped;	   /* releases at which it slept, or had been ended */
	sc_u64 overruns;   /* as the policy counts them */
	sc_u64 late;	   /* jobs that were completed after their deadlines */
	sc_u64 max_start_ns;	/* longest time from release, or begin of the slot, to the first
				   instruction */
	sc_u64 max_response_ns; /* longest time from release to completion */
	sc_u64 max_tardy_ns;	/* longest time from deadline to completion */
	sc_u64 max_used_ns;	/* most execution that was charged to a job */
	sc_u64 ran_ns;		/* execution in all, by the clock */
	sc_u64 sum_response_ns;
	sc_u32 runnable;  /* threads that want to run */
	sc_u32 unstarted; /* 1: the present job has not run yet */
	sc_u32 cpu;	  /* CPU with the timer of its releases; its core except at level C */
	sc_u32 level;	  /* SC_LEVEL_*, LEVEL_WINDOW */
	sc_u32 partition;
	sc_u32 rank;
	sc_u64 oldest_ns; /* release of the first job that is not done yet */
};

/* Counts of a CPU. */
struct level_cpu_run {
	sc_u64 dispatches;
	sc_u64 timers;
	sc_u64 max_timer_ns;  /* longest time from the set time of the timer to the decision */
	sc_u64 max_lock_ns;   /* longest wait for the lock */
	sc_u64 max_decide_ns; /* longest decision, with the lock held */
	sc_u64 decide_ns;     /* in all */
	sc_u64 intruder_ns;   /* time of real-time threads that no level commands */
	sc_u64 intrusions;
	sc_u64 lost_ns[6]; /* by level that had to wait for them */
	sc_u64 slots;	   /* windows that have ended */
};

#endif
