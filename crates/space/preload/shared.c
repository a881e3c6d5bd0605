/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: pages of shared memory are a file's, and cannot be moved as private ones are. Rule: as
 * crates/space/src/placed.rs does with held frames. On one CPU, a page of the queue of free pages
 * goes back to the kernel, and the file's next page is touched, which then gets its frame: Linux
 * hands out the latest freed frame of a CPU first. A page in another frame is taken out of the
 * file, and the next one is tried. Does not cover: pages that the kernel moves later; a page that
 * gets no frame of the colours in STRAYS tries stays where it is, and the audit counts it.
 */
#define _GNU_SOURCE
#include "space.h"
#include "uffd.h"

#include <sys/mman.h>

#define STRAYS 64

/* Puts a page there; 1 if its frame is allowed. */
static int place_page(struct state *s, uint64_t page)
{
	uint64_t entry = 0;
	pool_need(s, 1);
	raw(SYS_madvise, s->head, PAGE, MADV_DONTNEED_LOCKED_);
	s->head += PAGE;
	raw(SYS_madvise, page, PAGE, MADV_POPULATE_WRITE_);
	return raw(SYS_pread64, s->pagemap, &entry, 8, page / PAGE * 8) == 8 && entry & PRESENT &&
	       frame_allowed(&s->config, entry & FRAME_MASK);
}

/* Puts pages in frames of the program into a new shared mapping. */
void place_shared(struct state *s, uint64_t start, uint64_t end)
{
	unsigned long cpus[MOST_CPUS / 64];
	long size = stay_on(0, cpus, sizeof cpus);
	raw(SYS_madvise, start, end - start, MADV_NOHUGEPAGE);
	pool_expect(s, (end - start) / PAGE);
	for (uint64_t page = start; page < end; page += PAGE)
		for (int tries = 0; !place_page(s, page) && tries < STRAYS; tries++)
			raw(SYS_madvise, page, PAGE, MADV_REMOVE);
	if (size > 0)
		raw(SYS_sched_setaffinity, 0, size, cpus);
}
