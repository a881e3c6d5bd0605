/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reads a file or a block device into a buffer of a task, past the page cache.
 *
 *	disk FILE [TASK [KIB [COLOURS]]]       default: disk FILE recorder 400
 *
 * Problem: the page cache lies in frames of any colour, so each read through it evicts the lines of
 * other tasks. Rule: with O_DIRECT the device writes into the program's own buffer, and the buffer
 * has frames of the task. Prints the number of blocks, the rate of the reads, the sum of all bytes,
 * and where the buffer lies. With COLOURS, like 8-15/32, it looks up the buffer's pages before the
 * first block and after each block (root), and counts those in other colours.
 * Source: mc2-os-isolation, section 4.3 (blocks of 400 KB are those of the paper's load).
 *
 * Does not cover: several reads at a time; files whose offsets need a larger alignment than a page.
 */
#define _GNU_SOURCE
#include "task_buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct outcome {
	uint64_t blocks, bytes, sum, looks;
	int64_t reading_ns;
	long wrong;
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Looks the buffer's pages up, if there are colours to compare with. */
static int look(struct outcome *outcome, const struct sc_memory *buffer,
		const struct colours *colours)
{
	long wrong = colours->all ? buffer_wrong(buffer, colours) : 0;

	if (wrong < 0) {
		fprintf(stderr, "the kernel does not show the frames of pages; run as root\n");
		return EXIT_DEVICE;
	}
	outcome->looks += colours->all ? buffer->bytes / page_bytes() : 0;
	outcome->wrong += wrong;
	return 0;
}

/* Reads to the end. The last block of a file may be shorter. */
static int read_all(int file, const char *name, const struct sc_memory *buffer,
		    const struct colours *colours, struct outcome *outcome)
{
	int code = look(outcome, buffer, colours);

	while (code == 0) {
		int64_t begun_ns = now_ns();
		ssize_t got = read(file, buffer->at, buffer->bytes);

		outcome->reading_ns += now_ns() - begun_ns;
		if (got == 0)
			return 0;
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			fprintf(stderr, "%s: %s; name a file or a block device%s\n", name,
				strerror(errno),
				errno == EINVAL ? ", and a multiple of its blocks" : "");
			return EXIT_DEVICE;
		}
		outcome->blocks++;
		outcome->bytes += (uint64_t)got;
		for (ssize_t at = 0; at < got; at++)
			outcome->sum += ((const unsigned char *)buffer->at)[at];
		code = look(outcome, buffer, colours);
	}
	return code;
}

static int report(const struct outcome *outcome, const struct sc_memory *buffer,
		  const struct colours *colours)
{
	double s = (double)outcome->reading_ns / 1e9;

	printf("%" PRIu64 " blocks of at most %zu bytes, %" PRIu64 " bytes, %.1f MB/s, sum %" PRIu64
	       "\n",
	       outcome->blocks, buffer->bytes, outcome->bytes,
	       s > 0 ? (double)outcome->bytes / 1e6 / s : 0, outcome->sum);
	printf("1 buffer of %zu pages (%s)\n", buffer->bytes / page_bytes(), buffer_place(buffer));
	if (colours->all)
		printf("%" PRIu64 " looks at pages, %ld in other colours\n", outcome->looks,
		       outcome->wrong);
	return outcome->wrong ? EXIT_WRONG : EXIT_DONE;
}

int main(int count, char **arguments)
{
	const char *task = count > 2 ? arguments[2] : "recorder";
	long kib = count > 3 ? number_read(arguments[3], 1 << 20) : 400;
	struct colours colours = {0};
	struct outcome outcome = {0};
	struct sc_memory buffer;
	int file, code;

	if (count < 2 || count > 5 || kib < 0 || kib % 4 != 0 ||
	    (count > 4 && colours_read(&colours, arguments[4]) != 0)) {
		fprintf(stderr, "usage: disk FILE [TASK [KIB [COLOURS]]]; KIB is a multiple of 4, "
				"and COLOURS are like 8-15/32\n");
		return EXIT_USAGE;
	}
	file = open(arguments[1], O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (file < 0) {
		fprintf(stderr, "%s: %s; %s\n", arguments[1], strerror(errno),
			errno == EINVAL ? "its file system does not take O_DIRECT"
					: "name a file or a block device");
		return EXIT_DEVICE;
	}
	code = buffer_take(&buffer, task, (size_t)kib << 10);
	if (code == 0) {
		code = read_all(file, arguments[1], &buffer, &colours, &outcome);
		if (code == 0)
			code = report(&outcome, &buffer, &colours);
		sc_buffer_free(&buffer);
	}
	close(file);
	return code;
}
