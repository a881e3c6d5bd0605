/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What counters of an emulated CPU count.
 *
 * Problem: that a budget is kept can be seen only with a counter that stands still while its CPU
 * idles: a throttled CPU idles.
 * Rule: CPU 1's counter is read before and after a tenth of a second in which CPU 1 idles, works,
 * or idles while CPU 2 works. Prints counts per millisecond, and ends with 1 if cycles stand still
 * while CPU 1 idles. As a guest's first program (init) it ends the guest.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void bind_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Counts per millisecond while this CPU works; -1: none. */
static double look(const char *what, int event, int busy_cpu)
{
	struct timespec rest = {.tv_nsec = 100000000};
	uint64_t before = 0, after = 0, start;
	double per_ms;
	pid_t child = -1;

	if (busy_cpu >= 0) {
		child = fork();
		if (child == 0) {
			bind_to(busy_cpu);
			for (;;)
				;
		}
		nanosleep(&rest, NULL);
	}
	start = now_ns();
	if (read(event, &before, sizeof(before)) != sizeof(before))
		perror("read");
	nanosleep(&rest, NULL);
	if (read(event, &after, sizeof(after)) != sizeof(after))
		perror("read");
	per_ms = (after - before) * 1e6 / (now_ns() - start);
	printf("  %s: %.0f per ms\n", what, per_ms);
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	return per_ms;
}

static int open_event(uint64_t config, int user_only)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_RAW,
				       .size = sizeof(attr),
				       .config = config,
				       .exclude_kernel = user_only};

	return syscall(SYS_perf_event_open, &attr, -1, 1, -1, 0);
}

int main(void)
{
	static const struct {
		const char *name;
		uint64_t config;
		int user_only;
	} events[] = {{"cycles", 0x11, 0},
		      {"cycles of programs only", 0x11, 1},
		      {"instructions", 0x08, 0}};
	double idle_cycles = 0;

	setvbuf(stdout, NULL, _IONBF, 0);
	bind_to(0);
	for (unsigned i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		int event = open_event(events[i].config, events[i].user_only);
		double idle;

		printf("%s (raw event %llx) of CPU 1\n", events[i].name,
		       (unsigned long long)events[i].config);
		if (event < 0) {
			perror("perf_event_open");
			continue;
		}
		idle = look("idle", event, -1);
		if (i == 0)
			idle_cycles = idle;
		look("busy", event, 1);
		look("idle, CPU 2 busy", event, 2);
		close(event);
	}
	if (getpid() == 1) {
		printf("exit-code: %d\n", idle_cycles < 1000);
		sync();
		reboot(RB_POWER_OFF);
	}
	return idle_cycles < 1000;
}
