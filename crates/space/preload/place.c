/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: a page gets its frame where a thread faulted, or where a copy of it is built, and areas
 * differ in their rights. Rule: ordinary pages get the next frames of the queue, a locked page gets
 * the one that the stash has for it; a frame is put there by UFFDIO_MOVE, if necessary with the
 * area's rights for a moment. Does not cover: areas that are shared, or that userfaultfd refuses.
 */
#define _GNU_SOURCE
#include "space.h"
#include "uffd.h"

#include <sys/mman.h>

/* Puts one page into an area that differs from the pool's: locked, or with other rights. */
static long place_in_other_area(struct state *s, uint64_t to, uint64_t from)
{
	struct area area;
	long moved;
	raw(SYS_mlock2, from, PAGE, 1 /* MLOCK_ONFAULT */);
	moved = move_pages(s, to, from, 1);
	raw(SYS_munlock, from, PAGE);
	if (moved != -EINVAL_ || area_at(s, to, &area))
		return moved;
	int writable = PROT_READ | PROT_WRITE;
	if ((area.protection & writable) == writable) {
		raw(SYS_mprotect, from, PAGE, area.protection);
		moved = move_pages(s, to, from, 1);
		raw(SYS_mprotect, from, PAGE, writable);
		return moved;
	}
	/* Pages move between writable areas only. */
	raw(SYS_mprotect, to, PAGE, writable);
	moved = move_pages(s, to, from, 1);
	raw(SYS_mprotect, to, PAGE, area.protection);
	return moved;
}

/* The address of the pool at which the frame for a page lies: the first of the queue, or that of a
 * locked page. */
uint64_t pool_frame(struct state *s, uint64_t page)
{
	long at = lock_at(s, page);
	if (at < 0) {
		pool_need(s, 1);
		return s->head;
	}
	if (s->locks[at].state != LOCK_READY) {
		/* It had one, which has gone with the page, or is shared with a child. */
		s->locks[at].state = LOCK_WAITS;
		if (pool_fill_locked(s))
			give_up(s, s->why);
	}
	return s->stash + (uint64_t)at * PAGE;
}

/* Frames of pool_frame() have been used. */
static void used(struct state *s, uint64_t frame, uint64_t pages, int state)
{
	if (frame >= s->floor) {
		s->head += pages * PAGE;
		return;
	}
	struct lock *lock = &s->locks[(frame - s->stash) / PAGE];
	lock->state = state;
	if (state == LOCK_PLACED && !lock->had) {
		lock->had = 1;
		s->lock_placed++;
	}
}

/* A frame of pool_frame() may hold data, and its next user must find it empty. */
void pool_drop(struct state *s, uint64_t frame)
{
	if (failed(raw(SYS_madvise, frame, PAGE, MADV_DONTNEED_LOCKED_)))
		raw(SYS_madvise, frame, PAGE, MADV_DONTNEED);
	used(s, frame, 1, LOCK_WAITS);
}

/* Puts up to `pages` pages at addresses without pages, and wakes waiting threads: pages for those
 * that begin at `page`, where the program will have them. Returns their number (0: there was a page
 * already), or -errno. */
long pool_place_for(struct state *s, uint64_t to, uint64_t page, uint64_t pages)
{
	pages = lock_run(s, page, pages);
	if (lock_at(s, page) < 0)
		pool_need(s, pages);
	uint64_t from = pool_frame(s, page);
	long moved = move_pages(s, to, from, pages);
	if (moved < 0 && moved != -EEXIST_ && pages > 1)
		moved = move_pages(s, to, from, 1);
	if (moved == -EINVAL_)
		moved = place_in_other_area(s, to, from);
	if (moved == -EEXIST_)
		return 0;
	if (moved > 0)
		used(s, from, (uint64_t)moved, LOCK_PLACED);
	return moved;
}

/* The same for pages that the program has there. */
long pool_place(struct state *s, uint64_t to, uint64_t pages)
{
	return pool_place_for(s, to, to, pages);
}
