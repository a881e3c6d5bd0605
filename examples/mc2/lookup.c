/*
 * A control task that looks values up in a table: an engine map, the gains of a filter, or terrain.
 *
 * Problem: a table that fits into the shared cache is fast to read until another core streams
 * through memory. Rule: every look-up begins where the one before said, so that none can start
 * early, and a line is used again only after all others. Then comes a computation that needs no
 * memory. Alone, all rounds after the first one hit the shared cache; beside a copy, lines are gone
 * before they are needed again.
 *
 * Usage: lookup [KIB [ROUNDS [STEPS]]]      (default: 256 4 80). KIB is a power of two, STEPS the
 *                                           multiplications of a look-up. Prints a checksum.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE 64

struct line {
	uint32_t next;
	uint32_t values[LINE / 4 - 1];
};

int main(int argc, char **argv)
{
	const size_t kib = argc > 1 ? strtoul(argv[1], NULL, 10) : 256;
	const unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 4;
	const unsigned long steps = argc > 3 ? strtoul(argv[3], NULL, 10) : 80;

	if (argc > 4 || kib == 0 || kib > (1u << 20) || (kib & (kib - 1)) != 0) {
		fprintf(stderr,
			"lookup: usage: lookup [KIB [ROUNDS [STEPS]]], KIB a power of two\n");
		return 2;
	}

	const size_t lines = kib * 1024 / LINE;
	struct line *table = aligned_alloc(4096, lines < 64 ? 4096 : lines * LINE);

	if (table == NULL) {
		fprintf(stderr, "lookup: no memory for a table of %zu KiB\n", kib);
		return 1;
	}
	/* The congruence has its full period: it visits every line. */
	for (size_t at = 0; at < lines; at++)
		table[at].next = (uint32_t)((at * 1664525 + 1013904223) & (lines - 1));

	uint32_t at = 0;
	uint32_t value = 1;

	for (unsigned long look = 0; look < rounds * lines; look++) {
		at = table[at].next;
		for (unsigned long step = 0; step < steps; step++)
			value = value * 1103515245 + at;
	}
	printf("%u %u\n", at, value);
	free(table);
	return 0;
}
