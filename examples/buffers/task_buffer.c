/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Buffers of a task for the examples (task_buffer.h describes their purpose). */
#include "task_buffer.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* An entry of pagemap: the page is in memory, and the number of its frame (0: not for this user).
 */
#define PRESENT (UINT64_C(1) << 63)
#define FRAME ((UINT64_C(1) << 55) - 1)

int colours_read(struct colours *colours, const char *text)
{
	char rest;

	if (sscanf(text, "%u-%u/%u%c", &colours->first, &colours->last, &colours->all, &rest) != 3)
		return -1;
	return colours->first <= colours->last && colours->last < colours->all ? 0 : -1;
}

size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

long number_read(const char *text, long most)
{
	char *end;
	long number = strtol(text, &end, 10);

	return end == text || *end || number < 1 || number > most ? -1 : number;
}

int buffer_take(struct sc_memory *memory, const char *task, size_t bytes)
{
	int status = sc_buffer(memory, task, bytes);

	if (status == SC_BUFFER_OK)
		return 0;
	fprintf(stderr, "no buffer of %zu bytes for task %s: %s\n", bytes, task,
		sc_strbuffer(status));
	return EXIT_BUFFER + status;
}

const char *buffer_place(const struct sc_memory *memory)
{
	return memory->file >= 0 ? "reserved" : "own";
}

long buffer_wrong(const struct sc_memory *memory, const struct colours *colours)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	long wrong = 0;

	for (size_t at = 0; at < memory->bytes && wrong >= 0; at += page_bytes()) {
		uint64_t entry, page = ((uintptr_t)memory->at + at) / page_bytes();
		uint64_t colour;

		if (pread(pagemap, &entry, sizeof(entry), (off_t)(page * sizeof(entry))) !=
			    sizeof(entry) ||
		    ((entry & PRESENT) && (entry & FRAME) == 0)) {
			wrong = -1;
			break;
		}
		colour = (entry & FRAME) % colours->all;
		wrong += !(entry & PRESENT) || colour < colours->first || colour > colours->last;
	}
	if (pagemap >= 0)
		close(pagemap);
	return wrong;
}
