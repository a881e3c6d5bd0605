/* Runs a program on a CPU and measures it from outside, from its start to its end.
 *
 *   took CPU PROGRAM ARGUMENTS...        prints the time in us; its output goes to /dev/null
 *
 * It prints nothing if the program fails.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static unsigned long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	if (sched_setaffinity(0, sizeof cpus, &cpus))
		return 3;
	unsigned long long begin = now();
	pid_t program = fork();
	if (program < 0)
		return 4;
	if (program == 0) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(5);
		execvp(argv[2], argv + 2);
		_exit(6);
	}
	int status;
	if (waitpid(program, &status, 0) != program)
		return 7;
	unsigned long long end = now();
	if (status != 0)
		return 8;
	printf("%.2f\n", (end - begin) / 1e3);
	return 0;
}
