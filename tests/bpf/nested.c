/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The overflow of a hardware counter in the middle of a change of tasks.
 *
 * Problem: an overflow is an interrupt that nothing masks, and `overflow` then runs in the middle
 * of `switched` (bpf/regulate.h), on the same state of the CPU. Rule: both are compiled for this
 * machine, `switched` runs instruction by instruction, and `overflow` runs between two of them: in
 * one case for each instruction. Whatever it meets, a hog beside a held lock must be stopped within
 * its budget and a sample afterwards, in this period and in the next. Under MemGuard no access of a
 * program may count as one of a thread without a budget, and none may be lost.
 * Does not cover: what the BPF compiler and the kernel's make of the same lines; other processors
 * than x86-64, where it says so and passes.
 *
 * Usage: nested. Exit 1: a case fails.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

/* The loader's settings are this test's to write. */
#define const
#include "regulate.h"
#undef const

#define CPUS 2
#define BUDGET 800
#define SAMPLE 100
#define PERIOD 1000000

static struct run_core core[CPUS];
static struct run_lock lock[CPUS];
static struct run_slot slots[1];
static struct run_clients here;
static struct sc_memguard guard;
static struct sc_page page;
static struct run_history past;
static __u64 now, count, stops;
static struct task_struct *current;

void *bpf_map_lookup_elem(void *map, const void *key)
{
	__u32 at = *(const __u32 *)key;

	if (map == &cores)
		return at < CPUS ? &core[at] : 0;
	if (map == &lock_cores)
		return at < CPUS ? &lock[at] : 0;
	if (map == &lock_slots)
		return at == 0 ? &slots[0] : 0;
	if (map == &lock_pages)
		return at == 0 ? &page : 0;
	if (map == &page)
		return &page;
	if (map == &lock_clients)
		return &here;
	if (map == &shared)
		return &guard;
	if (map == &history)
		return &past;
	return 0;
}

long bpf_perf_event_read_value(void *map, __u64 flags, struct bpf_perf_event_value *value,
			       __u32 size)
{
	(void)map, (void)flags, (void)size;
	value->counter = count;
	return 0;
}

long bpf_perf_prog_read_value(struct bpf_perf_event_data *context,
			      struct bpf_perf_event_value *value, __u32 size)
{
	(void)context, (void)size;
	value->counter = count;
	return 0;
}

__u64 bpf_ktime_get_ns(void)
{
	return now;
}

__u32 bpf_get_smp_processor_id(void)
{
	return 0;
}

struct task_struct *bpf_get_current_task_btf(void)
{
	return current;
}

static void cpu_stop(__u32 cpu, struct run_core *c)
{
	(void)cpu, (void)c;
	stops++;
}

static void cpu_stop_soon(__u32 cpu, struct run_core *c)
{
	cpu_stop(cpu, c);
}

static void cpu_go(__u32 cpu)
{
	(void)cpu;
}

static void cpu_go_all(void)
{
}

static void counted_begins(__u32 cpu)
{
}

static int counted_ends(__u32 cpu)
{
	return 0;
}

static void cpu_ticked(__u64 at)
{
	(void)at;
}

/* Tasks: idle, two ordinary ones, and a real-time one. */
static struct task_struct tasks[] = {
	{.pid = 0, .prio = 120},
	{.pid = 11, .tgid = 11, .prio = 120},
	{.pid = 12, .tgid = 12, .prio = 120},
	{.pid = 13, .tgid = 13, .prio = 10},
};
#define TASKS 4
#define HOG 2

/* CPU 1 holds the lock, this task runs on CPU 0, and its period has begun. */
static void begin(struct task_struct *runs)
{
	memset(core, 0, sizeof(core));
	memset(lock, 0, sizeof(lock));
	memset(slots, 0, sizeof(slots));
	memset(&page, 0, sizeof(page));
	settings.period_ns = PERIOD;
	settings.cpus = CPUS;
	lock_settings.policy = RUN_BWLOCK;
	lock_settings.max_budget = SC_UNLIMITED;
	core[0].reservation = BUDGET;
	core[0].sample = SAMPLE;
	here.threads = 1;
	lock[1].slot = 1;
	page.sections = 1ull << 32 | 1;
	now = 10 * PERIOD;
	count = 1000;
	current = &tasks[0];
	tick(0);
	now += PERIOD / 2;
	tick(0);
	switched(0, &tasks[0], runs);
	current = runs;
}

/* A hog makes accesses until it is stopped; how many. */
static __u64 makes(void)
{
	__u64 made = 0, before = stops;

	while (stops == before && made < 10 * BUDGET) {
		made += SAMPLE;
		count += SAMPLE;
		now += 1000;
		overflow(0);
	}
	return made;
}

static unsigned long step, at;
/* The overflow finds that the tick was lost, so it ends the period as well. */
static int late;

/* After an instruction. Once the overflow has come, the rest runs at full speed. */
static void between(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info;
	if (++step != at)
		return;
	count += SAMPLE;
	if (late)
		now = core[0].guard.next_ns + PERIOD / 2;
	overflow(0);
#ifdef __x86_64__
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
#else
	(void)context;
#endif
}

static __attribute__((noinline)) void stepping(int on)
{
#ifdef __x86_64__
	if (on)
		__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	else
		__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
#else
	(void)on;
#endif
}

/* 1: the change from `prev` to `next`, interrupted at an instruction, lets a hog go on. */
static int fails(struct task_struct *prev, struct task_struct *next)
{
	__u64 most = BUDGET + SAMPLE, made;

	begin(prev);
	step = 0;
	stepping(1);
	switched(0, prev, next);
	stepping(0);
	current = next;
	if (next != &tasks[HOG]) {
		switched(0, next, &tasks[HOG]);
		current = &tasks[HOG];
	}
	made = makes();
	if (made > most || !core[0].guard.throttled) {
		printf("FAIL: %d to %d, at instruction %lu: %llu accesses, %u throttled\n",
		       prev->pid, next->pid, at, (unsigned long long)made, core[0].guard.throttled);
		return 1;
	}
	now = core[0].guard.next_ns + 1;
	tick(0);
	made = makes();
	if (made > most) {
		printf("FAIL: %d to %d, at instruction %lu: %llu accesses in the next period\n",
		       prev->pid, next->pid, at, (unsigned long long)made);
		return 1;
	}
	return 0;
}

#define BEFORE 130
#define AFTER 270

static int is_exempt(const struct task_struct *p)
{
	return p->prio < 100;
}

/* 1: under MemGuard, accesses around a change that is interrupted count with the wrong task. */
static int mixes(struct task_struct *prev, struct task_struct *next)
{
	__u64 exempt = (is_exempt(prev) ? BEFORE : 0) + (is_exempt(next) ? AFTER : 0);
	__u64 all = BEFORE + AFTER, doubtful, found;
	struct run_core *c = &core[0];

	begin(&tasks[0]);
	memset(core, 0, sizeof(core));
	memset(&guard, 0, sizeof(guard));
	lock_settings.policy = RUN_MEMGUARD;
	settings.chunk = settings.regulated = 1;
	settings.exempt_prio = 100;
	c->reservation = BUDGET;
	c->sample = c->tolerance = SAMPLE;
	tick(0);
	now += PERIOD / 2;
	tick(0);
	switched(0, &tasks[0], prev);
	count += BEFORE;
	step = 0;
	stepping(1);
	switched(0, prev, next);
	stepping(0);
	doubtful = at != 0 && step >= at ? SAMPLE : 0;
	count += AFTER;
	found = exempt_so_far(c, count);
	now = c->guard.next_ns + 1;
	tick(0);
	if (found > exempt + doubtful || (doubtful == 0 && found != exempt) ||
	    (!late && (c->most_exempt != found || c->most_limited != all + doubtful - found)) ||
	    c->accesses != all + doubtful) {
		printf("FAIL: %d to %d, at instruction %lu%s: %llu of %llu accesses exempt, not "
		       "%llu\n",
		       prev->pid, next->pid, at, late ? " with a turn" : "",
		       (unsigned long long)found, (unsigned long long)c->accesses,
		       (unsigned long long)exempt);
		return 1;
	}
	return 0;
}

/* All cases of a check: each pair of tasks, and the overflow at each instruction. */
static unsigned long all(int (*check)(struct task_struct *, struct task_struct *),
			 unsigned long *cases)
{
	unsigned long failed = 0;

	for (int prev = 0; prev < TASKS; prev++) {
		for (int next = 0; next < TASKS; next++) {
			unsigned long steps;

			if (prev == next)
				continue;
			at = 0;
			failed += check(&tasks[prev], &tasks[next]);
			steps = step;
			for (at = 1; at <= steps; at++, ++*cases)
				failed += check(&tasks[prev], &tasks[next]);
		}
	}
	return failed;
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = between, .sa_flags = SA_SIGINFO};
	unsigned long cases = 0, failed;

#ifndef __x86_64__
	puts("skipped: programs are run step by step on x86-64 only");
	return 0;
#endif
	sigaction(SIGTRAP, &action, 0);
	failed = all(fails, &cases);
	failed += all(mixes, &cases);
	late = 1;
	failed += all(mixes, &cases);
	printf("nested: %lu cases, %lu failed\n", cases, failed);
	return failed != 0 || cases < 1000;
}
