/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A task for guests with criticality levels: job after job of execution.
 *
 *   leveler US yield        jobs of so many microseconds of execution, each ended by sched_yield()
 *   leveler US sleep        the same, each ended by a short sleep
 *   leveler US once         one job
 *   leveler US threads N    N threads share the work of a job, then one yields
 *   leveler US job          jobs between sc_job_begin() and sc_job_end()
 *   leveler US join TASK    attaches itself as this task of the plan, and ends its jobs by
 *                           sc_job_end()
 *   leveler tick US         interrupts each CPU so often, and computes nothing (below)
 *   leveler fifo PRIO US    as a SCHED_FIFO thread, runs for so long, sleeps for 10 ms, and so on
 *
 * Prints nothing but what is wrong; what was seen of it is the scheduler's to say.
 *
 * An emulator that plays CPUs by turns lets each run until the next timer of any. While all compute
 * that is milliseconds, and so late are timers. A timer that goes off often makes the turns short:
 * it interrupts, and no thread is needed for it.
 */
#define _GNU_SOURCE
#include "solocore.h"

#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
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
		for (volatile int i = 0; i < 1000; i++)
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

static int fifo(int number, long long us)
{
	struct sched_param priority = {.sched_priority = number};

	if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0)
		return 1;
	for (;;) {
		work(us);
		usleep(10000);
	}
}

/* One by one, so that they do not all go off at once. */
static int tick(long long us)
{
	struct perf_event_attr clock = {.type = PERF_TYPE_SOFTWARE,
					.size = sizeof(clock),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = (unsigned long long)us * 1000};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	for (long cpu = 0; cpu < cpus; cpu++) {
		if (syscall(SYS_perf_event_open, &clock, -1, (int)cpu, -1, 0) < 0) {
			perror("leveler: perf_event_open");
			return 1;
		}
		usleep((useconds_t)(us / cpus));
	}
	for (;;)
		pause();
}

static void end_job(const char *how)
{
	if (strcmp(how, "job") == 0 || strcmp(how, "join") == 0) {
		int status = sc_job_end();

		if (status != SC_OK) {
			fprintf(stderr, "leveler: sc_job_end: %s\n", sc_strstatus(status));
			exit(1);
		}
	} else if (strcmp(how, "sleep") == 0) {
		usleep(500);
	} else {
		sched_yield();
	}
}

static int start_threads(int count, long long *us)
{
	for (int i = 1; i < count; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, helper, us) != 0)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static long long us;
	int status = SC_OK;

	if (argc < 3)
		return 2;
	if (strcmp(argv[1], "fifo") == 0 && argc > 3)
		return fifo(atoi(argv[2]), atoll(argv[3]));
	if (strcmp(argv[1], "tick") == 0)
		return tick(atoll(argv[2]));
	us = atoll(argv[1]);
	if (strcmp(argv[2], "threads") == 0 && argc > 3 && start_threads(atoi(argv[3]), &us) != 0)
		return 1;
	if (strcmp(argv[2], "join") == 0 && argc > 3)
		status = sc_attach_task(argv[3]);
	while (status == SC_OK) {
		if (strcmp(argv[2], "job") == 0)
			status = sc_job_begin();
		work(us);
		if (strcmp(argv[2], "once") == 0)
			return 0;
		end_job(argv[2]);
	}
	fprintf(stderr, "leveler: %s\n", sc_strstatus(status));
	return 1;
}
