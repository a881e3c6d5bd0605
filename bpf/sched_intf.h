/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The contract between the shared parts of all schedulers (ended.h, sched_trace.h, intruders.h) and
 * crates/linux. Rule: as in intf.h.
 */
#ifndef SOLOCORE_SCHED_INTF_H
#define SOLOCORE_SCHED_INTF_H

#include <solocore/types.h>

/* Why a scheduler ended (ended.h). */
struct run_exit {
	sc_u64 kind; /* SCX_EXIT_*; 0: it runs */
	sc_u64 code; /* SCX_ECODE_*: the kernel's advice, with the kind SCX_EXIT_UNREG_KERN */
	char reason[128];
	char message[256];
};

/* Decisions of the scheduler (sched_trace.h). */
#define TRACE_EVENTS 16384u /* a power of two */

enum trace_kind {
	/* VCPUs (solocore/vcpu.h). */
	TRACE_VCPU_ADD = 1,
	TRACE_VCPU_REMOVE = 2,
	TRACE_VCPU_WAKE = 3,
	TRACE_VCPU_BLOCK = 4,
	TRACE_VCPU_TICK = 5,
	TRACE_VCPU_ALLOW = 6,
	TRACE_VCPU_PAUSE = 7,
	TRACE_VCPU_BUDGET = 8,
	TRACE_VCPU_ARRIVE = 9,
	TRACE_VCPU_INTENSITY = 10,
	TRACE_VCPU_LEAVE = 11,
	TRACE_VCPU_RESUME = 12,
	/* Criticality levels (solocore/levels.h) and time tables. */
	TRACE_LEVEL_ADD = 32,
	TRACE_LEVEL_RELEASE = 33,
	TRACE_LEVEL_COMPLETE = 34,
	TRACE_LEVEL_PICK = 35,
	TRACE_LEVEL_OVERRUN = 36,
	TRACE_LEVEL_SLOT = 37,
	TRACE_LEVEL_TABLE = 38,
	/* Threads that really ran. */
	TRACE_RUNS = 64,
	TRACE_STOPS = 65,
	TRACE_INTRUDER = 66,
};

struct trace_event {
	sc_u64 time_ns; /* CLOCK_MONOTONIC */
	sc_u32 kind;	/* TRACE_* */
	sc_u32 id;
	sc_u64 a;
	sc_u64 b;
};

struct trace_ring {
	sc_u64 written; /* events so far; the next one lies at this number modulo TRACE_EVENTS */
	struct trace_event events[TRACE_EVENTS];
};

/* Real-time threads beside it (intruders.h). */
/* Owners of time: the levels and the windows, or the modes of a core with VCPUs. */
#define INTRUDER_WHOSE 6

struct sched_intruder {
	sc_u64 ns;
	sc_u64 times;
	sc_u64 longest_ns;
	sc_u64 lost_ns[INTRUDER_WHOSE];
	sc_u32 pid;
	sc_u32 tgid;
	sc_u32 policy;
	sc_u32 priority; /* of SCHED_FIFO and SCHED_RR */
	char name[16];
};

#endif
