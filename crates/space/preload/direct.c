/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: a page that is taken, looked at, and moved twice before the program has it costs twice
 * what the kernel takes for a page of its own. Rule: where the kernel gives frames of these colours
 * next, because a reserve has freed them on this CPU or a program of the same colours has ended,
 * pages are made where the thread faulted (UFFDIO_COPY of zeroes). Their frames are read before the
 * thread goes on, and pages in wrong frames are taken out and replaced, as adopt.c does it. If more
 * than a quarter were wrong, the pool is used again. Frames that were lent and are not used soon go
 * back to the reserve. Does not cover: a second thread that writes to
 * a page in a wrong frame before the frame is read; its data is copied.
 */
#define _GNU_SOURCE
#include "space.h"
#include "uffd.h"

#include <sys/mman.h>

/* Bytes that one call copies; all of them lie in the kernel's page of zeroes. */
#define ZEROES (ZEROES_PAGES * PAGE)

/* Frames that the reserve has freed and that the program does not use go back, or the kernel would
 * give them to others. Without a reserve, nobody waits for them. */
void credit_back(struct state *s)
{
	uint64_t pages = s->credit;
	s->credit = 0;
	while (pages > 0 && s->reserve >= 0) {
		uint64_t n = pages < MOST_BACK ? pages : MOST_BACK;
		if (tell_reserve(s, n, s->credit_cpu, 0)) {
			raw(SYS_close, s->reserve);
			s->reserve = -1;
		}
		pages -= n;
	}
}

/* Does the kernel give this number of right frames next, as far as is known? And is there room for
 * them? What is known holds for a while, and for the CPU on which a reserve has freed frames. */
static int expected(struct state *s, uint64_t pages)
{
	uint64_t now = now_ns();
	if (now >= s->credit_until)
		credit_back(s);
	if (s->credit >= pages)
		return 1;
	uint64_t more = pool_ahead(s, pages);
	uint64_t others = s->config.lends ? 0 : s->config.reserve;
	if (memory_room(more * PAGE, others) < more * PAGE)
		return 0;
	s->credit = s->config.lends ? s->credit + ask_for_pages(s, more) : more;
	s->credit_until = now + HOLD_NS;
	return s->credit >= pages;
}

/* Makes pages; returns their number, or -errno if there is none. No thread is woken. */
static long make(struct state *s, uint64_t page, uint64_t pages)
{
	uint64_t made = 0;
	if (!s->zeroes_there) {
		raw(SYS_madvise, s->zeroes, ZEROES, MADV_POPULATE_READ_);
		s->zeroes_there = 1;
	}
	for (int tries = 0; made < pages;) {
		uint64_t left = (pages - made) * PAGE;
		struct uffdio_copy_ copy = {page + made * PAGE, s->zeroes,
					    left < ZEROES ? left : ZEROES, COPY_DONTWAKE, 0};
		long result = raw(SYS_ioctl, s->uffd, UFFDIO_COPY_, &copy);
		made += copy.copied > 0 ? (uint64_t)copy.copied / PAGE : 0;
		if (!failed(result) || (result == -EAGAIN_ && tries++ < 64))
			continue;
		return made ? (long)made : result;
	}
	return (long)made;
}

/* Replaces a run. Pages of an area that cannot be written to do not move; it is built again. */
static void replace(struct state *s, uint64_t page, const uint64_t *entries, uint64_t pages)
{
	uint64_t stuck = s->stuck;
	replace_run(s, page, entries, pages);
	if (s->stuck == stuck)
		return;
	s->stuck = stuck;
	adopt_range(s, page, page + pages * PAGE, 1);
}

/* Replaces the pages that have wrong frames; returns their number. */
static uint64_t correct(struct state *s, uint64_t page, uint64_t pages)
{
	uint64_t wrong = 0, entries[WIDEST];
	if (raw(SYS_pread64, s->pagemap, entries, pages * 8, page / PAGE * 8) != (long)(pages * 8))
		give_up(s, "/proc/self/pagemap cannot be read; this is a mistake of solocore's");
	for (uint64_t i = 0; i < pages;) {
		uint64_t run = 0;
		while (i + run < pages && entries[i + run] & PRESENT &&
		       !frame_allowed(&s->config, entries[i + run] & FRAME_MASK))
			run++;
		if (run)
			replace(s, page + i * PAGE, entries + i, run);
		wrong += run;
		i += run ? run : 1;
	}
	return wrong;
}

/* Makes up to `pages` pages in right frames; 0 if the kernel is not likely to give some, -EEXIST if
 * there is a page already. */
static long place(struct state *s, uint64_t page, uint64_t pages)
{
	s->direct = expected(s, pages);
	if (!s->direct)
		return 0;
	long made = make(s, page, pages);
	if (made <= 0)
		return made == -EEXIST_ ? made : 0;
	s->credit -= (uint64_t)made;
	s->release_at = now_ns() + HOLD_NS;
	uint64_t wrong = correct(s, page, (uint64_t)made);
	if (wrong * 4 > (uint64_t)made) {
		s->direct = 0;
		credit_back(s);
	}
	struct uffd_range range = {page, (uint64_t)made * PAGE};
	raw(SYS_ioctl, s->uffd, UFFDIO_WAKE_, &range);
	return made;
}

/* Gives a thread that faulted up to `pages` pages; returns their number; 0: the pool has to
 * serve it; -EEXIST: there is a page already. */
long direct_place(struct state *s, uint64_t page, uint64_t pages)
{
	unsigned long cpus[MOST_CPUS / 64];
	if (!s->direct || pool_has(s, pages) || lock_at(s, page) >= 0)
		return 0;
	pages = lock_run(s, page, pages < WIDEST ? pages : WIDEST);
	if (!s->config.lends)
		return place(s, page, pages);
	long size = stay_on(s->credit ? &s->credit_cpu : 0, cpus, sizeof cpus);
	if (size <= 0) {
		/* The frames that are known of are free on a CPU that this thread may not be on. */
		credit_back(s);
		return 0;
	}
	raw(SYS_getcpu, &s->credit_cpu, 0, 0);
	long placed = place(s, page, pages);
	raw(SYS_sched_setaffinity, 0, size, cpus);
	return placed;
}
