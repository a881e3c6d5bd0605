/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A task for guests with criticality levels: job after job of execution.
 *
 *   leveler US yield        jobs of so many microseconds of execution, each ended by sched_yield()
 *   leveler US sleep        the same, each ended by a short sleep
 *   leveler US once         one job
 *   leveler US threads N    N threads share the work of a job, then one yields
 *   leveler tick US         sleeps so long again and again: no other CPU of the emulator runs for longer at a
 * time leveler fifo PRIO US    as a SCHED_FIFO thread, runs for so long, sleeps for 10 ms, and so on
 *
 * Prints nothing; what was seen of it is the scheduler's to say.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long long cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void work(long long us)
{
	long long end = cpu_ns() + us * 1000;

	while (cpu_ns() < end)
		for (volatile int i = 0; i < 10000; i++)
			;
}

static void *helper(void *us)
{
	for (;;) {
		work(*(long long *)us);
		usleep(1000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long long us;

	if (argc < 3)
		return 2;
	if (strcmp(argv[1], "fifo") == 0 && argc > 3) {
		struct sched_param priority = {.sched_priority = atoi(argv[2])};

		us = atoll(argv[3]);
		if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0)
			return 1;
		for (;;) {
			work(us);
			usleep(10000);
		}
	}
	if (strcmp(argv[1], "tick") == 0) {
		us = atoll(argv[2]);
		for (;;)
			usleep(us);
	}
	us = atoll(argv[1]);
	if (strcmp(argv[2], "threads") == 0 && argc > 3) {
		for (int i = 1; i < atoi(argv[3]); i++) {
			pthread_t thread;

			if (pthread_create(&thread, NULL, helper, &us) != 0)
				return 1;
		}
	}
	for (;;) {
		work(us);
		if (strcmp(argv[2], "once") == 0)
			return 0;
		if (strcmp(argv[2], "sleep") == 0)
			usleep(500);
		else
			sched_yield();
	}
}
