/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: the frames of a program that has ended are the kernel's, which gives them to others
 * before a reserve has them again. Rule: memory goes back with its last process. A process of its
 * own, the heir, shares the program's memory and does nothing until the program has ended, by
 * whatever means. Then it gives the pages back a few at a time on one CPU. After each time the
 * reserve takes as many pages on this CPU, whose list hands out the latest freed frames first
 * (crates/space/src/back.rs). Frames that were lent and not used go back in the same way.
 * The kernel wakes the heir by the word of the handler's end (CLONE_CHILD_CLEARTID). Whether no
 * other process has the memory, as a child of vfork has it, is what unshare(CLONE_VM) tells. Both
 * are described in clone(2) and unshare(2). Does not cover: an heir that is killed, by the
 * kernel for want of memory or with its control group; frames of a zone that programs get memory of
 * last.
 */
#define _GNU_SOURCE
#include "space.h"
#include "uffd.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* Present and of this process alone (pagemap.rst). */
#define EXCLUSIVE (1ul << 56)
/* Pages that go back at a time: fewer than the CPU's list keeps. */
#define AT_ONCE 128
/* Waits for other processes with this memory to leave it: the first, and the longest. */
#define PAUSE_NS 50000l
#define LONGEST_PAUSE_NS 50000000l
#define WAIT_ALL 0x40000000

/* The library, which the heir runs. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static const char reserve_name[] = RESERVE_NAME;

/* Connects to the reserve, if there is one; only root is believed. */
int heir_connect(const struct state *s)
{
	struct ucred who = {0, ~0u, ~0u};
	int length = sizeof who, socket = -1;
	if (s->config.lends)
		socket = connect_to(reserve_name, sizeof reserve_name - 1);
	if (socket >= 0 &&
	    (failed(raw(SYS_getsockopt, socket, SOL_SOCKET, SO_PEERCRED, &who, &length)) ||
	     who.uid)) {
		raw(SYS_close, socket);
		socket = -1;
	}
	return socket;
}

/* A walk through the pages that go back. */
struct walk {
	uint64_t owed; /* pages that are free, and that the reserve does not know of */
	uint64_t kept; /* pages that go with this process */
	uint32_t cpu;
	int ended; /* the reserve does not answer */
};

static void settle_up(struct state *s, struct walk *walk)
{
	/* Pages that this CPU still has on lists of its own, as they were locked: the advice begins
	 * with them. */
	raw(SYS_madvise, s, PAGE, MADV_COLD);
	if (walk->owed > 0 && !walk->ended)
		walk->ended = tell_reserve(s, walk->owed, walk->cpu, 0) != 0;
	walk->owed = 0;
}

/* Does the heir need this page, or does the kernel, to let it run? */
static int is_own(const struct state *s, uint64_t page)
{
	uint64_t first = (uint64_t)__ehdr_start & ~(PAGE - 1);
	return (page >= first && page < (uint64_t)_end) ||
	       (page >= s->base && page < s->base + (1 + STATE_PAGES) * PAGE);
}

/* Pages of these that no other process has, in frames of the program's. */
static uint64_t only_here(const struct state *s, const uint64_t *entries, uint64_t pages)
{
	uint64_t count = 0;
	for (uint64_t i = 0; i < pages; i++)
		count += entries[i] & PRESENT && entries[i] & EXCLUSIVE &&
			 frame_allowed(&s->config, entries[i] & FRAME_MASK);
	return count;
}

/* Gives a run of present pages back. */
static void give_run(struct state *s, struct walk *walk, uint64_t start, uint64_t end)
{
	uint64_t entries[AT_ONCE];
	while (start < end && !walk->ended) {
		uint64_t n = AT_ONCE - walk->owed;
		n = (end - start) / PAGE < n ? (end - start) / PAGE : n;
		int own = is_own(s, start);
		for (uint64_t i = 1; i < n; i++)
			if (is_own(s, start + i * PAGE) != own)
				n = i;
		long got = raw(SYS_pread64, s->pagemap, entries, n * 8, start / PAGE * 8);
		uint64_t count = got == (long)(n * 8) ? only_here(s, entries, n) : 0;
		if (own)
			walk->kept += count;
		else if (!failed(raw(SYS_madvise, start, n * PAGE, MADV_DONTNEED_LOCKED_)))
			walk->owed += count;
		start += n * PAGE;
		if (walk->owed >= AT_ONCE)
			settle_up(s, walk);
	}
}

static void give_area(struct state *s, const struct area *area, void *argument)
{
	struct walk *walk = argument;
	if (!area->private_ || area->kernel || area->hugetlb)
		return;
	for (uint64_t at = area->start; at < area->end && !walk->ended;) {
		struct pagemap_scan scan = {.size = sizeof scan,
					    .start = at,
					    .end = area->end,
					    .regions = (uint64_t)s->regions,
					    .region_count = 64,
					    .mask = SCAN_PRESENT,
					    .wanted = SCAN_PRESENT};
		long n = raw(SYS_ioctl, s->pagemap, PAGEMAP_SCAN_, &scan);
		for (long i = 0; i < n; i++)
			give_run(s, walk, s->regions[i].start, s->regions[i].end);
		if (failed(n) || scan.walk_end <= at)
			return;
		at = scan.walk_end;
	}
}

/* Waits until no other process has this memory; -1: the kernel does not tell. */
static int await_end(const struct state *s)
{
	/* The kernel wakes with the kind of wait that other processes may use as well. */
	for (int thread; (thread = s->handler) != 0;)
		if (raw(SYS_futex, &s->handler, 0 /* FUTEX_WAIT */, thread, 0, 0, 0) == -ENOSYS_)
			return -1;
	for (long pause = PAUSE_NS;;) {
		long result = raw(SYS_unshare, CLONE_VM);
		if (result != -EINVAL_)
			return failed(result) ? -1 : 0;
		long time[2] = {0, pause};
		raw(SYS_nanosleep, time, 0);
		pause = pause * 2 < LONGEST_PAUSE_NS ? pause * 2 : LONGEST_PAUSE_NS;
	}
}

static int keep(void *argument)
{
	struct state *s = argument;
	struct walk walk = {0, 0, 0, 0};
	unsigned long cpus[MOST_CPUS / 64];
	if (!await_end(s) && stay_on(0, cpus, sizeof cpus) > 0) {
		raw(SYS_getcpu, &walk.cpu, 0, 0);
		credit_back(s);
		walk.ended = s->reserve < 0;
		each_area(s, give_area, &walk);
		settle_up(s, &walk);
		if (!walk.ended)
			tell_reserve(s, walk.kept < MOST_BACK ? walk.kept : MOST_BACK, walk.cpu, 1);
	}
	raw(SYS_exit_group, 0);
	return 0;
}

/* The process between the program and the heir: with its end the heir is nobody's child. The
 * heir has neither session nor directory nor CPU of the program, and is not root. It is nice to
 * nobody: a program that runs between its giving and the reserve's taking gets the frames. */
static int launch(void *argument)
{
	struct state *s = argument;
	const int needed[] = {s->reserve, s->pagemap};
	unsigned long all[MOST_CPUS / 64];
	int priority = 0;
	raw(SYS_prctl, PR_SET_NAME, "solocore-heir");
	raw(SYS_setsid, 0);
	raw(SYS_chdir, "/");
	raw(SYS_sched_setscheduler, 0, SCHED_OTHER, &priority);
	raw(SYS_setpriority, 0 /* PRIO_PROCESS */, 0, -20);
	for (unsigned i = 0; i < MOST_CPUS / 64; i++)
		all[i] = ~0ul;
	raw(SYS_sched_setaffinity, 0, sizeof all, all);
	close_all_but(needed, 2);
	drop_privileges(s);
	clone(keep, s->heir_stack + HEIR_STACK, CLONE_VM, s);
	raw(SYS_exit_group, 0);
	return 0;
}

/* Starts the heir of a process, if a reserve is there. Without an heir, its frames are the
 * kernel's at its end, and the reserve looks for them. All signals are blocked. */
void heir_start(struct state *s)
{
	if (s->reserve < 0)
		return;
	int between = clone(launch, s->launch_stack + HEIR_STACK, CLONE_VM | CLONE_VFORK, s);
	if (between > 0)
		raw(SYS_wait4, between, 0, WAIT_ALL, 0);
}
