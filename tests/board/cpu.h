/* A clock and a CPU, for programs of the virtual board's figures. */
#ifndef BOARD_CPU_H
#define BOARD_CPU_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* The monotonic clock, ns. */
static inline uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Keeps the program on a CPU; exit code 3 if it may not be there. */
static inline void bind_to(int cpu)
{
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof cpus, &cpus))
		exit(3);
}

#endif
