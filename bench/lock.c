/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What bw_lock() and bw_unlock() cost, and sc_job_begin() and sc_job_end(), beside a system call:
 * nanoseconds of each pair and of getpid(), by turns. Prints a line of the three for each
 * repetition (bench/lock.py takes the medians).
 */
#define _GNU_SOURCE
#include <solocore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv)
{
	long repetitions = argc > 1 ? atol(argv[1]) : 101, count = 200000, i, r;
	int status = sc_attach();

	if (status != SC_OK) {
		fprintf(stderr, "lock: not attached: %s\n", sc_strstatus(status));
		return 3;
	}
	for (r = 0; r < repetitions; r++) {
		double start = now_ns(), middle, jobs;

		for (i = 0; i < count; i++) {
			bw_lock();
			bw_unlock();
		}
		middle = now_ns();
		for (i = 0; i < count; i++) {
			if (sc_job_begin() != SC_OK || sc_job_end() != SC_OK)
				return 4;
		}
		jobs = now_ns();
		for (i = 0; i < count / 10; i++)
			syscall(SYS_getpid);
		printf("%.3f %.3f %.3f\n", (middle - start) / count, (jobs - middle) / count,
		       (now_ns() - jobs) / (count / 10));
	}
	return 0;
}
