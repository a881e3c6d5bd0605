/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The contract between the BPF programs and crates/linux.
 *
 * Problem: two languages share memory (maps) and constants; a field that moves must not go
 * unnoticed.
 * Rule: every shared struct is declared once, here and in the other *_intf.h. crates/linux/build.rs
 * makes the Rust of it (bindgen; crates/linux/src/contract.rs). A test there compares each field
 * with the type information in the compiled objects. A struct has no padding that is not named.
 * Does not cover: the fields of `guard` (solocore/memguard.h).
 */
#ifndef SOLOCORE_INTF_H
#define SOLOCORE_INTF_H

#include <solocore/memguard.h>

/* Settings that the loader fixes before the programs are loaded (read-only data). */
struct run_settings {
	sc_u64 period_ns;
	sc_u64 slice_ns;    /* a task's turn, for the sched_ext engine */
	sc_u64 chunk;	    /* accesses reclaimed at a time */
	sc_u64 hold_ns;	    /* longest time that an overflow program holds a task; 0: never (helper
			       engine) */
	sc_u32 cpus;	    /* CPUs of the machine, numbered from 0 */
	sc_u32 regulated;   /* number of CPUs with a budget */
	sc_u32 sharing;	    /* SC_SHARE_* */
	sc_u32 loader_pid;  /* thread group that is never throttled; 0: none */
	sc_u32 exempt_prio; /* a task whose `prio` is below is not stopped */
	sc_u32 puts_off;    /* 1: no kick from the programs of the counters (sched_ext engine) */
};

/* One CPU. The loader fills the first part in before it opens the events; the CPU's own programs
 * write the rest. Later the loader stores single words only: reservations, the sample, the
 * tolerance, and `asked` of the guard (crates/linux/src/regulate/asked.rs). */
struct run_core {
	sc_u64 reservation; /* accesses per period; SC_UNLIMITED: not regulated */
	sc_u64 sample;	    /* accesses per overflow of the counter */
	sc_u64 tolerance;   /* a period with more than reservation + tolerance is `over` */
	sc_u32 flags;	    /* SC_HARD, SC_PREDICT, SC_RECLAIM */
	sc_u32 started;	    /* 1: `guard` is valid */
	struct sc_memguard_core guard;
	sc_u64 at_start;   /* counter at the start of the period */
	sc_u64 stopped_ns; /* start of the throttling; 0: not throttled */
	sc_u64 running_ns; /* start of its task's run (sched_ext engine) */
	sc_u64 stop_seen;  /* 1: the helper has been called in this period (helper engine) */
	/* Whole periods only. */
	sc_u64 periods;	     /* number of periods */
	sc_u64 throttled;    /* number of periods with a throttling */
	sc_u64 throttled_ns; /* total time of throttling */
	sc_u64 accesses;     /* in all, by the counter itself */
	sc_u64 most;	     /* most accesses in one period */
	sc_u64 over;	     /* periods with more accesses than budget + tolerance */
	sc_u64 skipped;	     /* periods without a seen start: the tick came too late */
	sc_u64 unseen;	     /* accesses that no overflow reported, found later */
	sc_u64 longest_ns;   /* longest time between two ticks */
	sc_u64 ticked_ns;    /* the last tick */
	sc_u64 held; /* number of holds of a task because the helper was not let in (helper engine)
		      */
	/* Writes, where they are counted apart (writes.h). The first two are the loader's. */
	sc_u64 write_reservation; /* writes per period; SC_UNLIMITED: no limit */
	sc_u64 write_sample;   /* writes per overflow of their counter; 0: they are not counted */
	sc_u64 write_at_start; /* counter at the start of the period */
	sc_u64 writes;	       /* in all, by the counter itself */
	sc_u64 most_writes;    /* most writes in one period */
	sc_u64 over_writes;    /* periods with more writes than budget + sample */
	sc_u64 unseen_writes;  /* writes that no overflow reported, found later */
	sc_u64 unread;	       /* times that a counter could not be read as a period ended */
	/* Accesses of threads that no budget stops, by changes of tasks (exempt.h). */
	sc_u64 runs;		/* RUNS_* */
	sc_u64 switched_at;	/* counter at the last change of tasks */
	sc_u64 exempt;		/* in all, up to that change */
	sc_u64 exempt_at_start; /* in all, at the start of the period */
	sc_u64 exempt_at_stop;	/* in all, at the start of the throttling */
	sc_u64 stopped_at;	/* counter at the start of the throttling; 0: not throttled */
	sc_u64 most_exempt;	/* most in one period */
	sc_u64 most_limited;	/* most accesses of all others in one period */
	sc_u64 most_after;	/* most of these after the start of the throttling */
	sc_u64 over_limited;	/* periods with more of these than budget + tolerance */
	sc_u64 over_before;	/* the same, without those after the start of the throttling */
};

/* What runs on a CPU. 0: no change of tasks was seen yet. */
#define RUNS_LIMITED 1u
#define RUNS_EXEMPT 2u

/* An analysed task of the plan inside the sched_ext engine. */
struct run_rank {
	sc_u32 rank;	 /* 1: before all others of its CPU; 0: an ordinary task */
	sc_u32 children; /* 1: holds for children of the thread, not for itself */
};

/* The latest periods of a CPU (history.h). */
#define HISTORY_PERIODS 2048u /* a power of two; 200 ms at the shortest period */

struct run_period {
	sc_u64 start_ns;
	sc_u64 end_ns;
	sc_u64 stopped_ns; /* start of the throttling that lasted until its end; 0: none */
	sc_u64 accesses;
};

struct run_history {
	sc_u64 written; /* entries so far; the next one lies at this number modulo HISTORY_PERIODS
			 */
	struct run_period periods[HISTORY_PERIODS];
};

#endif
