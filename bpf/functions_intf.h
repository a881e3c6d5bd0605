/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The contract between bpf/functions.bpf.c and crates/linux. Rule: as in intf.h.
 */
#ifndef SOLOCORE_FUNCTIONS_INTF_H
#define SOLOCORE_FUNCTIONS_INTF_H

#include <solocore/types.h>
#include "../client/c/solocore_page.h"

/* maximum number of watched programs at a time */
#define RUN_WATCHED 64u
/* Generations of descendants that belong to a program. */
#define RUN_FAMILY 8u

/*
 * Meaning of a call: it holds the bandwidth lock, or it is a job. The lowest bit of a probe's
 * cookie; the rest is the number of the program.
 */
#define RUN_CALL_SECTION 0u
#define RUN_CALL_JOB 1u
#define RUN_CALLS 2u

/* The program of a process, by the number of the process or of the thread that starts it. */
struct run_watched {
	sc_u64 started; /* start time, in hundredths of a second since boot */
	sc_u32 program;
	sc_u32 wakeups; /* 1: a job begins as the process's first thread wakes, and ends as it goes
			   to sleep */
};

/* Calls of one kind that a program made. */
struct run_calls {
	sc_u64 made;	   /* outermost calls */
	sc_u64 nested;	   /* calls within such a call */
	sc_u64 abandoned;  /* that were left without a return: longjmp(), the end of the thread */
	sc_u64 sum_ns;	   /* time in them */
	sc_u64 longest_ns; /* the longest one */
};

/* Counts of a program. */
struct run_seen {
	struct run_calls calls[RUN_CALLS];
	sc_u64 woken_ns; /* start of the present job by wakeup; 0: there is none */
};

/* A job that has ended. Times by CLOCK_MONOTONIC. */
struct run_ended_job {
	sc_u64 begun_ns;
	sc_u64 ended_ns;
	sc_u32 program;
	sc_u32 reserved;
};

#endif
