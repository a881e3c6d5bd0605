/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The programs of bench/regulation.py and bench/changes.py.
 *
 *   regulation chase CPU BYTES STEPS JOBS
 *       follows a random cycle through BYTES of lines, STEPS a job, as SCHED_FIFO; prints the
 *       nanoseconds of each job
 *   regulation stream CPU
 *       maps 32 MiB, writes all of it, unmaps it, for ever: each page of 4 KiB costs one fault,
 *       4 KiB of zeros by the kernel and 4 KiB of writes; on SIGTERM prints the faults made and the
 *       milliseconds they took
 *   regulation changes CPU TIMES
 *       two processes wake each other through pipes, TIMES each; prints the nanoseconds of a change
 *       from one to the other
 *
 * Counting faults is counting memory traffic here because this program makes none without them. Of
 * other programs that is not true.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define LINE 64
#define STREAM (32u << 20)

static volatile sig_atomic_t ended;

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void bind_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0) {
		perror("sched_setaffinity");
		exit(1);
	}
}

static void *map(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	/* One fault a page, wherever this runs. */
	madvise(memory, bytes, MADV_NOHUGEPAGE);
	return memory;
}

/* One cycle through all lines (Sattolo's shuffle), the same in every run. */
static void link_lines(char *memory, size_t lines)
{
	uint64_t state = 88172645463325252ull;
	size_t *order = malloc(lines * sizeof(*order));

	if (!order)
		exit(1);
	for (size_t i = 0; i < lines; i++)
		order[i] = i;
	for (size_t i = lines - 1; i > 0; i--) {
		size_t other, was = order[i];

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		other = state % i;
		order[i] = order[other];
		order[other] = was;
	}
	for (size_t i = 0; i < lines; i++)
		*(void **)(memory + order[i] * LINE) = memory + order[(i + 1) % lines] * LINE;
	free(order);
}

static int chase(size_t bytes, long steps, long jobs)
{
	struct sched_param fifo = {.sched_priority = 50};
	char *memory = map(bytes);
	long long *took = calloc((size_t)jobs, sizeof(*took));
	void *at = memory;

	if (!took || bytes < 2 * LINE)
		return 1;
	link_lines(memory, bytes / LINE);
	if (sched_setscheduler(0, SCHED_FIFO, &fifo) != 0) {
		perror("SCHED_FIFO");
		return 1;
	}
	for (long job = 0; job < jobs; job++) {
		struct timespec rest = {.tv_nsec = 200000};
		long long begun = now_ns();

		for (long i = 0; i < steps; i++)
			at = *(void *volatile *)at;
		took[job] = now_ns() - begun;
		nanosleep(&rest, NULL);
	}
	for (long job = 0; job < jobs; job++)
		printf("%lld\n", took[job]);
	return at == NULL;
}

static int stream(void)
{
	long long begun = now_ns(), faults = 0;

	signal(SIGTERM, end);
	while (!ended) {
		char *memory = map(STREAM);

		for (size_t page = 0; page < STREAM && !ended; page += 4096, faults++)
			memset(memory + page, 1, 4096);
		munmap(memory, STREAM);
	}
	printf("%lld %lld\n", faults, (now_ns() - begun) / 1000000);
	return 0;
}

static int changes(long times)
{
	int there[2], back[2];
	long long begun;
	char word = 0;

	if (pipe(there) != 0 || pipe(back) != 0)
		return 1;
	if (fork() == 0) {
		close(there[1]);
		while (read(there[0], &word, 1) == 1 && write(back[1], &word, 1) == 1)
			;
		_exit(0);
	}
	begun = now_ns();
	for (long i = 0; i < times; i++)
		if (write(there[1], &word, 1) != 1 || read(back[0], &word, 1) != 1)
			return 1;
	printf("%lld\n", (now_ns() - begun) / (2 * times));
	close(there[1]);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	bind_to(atoi(argv[2]));
	if (strcmp(argv[1], "stream") == 0)
		return stream();
	if (strcmp(argv[1], "changes") == 0 && argc == 4)
		return changes(atol(argv[3]));
	if (strcmp(argv[1], "chase") == 0 && argc == 6)
		return chase((size_t)atol(argv[3]), atol(argv[4]), atol(argv[5]));
	return 2;
}
