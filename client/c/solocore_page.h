/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The page that a client shares with the kernel, and the request for one to the daemon.
 *
 * Problem: taking the bandwidth lock or beginning a job must cost no system call (bwlock, section
 * 4.2).
 * Rule: each attached thread has a page of its own, a map of the BPF programs that regulate. The
 * thread writes two words of it, with one store each; the programs read them. Only the thread
 * writes its page, and no value on it exceeds the thread's rights: to hold the lock or not, to have
 * a job under way or not. A thread that is a transfer of the plan's time table
 * (single-core-equivalence, section 2.4) finds its slots on the page, which the daemon wrote before
 * it granted the page, and records its transfers there. The page is asked for over a Unix socket
 * (SOCK_SEQPACKET): one request, one answer with the page as a file descriptor (SCM_RIGHTS). The
 * connection stays open for as long as the page is in use. Does not cover: the use of the page by
 * the programs (bpf/lock.h).
 */
#ifndef SOLOCORE_PAGE_H
#define SOLOCORE_PAGE_H

#include <stdint.h>

/*
 * Path of the daemon's socket for clients. SOLOCORE_SOCKET in the environment of a client names
 * another place.
 */
#define SC_CLIENT_SOCKET "/run/solocore-client.sock"
#define SC_PAGE_BYTES 4096u
#define SC_NAME_BYTES 64u
#define SC_PROTOCOL 1u

/* Owner of a page. */
#define SC_SCOPE_THREAD 1u  /* of the requesting thread */
#define SC_SCOPE_PROGRAM 2u /* of the requesting process and its descendants, also after execve */
#define SC_SCOPE_SLOT 3u    /* of the requesting thread, as a transfer of the time table */

/* The daemon's answers. */
#define SC_GRANTED 0u
#define SC_NOT_ALLOWED 1u /* not root, and not in the group */
#define SC_NO_ROOM 2u	  /* too many clients, of this user or in all */
#define SC_NO_TASK 3u	  /* the plan has no task of this name, or it is taken */
#define SC_BAD_REQUEST 4u
#define SC_NOT_SERVED 5u /* the plan has neither lock nor jobs, only transfers */
#define SC_BY_YIELD                                                                                \
	6u /* granted without a page: the plan's levels are scheduled, and a yield ends a job */

/* Transfers that the page remembers: a power of two. */
#define SC_SLOTS_KEPT 64u

/* A transfer. Times by CLOCK_MONOTONIC. */
struct sc_transfer {
	uint64_t begun_ns;
	uint64_t ended_ns; /* 0: under way */
};

/* Slot n begins at first_ns + n * period_ns and is length_ns long. */
struct sc_slot {
	/* The daemon's. */
	uint64_t first_ns;
	uint64_t period_ns; /* 0: the thread is not a transfer */
	uint64_t length_ns;
	uint64_t from; /* number of the first slot after the page was granted */
	/* The client's. */
	uint64_t begun;		/* slots begun << 1 | 1 while in one */
	uint64_t next;		/* number of the slot begun last, plus 1; 0: none */
	uint64_t late;		/* transfers that ended after their slots */
	uint64_t start_late_ns; /* longest time from the beginning of a slot to that of its transfer
				 */
	uint64_t end_late_ns;	/* longest time from the end of a slot to that of its transfer */
	struct sc_transfer latest[SC_SLOTS_KEPT]; /* the k-th, from 0, at k modulo SC_SLOTS_KEPT */
};

struct sc_page {
	uint64_t sections; /* sections begun << 32 | sections that the thread is in */
	uint64_t jobs;	   /* jobs begun << 1 | 1 while one is under way */
	struct sc_slot slot;
	uint64_t reserved[SC_PAGE_BYTES / 8 - 2 - sizeof(struct sc_slot) / 8];
};

struct sc_request {
	uint32_t protocol; /* SC_PROTOCOL */
	uint32_t scope;	   /* SC_SCOPE_* */
	uint32_t thread;   /* its number, as gettid() returns it */
	uint32_t reserved;
	char task[SC_NAME_BYTES]; /* the plan's task with the jobs that it signals (empty: none), or
				     the slot: "nav/1/device-input". Ends with a zero */
};

struct sc_answer {
	uint32_t verdict;     /* SC_GRANTED: a descriptor comes with it */
	uint32_t slot;	      /* number of the page */
	uint64_t max_hold_ns; /* longest time for which a section counts; 0: no limit */
};

/* crates/linux makes its Rust of these (crates/linux/src/contract.rs); older clients know them as
 * they are.
 */
_Static_assert(sizeof(struct sc_page) == SC_PAGE_BYTES, "one page");
_Static_assert(sizeof(struct sc_slot) == 72 + 16 * SC_SLOTS_KEPT, "protocol 1");
_Static_assert(sizeof(struct sc_request) == 80, "protocol 1");
_Static_assert(sizeof(struct sc_answer) == 16, "protocol 1");

#endif
