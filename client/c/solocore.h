/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libsolocore: messages of a program to a running solocore.
 *
 * Problem: only the program knows which of its sections suffer when other cores use the memory, and
 * when its jobs begin. Rule: while a thread holds the bandwidth lock and runs, tasks of other cores
 * that are not real-time may make only the accesses per period that the plan allows. The thread
 * itself is never throttled. Any number of threads may hold it at a time, and no thread ever waits
 * for it. Taking and releasing it is a store to memory: no system call, a few nanoseconds. Source:
 * bwlock, sections 3 and 4.2; dynamic-budgeting, section IV.
 *
 *	bw_lock();
 *	filter(image);          // memory-performance critical section
 *	bw_unlock();
 *
 * Sections nest. A thread is attached by its first call, which costs some milliseconds, or by
 * sc_attach() beforehand, and detached when it ends. All calls act on the calling thread. Without a
 * running solocore they do nothing and return the reason; a program may ignore their results.
 *
 * Does not cover: a child of fork() is not attached and holds nothing, until it calls again; one
 * made by a bare clone() system call must not call at all. After execve() the lock is no longer
 * held, except by sc_hold_program().
 */
#ifndef SOLOCORE_H
#define SOLOCORE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Results of the calls. */
enum sc_status {
	SC_OK = 0,
	SC_NO_DAEMON = 1, /* no solocore runs here that serves clients */
	SC_DENIED = 2,	  /* the user is not in the group that may (solocore run --group) */
	SC_FULL = 3,	  /* too many clients */
	SC_UNKNOWN = 4,	  /* the plan has no such task or slot, or another client has it already */
	SC_REFUSED = 5, /* another version, or the thread is unknown to the daemon (a container) */
	SC_SYSTEM = 6,	/* a system call failed: no memory, no descriptors */
	SC_UNMATCHED = 7, /* bw_unlock() without bw_lock(), a job that begins twice or ends without
			     a beginning, a wait for a slot by a thread that is not a transfer */
};

/* Enters a section that suffers from other cores' accesses. */
int bw_lock(void);

/* Leaves it. */
int bw_unlock(void);

/*
 * Begins a job of the calling thread's task. Where solocore schedules the plan's levels (solocore
 * run --scheduler levels), jobs begin with their releases, and this does nothing.
 */
int sc_job_begin(void);

/*
 * Ends the job. Under the scheduler of levels this is a sched_yield(): the thread, and with it all
 * threads of its task, goes on with the task's next release.
 */
int sc_job_end(void);

/* Attaches the calling thread now, even if an earlier attempt failed. */
int sc_attach(void);

/*
 * Attaches the calling thread as the task of this name in the plan; it signals the jobs of this
 * task. At most 63 bytes. Under the scheduler of levels the thread becomes one of that task, and
 * stays one until it ends.
 */
int sc_attach_task(const char *task);

/*
 * The same, as a transfer of the plan's time table, named by partition, chain and stage:
 * "nav/1/device-input". A device's transfer is bound to the I/O core until it detaches.
 */
int sc_attach_slot(const char *slot);

/*
 * Ends the present transfer, if there is one, and waits for the start of the thread's next slot.
 * Slots with a start in the past are missed, not made up for; *missed (which may be null) is their
 * number since the call before, or since the thread was attached. SC_NO_DAEMON: solocore has ended,
 * and the table is no longer kept.
 */
int sc_wait_slot(unsigned long long *missed);

/* The transfer is over. */
int sc_slot_end(void);

/* Detaches the calling thread: it holds no lock any more. */
void sc_detach(void);

/* Is the calling thread attached, and does the daemon still run? Costs a system call. */
int sc_check(void);

/*
 * Holds the lock from now on whenever this process or a descendant of it (up to 8 generations)
 * runs, also after execve(), until it ends. For whole programs, as `solocore exec --lock` does. Not
 * undone by anything; call it once.
 */
int sc_hold_program(void);

/*
 * Longest time for which a section of the calling thread counts, in nanoseconds; 0: no limit, or it
 * is not attached.
 */
unsigned long long sc_max_hold_ns(void);

/* Text of a status, in English. Never fails. */
const char *sc_strstatus(int status);

#ifdef __cplusplus
}
#endif

#endif
