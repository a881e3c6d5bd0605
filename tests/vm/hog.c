/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Makes as many page faults as it can: in a guest without counters they stand in for last-level
 * misses.
 *
 *   hog CPU          on this CPU, for ever, with short rests; -1: on any
 *   hog CPU fork N   has N children one after the other, each of which makes 50 faults, and prints
 *                    "forked N"
 *   hog CPU work N   makes N faults, and prints how many nanoseconds that took
 *   hog CPU spin N   counts to N, and prints how many nanoseconds that took
 *   hog CPU rt N     the same under SCHED_FIFO, with priority 80
 *   hog CPU wake N   N times: rests after it ran there, and may wake anywhere; prints the median of
 *                    nanoseconds for which it woke too late
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 64

/* Reads, so that the kernel maps its page of zeros and clears none: as many faults as possible in a
 * slow guest. */
static void fault(long pages)
{
	char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	if (memory == MAP_FAILED)
		exit(1);
	while (pages > 0) {
		for (long i = 0; i < PAGES && pages > 0; i++, pages--)
			(void)((volatile char *)memory)[i * PAGE];
		madvise(memory, PAGES * PAGE, MADV_DONTNEED);
	}
	munmap(memory, PAGES * PAGE);
}

static void bind_to(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		exit(1);
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int compared(const void *a, const void *b)
{
	const long long *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Rests that begin on a CPU. */
static long long woken_late(int cpu, long times)
{
	const struct timespec rest = {.tv_nsec = 3000000};
	long long late[times], begun;
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	for (long i = 0; i < times; i++) {
		bind_to(cpu);
		sched_setaffinity(0, sizeof(all), &all);
		begun = now_ns();
		nanosleep(&rest, NULL);
		late[i] = now_ns() - begun - rest.tv_nsec;
	}
	qsort(late, times, sizeof(late[0]), compared);
	return late[times / 2];
}

int main(int argc, char **argv)
{
	long count = argc > 3 ? atol(argv[3]) : 0;

	bind_to(argc > 1 ? atoi(argv[1]) : -1);
	if (argc > 2 && strcmp(argv[2], "fork") == 0) {
		for (long i = 0; i < count; i++) {
			pid_t child = fork();

			if (child == 0) {
				fault(50);
				_exit(0);
			}
			if (child < 0 || waitpid(child, NULL, 0) != child)
				return 1;
		}
		printf("forked %ld\n", count);
		return 0;
	}
	if (argc > 2 && strcmp(argv[2], "work") == 0) {
		long long start = now_ns();

		fault(count);
		printf("%lld\n", now_ns() - start);
		return 0;
	}
	if (argc > 2 && strcmp(argv[2], "wake") == 0) {
		printf("%lld\n", woken_late(atoi(argv[1]), count));
		return 0;
	}
	if (argc > 2 && (strcmp(argv[2], "spin") == 0 || strcmp(argv[2], "rt") == 0)) {
		const struct sched_param param = {.sched_priority = 80};
		long long start = now_ns();

		if (strcmp(argv[2], "rt") == 0 && sched_setscheduler(0, SCHED_FIFO, &param) != 0)
			return 1;

		for (volatile long i = 0; i < count; i++)
			;
		printf("%lld\n", now_ns() - start);
		return 0;
	}
	/*
	 * An emulator that runs all CPUs in one thread can starve one of them as long as none of
	 * the others rests, and whoever waits for an interrupt there waits for ever.
	 */
	for (;;) {
		struct timespec rest = {.tv_nsec = 100000};

		fault(512);
		nanosleep(&rest, NULL);
	}
}
