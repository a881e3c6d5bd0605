/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An enemy: writes one word of each line of a buffer that no cache holds, so that every step reads a line from DRAM and pushes
 * a dirty one out.
 *
 *   enemy MIB PASSES     prints the sum of what it wrote
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE 64

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 0, passes = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	size_t words = mib * (1024 * 1024 / sizeof(uint32_t)), step = LINE / sizeof(uint32_t);
	uint32_t *buffer = calloc(words ? words : 1, sizeof(*buffer)), sum = 0;

	if (!mib || !passes || !buffer) {
		fprintf(stderr, "usage: enemy MIB PASSES\n");
		return 2;
	}
	for (size_t pass = 0; pass < passes; pass++)
		for (size_t i = 0; i < words; i += step)
			sum += ++buffer[i];
	printf("%u\n", sum);
	free(buffer);
	return 0;
}
