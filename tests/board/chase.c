/* Measures memory: walks a random circle through the lines of a buffer, each load's address being
 * the last one's value.
 *
 *   chase KIB STEPS CPU [PAUSE [GATE]]        prints the time of a step in ns
 *
 * With PAUSE it sleeps for that number of ms after each round, as a task does until its next
 * period. With GATE, a FIFO, it waits until a byte can be read there, and makes one round that is
 * not timed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct line {
	struct line *next;
	char rest[56];
};

static unsigned long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* A circle through all lines in random order (Sattolo's shuffle). */
static void shuffle(struct line *lines, size_t n)
{
	unsigned long long state = 88172645463325252ull;
	for (size_t i = 0; i < n; i++)
		lines[i].next = &lines[i];
	for (size_t i = n - 1; i > 0; i--) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		size_t j = state % i;
		struct line *t = lines[i].next;
		lines[i].next = lines[j].next;
		lines[j].next = t;
	}
}

static void sleep_ms(unsigned long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, 0);
}

int main(int argc, char **argv)
{
	if (argc < 4 || argc > 6)
		return 2;
	unsigned long pause = argc >= 5 ? strtoul(argv[4], 0, 0) : 0;
	size_t n = strtoul(argv[1], 0, 0) * 1024 / sizeof(struct line);
	unsigned long steps = strtoul(argv[2], 0, 0);
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[3]), &cpus);
	if (sched_setaffinity(0, sizeof cpus, &cpus))
		return 3;
	struct line *lines = mmap(0, n * sizeof *lines, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (lines == MAP_FAILED)
		return 4;
	shuffle(lines, n);
	struct line *volatile keep;
	struct line *at = lines;
	if (argc == 6) {
		char byte;
		int gate = open(argv[5], O_RDONLY);
		if (gate < 0 || read(gate, &byte, 1) != 1)
			return 5;
		for (size_t i = 0; i < n; i++)
			at = at->next;
		sleep_ms(pause);
	}
	unsigned long long ns = 0;
	for (unsigned long done = 0, round; done < steps; done += round) {
		round = pause && n < steps - done ? n : steps - done;
		unsigned long long begin = now();
		for (unsigned long i = 0; i < round; i++)
			at = at->next;
		ns += now() - begin;
		if (pause)
			sleep_ms(pause);
	}
	keep = at;
	(void)keep;
	printf("%.2f\n", (double)ns / steps);
	return 0;
}
