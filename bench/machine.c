/*
 * A chase through memory, to hold `solocore platform measure` against: ns a load for each size.
 *
 * Rule: a random cycle through all lines of a buffer in huge pages (by advice), each load's address
 * from the one before; the median and the quickest of 201 pieces. Nothing of solocore is used.
 * Usage: machine CPU BYTES...; prints a line "BYTES MEDIAN QUICKEST" for each.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { LINE = 64, PIECES = 201, HUGE = 2 << 20 };

static uint64_t state = 0x2545f4914f6cdd1dull;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void chase(char *memory, size_t bytes)
{
	size_t lines = bytes / LINE, i;
	uint32_t *order = malloc(lines * sizeof(*order));
	double times[PIECES];
	void **at;

	if (!order)
		exit(1);
	for (i = 0; i < lines; i++)
		order[i] = (uint32_t)i;
	for (i = lines - 1; i > 0; i--) {
		size_t j = next_random() % (i + 1);
		uint32_t swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
	for (i = 0; i < lines; i++)
		*(void **)(memory + (size_t)LINE * order[i]) =
			memory + (size_t)LINE * order[(i + 1) % lines];
	at = (void **)(memory + (size_t)LINE * order[0]);
	/* A small cycle comes to rest where it belongs; of a large one a part is enough. */
	for (i = 0; i < 3 * lines && i < 4000000; i++)
		at = *at;
	for (int piece = 0; piece < PIECES; piece++) {
		size_t loads = 2000;
		double begin = now_ns();

		for (i = 0; i < loads; i++)
			at = *at;
		__asm__ volatile("" : : "r"(at));
		times[piece] = (now_ns() - begin) / loads;
	}
	free(order);
	qsort(times, PIECES, sizeof(times[0]), by_value);
	printf("%zu %.4f %.4f\n", bytes, times[PIECES / 2], times[0]);
}

int main(int argc, char **argv)
{
	size_t most = 0;
	cpu_set_t set;
	char *memory;

	if (argc < 3)
		return 2;
	CPU_ZERO(&set);
	CPU_SET(atoi(argv[1]), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		return 3;
	for (int i = 2; i < argc; i++)
		if (strtoull(argv[i], NULL, 10) > most)
			most = strtoull(argv[i], NULL, 10);
	memory =
		mmap(NULL, most + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 3;
	memory = (char *)(((uintptr_t)memory + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
	madvise(memory, most, MADV_HUGEPAGE);
	memset(memory, 1, most);
	for (int i = 2; i < argc; i++)
		chase(memory, strtoull(argv[i], NULL, 10));
	return 0;
}
