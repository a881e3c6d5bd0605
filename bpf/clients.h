/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Clients of the bandwidth lock and of dynamic budgets: their programs and their pages.
 *
 * Problem: a client signals with a store to its page (client/c/solocore_page.h), which causes no
 * event. Rule: the daemon writes the page of each thread, or of each process with its descendants,
 * here. The regulators look for the page of the running thread, and read it.
 */
#ifndef SOLOCORE_CLIENTS_H
#define SOLOCORE_CLIENTS_H

#include "kfuncs.h"
#include "lock_intf.h"
#include "pages.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct run_clients);
} lock_clients SEC(".maps");

/* By number of the thread; for programs that of the process, or of the thread that starts it. */
struct lock_owners {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RUN_SLOTS);
	__type(key, __u32);
	__type(value, struct run_owner);
};
struct lock_owners lock_threads SEC(".maps");
struct lock_owners lock_programs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RUN_SLOTS);
	__type(key, __u32);
	__type(value, struct run_slot);
} lock_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, RUN_SLOTS);
	__type(key, __u32);
	__array(values, struct client_page);
} lock_pages SEC(".maps");

static __always_inline struct run_clients *clients_of(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&lock_clients, &zero);
}

/* Returns 0 for another task that has the same number. */
static __always_inline __u32 owner_slot(void *owners, __u32 number, __u64 start_ns)
{
	struct run_owner *o = bpf_map_lookup_elem(owners, &number);

	return o && o->started == start_ns / 10000000 ? o->slot + 1 : 0;
}

/* The same for a process. Not static: the verifier checks it by itself, and callers do not have to
 * distinguish its outcomes. */
__noinline __u32 program_slot(__u32 number, __u64 start_ns)
{
	return owner_slot(&lock_programs, number, start_ns);
}

/* Is the page of this slot in a section for as long as its owner runs? */
static __always_inline __u32 slot_endless(__u32 slot)
{
	struct run_slot *s = bpf_map_lookup_elem(&lock_slots, &slot);

	return s && s->endless;
}

/* A search for the client among a process and its parents. */
struct lock_search {
	struct task_struct *leader;
	__u32 slot;
};

/*
 * Looks at one ancestor: a process, or the thread that started it, because a page may be that of
 * all children of a thread. Its parent is next.
 */
static long lock_generation(__u32 step, struct lock_search *search)
{
	struct task_struct *leader = search->leader;

	search->slot = program_slot(leader->pid, leader->start_boottime);
	if (search->slot != 0)
		return 1;
	leader = leader->real_parent;
	search->slot = program_slot(leader->pid, leader->start_boottime);
	if (search->slot != 0)
		return 1;
	search->leader = leader->group_leader;
	return 0;
}

/*
 * The page of a task, plus 1; 0 if the task is not a client. A thread has its own page, unless that
 * of its program has no limit: then the program is a holder all the time. The verifier reads all of
 * the kernel's type information for each pointer that it follows, a millisecond each. So this uses
 * bpf_loop, which does not unroll its body, and is called before a program branches.
 */
static __always_inline __u32 client_slot(struct task_struct *p)
{
	struct run_clients *clients = clients_of();
	struct lock_search search = {};
	__u32 slot = 0;

	if (!clients || (clients->threads | clients->programs) == 0)
		return 0;
	if (clients->threads != 0)
		slot = owner_slot(&lock_threads, p->pid, p->start_boottime);
	if (clients->programs == 0)
		return slot;
	search.leader = p->group_leader;
	bpf_loop(RUN_GENERATIONS, lock_generation, &search, 0);
	if (slot != 0 && (search.slot == 0 || !slot_endless(search.slot - 1)))
		return slot;
	return search.slot;
}

#endif
