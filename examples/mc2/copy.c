/*
 * Copies a buffer again and again, as recorders, loggers and converters do.
 *
 * Problem: work like this takes the shared cache from every other program, and gains nothing from
 * it. Rule: source and target are larger than the cache, or are not used again before they are
 * evicted.
 *
 * Usage: copy [KIB [ROUNDS]]      (default: 8192 4). Prints the last byte.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	const size_t kib = argc > 1 ? strtoul(argv[1], NULL, 10) : 8192;
	const unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 4;

	if (argc > 3 || kib == 0 || kib > (1u << 20)) {
		fprintf(stderr, "copy: usage: copy [KIB [ROUNDS]], KIB up to 2^20\n");
		return 2;
	}

	const size_t size = kib * 1024;
	char *from = malloc(size);
	char *to = malloc(size);

	if (from == NULL || to == NULL) {
		fprintf(stderr, "copy: no memory for two buffers of %zu KiB\n", kib);
		free(from);
		free(to);
		return 1;
	}
	memset(from, 1, size);
	memset(to, 0, size);
	for (unsigned long round = 0; round < rounds; round++) {
		from[round % size] = (char)round;
		memcpy(to, from, size);
	}
	printf("%d\n", to[size - 1]);
	free(from);
	free(to);
	return 0;
}
