/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The contract between bpf/lock.h, bpf/dynamic.h and crates/linux, beside intf.h. Rule: as in
 * intf.h.
 */
#ifndef SOLOCORE_LOCK_INTF_H
#define SOLOCORE_LOCK_INTF_H

#include <solocore/bwlock.h>
#include "../client/c/solocore_page.h"

/* The acting regulator. */
#define RUN_MEMGUARD 0u
#define RUN_BWLOCK 1u
#define RUN_DYNAMIC 2u

/* Hard tasks of dynamic budgets. */
#define RUN_TASKS 64u
/* Clients at a time. */
#define RUN_SLOTS 256u
/* Generations of descendants that a program's page covers. */
#define RUN_GENERATIONS 8u

/* Settings that the loader fixes before the programs are loaded. */
struct lock_settings {
	sc_u64 max_budget;  /* accesses per period and core while nobody holds the lock */
	sc_u64 max_hold_ns; /* longest time for which a section counts; 0: no limit */
	sc_u32 policy;	    /* RUN_* */
	sc_u32 reserved;
};

/* Number of clients: without any, programs do not look further. */
struct run_clients {
	sc_u32 threads;
	sc_u32 programs;
};

/* Owner of a slot, by thread (or by process, for a program). */
struct run_owner {
	sc_u64 started; /* start time, in hundredths of a second since boot: numbers are used again
			 */
	sc_u32 slot;
	sc_u32 reserved;
};

/* A slot, as the programs see it. */
struct run_slot {
	sc_u64 section;	 /* number of the section that was seen last */
	sc_u64 since_ns; /* time of the first look at it; 0: there is none */
	sc_u64 cut;	 /* number of the last section that was held for too long, plus 1 */
	sc_u64 endless;	 /* 1: no limit holds for it (root's) */
};

/* One CPU under the lock. */
struct run_lock {
	struct sc_bwlock lock; /* the CPU's own view; each decision counts `holders` again */
	struct sc_bwlock_core core;
	struct sc_bwlock_task task; /* running task */
	sc_u64 slot;	  /* page of the client that runs here, plus 1; 0: there is none */
	sc_u64 counted;	  /* counter at the last look */
	sc_u64 exempt;	  /* accesses of real-time tasks in this period */
	sc_u64 whole;	  /* 1: at every look of this period, a program held the lock */
	sc_u64 held;	  /* periods in which a program held it at a look */
	sc_u64 stops;	  /* number of stops of the CPU by the lock */
	sc_u64 pid;	  /* number of the thread that runs here; 0: idle */
	sc_u64 turn;	  /* 1: clients came first last time (sched_ext engine) */
	sc_u64 frees;	  /* releases of the CPU before its period ended, as the lock was free */
	sc_u64 inside;	  /* 1: a program changes this, and a program that interrupts it must not */
	sc_u64 missed;	  /* 1: an overflow came meanwhile */
	sc_u64 unlimited; /* 1: the running task is real-time, and no thread of the kernel */
	sc_u64 beside;	  /* accesses of such tasks while a program held the lock */
};

/* A hard task of dynamic budgets; its number is its priority. */
struct run_task {
	sc_u64 budget;	  /* accesses of each soft CPU per job */
	sc_u64 length_ns; /* longest time in force; 0: there is no such task */
	sc_u64 slot;	  /* page of the client that signals its jobs, plus 1; 0: there is none */
	sc_u32 core;
	sc_u32 reserved;
};

/* Another budget of a hard task, and its length, from its next job on; length_ns 0: there is none.
 */
struct run_other {
	sc_u64 budget;
	sc_u64 length_ns;
};

#endif
