/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program whose pages move while it runs: roamer PAGES RUN_US PAUSE_US. It writes to its pages
 * for RUN_US, sleeps for PAUSE_US, and so on; what it wrote must be there. It ends with 9
 * otherwise.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	size_t pages = strtoul(argv[1], 0, 10), next = 0;
	uint64_t run = strtoul(argv[2], 0, 10), round = 0;
	unsigned pause = (unsigned)strtoul(argv[3], 0, 10);
	uint64_t *memory = aligned_alloc(PAGE, pages * PAGE);

	if (!memory || pages == 0)
		return 3;
	for (size_t i = 0; i < pages; i++)
		memory[i * PAGE / 8] = 0;
	for (;;) {
		for (uint64_t end = now_us() + run; now_us() < end;) {
			uint64_t *word = &memory[next * PAGE / 8];

			if (*word != round) {
				fprintf(stderr, "BAD: page %zu has %lu, not %lu\n", next,
					(unsigned long)*word, (unsigned long)round);
				return 9;
			}
			*word = round + 1;
			next = (next + 1) % pages;
			round += next == 0;
		}
		usleep(pause);
	}
}
