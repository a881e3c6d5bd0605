/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Counts the pages that compaction moves: of 8 pages in every 32, as a reserve of colours holds
 * them.
 *
 *   pinned none|lock|ring MIB      ring: buffers that are registered with io_uring, which pins them
 *
 * Prints the number of pages, and of those that lie in other frames after the kernel has compacted
 * its memory.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096ul
#define KEPT 8
#define EVERY 32

static uint64_t frame(int pagemap, char *page)
{
	uint64_t entry = 0;
	if (pread(pagemap, &entry, 8, (uintptr_t)page / PAGE * 8) != 8 || !(entry >> 63))
		return 0;
	return entry & ((1ul << 55) - 1);
}

/* A ring takes 16,384 buffers: as many rings as there have to be. */
static int pin(char *area, size_t groups)
{
	struct iovec *buffers = calloc(16384, sizeof *buffers);
	for (size_t done = 0; done < groups;) {
		struct io_uring_params params;
		memset(&params, 0, sizeof params);
		int ring = syscall(SYS_io_uring_setup, 1, &params);
		size_t n = 0;
		for (; n < 16384 && done < groups; n++, done++)
			buffers[n] = (struct iovec){area + done * EVERY * PAGE, KEPT * PAGE};
		if (ring < 0 ||
		    syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, buffers, n)) {
			perror("io_uring");
			return -1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	size_t pages = strtoul(argv[2], 0, 0) << 8, kept = pages / EVERY * KEPT, n = 0, moved = 0;
	int pagemap = open("/proc/self/pagemap", O_RDONLY),
	    compact = open("/proc/sys/vm/compact_memory", O_WRONLY);
	char *area = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t *before = calloc(kept, sizeof *before);
	if (area == MAP_FAILED || pagemap < 0 || compact < 0 || !before)
		return 3;
	madvise(area, pages * PAGE, MADV_NOHUGEPAGE);
	memset(area, 1, pages * PAGE);
	for (size_t at = 0; at < pages; at += EVERY)
		madvise(area + (at + KEPT) * PAGE, (EVERY - KEPT) * PAGE, MADV_DONTNEED);
	if (!strcmp(argv[1], "lock") && syscall(SYS_mlock2, area, pages * PAGE, 1))
		return 4;
	if (!strcmp(argv[1], "ring") && pin(area, pages / EVERY))
		return 4;
	for (size_t at = 0; at < pages; at += at % EVERY == KEPT - 1 ? EVERY - KEPT + 1 : 1)
		before[n++] = frame(pagemap, area + at * PAGE);
	if (write(compact, "1", 1) != 1)
		return 5;
	n = 0;
	for (size_t at = 0; at < pages; at += at % EVERY == KEPT - 1 ? EVERY - KEPT + 1 : 1)
		moved += frame(pagemap, area + at * PAGE) != before[n++];
	printf("%zu pages, %zu moved\n", n, moved);
	return 0;
}
