/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Computes, and prints how much on SIGTERM: what VCPUs are tested with in a guest.
 *
 *   worker                       computes all the time
 *   worker SEED RUN SLEEP        computes and sleeps by turns, for random times of up to 2 RUN and
 *                                2 SLEEP microseconds
 *   worker until MS VCPU         computes for so many milliseconds by the clock, then has the VCPU
 *                                destroyed, and ends
 *   worker pingpong ROUNDS       two threads wake each other through pipes; prints the nanoseconds
 *                                of a round
 *   worker groups N MESSAGES     N pairs do so at once, in processes; prints the nanoseconds of a
 *                                message
 *   worker fill FIRST LAST CPUS  a VCPU and a process that computes in it for each number below
 *                                LAST
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t over;

static void end(int number)
{
	(void)number;
	over = 1;
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A thousand rounds of arithmetic. */
static void compute(void)
{
	volatile uint32_t x = 1;

	for (int i = 0; i < 1000; i++)
		x = x * 1664525u + 1013904223u;
}

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static int work(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) + 0x9e3779b97f4a7c15u : 0;
	uint64_t run = argc > 2 ? strtoull(argv[2], NULL, 10) : 0,
		 sleep_us = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	uint64_t rounds = 0;

	while (!over) {
		uint64_t until = run ? now_ns(CLOCK_THREAD_CPUTIME_ID) +
						 random_next(&seed) % (2 * run) * 1000
				     : 0;

		do {
			compute();
			rounds++;
		} while (!over && (!run || now_ns(CLOCK_THREAD_CPUTIME_ID) < until));
		if (run && !over) {
			uint64_t pause = random_next(&seed) % (2 * sleep_us + 1) * 1000;
			struct timespec t = {(time_t)(pause / 1000000000u),
					     (long)(pause % 1000000000u)};

			nanosleep(&t, NULL);
		}
	}
	printf("%llu\n", (unsigned long long)rounds);
	return 0;
}

struct pair {
	int in, out;
	long rounds;
};

static void *answer(void *argument)
{
	struct pair *p = argument;
	char c;

	for (long i = 0; i < p->rounds; i++)
		if (read(p->in, &c, 1) != 1 || write(p->out, &c, 1) != 1)
			exit(1);
	return NULL;
}

static void pingpong(long rounds)
{
	int there[2], back[2];
	pthread_t thread;
	char c = 0;

	if (pipe(there) || pipe(back))
		exit(1);
	struct pair p = {there[0], back[1], rounds};

	if (pthread_create(&thread, NULL, answer, &p))
		exit(1);
	for (long i = 0; i < rounds; i++)
		if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
			exit(1);
	pthread_join(thread, NULL);
}

/* Asks the process that schedules VCPUs, as `solocore vcpu` does; 1 if it is done. */
static int ask(const char *request)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/run/solocore-vcpu.sock"};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char text[512] = "";
	size_t length = strlen(request);

	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    write(fd, request, length) != (ssize_t)length || read(fd, text, sizeof(text) - 1) <= 0)
		return 0;
	close(fd);
	return strstr(text, "done") != NULL;
}

static int create_vcpu(long number, long cpu, long pid)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "{\"create\":{\"wanted\":{\"name\":\"f%ld\",\"capacity_ns\":10000,"
		 "\"period_ns\":2000000000,\"core\":%ld,\"fixed\":false,\"colours\":0},\"pid\":%ld}"
		 "}\n",
		 number, cpu, pid);
	return ask(text);
}

/* A task that ends, and its VCPU with it. */
static int until(uint64_t ms, const char *vcpu)
{
	uint64_t end_ns = now_ns(CLOCK_MONOTONIC) + ms * 1000000;
	char text[256];

	while (!over && now_ns(CLOCK_MONOTONIC) < end_ns)
		compute();
	snprintf(text, sizeof(text), "{\"destroy\":{\"vcpu\":\"%s\"}}\n", vcpu);
	return over || ask(text) ? 0 : 1;
}

static int fill(long first, long last, long cpus)
{
	for (long i = first; i < last; i++) {
		pid_t child = fork();

		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			raise(SIGSTOP);
			for (;;)
				compute();
		}
		waitpid(child, NULL, WUNTRACED);
		if (child < 0 || !create_vcpu(i, i % cpus, child)) {
			fprintf(stderr, "VCPU %ld cannot be created\n", i);
			return 1;
		}
		kill(child, SIGCONT);
	}
	printf("%ld\n", last - first);
	fflush(stdout);
	pause();
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t begun = now_ns(CLOCK_MONOTONIC);

	if (argc > 2 && strcmp(argv[1], "pingpong") == 0) {
		long rounds = atol(argv[2]);

		pingpong(rounds);
		printf("%.1f\n", (double)(now_ns(CLOCK_MONOTONIC) - begun) / (double)rounds);
		return 0;
	}
	if (argc > 3 && strcmp(argv[1], "groups") == 0) {
		long groups = atol(argv[2]), messages = atol(argv[3]);

		for (long i = 0; i < groups; i++)
			if (fork() == 0) {
				pingpong(messages);
				_exit(0);
			}
		while (wait(NULL) > 0)
			;
		printf("%.1f\n",
		       (double)(now_ns(CLOCK_MONOTONIC) - begun) / (double)(2 * groups * messages));
		return 0;
	}
	if (argc > 4 && strcmp(argv[1], "fill") == 0)
		return fill(atol(argv[2]), atol(argv[3]), atol(argv[4]));
	signal(SIGTERM, end);
	if (argc > 3 && strcmp(argv[1], "until") == 0)
		return until(strtoull(argv[2], NULL, 10), argv[3]);
	return work(argc, argv);
}
