/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A buffer of a task (client/c/solocore_buffer.h) in a test of its frames.
 *
 *	buffered TASK PAGES FIRST COUNT [SECONDS]
 *
 * Prints the pages of the buffer, how many of them lie outside of the COUNT colours from FIRST on
 * (32 colours, bits 12 to 16 of an address), and "reserved" or "own" memory. It looks again after
 * SECONDS. Ends with the status of sc_buffer(), or 20 if its bytes have changed.
 */
#include "solocore_buffer.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u

static size_t wrong(const struct sc_memory *memory, unsigned first, unsigned count)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY);
	size_t outside = 0;

	for (size_t at = 0; at < memory->bytes; at += PAGE) {
		uint64_t entry = 0, address = (uintptr_t)memory->at + at;
		ssize_t got = pread(pagemap, &entry, 8, (off_t)(address / PAGE * 8));
		unsigned colour = entry & 31;

		outside += got != 8 || !(entry >> 63) || colour - first >= count;
	}
	close(pagemap);
	return outside;
}

int main(int count, char **arguments)
{
	struct sc_memory memory;
	int status;

	if (count < 5)
		return 2;
	status = sc_buffer(&memory, arguments[1], (size_t)atol(arguments[2]) * PAGE);
	if (status != SC_BUFFER_OK) {
		puts(sc_strbuffer(status));
		return status;
	}
	for (int look = 0; look < (count > 5 ? 2 : 1); look++) {
		memset(memory.at, look + 1, memory.bytes);
		printf("%zu pages, %zu wrong, %s\n", memory.bytes / PAGE,
		       wrong(&memory, (unsigned)atol(arguments[3]), (unsigned)atol(arguments[4])),
		       memory.file >= 0 ? "reserved" : "own");
		fflush(stdout);
		if (count > 5 && look == 0)
			sleep((unsigned)atol(arguments[5]));
		for (size_t at = 0; at < memory.bytes; at++)
			if (((unsigned char *)memory.at)[at] != look + 1)
				return 20;
	}
	sc_buffer_free(&memory);
	return 0;
}
